"""The routes: signing in, the health check, and everything else in `reports`."""

from django.contrib.auth import views as auth
from django.urls import include, path

from finops import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("login/", auth.LoginView.as_view(), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("", include("reports.urls")),
]
