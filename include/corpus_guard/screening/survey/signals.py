"""Measures of each version: a few cheap numbers and a MinHash, about 500 bytes, no text.

Sources: MinHash, Broder 1997, "On the resemblance and containment of documents", with datasketch 2's
permutations; `variety` is Herdan's C (log types / log tokens), which depends far less on length than the
plain type-token ratio.
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpus_guard.domain import TrustLevel, Version
from corpus_guard.screening.wording import WORD_OR_IDEOGRAPH

if TYPE_CHECKING:
    from datasketch import MinHash

SIGNALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # name: unit; what it is for
        "chars": "code points of the text; length against the source's own",
        "words": "words (an ideograph or kana is one); the denominator of three below",
        "tokens": "embedder tokens of all chunks; what the text costs",
        "hidden_chars": "code points a reader does not see; instructions are put there",
        "hidden": "share of hidden in all code points",
        "letters": "share of letters and marks; blobs, tables and noise have few",
        "digits": "share of digits; encoded payloads and number dumps have many",
        "punctuation": "share of punctuation and symbols that are not markup",
        "markup": "share of <>[]{}|#*_`=~^\\; markup left over by parsing, or code",
        "white_space": "share of white space; spaced-out words, padding",
        "upper_case": "share of upper case in letters; shouting, base64",
        "non_ascii": "share of code points past U+007F; another script in a source of one script",
        "control": "share of control, unassigned, private-use, surrogate and replacement characters; decoding damage",
        "word_length": "mean code points a word; gibberish suffixes and blobs are long",
        "variety": "log(different words) / log(words); stuffing lowers it",
        "fragmentation": "embedder tokens a word; adversarial suffixes and encodings break into many",
        "longest_line": "code points; minified code, payloads pushed out of sight",
        "longest_run": "code points without white space (a new letter of a script without case ends a run); blobs",
    }
)

LOGARITHMIC: Final = frozenset(
    {"chars", "words", "tokens", "hidden_chars", "longest_line", "longest_run", "fragmentation"}
)
"""Heavy-tailed: compared as log(1 + value)."""

PERMUTATIONS: Final = 64
MIN_WORDS: Final = 12  # a shorter text resembles too many others by chance and gets the empty MinHash
RUNNING_LINE: Final = 8  # words of a line that is more than a label, a heading or an entry of a menu
RUNNING_TEXT: Final = 60  # words in such lines from which they alone are compared
MAX_SHINGLES: Final = 4096  # past it, a bottom-k sketch of the shingles, the same ones for similar texts

_ADDRESS: Final = re.compile(r"\([a-z]{2,10}:[^\s()]*\)")  # of a link, as parsing writes it
_MARKUP = "<>[]{}|#*_`=~^\\"
_UPPER, _LETTER, _CASELESS, _MARK, _DIGIT, _PUNCTUATION, _MARKING, _SPACE, _CONTROL, _FORMAT = range(10)


@dataclass(frozen=True, slots=True)
class Signals:
    """Measures of one version."""

    version_id: str
    doc_id: str
    source: str
    trust: TrustLevel
    text_sha256: str  # hex
    values: Mapping[str, float]  # every name of SIGNALS; finite
    minhash: bytes  # PERMUTATIONS uint32, little-endian


SIGNALS_SCHEMA: Final = pa.schema(
    [
        pa.field("version_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("trust", pa.string(), nullable=False),
        pa.field("text_sha256", pa.string(), nullable=False),
        pa.field(
            "values", pa.struct([pa.field(name, pa.float64(), nullable=False) for name in SIGNALS]), nullable=False
        ),
        pa.field("minhash", pa.binary(4 * PERMUTATIONS), nullable=False),
    ]
)


def measure_signals(version: Version) -> Signals:
    """Measure one version. Any text, lone surrogates included, gives finite numbers."""
    words = WORD_OR_IDEOGRAPH.findall(version.text.casefold())
    return Signals(
        version_id=version.version_id,
        doc_id=version.doc_id,
        source=version.stamp.source,
        trust=version.stamp.trust,
        text_sha256=version.text_sha256,
        values=_measure(version, words),
        minhash=_minhash(_compared_words(version.text, words)),
    )


def compute_minhash(text: str) -> bytes:
    """Return the MinHash of a version with this text: of its running words, or of all where these are few."""
    return _minhash(_compared_words(text, WORD_OR_IDEOGRAPH.findall(text.casefold())))


def running_words(text: str) -> list[str]:
    """Return the words of lines of RUNNING_LINE words or more, lower case; addresses of links are left out.

    All pages of a site share its menus and labels, so these say nothing about what two pages have in common.
    """
    lines = map(WORD_OR_IDEOGRAPH.findall, _ADDRESS.sub("", text.casefold()).splitlines())
    return [word for line in lines if len(line) >= RUNNING_LINE for word in line]


def _compared_words(text: str, words: list[str]) -> list[str]:
    running = running_words(text)
    return running if len(running) >= RUNNING_TEXT else words


def measure_values(version: Version) -> dict[str, float]:
    """Return only the numbers of `measure_signals`, without the MinHash."""
    return _measure(version, WORD_OR_IDEOGRAPH.findall(version.text.casefold()))


def scale_value(name: str, value: float) -> float:
    """Return the value on the scale on which it is compared: logarithmic for lengths."""
    return math.log1p(max(value, 0.0)) if name in LOGARITHMIC else value


def signals_to_table(signals: Sequence[Signals]) -> pa.Table:
    """Return a table in `SIGNALS_SCHEMA` with one row for each version."""
    columns = {
        "version_id": [item.version_id for item in signals],
        "doc_id": [item.doc_id for item in signals],
        "source": [item.source for item in signals],
        "trust": [item.trust.value for item in signals],
        "text_sha256": [item.text_sha256 for item in signals],
        "values": [dict(item.values) for item in signals],
        "minhash": [item.minhash for item in signals],
    }
    return pa.Table.from_pydict(columns, schema=SIGNALS_SCHEMA)


def signals_from_table(table: pa.Table) -> list[Signals]:
    """Read the output of `signals_to_table`.

    Raises:
        pa.ArrowInvalid: the table does not have `SIGNALS_SCHEMA`.
    """
    rows = table.cast(SIGNALS_SCHEMA).to_pylist()
    return [Signals(**{**row, "trust": TrustLevel(row["trust"])}) for row in rows]


def _measure(version: Version, words: list[str]) -> dict[str, float]:
    text = version.text
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kinds()[points]
    count = np.bincount(kinds, minlength=10).tolist()
    chars, hidden, tokens = len(text), len(version.hidden), sum(chunk.tokens for chunk in version.chunks)
    letters = count[_UPPER] + count[_LETTER] + count[_CASELESS] + count[_MARK]
    each = 1.0 / max(chars, 1)
    return {
        "chars": float(chars),
        "words": float(len(words)),
        "tokens": float(tokens),
        "hidden_chars": float(hidden),
        "hidden": hidden / max(chars + hidden, 1),
        "letters": letters * each,
        "digits": count[_DIGIT] * each,
        "punctuation": count[_PUNCTUATION] * each,
        "markup": count[_MARKING] * each,
        "white_space": count[_SPACE] * each,
        "upper_case": count[_UPPER] / max(letters, 1),
        "non_ascii": 0.0 if text.isascii() else int(np.count_nonzero(points > 0x7F)) * each,
        "control": count[_CONTROL] * each,
        "word_length": sum(map(len, words)) / max(len(words), 1),
        "variety": math.log(len(set(words))) / math.log(len(words)) if len(words) > 1 else 1.0,
        "fragmentation": tokens / max(len(words), 1),
        "longest_line": float(max(map(len, text.splitlines()), default=0)),
        "longest_run": float(_longest_run(points, kinds)),
    }


def _longest_run(points: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> int:
    # Chinese, Japanese and Thai are written without spaces, so there every letter that differs from the one
    # before ends a run; a million times the same ideograph is still one run.
    if not len(points):
        return 0
    ends = kinds == _SPACE
    if (kinds == _CASELESS).any():
        ends[1:] |= (kinds[1:] == _CASELESS) & (points[1:] != points[:-1])
    stops = np.flatnonzero(ends)
    return int(np.diff(stops, prepend=-1, append=len(points)).max() - 1)


@cache
def _kinds() -> NDArray[np.uint8]:
    """Return the kind of every code point, by its Unicode category; built once (1.1 MB, 0.2 s)."""
    groups = {"Lu": _UPPER, "Lt": _UPPER, "Ll": _LETTER, "Lm": _LETTER, "Lo": _CASELESS, "Cf": _FORMAT}
    families = {"M": _MARK, "N": _DIGIT, "P": _PUNCTUATION, "S": _PUNCTUATION, "Z": _SPACE, "C": _CONTROL}
    kinds = np.empty(0x110000, dtype=np.uint8)
    for point in range(0x110000):
        category = unicodedata.category(chr(point))
        kinds[point] = groups[category] if category in groups else families[category[0]]
    kinds[[ord(character) for character in _MARKUP]] = _MARKING
    kinds[[*range(0x09, 0x0E), *range(0x1C, 0x20), 0x85]] = _SPACE  # control characters by category, white space by use
    kinds[0xFFFD] = _CONTROL  # what a decoder writes where it could not read
    kinds.flags.writeable = False
    return kinds


@cache
def _sketcher() -> MinHash:
    from datasketch import MinHash  # brings half of scipy: a refresh that finds nothing new does without

    # A seed that an attacker knows gains nothing here: to look unlike a known text, changing the text is
    # easier.
    return MinHash(num_perm=PERMUTATIONS, seed=1, scheme="affine32", hashfunc=_identity)


def _identity(value: int) -> int:
    return value


def _minhash(words: list[str]) -> bytes:
    sketch = _sketcher().copy()
    if len(words) >= MIN_WORDS:
        sketch.update_batch(_shingles(words).tolist())
    values: NDArray[np.uint32] = sketch.hashvalues
    return values.astype("<u4").tobytes()


def _shingles(words: list[str]) -> NDArray[np.uint32]:
    """Return 32-bit hashes of all runs of three words; order is kept inside a shingle, not between them."""
    crc32 = zlib.crc32
    hashes = np.array([crc32(word.encode("utf-8", "surrogatepass")) for word in words], dtype=np.uint64)
    mixed = hashes[:-2] * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29)) ^ hashes[1:-1]) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(32)) ^ hashes[2:]) * np.uint64(0x94D049BB133111EB)
    shingles = (mixed >> np.uint64(32)).astype(np.uint32)
    if len(shingles) <= MAX_SHINGLES:
        return shingles
    return np.unique(shingles)[:MAX_SHINGLES]  # the smallest hashes, so similar texts keep the same shingles
