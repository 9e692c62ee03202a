"""What a model's states were when it answered: recorded once for each prompt, kept in files, read back with what the answer amounted to.

Rules
    * the label is what the model *answered*, as in the paper: the right answer, or the attacker's from texts among which one is planted.
      An answer that is neither or says both is kept apart, and so is an attacker's answer where nobody attacked; that a text was planted
      is no label;
    * a recording has an id from the model, the wording of the prompt, question, texts and answers: it is made once, and a collection that
      was killed goes on with what is missing;
    * a shard is a safetensors file (states, bfloat16 as they were computed) and a Parquet file (everything else), written whole or not at
      all; no text that was retrieved is kept, only the hash of the prompt and the model's short answer;
    * states that are no numbers are an error, never a recording.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import digest
from corpus_guard.errors import Inconsistent, JudgeFailed, Misuse
from corpus_guard.traceback.asking import agrees

if TYPE_CHECKING:
    from corpus_guard.models import Models

PROMPT_VERSION: Final = "rag-chat/1"
"""Changes with the wording of the prompt (`corpus_guard.corpus.filterrag.features.question_to`) or with what is read of a state."""
ANSWER_TOKENS: Final = 24
SHARD: Final = 32  # prompts: what is lost when a collection is killed

Progress = Callable[[str, int, int | None], object]


class Answered(StrEnum):
    """What an answer amounts to."""

    ATTACKER = "attacker"
    RIGHT = "right"
    BOTH = "both"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Prompted:
    """A question and the texts it is to be answered from, with what is true of them."""

    key: str  # of the question: what is split by
    source: str  # of the question: the data set
    kind: str  # how the texts came together
    planted: int  # how many of the texts the attacker wrote
    question: str
    texts: tuple[str, ...]
    correct: tuple[str, ...]  # any of them is right
    incorrect: tuple[str, ...]  # any of them is the attacker's


@dataclass(frozen=True, slots=True)
class Recorded:
    """One prompt that was read, without its state."""

    sample: str  # id
    key: str
    source: str
    kind: str
    planted: int
    texts: int
    tokens: int  # of the prompt
    answered: Answered
    answer: str
    log_probability: float  # joint, of the answer; nats


@dataclass(frozen=True)
class Recordings:
    """Prompts that were read and the states they were read into."""

    model: str  # digest of the language model
    prompt: str  # version of the wording
    rows: tuple[Recorded, ...]
    states: NDArray[np.float32]  # [rows, layers + 1, hidden]

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, wanted: Callable[[Recorded], bool]) -> Recordings:
        """Those that are wanted, in their order."""
        kept = [number for number, row in enumerate(self.rows) if wanted(row)]
        return Recordings(self.model, self.prompt, tuple(self.rows[number] for number in kept), self.states[kept])

    @property
    def labelled(self) -> Recordings:
        """Those whose answer is right, or was led to by a planted text."""
        return self.where(
            lambda row: row.answered is Answered.RIGHT or (row.answered is Answered.ATTACKER and row.planted > 0)
        )

    @property
    def poisoned(self) -> NDArray[np.bool_]:
        """Of each whether the answer was the attacker's; shape [rows]."""
        return np.array([row.answered is Answered.ATTACKER for row in self.rows], bool)


def judged(answer: str, correct: Sequence[str], incorrect: Sequence[str]) -> Answered:
    """What an answer amounts to, word for word (`corpus_guard.traceback.asking.agrees`)."""
    right = any(agrees(answer, one) for one in correct)
    wrong = any(agrees(answer, one) for one in incorrect)
    if right and wrong:
        return Answered.BOTH
    return Answered.RIGHT if right else Answered.ATTACKER if wrong else Answered.NEITHER


def sample_id(model: str, one: Prompted) -> str:
    """What a recording depends on, and where it is counted."""
    lists = [part for texts in (one.texts, one.correct, one.incorrect) for part in (str(len(texts)), *texts)]
    about = [model, PROMPT_VERSION, one.key, one.source, one.kind, str(one.planted), one.question]
    return digest("activation/v1", [*about, *lists])[:32]


def collect(
    models: Models,
    prompts: Sequence[Prompted],
    folder: Path,
    *,
    shard: int = SHARD,
    progress: Progress = lambda what, done, total: None,
) -> Recordings:
    """Read prompts that were not read before, and return all of them.

    Args:
        models: whose language model answers.
        prompts: what is read.
        folder: of the shards; made where it is missing. Others may collect into it at the same time.
        shard: prompts of a file.
        progress: told how many are done.

    Raises:
        SettingsError: the language model gives no hidden states.
        JudgeFailed: a state holds something that is no number.
        Inconsistent: a file of the folder is damaged.
    """
    from corpus_guard.corpus.filterrag.features import question_to

    folder.mkdir(parents=True, exist_ok=True)
    model = models.language_model.digest
    ids = [sample_id(model, one) for one in prompts]
    known = {
        row["sample"]
        for path in sorted(folder.glob("*.parquet"))
        for row in _table(path).select(["sample"]).to_pylist()
    }
    missing = [(name, one) for name, one in dict(zip(ids, prompts, strict=True)).items() if name not in known]
    for start in range(0, len(missing), shard):
        progress("reading", len(prompts) - len(missing) + start, len(prompts))
        part = missing[start : start + shard]
        read = models.language_model.activations(
            [question_to(one.question, one.texts) for _, one in part], ANSWER_TOKENS
        )
        states = np.stack([one.states for one in read])
        checked(states, "the language model's states")
        rows = [
            Recorded(
                sample=name,
                key=one.key,
                source=one.source,
                kind=one.kind,
                planted=one.planted,
                texts=len(one.texts),
                tokens=said.tokens,
                answered=judged(said.answered.text, one.correct, one.incorrect),
                answer=said.answered.text,
                log_probability=said.answered.log_probability,
            )
            for (name, one), said in zip(part, read, strict=True)
        ]
        _write(folder, model, rows, states)
    return load(folder, model, ids)


