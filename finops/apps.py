"""The rim as a Django app: it has commands (`up`) and no tables."""

from django.apps import AppConfig


class RimConfig(AppConfig):
    name = "finops"
    label = "rim"
