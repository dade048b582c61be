"""The Django app `finops.ledger`."""

from django.apps import AppConfig


class LedgerConfig(AppConfig):
    name = "finops.ledger"
    label = "ledger"
    default_auto_field = "django.db.models.BigAutoField"
