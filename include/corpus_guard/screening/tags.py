"""Names of findings in other catalogues: OWASP Top 10 for LLM applications (2025 and 2026) and MITRE ATLAS
(release 2026.06).

A check names its finding by a key (``indirect_injection``); reports and exports carry the ids, so that
findings can be joined with those of other tools. The two OWASP editions number the same risks differently,
hence both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

OWASP: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "prompt_injection": ("OWASP:LLM01:2025", "OWASP:LLM01:2026"),
        "supply_chain": ("OWASP:LLM03:2025", "OWASP:LLM04:2026"),
        "poisoning": ("OWASP:LLM04:2025", "OWASP:LLM05:2026"),
        "embedding_weakness": ("OWASP:LLM08:2025", "OWASP:LLM09:2026"),
        "misinformation": ("OWASP:LLM09:2025", "OWASP:LLM07:2026"),
    }
)
"""Key → risk, in both editions."""

ATLAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "indirect_injection": ("ATLAS:AML.T0051.001",),
        "retrieval_content": ("ATLAS:AML.T0066",),
        "obfuscation": ("ATLAS:AML.T0068",),
        "rag_poisoning": ("ATLAS:AML.T0070",),
        "false_rag_entry": ("ATLAS:AML.T0071",),
    }
)
"""Key → technique."""

TAG_KEYS: Final[frozenset[str]] = frozenset(OWASP) | frozenset(ATLAS)
"""Every key a check or a rule pack may use."""


def tag_ids(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of `keys`, in their order, each once.

    Raises:
        KeyError: a key that is not in `TAG_KEYS`; rule packs are checked when they are loaded.
    """
    ids = (tag for key in keys for tag in (OWASP[key] if key in OWASP else ATLAS[key]))
    return tuple(dict.fromkeys(ids))
