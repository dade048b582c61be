"""The Django app `finops.trail`."""

from django.apps import AppConfig


class TrailConfig(AppConfig):
    name = "finops.trail"
    label = "trail"
    default_auto_field = "django.db.models.BigAutoField"
