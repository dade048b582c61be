"""Forms of the pages on invoices, CSV mappings and GPU memory."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile

from reports.forms import InvoiceAmountForm, PlainForm

MOST_PASTED = 1_000_000
MOST_LOG_BYTES = 8 * 2**20
MOST_ATTACHED_BYTES = 20 * 2**20


class LogForm(PlainForm):
    """A start-up log, as a file or as pasted lines."""

    file = forms.FileField(label="Log file", required=False, max_length=300)
    text = forms.CharField(
        label="Or paste its lines",
        required=False,
        max_length=MOST_PASTED,
        widget=forms.Textarea(attrs={"rows": 7, "class": "mono", "spellcheck": "false"}),
        help_text="From the first line the engine printed to the error, or to the line that "
        "tells of its KV cache.",
    )

    def clean(self) -> dict[str, Any]:
        """One of the two, and not too large to be explained while the reader waits."""
        values = super().clean() or {}
        file = values.get("file")
        if not self.errors and not file and not values.get("text", "").strip():
            raise forms.ValidationError("Choose a log file, or paste its lines.")
        if file and (file.size or 0) > MOST_LOG_BYTES:
            raise forms.ValidationError(
                f"A log may have {MOST_LOG_BYTES // 2**20} MiB here; put a larger one in with the "
                "command `explain-log`."
            )
        return values

    def given(self) -> UploadedFile:
        """The log as a file."""
        file: UploadedFile | None = self.cleaned_data["file"]
        text: str = self.cleaned_data["text"]
        return file or SimpleUploadedFile("pasted.log", text.encode())


class IssuedAmountForm(InvoiceAmountForm):
    """The amount printed on an invoice, with the invoice itself."""

    attached = forms.FileField(
        label="The invoice itself",
        required=False,
        max_length=300,
        help_text="Optional: the PDF or picture the amount was read from. It is kept by its digest.",
    )

    def clean_attached(self) -> UploadedFile | None:
        """A file that is not beyond what an invoice can be."""
        file: UploadedFile | None = self.cleaned_data["attached"]
        if file and (file.size or 0) > MOST_ATTACHED_BYTES:
            raise forms.ValidationError(
                f"An attached invoice may have {MOST_ATTACHED_BYTES // 2**20} MiB."
            )
        return file


class MappingStartForm(PlainForm):
    """The file whose columns are to be mapped, or its first lines."""

    file = forms.FileField(label="File", required=False, max_length=300)
    text = forms.CharField(
        label="Or paste its first lines",
        required=False,
        max_length=MOST_PASTED,
        widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        help_text="The line of headings and a few rows.",
    )
    mapping = forms.ChoiceField(label="Begin with", required=False)

    def __init__(self, *args: Any, names: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "Guesses by the headings"), *((name, name) for name in names)]
        self.fields["mapping"].choices = choices  # type: ignore[attr-defined]
