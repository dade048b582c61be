"""`catalogue`: the shapes of GPU machines that lines are told by, each with its source and date."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from finops.ledger.plain_command import Command as Base
from finops.sources.gpu_shapes import Shape, catalogue


class Command(Base):
    """Needs no database."""

    help = "List the GPU machine shapes and where they are known from."

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        return {"shapes": [_row(shape) for shape in catalogue()], "ok": True}, True


def _row(shape: Shape) -> dict[str, Any]:
    return {
        "provider": shape.provider,
        "instance_type": shape.instance_type,
        "gpu_model": shape.gpu_model,
        "gpu_count": Decimal(shape.gpu_count),
        "memory_bytes_per_gpu": shape.memory_bytes,
        "memory_kind": shape.memory_kind,
        "source": shape.source,
        "as_of": shape.as_of,
    }
