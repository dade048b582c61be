"""The Django app `reports`."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ReportsConfig(AppConfig):
    name = "reports"
    label = "reports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """The roles' groups exist wherever users do; what arrives may touch what was sealed."""
        from finops.ledger.signals import arrived

        post_migrate.connect(_make_roles, sender=self)
        arrived.connect(_look_again)


def _make_roles(using: str, **_: Any) -> None:
    from reports.roles import ensure_groups

    if using == "default":
        ensure_groups()


def _look_again(**told: Any) -> None:
    from reports.models import Report

    if Report.objects.exists():  # else nothing was sealed, and all that makes reports may stay away
        from reports.operations.looking_again import on_arrival

        on_arrival(**told)
