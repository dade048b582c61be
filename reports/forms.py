"""Forms: what people type, checked for shape; the rules themselves are in the operations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from django import forms
from django.contrib.auth import get_user_model, password_validation

from finops.core import signs
from finops.ledger.access import PRODUCTS, SECRET_PREFIX
from finops.ledger.queries import mappings
from reports.models import Annotation
from reports.queries.weeks import zone
from reports.roles import ROLES
from reports.widgets import LongSelect

FORMATS = [
    ("", "Found out from the content"),
    ("focus", "FOCUS cost and usage"),
    ("aws-cur", "AWS Cost and Usage Report"),
    ("aws-cur-2", "AWS Cost and Usage Report 2.0"),
    ("azure-cost", "Azure cost, view by content"),
    ("azure-cost-actual", "Azure actual cost"),
    ("azure-cost-amortized", "Azure amortised cost"),
    ("gcp-billing", "Google Cloud billing export"),
    ("oci-cost", "Oracle Cloud cost report"),
    ("coreweave-focus", "FOCUS usage without cost"),
    ("focus-invoice-detail", "FOCUS invoice details"),
    ("focus-billing-period", "FOCUS billing periods"),
    ("rate-card", "Rate card"),
    ("fx-ecb", "Exchange rates of the ECB"),
    ("usage-records", "Usage records"),
    ("sql-dump", "Database dump of LiteLLM"),
    ("prometheus-json", "Prometheus answer"),
    ("openmetrics", "OpenMetrics text"),
    ("engine-log", "Start-up log"),
    ("model-config", "Model configuration"),
]


def formats() -> list[tuple[str, str]]:
    """The formats a person may choose, saved mappings of CSV files among them."""
    mapped = [(f"csv:{name}", f"CSV by the mapping {name}") for name in mappings.names()]
    return FORMATS + mapped


NOT_A_MONTH = {"invalid": "Write the month like 2026-10."}


class PlainForm(forms.Form):
    """Labels without a colon, and texts without signs that cannot be seen; `foreign` names fields
    that take what another program wrote, as it is."""

    foreign: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        for name, field in self.fields.items():
            is_secret = isinstance(field.widget, forms.PasswordInput)
            if isinstance(field, forms.CharField) and name not in self.foreign and not is_secret:
                field.validators = [*field.validators, _can_be_seen]


def _can_be_seen(text: str) -> None:
    if reason := signs.refusal(text):
        raise forms.ValidationError(f"{reason[:1].upper()}{reason[1:]}.")


def sensible(day: date) -> None:
    """Refuses a day at the calendar's edge, which has no midnight in every zone."""
    if not 2000 <= day.year <= 2200:
        raise forms.ValidationError("Give a year from 2000 to 2200.")


class DayField(forms.DateField):
    """A day of the calendar, written year first: 01/10/2026 is two days, by country."""

    widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
    default_error_messages = {"invalid": "Write the day like 2026-10-31."}
    input_formats = ["%Y-%m-%d"]

    def to_python(self, value: Any) -> date | None:
        """The day, in plain digits."""
        return super().to_python(_plain_digits(self, value))


class MomentField(forms.DateTimeField):
    """A day and a time, written year first, in plain digits."""

    def to_python(self, value: Any) -> datetime | None:
        """The moment, in plain digits."""
        return super().to_python(_plain_digits(self, value))


class WholeField(forms.IntegerField):
    """A whole number in plain digits."""

    def to_python(self, value: Any) -> int | None:
        """The number, in plain digits."""
        return super().to_python(_plain_digits(self, value))


def _plain_digits(field: forms.Field, value: Any) -> Any:
    """Python reads the digits of every script as numbers; a reader of a report may not."""
    if isinstance(value, str) and any(c.isdigit() and not c.isascii() for c in value):
        raise forms.ValidationError(field.error_messages["invalid"], code="invalid")
    return value


class SeveralFilesInput(forms.ClearableFileInput):
    """A file field that takes several."""

    allow_multiple_selected = True


