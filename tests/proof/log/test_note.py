"""Signed notes: what others signed verifies here, what is not a note is refused, a known key's bad signature condemns all."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.errors import Misuse, SettingsError
from corpus_guard.proof.log.note import (
    COSIGNATURE,
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    BadSignature,
    Note,
    NoteInvalid,
    Signature,
    Signer,
    VerifierKey,
    parse_note,
)

TEXT = "harbour.example/corpus\n2\nAAAA\n"
# The example of Go's package `note`, which signed the notes of its module database first.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def signer(name: str = "harbour.example/corpus", *, algorithm: int = 1, at: float = 1_800_000_000.9) -> Signer:
    return Signer(name, Ed25519PrivateKey.generate(), algorithm, clock=lambda: at)


def test_a_note_that_go_signed_verifies() -> None:
    key = VerifierKey.parse(GO_KEY)
    note = parse_note(GO_NOTE)

    assert note.verified_by([key]) == (key,)
    assert note.serialize() == GO_NOTE
    assert key.encode() == GO_KEY
    with pytest.raises(BadSignature):
        parse_note(GO_NOTE.replace("answer", "Answer")).verified_by([key])


def test_the_key_of_gos_checksum_database_has_the_id_it_says() -> None:
    key = VerifierKey.parse("sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8")

    assert str(key) == "sum.golang.org+033de0ae"


@pytest.mark.parametrize("algorithm", [1, COSIGNATURE])
def test_who_signs_verifies(algorithm: int) -> None:
    one = signer(algorithm=algorithm)
    signature = one.sign(TEXT)

    note = parse_note(Note(TEXT, (signature,)).serialize().encode())

    assert note == Note(TEXT, (signature,))
    assert note.verified_by([one.verifier]) == (one.verifier,)
    assert VerifierKey.parse(one.verifier.encode()) == one.verifier
    with pytest.raises(BadSignature, match="does not verify"):
        one.verifier.verify(TEXT.replace("2", "3"), signature)


def test_a_private_key_is_not_shown() -> None:
    one = signer()

    assert one.private.private_bytes_raw().hex() not in repr(one)
    assert "private" not in repr(one)


def test_a_cosignature_tells_its_time_and_signs_it() -> None:
    one = signer("witness", algorithm=COSIGNATURE)
    signature = one.sign(TEXT)

    assert one.verifier.signing_time(signature) == 1_800_000_000
    message = f"cosignature/v1\ntime 1800000000\n{TEXT}".encode()
    one.private.public_key().verify(signature.value[8:], message)  # the form of C2SP tlog-cosignature
    for at in (1_800_000_001, 1 << 63):
        later = Signature(signature.name, signature.key_id, at.to_bytes(8, "big") + signature.value[8:])
        with pytest.raises(BadSignature):
            one.verifier.verify(TEXT, later)
    with pytest.raises(BadSignature, match="bytes"):
        one.verifier.verify(TEXT, Signature(signature.name, signature.key_id, signature.value[:-1]))


def test_one_key_under_two_algorithms_is_two_keys() -> None:
    log = signer()
    witness = Signer(log.name, log.private, COSIGNATURE)

    assert log.verifier.key_id != witness.verifier.key_id
    note = Note(TEXT, (log.sign(TEXT),))
    assert note.verified_by([witness.verifier]) == ()
    with pytest.raises(Misuse, match="without time"):
        log.verifier.signing_time(log.sign(TEXT))


def test_unknown_signatures_are_ignored_even_under_a_known_name_or_id() -> None:
    known, stranger = signer(), signer()
    good = known.sign(TEXT)
    same_name = stranger.sign(TEXT)
    same_id = Signature("other", good.key_id, b"x" * 64)
    note = parse_note(Note(TEXT, (same_name, same_id, good)).serialize())

    assert note.verified_by([known.verifier]) == (known.verifier,)
    assert Note(TEXT, (same_name, same_id)).verified_by([known.verifier]) == ()


@pytest.mark.parametrize("first", [True, False])
def test_a_known_keys_bad_signature_condemns_the_whole_note(first: bool) -> None:
    good, other = signer("one"), signer("two")
    bad = Signature("two", other.verifier.key_id, b"x" * 64)
    signatures = (bad, good.sign(TEXT)) if first else (good.sign(TEXT), bad)

    with pytest.raises(BadSignature, match="two"):
        Note(TEXT, signatures).verified_by([good.verifier, other.verifier])
    assert Note(TEXT, signatures).verified_by([good.verifier]) == (good.verifier,)


def test_a_signature_given_twice_counts_once() -> None:
    one = signer()
    signature = one.sign(TEXT)

    assert Note(TEXT, (signature, signature)).verified_by([one.verifier]) == (one.verifier,)


GOOD = Note(TEXT, (Signature("a", b"1234", b"x" * 64),)).serialize()
LINE = GOOD.split("\n\n")[1]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        "\n",
        TEXT,
        TEXT + "\n",
        GOOD[:-1],
        GOOD[:-2] + "\n",
        GOOD + "\n",
        GOOD + "more\n",
        GOOD + TEXT,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("— a", "—  a"),
        GOOD.replace("— a", "-- a"),
        GOOD.replace("— a ", "— a  "),
        GOOD.replace("— a ", "— a\u00a0"),
        GOOD.replace("— a ", "— a+b "),
        GOOD.replace("— a ", "— "),
        GOOD.replace("— a", "—a"),
        GOOD.replace("harbour", "har\tbour"),
        GOOD.replace("harbour", "har\0bour"),
        GOOD.replace("harbour", "har\x1bbour"),
        GOOD.replace("harbour", "har\ud800bour"),
        GOOD.encode().replace(b"harbour", b"har\xffbour"),
        GOOD.encode().replace("—".encode(), b"\xe2\x80"),
        GOOD.replace("=", ""),
        GOOD.replace("MTIz", "MT Iz"),
        GOOD.replace("MTIz", "MT-z"),
        TEXT + "\n— a MTIzNA==\n",
        TEXT + "\n— a \n",
        TEXT + "\n" + LINE * (MAX_SIGNATURES + 1),
        GOOD.replace("harbour", "h" * MAX_NOTE_BYTES),
        b"\xff" * (MAX_NOTE_BYTES + 1),
    ],
)
def test_what_is_not_a_note_is_refused(raw: bytes | str) -> None:
    assert raw != GOOD
    with pytest.raises(NoteInvalid) as caught:
        parse_note(raw)
    assert "harbour" not in str(caught.value)


def test_a_note_has_room_for_the_signatures_the_specification_asks_for() -> None:
    large = tuple(Signature(f"k{number}", b"1234", b"x" * 5_000) for number in range(16))

    assert parse_note(Note(TEXT, large).serialize()).signatures == large


def test_a_text_may_have_empty_lines_the_last_one_separates() -> None:
    assert parse_note("a\n\n" + GOOD).text == "a\n\n" + TEXT


def test_base64_has_one_spelling() -> None:
    value = base64.b64encode(b"1234" + b"x" * 64).decode()
    head, last, padding = value.rstrip("=")[:-1], value.rstrip("=")[-1], "=" * value.count("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = head + alphabet[alphabet.index(last) + 1] + padding

    assert base64.b64decode(other) == base64.b64decode(value)
    with pytest.raises(NoteInvalid, match="spelling"):
        parse_note(f"{TEXT}\n— a {other}\n")


@given(st.text(), st.binary())
def test_no_bytes_raise_anything_else(text: str, content: bytes) -> None:
    for raw in (text, content, TEXT + "\n" + text, GOOD.encode() + content, content + GOOD.encode()):
        try:
            note = parse_note(raw)
        except NoteInvalid:
            continue
        assert note.serialize() == (raw if isinstance(raw, str) else raw.decode())


@given(st.integers(0, len(GO_NOTE.encode()) - 1), st.integers(0, 7))
def test_no_changed_bit_of_a_signed_note_verifies(place: int, bit: int) -> None:
    raw = bytearray(GO_NOTE.encode())
    raw[place] ^= 1 << bit

    with contextlib.suppress(NoteInvalid):
        assert parse_note(bytes(raw)).verified_by([VerifierKey.parse(GO_KEY)]) == ()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda vkey: vkey.replace("c74f20a3", "c74f20a4"),
        lambda vkey: vkey.replace("c74f20a3", "C74F20A3"),
        lambda vkey: vkey.replace("Peter", "Petra"),
        lambda vkey: vkey[:-1],
        lambda vkey: vkey[:-4],
        lambda vkey: "+" + vkey,
        lambda vkey: vkey.replace("PeterNeumann", ""),
        lambda vkey: vkey.replace("+c74f20a3", ""),
        lambda vkey: vkey.replace("+AR", "+BR"),
        lambda vkey: "",
        lambda vkey: vkey + "\n" + vkey,
    ],
)
def test_a_mistyped_key_is_refused(spoil: Callable[[str], str]) -> None:
    with pytest.raises(SettingsError):
        VerifierKey.parse(spoil(GO_KEY))


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u2003b", "a\ud800"])
def test_a_key_has_a_name_that_a_signature_line_can_hold(name: str) -> None:
    with pytest.raises(SettingsError, match="spaces"):
        VerifierKey(name, b"x" * 32)


@pytest.mark.parametrize("text", ["", "no newline", "a\rb\n", "a\tb\n"])
def test_what_no_note_can_hold_is_not_signed(text: str) -> None:
    with pytest.raises(Misuse):
        signer().sign(text)
