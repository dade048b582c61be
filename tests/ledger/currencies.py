"""The small company with charges in three currencies and hand-written rates of two days.

Engine `a`'s machine is billed in US dollars, `b`'s in Canadian dollars, the shared network in euros.
A contract of 96.00 EUR for four days begins on Sunday the 15th, for which Friday's rates hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.ledger import small_company
from tests.ledger.doors import command, ingested

FRIDAY = {"USD": "1.1000", "CAD": "1.5000", "JPY": "170.15"}
MONDAY = {"USD": "1.1200", "CAD": "1.5400", "JPY": "171.02"}
SUNDAY_CONTRACT = {
    "ChargePeriodStart": "2026-11-15T00:00:00Z",
    "ChargePeriodEnd": "2026-11-19T00:00:00Z",
    "BilledCost": "96.00",
    "EffectiveCost": "96.00",
    "ChargeCategory": "Usage",
    "ResourceId": "contract",
    "ServiceName": "Licence",
}


def rates_csv(*days: tuple[str, dict[str, str]]) -> str:
    """A file like the European Central Bank's `eurofxref-hist.csv`, newest day first."""
    codes = list(days[0][1])
    lines = [",".join(["Date", *codes]) + ","]
    lines += [",".join([day, *(rates[code] for code in codes)]) + "," for day, rates in days]
    return "\n".join(lines) + "\n"


def rates(folder: Path, *days: tuple[str, dict[str, str]]) -> dict[str, Any]:
    """Takes a file of rates in; by default Friday the 13th's and Monday the 16th's."""
    days = days or (("2026-11-16", MONDAY), ("2026-11-13", FRIDAY))
    path = folder / f"eurofxref-{days[0][0]}-{len(days)}.csv"
    path.write_text(rates_csv(*days))
    (document,) = ingested(path)
    assert (document["format"], document["status"]) == ("fx-ecb", "posted"), document
    return document


def of_currency(row: dict[str, str]) -> str:
    """In which currency a line of the company is billed here."""
    return {"i-b": "CAD", "nat-1": "EUR", "contract": "EUR"}.get(row.get("ResourceId", ""), "USD")


def found(folder: Path) -> None:
    """Takes the company in, one invoice a currency, with who owns what."""
    (folder / "readings.om").write_text(small_company.openmetrics())
    rows = [*small_company.charges(), small_company.charges()[-1] | SUNDAY_CONTRACT]
    paths = [folder / "readings.om"]
    for currency in ("USD", "CAD", "EUR"):
        own = {"BillingCurrency": currency, "InvoiceIssuerName": f"Cloud {currency}"}
        lines = [row | own for row in rows if of_currency(row) == currency]
        paths.append(folder / f"invoice-{currency}.csv")
        paths[-1].write_text(small_company.csv_text(lines))
    for document in ingested(*paths):
        assert document["status"] == "posted", document
    for slug, resource in (("llama", "i-a"), ("mistral", "i-b")):
        command("workload", "add", slug, "--model", slug, "--stack", "vllm", "--by", "Ada")
        command("rule", "add", slug, "--series", f"model_name={slug}", "--by", "Ada")
        command("rule", "add", slug, "--charge", f"resource={resource}", "--by", "Ada")
    command("shared-key", "add", "net", "--shares", "llama=2,mistral=1", "--by", "Ada")
    command("rule", "add", "shared:net", "--charge", "resource=nat-1", "--by", "Ada")


def whole_week(folder: Path) -> None:
    """Readings and charges that reach the end of the week, so that it can be sealed; the rest of
    the week in Canadian dollars begins on Tuesday, for which Monday's rates hold."""
    start = small_company.START
    lines = ["# TYPE vllm:prompt_tokens counter"]
    for moment in range(7 * 3600, 7 * 86_400 + 3600, 600):
        for instance, (model, *_) in small_company.ENGINES.items():
            labels = f'instance="{instance}",job="vllm",model_name="{model}",engine="0"'
            at = int(start.timestamp()) + moment
            lines.append(f"vllm:prompt_tokens_total{{{labels}}} 900000 {at}")
    (folder / "rest.om").write_text("\n".join([*lines, "# EOF", ""]))
    end = {"ChargePeriodStart": "2026-11-17T00:00:00Z", "ChargePeriodEnd": "2026-11-23T00:00:00Z"}
    paths = [folder / "rest.om"]
    for currency, resource, amount in (("CAD", "i-b", "99.99"), ("USD", "i-a", "77.77")):
        own = {"BillingCurrency": currency, "InvoiceIssuerName": f"Cloud {currency}"}
        rows = [row | own for row in small_company.charges() if of_currency(row) == currency]
        machine = next(row for row in rows if row["ResourceId"] == resource)
        rows.append(machine | end | {"BilledCost": amount, "EffectiveCost": amount})
        paths.append(folder / f"rest-{currency}.csv")
        paths[-1].write_text(small_company.csv_text(rows))
    for document in ingested(*paths):
        assert document["status"] == "posted", document
