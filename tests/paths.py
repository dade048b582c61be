"""Where the tests find their data."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

# Our own recordings of vLLM, kept with the tests.
RECORDED = REPOSITORY / "tests" / "data" / "vllm-recorded"

# Other people's published samples are not ours to pass on: tests that read them skip without them.
SAMPLES = Path(os.environ.get("HEADROOM_SAMPLES") or REPOSITORY.parent / "shared" / "data")
