"""Signs that nobody sees and that change how a text reads: refused where people type, shown as their
escapes where they come from foreign files.

Controls move or wipe what stands around them; marks, overrides and isolates of direction make a
page read otherwise than its text is (U+202E turns `exe.fdp` around); signs without a shape (soft
hyphens, fillers, tags) make two names look like one. Joiners (U+200C, U+200D) are letters' own business
in several scripts and stay.
"""

from __future__ import annotations

import re
from typing import Final

_KINDS: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, without tab and ends of lines
    "\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0\U000e0000-\U000e007f"  # without a shape
)
_STEERING: Final = re.compile(f"[{_KINDS}]")
# The same in UTF-8, to pass by pages that hold none without decoding them.
_STEERING_BYTES: Final = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c"
    rb"|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0\x8e)"
    rb"|\xe2(?:\x80[\x8b\x8e\x8f\xa8-\xae]|\x81[\xa0-\xaf])|\xe3\x85\xa4"
    rb"|\xef(?:\xbb\xbf|\xbe\xa0|\xbf[\xb9-\xbb])|\xf3\xa0[\x80\x81][\x80-\xbf]"
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
    """The text with such signs as their escapes, `\\u202e`: JSON's own, of two halves beyond U+FFFF."""
    return _STEERING.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def handed_back(html: str) -> str:
    """A text of a page, HTML already, with references of HTML for such signs: where a field holds what
    another program wrote, the browser hands it back as it came and not as its escapes. NUL and the
    controls from U+0080 on are left as they are: references to them stand for other signs."""
    return _STEERING.sub(_reference, html)


def _reference(found: re.Match[str]) -> str:
    place = ord(found[0])
    return found[0] if not place or 0x80 <= place < 0xA0 else f"&#{place};"


def shown_in_bytes(content: bytes) -> bytes:
    """The same of a text in UTF-8; the same bytes where it holds none."""
    if _STEERING_BYTES.search(content) is None:
        return content
    return shown(content.decode("utf-8", "replace")).encode()
