"""Forms of the pages on invoices, CSV mappings and GPU memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile

from finops.core.money import parse_decimal
from finops.sources import currencies
from finops.sources.typed_invoice import MOST_LINES, TypedInvoice, TypedLine, gpu_models
from reports.forms import NOT_A_MONTH, DayField, InvoiceAmountForm, PlainForm
from reports.widgets import Foreign

MOST_PASTED = 1_000_000
MOST_LOG_BYTES = 8 * 2**20
MOST_ATTACHED_BYTES = 20 * 2**20


class PastedLog(forms.CharField):
    """Lines of a log without NUL characters, as a terminal shows them."""

    def to_python(self, value: Any) -> Any:
        """The text."""
        text = super().to_python(value)
        return text.replace("\0", "") if isinstance(text, str) else text


class LogForm(PlainForm):
    """A start-up log, as a file or as pasted lines."""

    foreign = ("text",)
    file = forms.FileField(label="Log file", required=False, max_length=300)
    text = PastedLog(
        label="Or paste its lines",
        required=False,
        max_length=MOST_PASTED,
        widget=Foreign(attrs={"rows": 7, "class": "mono", "spellcheck": "false"}),
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
        return _attached(self.cleaned_data["attached"])


def _attached(file: UploadedFile | None) -> UploadedFile | None:
    if file and (file.size or 0) > MOST_ATTACHED_BYTES:
        raise forms.ValidationError(
            f"An attached invoice may have {MOST_ATTACHED_BYTES // 2**20} MiB."
        )
    return file


class ExactField(forms.CharField):
    """A number as it is printed, kept with all its digits; None where none is given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        widget = forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
        super().__init__(*args, max_length=80, widget=widget, **kwargs)

    def clean(self, value: Any) -> Any:
        """The exact value; thousands must not be set apart, since marks differ by country."""
        text = super().clean(value)
        try:
            return parse_decimal(text) if text else None
        except ValueError as error:
            told = str(error)
            raise forms.ValidationError(
                f"{told[:1].upper()}{told[1:]}. Write it like 1234.50."
            ) from None


class TypedLineForm(PlainForm):
    """One more service on an invoice; all of it empty where there is none."""

    service = forms.CharField(
        label="Service", max_length=300, help_text="What was bought, in the invoice's words."
    )
    start = DayField(label="First day of use", help_text="Days are counted in UTC.")
    end = DayField(label="Last day of use")
    amount = ExactField(label="Amount before tax", help_text="Like 1234.50; a discount is below 0.")
    gpu_model = forms.ChoiceField(label="GPU model", required=False)
    gpu_count = ExactField(label="GPUs in each machine", required=False)
    hours = ExactField(
        label="Machine hours billed",
        required=False,
        help_text="Empty: the machine ran all the days above.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "No GPU, or not known"), *((name, name) for name in gpu_models())]
        self.fields["gpu_model"].choices = choices  # type: ignore[attr-defined]

    def line(self) -> TypedLine:
        """The line as it was typed."""
        return TypedLine(**{name: self.cleaned_data[name] for name in TypedLineForm.base_fields})


FurtherLines = forms.formset_factory(
    TypedLineForm, extra=2, max_num=MOST_LINES, absolute_max=MOST_LINES
)
"""Lines beyond the first."""


class TypedInvoiceForm(TypedLineForm):
    """All that is booked of an invoice whose vendor has no export, and the invoice itself; of its
    lines the first."""

    issuer = forms.CharField(label="Vendor", max_length=300, help_text="Spelt the same each time.")
    invoice = forms.CharField(label="Invoice number", max_length=300)
    credits = forms.CharField(
        label="Credits invoice",
        max_length=300,
        required=False,
        help_text="Of a credit note: the number of the invoice it credits. Its amounts are below 0.",
    )
    billing_account = forms.CharField(
        label="Billing account",
        max_length=300,
        help_text="The customer or account number on the invoice.",
    )
    billing_period = forms.RegexField(
        r"^[0-9]{4}-(0[1-9]|1[0-2])$",
        label="Month of the invoice",
        help_text="Like 2026-10.",
        error_messages=NOT_A_MONTH,
    )
    currency = forms.CharField(
        label="Currency", max_length=3, initial="USD", help_text="A code like USD."
    )
    tax = ExactField(label="Tax", initial="0", help_text="Of all lines; 0 where there is none.")
    attached = forms.FileField(
        label="The invoice itself",
        max_length=300,
        help_text="The PDF or picture these words were read from. It is kept by its digest.",
    )
    field_order = (
        "issuer", "invoice", "credits", "billing_account", "billing_period", "currency", "tax",
        "attached", *TypedLineForm.base_fields,
    )  # fmt: skip

    def clean_attached(self) -> UploadedFile | None:
        """A file that is not beyond what an invoice can be."""
        return _attached(self.cleaned_data["attached"])

    def given(self, further: Iterable[TypedLineForm] = ()) -> TypedInvoice:
        """The invoice as it was typed, with its further lines."""
        values = {name: self.cleaned_data[name] for name in WHOLE_INVOICE}
        lines = (self.line(), *(one.line() for one in further))
        currency = currencies.in_capitals(values["currency"])
        return TypedInvoice(**values | {"currency": currency}, lines=lines)


WHOLE_INVOICE = (
    "issuer",
    "invoice",
    "credits",
    "billing_account",
    "billing_period",
    "currency",
    "tax",
)


class MappingStartForm(PlainForm):
    """The file whose columns are to be mapped, or its first lines."""

    foreign = ("text",)
    file = forms.FileField(label="File", required=False, max_length=300)
    text = forms.CharField(
        label="Or paste its first lines",
        required=False,
        max_length=MOST_PASTED,
        widget=Foreign(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        help_text="The line of headings and a few rows.",
    )
    mapping = forms.ChoiceField(label="Begin with", required=False)

    def __init__(self, *args: Any, names: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "Guesses by the headings"), *((name, name) for name in names)]
        self.fields["mapping"].choices = choices  # type: ignore[attr-defined]
