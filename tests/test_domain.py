"""Ids follow from content and places, and from nothing a document says of itself."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard import domain
from corpus_guard.domain import (
    Finding,
    Severity,
    Span,
    Stamp,
    canonical_json,
    chunk_id,
    digest,
    doc_id,
    sha256_text,
    version_id,
)
from material import a_finding, a_version

ANY_TEXT = st.text(st.characters())  # lone surrogates too: a file name can hold them


@given(st.lists(ANY_TEXT, max_size=3), st.lists(ANY_TEXT, max_size=3))
def test_other_parts_have_another_digest(one: list[str], other: list[str]) -> None:
    assert (digest("kind", one) == digest("kind", other)) is (one == other)


def test_parts_are_kept_apart() -> None:
    assert digest("kind", ["ab", "c"]) != digest("kind", ["a", "bc"])
    assert digest("kind", ["a"]) != digest("kind", ["a", ""])
    assert digest("chunk/v1", ["a"]) != digest("version/v1", ["a"])


@pytest.mark.parametrize("pair", [("\udc80", "\udc81"), ("\udc80", "\ufffd"), ("\udc80", "?"), ("é", "e\u0301")])
def test_texts_that_look_alike_are_not_alike(pair: tuple[str, str]) -> None:
    assert digest("kind", [pair[0]]) != digest("kind", [pair[1]])
    assert sha256_text(pair[0]) != sha256_text(pair[1])


def test_a_text_that_spells_out_an_escape_is_not_the_escaped_one() -> None:
    surrogate = "\udc80"
    spelled = domain._encodable(surrogate)

    assert spelled != surrogate
    # Only a text with a NUL at its start could collide; ids of such places differ all the same in their source and kind.
    assert spelled.startswith("\x00")


def test_ids_stay_what_they_are() -> None:
    """They are stored: another value would make every document of every deployment new."""
    document = doc_id("handbook", "handbook/pumps.md")
    version = version_id(document, "0" * 64)

    assert document == "13bb1818546cd6c69cb606cb48dbd363"
    assert version == "1007ae002c7b03cd6d57f48a475a0176"
    assert chunk_id(document, version, 0, "text", "chunker/1") == "491284b1bff0e7cb5f00da9c66d72327"


def test_a_chunk_id_depends_on_each_of_its_parts() -> None:
    parts = ("document", "version", 0, "text", "chunker")
    others = [
        ("documents", "version", 0, "text", "chunker"),
        ("document", "versions", 0, "text", "chunker"),
        ("document", "version", 1, "text", "chunker"),
        ("document", "version", 0, "texts", "chunker"),
        ("document", "version", 0, "text", "chunkers"),
    ]

    assert len({chunk_id(*one) for one in [parts, *others]}) == 6


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-(2**53), 2**53)))
def test_canonical_json_does_not_depend_on_the_order_of_keys(record: dict[str, int]) -> None:
    backwards = dict(reversed(record.items()))

    assert canonical_json(record) == canonical_json(backwards)
    assert orjson.loads(canonical_json(record)) == record
    assert b" " not in canonical_json({"a": 1, "b": [1, 2]})


def test_severities_are_ordered() -> None:
    assert [severity.rank for severity in Severity] == [0, 1, 2, 3, 4]
    assert Severity.CRITICAL.rank > Severity.INFO.rank


@pytest.mark.parametrize("finding", [a_finding(), a_finding(span=None, tags=()), a_finding(span=Span(0, 0))])
def test_a_finding_comes_back_from_json(finding: Finding) -> None:
    assert Finding.from_dict(orjson.loads(orjson.dumps(finding.as_dict()))) == finding


def test_a_stamp_comes_back_from_json() -> None:
    stamp = a_version(
        declared={"title": "<b>ü</b>"}, parent_version="p", modified_at=a_version().stamp.fetched_at
    ).stamp

    assert Stamp.from_dict(orjson.loads(orjson.dumps(stamp.as_dict()))) == stamp


def test_what_a_document_declares_cannot_be_changed_afterwards() -> None:
    stamp = Stamp.from_dict(a_version().stamp.as_dict())

    with pytest.raises(TypeError):
        stamp.declared["title"] = "another"  # type: ignore[index]


def test_values_are_frozen() -> None:
    kinds = [kind for kind in vars(domain).values() if is_dataclass(kind) and isinstance(kind, type)]

    assert len(kinds) >= 7
    for kind in kinds:
        blank = object.__new__(kind)
        with pytest.raises((FrozenInstanceError, TypeError)):
            setattr(blank, fields(kind)[0].name, "changed")


def test_a_texts_hash_is_of_its_exact_bytes() -> None:
    assert a_version(passages=("a\r\n", "b")).text_sha256 == domain.sha256_bytes(b"a\r\nb")
