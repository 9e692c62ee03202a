"""Checkpoints: three lines, each in its one spelling."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.proof.log.checkpoint import MAX_SIZE, Checkpoint, CheckpointInvalid, parse_checkpoint
from corpus_guard.proof.log.merkle import EMPTY_ROOT

# The example of C2SP tlog-checkpoint.
EXAMPLE = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"


def test_the_example_of_the_specification() -> None:
    checkpoint = parse_checkpoint(EXAMPLE)

    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
    assert checkpoint.root.hex().startswith("0ac5186a91863e8e1d90c808")
    assert checkpoint.body() == EXAMPLE


@given(st.text(min_size=1).filter(str.isprintable), st.integers(1, MAX_SIZE), st.binary(min_size=32, max_size=32))
def test_what_is_written_is_read(origin: str, size: int, root: bytes) -> None:
    checkpoint = Checkpoint(origin, size, root)

    assert parse_checkpoint(checkpoint.body()) == checkpoint


def test_size_0_has_the_empty_root() -> None:
    assert parse_checkpoint(Checkpoint("o", 0, EMPTY_ROOT).body()).size == 0
    with pytest.raises(CheckpointInvalid, match="empty tree"):
        Checkpoint("o", 0, b"x" * 32)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        EXAMPLE[:-1],
        EXAMPLE + "\n",
        EXAMPLE + "extension 1\n",
        "\n" + EXAMPLE,
        EXAMPLE.replace("example.com/behind-the-sofa", ""),
        EXAMPLE.replace("20852163", "020852163"),
        EXAMPLE.replace("20852163", "+20852163"),
        EXAMPLE.replace("20852163", "-1"),
        EXAMPLE.replace("20852163", " 20852163"),
        EXAMPLE.replace("20852163", "20_852_163"),
        EXAMPLE.replace("20852163", "2e7"),
        EXAMPLE.replace("20852163", "٢"),
        EXAMPLE.replace("20852163", ""),
        EXAMPLE.replace("20852163", "00"),
        EXAMPLE.replace("20852163", "0"),
        EXAMPLE.replace("20852163", str(MAX_SIZE + 1)),
        EXAMPLE.replace("20852163", "9" * 5_000),
        EXAMPLE.replace("q2I=", "q2I"),
        EXAMPLE.replace("q2I=", "q2J="),
        EXAMPLE.replace("q2I=", "q2I=\r"),
        EXAMPLE.replace("/Xajj", "_Xajj"),
        EXAMPLE.replace("CsUY", ""),
        EXAMPLE.replace("CsUYapGG", "CsUYapGGAAAA"),
    ],
)
def test_what_is_not_a_checkpoint_is_refused(text: str) -> None:
    assert text != EXAMPLE
    with pytest.raises(CheckpointInvalid):
        parse_checkpoint(text)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    for tried in (text, f"o\n{text}\nAAAA\n", f"o\n1\n{text}\n"):
        with contextlib.suppress(CheckpointInvalid):
            assert parse_checkpoint(tried).body() == tried


@pytest.mark.parametrize(("origin", "size", "root"), [("", 1, 32), ("a\nb", 1, 32), ("o", -1, 32), ("o", 1, 31)])
def test_no_impossible_checkpoint_can_be_made(origin: str, size: int, root: int) -> None:
    with pytest.raises(CheckpointInvalid):
        Checkpoint(origin, size, b"x" * root)
