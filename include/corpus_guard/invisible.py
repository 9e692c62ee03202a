"""Which characters a reader would not see, or would be steered by, and what is shown in their place."""

from __future__ import annotations

import re
import unicodedata

_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Letters, marks and symbols that draw nothing: fillers, variation selectors, the empty Braille cell.
BLANK_CHARACTER = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""One of them."""


def is_invisible(character: str) -> bool:
    """Whether one character is invisible, steers what is around it, or cannot be written at all."""
    return unicodedata.category(character) in _CATEGORIES or bool(BLANK_CHARACTER.match(character))


def code_point(character: str) -> str:
    """``U+200B``."""
    return f"U+{ord(character):04X}"


def reveal_invisible(text: str, keep: str = "") -> str:
    """`text` with every unseen character as ``⟨U+200B⟩``, but for those in `keep`."""
    if text.isprintable() and not BLANK_CHARACTER.search(text):
        return text
    return "".join(f"⟨{code_point(one)}⟩" if one not in keep and is_invisible(one) else one for one in text)
