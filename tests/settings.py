"""The product's settings in a temporary data folder, so that tests never meet real data."""

import os
import tempfile
from pathlib import Path

OUTER_ENVIRONMENT = dict(os.environ)  # for tests that start the product as its user would
TEMPORARY = Path(tempfile.mkdtemp(prefix="headroom-test-"))
TEMPORARY.chmod(0o711)  # as root the database runs as another user, who must pass through
(TEMPORARY / "static").mkdir()

KEPT = {"HEADROOM_SAMPLES", "HEADROOM_PG_USER"}
for name in [name for name in os.environ if name.startswith("HEADROOM_")]:
    if name not in KEPT:
        del os.environ[name]
os.environ["HEADROOM_DATA"] = str(TEMPORARY)
os.environ["HEADROOM_STATE"] = str(TEMPORARY / "state")  # what root's servers need outside
os.environ["HEADROOM_TEST"] = "1"
os.environ["SECRET_KEY"] = "only-for-tests-" + "x" * 50

from finops.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.MD5PasswordHasher"
]  # quick, as tests sign in often