class SeveralFilesField(forms.FileField):
    """Several files as a list."""

    widget = SeveralFilesInput

    def clean(self, data: Any, initial: Any = None) -> Any:
        """Each file on its own; none at all is refused where one is required."""
        given = data if isinstance(data, list | tuple) else [data]
        one = super().clean
        return [one(item, initial) for item in given or [None]]


class UploadForm(PlainForm):
    """Files of one delivery."""

    chosen = SeveralFilesField(
        label="Files",
        help_text="Invoice exports (FOCUS, AWS, Azure, Google, Oracle; CSV, gzip, Parquet, zip) with "
        "their manifests, rate cards, saved Prometheus answers, OpenMetrics text, usage records. Files "
        "given together are one delivery.",
    )
    format = forms.ChoiceField(label="Format", choices=formats, required=False)


class AnnotationForm(PlainForm):
    """An annotation; its instant is in the organisation's zone."""

    at = MomentField(
        label="When",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
    )
    workload = forms.ChoiceField(label="Workload", required=False, widget=LongSelect)
    kind = forms.ChoiceField(label="Kind", choices=Annotation.KINDS, initial="other")
    text = forms.CharField(
        label="What happened", widget=forms.Textarea(attrs={"rows": 3}), max_length=2000
    )
    url = forms.CharField(label="Link to a ticket", required=False, max_length=500)

    def __init__(self, *args: Any, workloads: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "All workloads"), *((slug, slug) for slug in workloads)]
        self.fields["workload"].choices = choices  # type: ignore[attr-defined]
        self.fields["at"].help_text = f"Time zone {zone().key}."

    def clean_at(self) -> Any:
        """The instant in UTC, read in the organisation's zone."""
        naive = self.cleaned_data["at"].replace(tzinfo=None)
        sensible(naive)
        return naive.replace(tzinfo=zone()).astimezone(UTC)


class UnlessSecret(forms.TextInput):
    """Does not show again what was typed when it may hold a secret."""

    def __init__(self, is_plain: Callable[[str], bool]) -> None:
        super().__init__()
        self.is_plain = is_plain

    def format_value(self, value: Any) -> str | None:
        """The text to show."""
        return value if value and self.is_plain(str(value)) else None


class SourceForm(PlainForm):
    """A Prometheus to read from."""

    name = forms.SlugField(label="Name", max_length=80, help_text="Like prod-prometheus.")
    url = forms.CharField(
        label="Address",
        max_length=500,
        help_text="Like http://prometheus.example:9090",
        widget=UnlessSecret(lambda text: "@" not in text),
    )
    matchers = forms.CharField(
        label="Only series with",
        required=False,
        max_length=500,
        help_text='Label matchers, like job="vllm". They keep re-exports of gateways out.',
    )
    user = forms.CharField(label="User", required=False, max_length=120)
    secret = forms.CharField(
        label="Secret",
        required=False,
        max_length=120,
        widget=UnlessSecret(lambda text: text.startswith(SECRET_PREFIX)),
        help_text="The NAME of an environment variable that begins with HEADROOM_SECRET_ and "
        "holds the bearer token or password. The secret itself is never stored.",
    )
    product = forms.ChoiceField(
        label="Product",
        required=False,
        choices=[(key, name[:1].upper() + name[1:]) for key, name in PRODUCTS.items()],
        help_text="Needed for Amazon, Google and Azure; the others tell it themselves.",
    )
    region = forms.CharField(
        label="Region", required=False, max_length=40, help_text="Of Amazon, like eu-west-1."
    )
    tenant = forms.CharField(
        label="Tenant", required=False, max_length=150, help_text="Of Mimir or Cortex."
    )
    replica_labels = forms.CharField(
        label="Replica labels",
        required=False,
        max_length=500,
        help_text="Labels that tell the halves of a pair of stores apart, with commas between.",
    )

    def clean_replica_labels(self) -> list[str]:
        """The labels one by one."""
        given = str(self.cleaned_data["replica_labels"]).split(",")
        return [name.strip() for name in given if name.strip()]


