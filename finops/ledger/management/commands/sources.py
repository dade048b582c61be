"""`sources`: the stores readings come from: their health, and adding, testing, stopping one."""

from __future__ import annotations

import getpass
from argparse import SUPPRESS, ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from finops.ledger import cli
from finops.ledger.access import ENCODINGS, PRODUCTS, Access
from finops.ledger.models import Source
from finops.ledger.operations.sources import (
    SourceRefused,
    access_to,
    add_source,
    set_active,
    test_access,
)
from finops.ledger.queries.sources import health


class Command(cli.Command):
    """`sources`, `sources add NAME URL`, `sources test NAME|URL`, `sources stop|start NAME`."""

    help = "List the sources and their health; add, test, stop or start one."
    writes = True  # a source belongs to the own ledger from its first day

    def arguments(self, parser: CommandParser) -> None:
        parser.set_defaults(verb="list")
        verbs = parser.add_subparsers(dest="verb", metavar="list|add|test|stop|start")
        listed = verbs.add_parser("list", help="health, lag and coverage of every source")
        _json_too(listed)
        add = verbs.add_parser("add", help="add a Prometheus source")
        add.add_argument("name")
        add.add_argument("url", help="base URL, like http://prometheus:9090")
        _access(add)
        add.add_argument("--replica-label", action="append", default=[], metavar="LABEL")
        test = verbs.add_parser("test", help="ask a source or URL about its last hour")
        test.add_argument("which", metavar="NAME|URL")
        _access(test)
        for verb in ("stop", "start"):
            part = verbs.add_parser(verb, help=f"{verb} collecting a source")
            part.add_argument("name")
            _json_too(part)
            part.add_argument("--by", default=None)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        at, by = datetime.now(UTC), options.get("by") or getpass.getuser()
        verb = options["verb"] or "list"
        if verb == "list":
            rows = health(at)
            fine = all(row["state"] not in ("failing", "late") for row in rows)
            return {"sources": rows, "ok": fine}, True
        try:
            return self._changed(verb, options, by, at)
        except SourceRefused as error:
            raise cli.CannotRun(str(error)) from None

    def _changed(
        self, verb: str, options: dict[str, Any], by: str, at: datetime
    ) -> tuple[dict[str, Any], bool]:
        if verb == "test":
            access, matchers = self._access_of(options)
            answer = test_access(access, matchers, at=at)
            return answer, bool(answer["ok"])
        if verb == "add":
            source = add_source(
                options["name"],
                options["url"],
                by=by,
                at=at,
                matchers=options["matchers"],
                replica_labels=options["replica_label"],
                secret=options["secret"],
                user=options["user"],
                accept_encoding=options["accept_encoding"],
                tenant=options["tenant"],
                product=options["product"],
                region=options["region"],
            )
        else:
            source = set_active(options["name"], verb == "start", by=by, at=at)
        return {"source": source.name, "active": source.active, "ok": True}, True

    def _access_of(self, options: dict[str, Any]) -> tuple[Access, str]:
        source = Source.objects.filter(name=options["which"], kind="prometheus").first()
        if source is not None:
            return access_to(source), source.matchers
        if "://" not in options["which"]:
            raise cli.CannotRun(f"There is no source named {options['which']!r}, nor is it a URL.")
        names = ("which", "secret", "user", "accept_encoding", "tenant", "product", "region")
        return Access(*(options[name] for name in names)), options["matchers"]


def _json_too(parser: ArgumentParser) -> None:
    """`--json` may stand after the verb as well."""
    parser.add_argument("--json", action="store_true", default=SUPPRESS)


def _access(parser: ArgumentParser) -> None:
    _json_too(parser)
    parser.add_argument("--by", default=None)
    parser.add_argument(
        "--matchers", default="", help='which series are engines: job="vllm",namespace=~"llm-.*"'
    )
    parser.add_argument(
        "--secret",
        default="",
        metavar="VARIABLE",
        help="variable HEADROOM_SECRET_… with the secret",
    )
    parser.add_argument("--user", default="", help="user of basic authentication (else bearer)")
    parser.add_argument("--accept-encoding", choices=ENCODINGS, default="identity")
    parser.add_argument("--tenant", default="", help="sent as X-Scope-OrgID (Mimir, Cortex)")
    parser.add_argument(
        "--product", choices=list(PRODUCTS), default="", help="where its answers do not tell"
    )
    parser.add_argument("--region", default="", help="region of amp, whose requests are signed")
