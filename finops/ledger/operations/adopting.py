"""Making a proposal of discovery real: a workload of its model, and the rule that reaches it (§4)."""

from __future__ import annotations

from datetime import datetime

from finops.ledger.models import Workload
from finops.ledger.queries.discovery import proposed_workloads
from finops.ledger.which import atomic

from .rules import add_rule, draft
from .workloads import NotAccepted, add_workload


def adopt(matchers: str, *, by: str, at: datetime) -> Workload:
    """The workload of the proposal with these matchers, made if there is none like it, and its rule.

    A workload of the same name, model, stack and namespace is taken as it is; where the name means
    another one, the namespace is added to it, or the stack where that is what differs. NotAccepted where nothing is proposed so (any more).
    """
    found = next((one for one in proposed_workloads(at) if one["matchers"] == matchers), None)
    if found is None:
        raise NotAccepted("nothing is proposed with this rule any more; look at the list again")
    same = {name: found[name] for name in ("model", "stack", "namespace")}
    with atomic():
        workload = Workload.objects.filter(slug=found["slug"]).first()
        if workload is not None and any(getattr(workload, k) != v for k, v in same.items()):
            is_elsewhere = found["namespace"] and workload.namespace != found["namespace"]
            slug = f"{found['slug']}-{found['namespace'] if is_elsewhere else found['stack']}"
            workload = Workload.objects.filter(slug=slug, **same).first()
            found["slug"] = slug
        if workload is None:
            same["model"] = same["model"] or found["slug"]
            workload = add_workload(found["slug"], purpose="inference", by=by, at=at, **same)
        add_rule(draft(workload.slug, series=matchers), by=by, at=at)
    return workload
