"""Signs that nobody sees and that change how a text reads: refused where people type, shown as their
escapes where they come from foreign files.

Controls move or wipe what stands around them; marks, overrides and isolates of direction make a
page read otherwise than its text is (U+202E turns `exe.fdp` around). Joiners (U+200C, U+200D) are
letters' own business in several scripts and stay.
"""

from __future__ import annotations

import re
from typing import Final

_KINDS: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, without tab and ends of lines
    "\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
)
_STEERING: Final = re.compile(f"[{_KINDS}]")
# The same in UTF-8, to pass by pages that hold none without decoding them.
_STEERING_BYTES: Final = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xef(?:\xbb\xbf|\xbf[\xb9-\xbb])"
    rb"|\xe2(?:\x80[\x8b\x8e\x8f\xa8-\xae]|\x81[\xa0-\xaf])"
)


def refusal(text: str) -> str | None:
    """Why a typed text is not taken, naming the first such sign; None where it holds none."""
    found = _STEERING.search(text)
    if found is None:
        return None
    return (
        f"the sign U+{ord(found[0]):04X} at place {found.start() + 1} cannot be seen and changes how "
        "the text reads; write it without"
    )


def shown(text: str) -> str:
    """The text with such signs as their escapes, `\\u202e`."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown_in_bytes(content: bytes) -> bytes:
    """The same of a text in UTF-8; the same bytes where it holds none."""
    if _STEERING_BYTES.search(content) is None:
        return content
    return shown(content.decode("utf-8", "replace")).encode()
