"""`grafana_pack`: writes the Prometheus rules and Grafana dashboards of `docker/`."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from finops.ledger.plain_command import Command as Base
from finops.monitoring.pack import files


class Command(Base):
    help = "Writes the Prometheus rules and Grafana dashboards of docker/."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="only say which files differ")
        parser.add_argument("--into", default=str(settings.BASE_DIR), metavar="FOLDER")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        changed = []
        for name, content in files().items():
            path = Path(options["into"]) / name
            if path.is_file() and path.read_text("utf-8") == content:
                continue
            changed.append(name)
            if not options["check"]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, "utf-8")
        return {"files": sorted(files()), "changed": changed}, not (options["check"] and changed)
