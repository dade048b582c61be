"""A decimal column with no limit: Postgres `numeric` keeps every digit a source wrote (§1)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import models


class NumericField(models.Field):
    """`numeric` without precision or scale; Decimal in, Decimal out, never a binary float."""

    description = "Exact decimal number"

    def db_type(self, connection: Any) -> str:
        """The column type."""
        return "numeric"

    def to_python(self, value: Any) -> Decimal | None:
        """A Decimal, from a Decimal, an integer or text; a binary float is refused."""
        if value is None or isinstance(value, Decimal):
            return value
        if isinstance(value, float):
            raise TypeError("a binary float may not enter an exact column")
        return Decimal(value)

    def get_prep_value(self, value: Any) -> Decimal | None:
        """What the driver sends."""
        return self.to_python(super().get_prep_value(value))
