"""The routes: signing in, the health check, and everything else in `reports`."""

from django.contrib.auth import views as auth
from django.urls import include, path

from finops import first_login, health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("login/", auth.LoginView.as_view(), name="login"),
    path("welcome/<key>/<token>/", first_login.welcome, name="welcome"),
    path("welcome/password/", first_login.first_password, name="first-password"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("", include("reports.urls")),
]
