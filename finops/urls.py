"""The routes: signing in, the health check, and everything else in `reports`."""

from django.urls import include, path

from finops import first_login, health, sign_in
from reports.views import openmetrics

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("metrics/cost", openmetrics.cost, name="metrics-cost"),
    path("login/", sign_in.SignIn.as_view(), name="login"),
    path("welcome/<key>/<token>/", first_login.welcome, name="welcome"),
    path("welcome/password/", first_login.first_password, name="first-password"),
    path("logout/", sign_in.SignOut.as_view(), name="logout"),
    path("password/", sign_in.OwnPassword.as_view(), name="own-password"),
    path("", include("reports.urls")),
]
