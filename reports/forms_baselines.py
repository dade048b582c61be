"""Forms of the page of baselines: a declared price, or a measured period (method §6)."""

from __future__ import annotations

from django import forms

from finops.ledger.operations.baselines import BASES, QUALITIES
from reports.forms import DayField, PlainForm, SeveralFilesField, sensible
from reports.widgets import LongSelect

CLASSES = {
    "prompt": "Price per million prompt tokens",
    "cached_prompt": "Price per million cached prompt tokens",
    "generation": "Price per million generation tokens",
}
BASIS_WORDS = {
    "processed": "processed: all that the engines worked on",
    "delivered": "delivered: of requests that finished",
}


class DeclaredForm(PlainForm):
    """A price with the documents that say it."""

    workload = forms.ChoiceField(label="Workload", widget=LongSelect)
    per_million = forms.CharField(label="Price per million tokens", max_length=60)
    currency = forms.CharField(label="Currency", max_length=3, initial="USD")
    document = SeveralFilesField(
        label="Documents that say so", help_text="An offer, a contract, a memorandum; at least one."
    )
    basis = forms.ChoiceField(
        label="Tokens it counts",
        choices=[(name, BASIS_WORDS[name]) for name in BASES],
        required=False,
    )
    quality = forms.ChoiceField(
        label="How its tokens are known",
        choices=[(name, name) for name in QUALITIES],
        required=False,
    )
    prompt = forms.CharField(label=CLASSES["prompt"], max_length=60, required=False)
    cached_prompt = forms.CharField(label=CLASSES["cached_prompt"], max_length=60, required=False)
    generation = forms.CharField(
        label=CLASSES["generation"],
        max_length=60,
        required=False,
        help_text="By class only where the document says so; both prompt and generation then count "
        "in place of the blended price.",
    )
    model = forms.CharField(label="Model it priced", max_length=200, required=False)
    tokenizer = forms.CharField(label="Its tokenizer", max_length=200, required=False)
    note = forms.CharField(label="Note", required=False, max_length=500)

    def clean_basis(self) -> str:
        """Processed where nothing is said."""
        return self.cleaned_data["basis"] or BASES[0]

    def clean_quality(self) -> str:
        """Measured where nothing is said."""
        return self.cleaned_data["quality"] or QUALITIES[0]


class MeasuredForm(PlainForm):
    """Tokens and cost of a legacy workload in a period."""

    workload = forms.ChoiceField(label="Workload", widget=LongSelect)
    legacy = forms.ChoiceField(label="Legacy workload", widget=LongSelect)
    start = DayField(label="From", validators=[sensible])
    end = DayField(
        label="To",
        help_text="Not included.",
        validators=[sensible],
    )
    tokenizer = forms.CharField(label="Its tokenizer", max_length=200, required=False)
    document = SeveralFilesField(
        label="Documents beside it",
        required=False,
        help_text="A memorandum, for one. The ledger's own documents are named by themselves.",
    )
    note = forms.CharField(label="Note", required=False, max_length=500)