def present(models: Models, prompts: Sequence[Prompted], folder: Path) -> Recordings:
    """Of these prompts those that were read before; loads the language model for its digest, and reads nothing.

    Raises:
        Misuse: none was.
        Inconsistent: a file of the folder is damaged.
    """
    model = models.language_model.digest
    known = {
        row["sample"]
        for path in sorted(folder.glob("*.parquet"))
        for row in _table(path).select(["sample"]).to_pylist()
    }
    return load(
        folder, model, [name for name in dict.fromkeys(sample_id(model, one) for one in prompts) if name in known]
    )


def load(folder: Path, model: str | None = None, ids: Sequence[str] | None = None) -> Recordings:
    """Read recordings back.

    Args:
        folder: of the shards.
        model: only of this language model; else of the only one there is.
        ids: only these, in this order; else all, by id.

    Raises:
        Misuse: there is none, or they are of several models or shapes.
        Inconsistent: a file is damaged, or a recording that is asked for is not there.
    """
    from safetensors.torch import load_file

    found: dict[str, tuple[Recorded, NDArray[np.float32]]] = {}
    models: set[str] = set()
    for path in sorted(folder.glob("*.parquet")) if folder.is_dir() else ():
        table = _table(path)
        rows = table.to_pylist()
        theirs = {(row.pop("model"), row.pop("prompt")) for row in rows}
        theirs = {one for one in theirs if one[1] == PROMPT_VERSION and model in {None, one[0]}}
        if not theirs:
            continue
        models |= {one[0] for one in theirs}
        try:
            states = load_file(path.with_suffix(".safetensors"))["states"].float().numpy()
        except Exception as error:  # safetensors raises several, and a file may be missing
            raise Inconsistent(
                f"recordings {path.with_suffix('.safetensors')}: {type(error).__name__}; remove it with its .parquet, and collect again"
            ) from error
        if len(states) != len(rows):
            raise Inconsistent(
                f"recordings {path}: {len(rows)} rows and {len(states)} states; remove both files, and collect again"
            )
        for row, state in zip(rows, states, strict=True):
            found[row["sample"]] = (Recorded(**{**row, "answered": Answered(row["answered"])}), state)
    wanted = list(ids) if ids is not None else sorted(found)
    lost = [name for name in wanted if name not in found]
    if lost:
        raise Inconsistent(f"recordings in {folder}: {len(lost)} of {len(wanted)} are not there; collect again")
    if not wanted:
        raise Misuse(f"recordings in {folder}: none of prompt {PROMPT_VERSION}; collect some first")
    if len(models) != 1:
        raise Misuse(f"recordings in {folder}: of {len(models)} language models; one probe knows one, so name it")
    shapes = {found[name][1].shape for name in wanted}
    if len(shapes) != 1:
        raise Inconsistent(f"recordings in {folder}: states of shapes {sorted(shapes)}; expected one, of one model")
    return Recordings(
        models.pop(),
        PROMPT_VERSION,
        tuple(found[name][0] for name in wanted),
        np.stack([found[name][1] for name in wanted]),
    )


def checked(states: NDArray[np.float32], what: str) -> None:
    """Refuse what is no number.

    Raises:
        JudgeFailed: there is one.
    """
    bad = int((~np.isfinite(states)).any(axis=tuple(range(1, states.ndim))).sum())
    if bad:
        raise JudgeFailed(
            f"{what}: {bad} of {len(states)} hold NaN or infinity, expected finite numbers; see that the language model is whole "
            "(`guard models prepare`)"
        )


def _write(folder: Path, model: str, rows: Sequence[Recorded], states: NDArray[np.float32]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch
    from safetensors.torch import save_file

    name = digest("activations/shard", [row.sample for row in rows])[:32]
    schema = pa.schema(_schema())
    data = [
        {"model": model, "prompt": PROMPT_VERSION, **{key: getattr(row, key) for key in Recorded.__slots__}}
        for row in rows
    ]
    with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as scratch:
        save_file({"states": torch.from_numpy(states).to(torch.bfloat16)}, f"{scratch}/states")
        pq.write_table(pa.Table.from_pylist(data, schema), f"{scratch}/rows")
        Path(scratch, "states").replace(folder / f"{name}.safetensors")
        Path(scratch, "rows").replace(folder / f"{name}.parquet")  # last: rows without states are never seen


def _schema() -> list[Any]:
    import pyarrow as pa

    text, count = pa.string(), pa.int32()
    return [
        pa.field("model", text, nullable=False),
        pa.field("prompt", text, nullable=False),
        pa.field("sample", text, nullable=False),
        pa.field("key", text, nullable=False),
        pa.field("source", text, nullable=False),
        pa.field("kind", text, nullable=False),
        pa.field("planted", count, nullable=False),
        pa.field("texts", count, nullable=False),
        pa.field("tokens", count, nullable=False),
        pa.field("answered", text, nullable=False),
        pa.field("answer", text, nullable=False),
        pa.field("log_probability", pa.float64(), nullable=False),
    ]


def _table(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, schema=pa.schema(_schema()))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise Inconsistent(
            f"recordings {path}: {type(error).__name__}; remove it with its .safetensors, and collect again"
        ) from error
