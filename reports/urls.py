"""The routes of the pages."""

from django.urls import path, register_converter

from reports.views import (
    annotations,
    baselines,
    catalogue,
    changes,
    exceptions,
    imports,
    invoices,
    kv,
    mappings,
    memory,
    nodes,
    overview,
    people,
    prices,
    reports,
    rightsizing,
    rules,
    sources,
    style,
    tables,
    tieout,
    training,
    typed_invoices,
    workloads,
)


class WeekConverter:
    """An ISO week in an address."""

    regex = r"[0-9]{4}-W[0-9]{2}"

    def to_python(self, value: str) -> str:
        """The text itself."""
        return value

    def to_url(self, value: str) -> str:
        """The text itself."""
        return value


register_converter(WeekConverter, "week")
from reports import audit_urls, evidence_urls  # noqa: E402 - its routes use the converter

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("start/", overview.guide, name="guide"),
    path("help/", overview.help_page, name="help"),
    path("reports/", reports.listing, name="reports"),
    path("reports/close/", reports.close, name="close"),
    path("reports/reports.csv", tables.reports_csv, name="reports-csv"),
    path("reports/compare.csv", tables.compare_csv, name="compare-csv"),
    path("reports/compare/", reports.compare, name="compare"),
    path("reports/<week:week>/", reports.report, name="report"),
    path("reports/<week:week>/restate/", reports.restate, name="report-restate"),
    path("reports/<week:week>/leave/", exceptions.leave, name="report-leave"),
    path("reports/<week:week>/<int:revision>/", reports.report, name="report-revision"),
    path("reports/<week:week>/<int:revision>/paper/", reports.on_paper, name="report-paper"),
    path("reports/<week:week>/<int:revision>/workloads.csv", reports.as_csv, name="report-csv"),
    *evidence_urls.urlpatterns,
    *audit_urls.urlpatterns,
    path("reports/<week:week>/<int:revision>/<slug:kind>/", reports.act, name="report-act"),
    path("exceptions/", exceptions.listing, name="exceptions"),
    path("exceptions/dispose/", exceptions.dispose, name="dispose"),
    path("workloads/", workloads.listing, name="workloads"),
    path("workloads/add/", workloads.add, name="workload-add"),
    path("workloads/adopt/", workloads.adopt, name="workload-adopt"),
    path("workloads/<str:slug>/", workloads.workload, name="workload"),
    path("workloads/<str:slug>/objective/", workloads.objective, name="workload-objective"),
    path("workloads/<str:slug>/hours/", workloads.hours, name="workload-hours"),
    path("annotations/", annotations.listing, name="annotations"),
    path("annotations/<int:pk>/", annotations.edit, name="annotation-edit"),
    path("imports/", imports.listing, name="imports"),
    path("imports/decide/<int:snapshot>/", imports.decide, name="snapshot-decide"),
    path("imports/<uuid:key>/", imports.upload, name="upload"),
    path("imports/documents/<slug:digest>/", imports.document, name="document"),
    path("sources/", sources.listing, name="sources"),
    path("sources/test/", sources.test, name="source-test"),
    path("sources/rows/<int:series>/<str:hour>/", sources.row, name="ledger-row"),
    path("sources/<slug:name>/", sources.source, name="source"),
    path("sources/<slug:name>/hours/", sources.hours, name="source-hours"),
    path("sources/<slug:name>/active/", sources.set_active, name="source-active"),
    path("invoices/", invoices.listing, name="invoices"),
    path("invoices/enter/", typed_invoices.enter, name="invoice-enter"),
    path("invoices/confirm/", invoices.confirm, name="invoice-confirm"),
    path("invoices/papers/<slug:digest>/", tieout.paper, name="invoice-paper"),
    path("invoices/<str:period>/", tieout.month, name="tieout"),
    path("nodes/", nodes.listing, name="nodes"),
    path("mappings/", mappings.listing, name="mappings"),
    path("mappings/edit/", mappings.edit, name="mapping-edit"),
    path("changes/", changes.listing, name="changes"),
    path("training/", training.listing, name="training"),
    path("memory/", memory.listing, name="memory"),
    path("memory/hours/", memory.by_hour, name="memory-hours"),
    path("memory/log/", memory.log, name="memory-log"),
    path("memory/kv/", kv.kv, name="memory-kv"),
    path("memory/starts/<int:pk>/", memory.start, name="engine-start"),
    path("rightsizing/", rightsizing.listing, name="rightsizing"),
    path("catalogue/", catalogue.listing, name="catalogue"),
    path("prices/", prices.listing, name="prices"),
    path("style/", style.components, name="style"),
    path("rules/", rules.listing, name="rules"),
    path("rules/preview/", rules.preview, name="rule-preview"),
    path("rules/<int:number>/retire/", rules.retire, name="rule-retire"),
    path("baselines/", baselines.listing, name="baselines"),
    path("baselines/<int:number>/", baselines.baseline, name="baseline"),
    path("baselines/<int:number>/decide/", baselines.decide, name="baseline-decide"),
    path("baselines/papers/<slug:digest>/", baselines.paper, name="baseline-paper"),
    path("people/", people.listing, name="people"),
    path("people/<int:pk>/", people.change, name="person"),
    path("people/<int:pk>/password/", people.password, name="person-password"),
]
