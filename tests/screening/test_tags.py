from __future__ import annotations

import pytest

from corpus_guard.screening.tags import ATLAS, OWASP, TAG_KEYS, tag_ids


def test_both_owasp_editions_and_atlas_are_named() -> None:
    assert tag_ids(["prompt_injection", "indirect_injection"]) == (
        "OWASP:LLM01:2025",
        "OWASP:LLM01:2026",
        "ATLAS:AML.T0051.001",
    )


def test_a_tag_appears_once_and_in_order() -> None:
    assert tag_ids(["obfuscation", "obfuscation", "poisoning"]) == (
        "ATLAS:AML.T0068",
        "OWASP:LLM04:2025",
        "OWASP:LLM05:2026",
    )


def test_keys_do_not_collide() -> None:
    assert not set(OWASP) & set(ATLAS)
    assert len(TAG_KEYS) == len(OWASP) + len(ATLAS)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(KeyError):
        tag_ids(["prompt_injektion"])
