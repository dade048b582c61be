"""What makes up the running service: the socket, the processes, the files they need."""

import contextlib
import fcntl
import hashlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from django.conf import settings

from finops.processes import Child

PORTS_TO_TRY = 50
SAMPLE_MADE = "sample-made"  # in the data folder: the service does not make the sample again
PDF_SECONDS = 900


class AlreadyRuns(Exception):
    """Another process serves this data folder; the text is its address."""


def take_data_folder(data: Path) -> int:
    """Locks the data folder for one service; the lock goes with this process."""
    lock = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        address = os.read(lock, 1000).decode(errors="replace").strip()
        os.close(lock)
        raise AlreadyRuns(address) from error
    return lock


def note_address(lock: int, address: str) -> None:
    """Writes the address where a second `up` finds it."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, address.encode(), 0)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket at the port, else at the next free one after it.

    The supervisor holds the socket, so that a web server that dies and comes back keeps its port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for candidate in range(port, min(port + PORTS_TO_TRY, 65536)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(128)
        except OSError as error:
            listener.close()
            last = error
            continue
        return listener
    raise OSError(f"No port from {port} can be used on {host}: {last}")


def address_of(listener: socket.socket) -> str:
    """What to type into a browser on this machine."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def children(listener: socket.socket, logs: Path) -> list[Child]:
    """The processes of the service, those that take work last."""
    python, here = sys.executable, settings.BASE_DIR
    celery = [python, "-m", "celery", "-A", "finops.celery"]
    worker = [*celery, "worker", "--loglevel", "WARNING", "--without-gossip", "--without-mingle"]
    web = [
        python, "-m", "gunicorn", "finops.wsgi:application", "--bind", f"fd://{listener.fileno()}",
        "--worker-class", "gthread", "--workers", str(settings.WEB_WORKERS), "--threads", "4",
        "--timeout", "120", "--graceful-timeout", "20", "--log-level", "warning",
        "--no-control-socket",
    ]  # fmt: skip
    if Path("/dev/shm").is_dir():  # noqa: S108 - gunicorn makes a private file in it
        web += ["--worker-tmp-dir", "/dev/shm"]  # noqa: S108
    pdf = [
        "--queues", "pdf", "--concurrency", "1", "--hostname", "pdf@headroom",
        "--time-limit", str(PDF_SECONDS), "--max-memory-per-child", str(settings.PDF_MEMORY_MIB * 1024),
        "--max-tasks-per-child", "20",
    ]  # fmt: skip
    main = ["--queues", "default,collect", "--concurrency", "2", "--hostname", "main@headroom"]
    parts = ["--queues", "parts", "--concurrency", str(settings.BULK_PROCESSES),
             "--hostname", "parts@headroom", "--max-tasks-per-child", "1"]  # fmt: skip
    beat = [*celery, "beat", "--loglevel", "WARNING", "--pidfile="]
    workers = {"worker": main, "pdf-worker": pdf}
    if settings.BULK_PROCESSES > 1:
        workers["parts-worker"] = parts
    return [
        Child("web", web, logs / "web.log", here, pass_fds=(listener.fileno(),)),
        *(
            Child(name, [*worker, *words], logs / f"{name}.log", here)
            for name, words in workers.items()
        ),
        Child("beat", beat, logs / "beat.log", here),
    ]


def wait_for_web(address: str, seconds: float = 60) -> bool:
    """Whether the web server answers its health check within the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.URLError, OSError):
            # S310: the scheme is ours, http
            request = urllib.request.Request(  # noqa: S310
                f"{address}/healthz", headers={"Host": "localhost"}
            )
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
                return bool(answer.status == 200)
        time.sleep(0.1)
    return False


def manage(*words: str) -> int:
    """Runs one of our commands in a process of its own and gives its exit code."""
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *words]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode


def collect_static() -> bool:
    """Gathers and compresses the static files when they have changed; False when that failed."""
    if os.environ.get("HEADROOM_STATIC"):  # collected when the image was built
        return True
    stamp = settings.STATIC_ROOT / ".made-from"
    wanted = _static_digest()
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    if manage("collectstatic", "--noinput", "--clear", "--verbosity", "0") != 0:
        return False
    stamp.write_text(wanted)
    return True


def _static_digest() -> str:
    digest = hashlib.sha256()
    for folder in settings.STATICFILES_DIRS:
        for path in sorted(Path(folder).rglob("*")):
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
