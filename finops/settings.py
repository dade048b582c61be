"""Django's settings. Everything that differs between installations comes from the environment.

docs/operations.md lists the variables; `finops/environment.py` checks them.
"""

import sys
from pathlib import Path
from urllib.parse import urlsplit

from finops import embedded, environment

BASE_DIR = Path(__file__).resolve().parent.parent
DATA = environment.data_folder(BASE_DIR / "data")

ORGANISATION = environment.text("HEADROOM_ORGANISATION", "Your organisation")
SAMPLE_ORGANISATION = "Fernhill Analytics"  # invented, as all of its figures are
REPORT_CURRENCY = environment.currency("HEADROOM_REPORT_CURRENCY")
ORGANISATION_ZONE = environment.organisation_zone(environment.text("HEADROOM_TIME_ZONE", "UTC"))
HOST = environment.text("HEADROOM_HOST", "127.0.0.1")
PORT = environment.whole_number("HEADROOM_PORT", 8000, least=1, most=65535)
WEB_WORKERS = environment.whole_number("HEADROOM_WEB_WORKERS", 2, least=1, most=64)
URL = environment.text("HEADROOM_URL").rstrip("/")  # what people type, for links in mails

DEBUG = environment.flag("HEADROOM_DEBUG")
SECRET_KEY = environment.secret_key(DATA)
ALLOWED_HOSTS = environment.listed("ALLOWED_HOSTS") or [
    "localhost",
    "127.0.0.1",
    "[::1]",
    *([HOST] if HOST not in {"0.0.0.0", "::"} else []),  # noqa: S104 - compared, not bound
    *([urlsplit(URL).hostname or ""] if URL else []),
]

INSTALLED_APPS = [
    "whitenoise.runserver_nostatic",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_celery_beat",
    "csp",
    "finops.trail",
    "finops.ledger",
    "reports",
    "finops",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "finops.private.PrivateMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "finops.bodies.BodyLimitMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "finops.ledger.which.LedgerMiddleware",
    "finops.seen.SeenMiddleware",
]

ROOT_URLCONF = "finops.urls"
WSGI_APPLICATION = "finops.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Two databases on one server: the organisation's own ledger, and the sample organisation's, so
# that invented figures can never stand beside real ones. `finops.ledger.which` chooses.
DATABASE_URL = environment.text("DATABASE_URL") or embedded.database_url(DATA)
DATABASES = {
    "default": environment.database(DATABASE_URL),
    "sample": environment.database(DATABASE_URL, suffix="_sample"),
}
DATABASE_ROUTERS = ["finops.ledger.which.LedgerRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = environment.text("REDIS_URL") or embedded.broker_url(DATA)

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
USE_I18N = False

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
PASSWORD_RESET_TIMEOUT = 24 * 3600  # also how long a first-login link works
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(environment.text("HEADROOM_STATIC", str(DATA / "static")))
# The files get names with their digest once they have been collected; before, plain names do.
_collected = (STATIC_ROOT / "staticfiles.json").exists() or sys.argv[1:2] == ["collectstatic"]
WHITENOISE_USE_FINDERS = not _collected
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "finops.static.Storage"
        if _collected
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
MEDIA_ROOT = DATA / "files"
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 2**20
UPLOAD_BYTES = environment.whole_number("HEADROOM_UPLOAD_MIB", 2048, least=1) * 2**20
FILE_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20  # larger uploads go to a temporary file

# Security. HEADROOM_HTTPS=1 behind a TLS proxy is the production setting.
HTTPS = environment.flag("HEADROOM_HTTPS") or URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]  # the container's own health check speaks plain HTTP
SECURE_HSTS_SECONDS = environment.whole_number("HEADROOM_HSTS_SECONDS", 3600) if HTTPS else 0
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if environment.flag("HEADROOM_BEHIND_PROXY") else None
)
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_TRUSTED_ORIGINS = [URL] if HTTPS and URL else []
# The organisation's other hosts are not ours to bind: no includeSubDomains, no preload list.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# What a Prometheus must show to read /metrics/cost; while it is empty, there is no such page.
METRICS_TOKEN = environment.text("HEADROOM_METRICS_TOKEN")

# Files people hand over: looked into daily, each file read once (its bytes are kept).
# Lines of invoices: a document of more lines than this is kept as sums, as far as nothing looks at
# its lines one by one (0: any document); and how many threads read it.
SUM_LINES_ABOVE = environment.whole_number("HEADROOM_SUM_LINES_ABOVE", 100_000, least=0)
BULK_THREADS = environment.whole_number("HEADROOM_BULK_THREADS", 2, least=1, most=64)
# How many long files of one delivery are read at once, each by a worker of the queue `parts`.
BULK_PROCESSES = environment.whole_number("HEADROOM_BULK_PROCESSES", 1, least=1, most=64)

# How long a store that has answered nothing yet may be silent before it is asked whether it is there.
STORE_SILENT_SECONDS = environment.whole_number(
    "HEADROOM_STORE_SILENT_SECONDS", 60, least=5, most=120
)
# In how many shards the workers that collect read the hours of a large source.
COLLECT_SHARDS = environment.whole_number("HEADROOM_COLLECT_SHARDS", 2, least=1, most=64)

# What a worker may have of memory while it prints one report.
PDF_MEMORY_MIB = environment.whole_number("HEADROOM_PDF_MEMORY_MIB", 1500, least=64, most=1 << 20)

# Networks beside the public ones that invoices may be read from by URL, with commas between.
STORE_NETWORKS = environment.networks("HEADROOM_STORE_NETWORKS")

INVOICE_FOLDER = Path(environment.text("HEADROOM_INVOICE_FOLDER", str(DATA / "invoices")))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": environment.text("HEADROOM_LOG_LEVEL", "WARNING")},
}
