from __future__ import annotations

import pytest

from corpus_guard.screening.tags import ATLAS, KEYS, OWASP, tags


def test_both_owasp_editions_and_atlas_are_named() -> None:
    assert tags(["prompt_injection", "indirect_injection"]) == (
        "OWASP:LLM01:2025",
        "OWASP:LLM01:2026",
        "ATLAS:AML.T0051.001",
    )


def test_a_tag_appears_once_and_in_order() -> None:
    assert tags(["obfuscation", "obfuscation", "poisoning"]) == (
        "ATLAS:AML.T0068",
        "OWASP:LLM04:2025",
        "OWASP:LLM05:2026",
    )


def test_keys_do_not_collide() -> None:
    assert not set(OWASP) & set(ATLAS)
    assert len(KEYS) == len(OWASP) + len(ATLAS)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(KeyError):
        tags(["prompt_injektion"])
