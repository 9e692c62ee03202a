"""Characters that a reader does not see, or that steer the text around them, and their visible form."""

from __future__ import annotations

import re
import unicodedata

_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Letters, marks and symbols that draw nothing: fillers, variation selectors, the empty Braille cell.
BLANK_CHARACTER = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""One such character."""


def is_invisible(character: str) -> bool:
    """Return whether a character is invisible, steers the text around it, or cannot be written."""
    return unicodedata.category(character) in _CATEGORIES or bool(BLANK_CHARACTER.match(character))


def code_point(character: str) -> str:
    """Return a character's code point as ``U+200B``."""
    return f"U+{ord(character):04X}"


def reveal_invisible(text: str, keep: str = "") -> str:
    """Return `text` with every invisible character as ``⟨U+200B⟩``, except those in `keep`."""
    if text.isprintable() and not BLANK_CHARACTER.search(text):
        return text
    return "".join(f"⟨{code_point(char)}⟩" if char not in keep and is_invisible(char) else char for char in text)
