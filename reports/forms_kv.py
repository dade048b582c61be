"""The form of a model's configuration and how it is to be served."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from finops.core.kv import KV_DTYPES
from finops.sources.model_config import MAX_BYTES
from reports.forms import PlainForm
from reports.forms_data import MOST_PASTED
from reports.operations.uploads import clean_name
from reports.widgets import Foreign

MOST_GPUS = 4096


class KvForm(PlainForm):
    """A `config.json`, as a file, as pasted text or one that is here, with the parallelism."""

    foreign = ("text",)
    stored = forms.ChoiceField(label="A configuration that was kept", required=False)
    file = forms.FileField(label="The file config.json", required=False, max_length=300)
    text = forms.CharField(
        label="Or paste its text",
        required=False,
        max_length=MOST_PASTED,
        widget=Foreign(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        help_text="It lies beside the model's weights.",
    )
    tensor_parallel = forms.IntegerField(
        label="GPUs that share each layer (tensor parallel)",
        initial=1, min_value=1, max_value=MOST_GPUS,
    )  # fmt: skip
    pipeline_parallel = forms.IntegerField(
        label="Stages the layers are divided into (pipeline parallel)",
        initial=1, min_value=1, max_value=MOST_GPUS,
    )  # fmt: skip
    kv_dtype = forms.ChoiceField(
        label="Number type of the cache",
        choices=[("auto", "the model's own (auto)"), *((name, name) for name in KV_DTYPES[1:])],
    )
    max_model_len = forms.IntegerField(
        label="Tokens of the longest request",
        required=False, min_value=1, max_value=1 << 40,
        help_text="Empty: the longest the configuration names.",
    )  # fmt: skip

    def __init__(self, *args: Any, stored: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if stored:
            self.fields["stored"].choices = [("", "none of these"), *stored]  # type: ignore[attr-defined]
        else:
            del self.fields["stored"]

    def clean(self) -> dict[str, Any]:
        """One configuration, and not too large."""
        values = super().clean() or {}
        values.setdefault("stored", "")
        file = values.get("file")
        if not self.errors:
            told = [bool(values["stored"]), bool(file), bool(values.get("text", "").strip())]
            if sum(told) != 1:
                raise forms.ValidationError(
                    "Give one configuration: choose one, hand over its file, or paste its text."
                )
        if file and (file.size or 0) > MAX_BYTES:
            raise forms.ValidationError(f"A configuration has at most {MAX_BYTES >> 20} MiB.")
        return values

    def given(self) -> tuple[str, bytes]:
        """The name and the bytes of what was handed over or pasted."""
        file: UploadedFile | None = self.cleaned_data["file"]
        if file is None:
            return "pasted.json", self.cleaned_data["text"].encode()
        return clean_name(file.name or "config.json"), file.read()