class WorkloadForm(PlainForm):
    """A workload: one model service on one stack."""

    slug = forms.CharField(label="Name", max_length=80, help_text="a-z, 0-9, - and _")
    model = forms.CharField(label="Model", max_length=300)
    stack = forms.CharField(
        label="Stack", max_length=40, initial="vllm", help_text="vllm, sglang, … or legacy"
    )
    purpose = forms.ChoiceField(
        label="Purpose", choices=[("inference", "Inference"), ("training", "Training")]
    )
    team = forms.CharField(label="Team", required=False, max_length=300)
    cluster = forms.CharField(label="Cluster", required=False, max_length=300)
    namespace = forms.CharField(label="Namespace", required=False, max_length=300)


class ObjectiveForm(PlainForm):
    """A service level objective of a workload."""

    first_token_seconds = forms.CharField(
        label="Seconds to the first token", required=False, max_length=20, help_text="0.1 to 10"
    )
    inter_token_seconds = forms.CharField(
        label="Seconds between tokens", required=False, max_length=20, help_text="0.01 to 1"
    )
    target = forms.CharField(
        label="Share in time", max_length=20, initial="0.99", help_text="Like 0.99 for 99 %."
    )
    valid_from = DayField(
        label="From",
        required=False,
        validators=[sensible],
        help_text="Without a day: for all hours, past ones too.",
    )
    note = forms.CharField(label="Why, or by which document", required=False, max_length=300)


class RuleForm(PlainForm):
    """A rule: what it matches and where that goes."""

    subject = forms.ChoiceField(
        label="Matches", choices=[("charge", "Charges (money)"), ("series", "Series (tokens)")]
    )
    matchers = forms.CharField(
        label="Where",
        max_length=2000,
        help_text="Like service=Amazon EC2,tag:app=chat for charges, or model_name=llama-70b "
        "for series. Operators: = != =~ !~",
    )
    target = forms.ChoiceField(label="Goes to", widget=LongSelect)
    order = WholeField(
        label="Order", min_value=0, max_value=1_000_000, initial=100, help_text="Lower is first."
    )
    valid_from = DayField(
        label="From",
        required=False,
        validators=[sensible],
    )
    valid_to = DayField(
        label="To",
        required=False,
        validators=[sensible],
    )

    def __init__(self, *args: Any, targets: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["target"].choices = targets  # type: ignore[attr-defined]


class InvoiceAmountForm(PlainForm):
    """The amount printed on an invoice."""

    issuer = forms.CharField(label="Issuer", max_length=300)
    invoice = forms.CharField(label="Invoice", max_length=300, required=False)
    billing_period = forms.RegexField(
        r"^[0-9]{4}-(0[1-9]|1[0-2])$",
        label="Month",
        help_text="Like 2026-10.",
        error_messages=NOT_A_MONTH,
    )
    amount = forms.CharField(label="Amount issued", max_length=80)
    currency = forms.CharField(label="Currency", max_length=40, initial="USD")


class PasswordForm(PlainForm):
    """Another password for a person who lost theirs; checked against what is known of them."""

    password = forms.CharField(
        label="New password",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 12 characters. Tell it in person, and let them change it.",
    )

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    def clean_password(self) -> str:
        """A password that the rules accept."""
        password: str = self.cleaned_data["password"]
        password_validation.validate_password(password, self.user)
        return password


class PersonForm(PlainForm):
    """A new person with roles."""

    username = forms.RegexField(r"^[\w.@+ -]{1,150}$", label="Name")
    password = forms.CharField(
        label="First password",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 12 characters.",
    )
    roles = forms.MultipleChoiceField(
        label="Roles",
        choices=[(name, f"{name}: {text}") for name, text in ROLES.items()],
        widget=forms.CheckboxSelectMultiple,
    )

    def clean_username(self) -> str:
        """A name nobody has."""
        name: str = self.cleaned_data["username"].strip()
        if get_user_model().objects.filter(username__iexact=name).exists():
            raise forms.ValidationError("Somebody has this name already.")
        return name

    def clean_password(self) -> str:
        """A password that the rules accept."""
        password: str = self.cleaned_data["password"]
        password_validation.validate_password(password)
        return password
