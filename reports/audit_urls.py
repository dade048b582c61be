"""Routes of the auditor's pages: verifying, the trail, samples."""

from django.urls import path

from reports.views import audit

urlpatterns = [
    path("verify/", audit.verify, name="verify"),
    path("verify/<uuid:key>/", audit.verified, name="verified"),
    path("trail/", audit.trail, name="trail"),
    path("sampler/", audit.sampler, name="sampler"),
    path("sampler/<week:week>/<int:revision>/", audit.sheet, name="sample-sheet"),
]
