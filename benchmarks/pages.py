"""How long pages take for several people at once, against a page of fixed text of the same server.

    .venv/bin/python benchmarks/pages.py [--weeks 156] [--workloads 200] [--users 10] [--seconds 8]

Starts the product in a folder of its own, fills it, and prints a line of JSON for each page and
the largest ratio of 95th percentiles. The fixed page is `/help/`: signed in, framed, no figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

REPOSITORY = Path(__file__).resolve().parent.parent
PASSWORD = "a password of four words"
FIXED = "/help/"
PAGES = (
    "/", "/reports/", "/reports/2026-W47/", "/reports/compare/", "/exceptions/", "/workloads/",
    "/workloads/service-001/", "/annotations/", "/imports/", "/sources/", "/invoices/", "/rules/",
    "/baselines/", "/prices/",
)  # fmt: skip


@contextmanager
def service(port: int) -> Iterator[tuple[str, dict[str, str]]]:
    """A running product without the sample: its address and its environment."""
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    folder.chmod(0o711)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADROOM_")}
    around = kept | {"HEADROOM_DATA": str(folder / "data"), "HEADROOM_PORT": str(port)}
    command = [sys.executable, str(REPOSITORY / "manage.py"), "up", "--no-sample"]
    process = subprocess.Popen(command, env=around, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "Ctrl-C stops it" in line:
                break
        yield f"http://127.0.0.1:{port}", around
    finally:
        process.terminate()
        process.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def signed_in(address: str) -> requests.Session:
    """A session of the person the filling made."""
    session = requests.Session()
    page = session.get(f"{address}/login/").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert token is not None
    form = {"username": "bench", "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
    answer = session.post(f"{address}/login/", form, headers={"Referer": address})
    assert answer.ok and "/login/" not in answer.url, answer.status_code
    return session


def measure(sessions: list[requests.Session], url: str, seconds: float) -> dict[str, float]:
    """Milliseconds of a page with all sessions asking at once: median and 95th percentile."""
    for session in sessions:  # every worker has seen the page once
        assert session.get(url).status_code == 200, url
    end = time.monotonic() + seconds
    taken: list[float] = []
    sizes: list[int] = []

    def ask(session: requests.Session) -> None:
        while time.monotonic() < end:
            start = time.perf_counter()
            answer = session.get(url)
            taken.append((time.perf_counter() - start) * 1000)
            sizes.append(len(answer.content))
            assert answer.status_code == 200, url

    threads = [threading.Thread(target=ask, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "requests": len(taken),
        "bytes": max(sizes),
        "p50_ms": round(statistics.median(taken), 1),
        "p95_ms": round(statistics.quantiles(taken, n=20)[-1], 1),
    }


def main() -> None:
    """Fills, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weeks", type=int, default=156)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--port", type=int, default=8790)
    options = parser.parse_args()
    with service(options.port) as (address, around):
        fill = (
            "from benchmarks.pages_fill import fill; "
            f"fill({options.weeks}, {options.workloads}, {PASSWORD!r})"
        )
        subprocess.run(
            [sys.executable, "manage.py", "shell", "-v0", "-c", fill],
            env=around, cwd=REPOSITORY, check=True,
        )  # fmt: skip
        sessions = [signed_in(address) for _ in range(options.users)]
        worst = 0.0
        before = measure(sessions, address + FIXED, options.seconds)
        for path in PAGES:
            found = measure(sessions, address + path, options.seconds)
            after = measure(sessions, address + FIXED, options.seconds)
            # Other work on the machine comes and goes: the fixed page is measured on both sides.
            fixed_ms = (before["p95_ms"] + after["p95_ms"]) / 2
            found |= {"fixed_p95_ms": round(fixed_ms, 1)}
            ratio, before = round(found["p95_ms"] / fixed_ms, 2), after
            worst = max(worst, ratio)
            print(json.dumps({"page": path} | found | {"p95_ratio": ratio}), flush=True)
        print(json.dumps({"largest_p95_ratio": worst, "users": options.users,
                          "weeks": options.weeks, "workloads": options.workloads}))  # fmt: skip


if __name__ == "__main__":
    main()
