"""Routes from a report to its rows and its pack."""

from django.urls import path

from reports.views import downloads

urlpatterns = [
    path(
        "reports/<week:week>/<int:revision>/behind/<slug:figure>/",
        downloads.behind,
        name="report-behind",
    ),
    path(
        "reports/<week:week>/<int:revision>/rows/<slug:kind>/",
        downloads.kept_rows,
        name="report-rows",
    ),
    path(
        "reports/<week:week>/<int:revision>/gauges/<int:series>/<str:hour>/",
        downloads.gauge,
        name="report-gauge",
    ),
    path(
        "reports/<week:week>/<int:revision>/hours/<int:series>/<str:hour>/",
        downloads.hour,
        name="report-hour",
    ),
    path(
        "reports/<week:week>/<int:revision>/evidence.zip",
        downloads.evidence_pack,
        name="report-pack",
    ),
]
