"""The Django app `reports`."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ReportsConfig(AppConfig):
    name = "reports"
    label = "reports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """The roles' groups exist wherever users do."""
        post_migrate.connect(_make_roles, sender=self)


def _make_roles(using: str, **_: Any) -> None:
    from reports.roles import ensure_groups

    if using == "default":
        ensure_groups()
