"""Form widgets of the pages."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from finops.core import signs


class Foreign(forms.Textarea):
    """Text that another program wrote: shown again after an error it is what was pasted, signs that
    cannot be seen (the colours of a log) among it."""

    def format_value(self, value: Any) -> str | None:
        """The text as HTML."""
        text = super().format_value(value)
        return None if text is None else SafeString(signs.handed_back(conditional_escape(text)))


class LongSelect(forms.Select):
    """A choice among hundreds of names, written without a template for each of them."""

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        """The element with its options; groups of choices are not used here."""
        given = self.build_attrs(self.attrs, {**(attrs or {}), "name": name})
        chosen = "" if value is None else str(value)
        choices = tuple((str(key), str(label)) for key, label in self.choices)
        return format_html("<select{}>{}</select>", flatatt(given), _options(choices, chosen))


@lru_cache(maxsize=64)
def _options(choices: tuple[tuple[str, str], ...], chosen: str) -> SafeString:
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        ((key, SafeString(" selected") if key == chosen else "", name) for key, name in choices),
    )
