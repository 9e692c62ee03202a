"""Recordings of a model's states as it answers, labelled by what was answered.

Rules
    * the label is what the model *answered*, as in the paper: the right answer, or the attacker's from texts
      of which one is planted. An answer that is neither or both is kept apart, and so is an attacker's answer
      where no text was planted; that a text was planted is no label;
    * a recording has an id from model, prompt version, question, texts and answers. It is made once, and a
      collection that was killed continues with what is missing;
    * a shard is a safetensors file (states, bfloat16 as computed) and a Parquet file (everything else), each
      written whole or not at all. No retrieved text is stored, only the hash of the prompt and the model's
      short answer;
    * states that are not finite are an error, never a recording.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.features import build_chat
from corpus_guard.domain import Progress, digest, no_progress
from corpus_guard.errors import Inconsistent, JudgeFailed, Misuse
from corpus_guard.models import Models
from corpus_guard.traceback.rag_model import agrees

if TYPE_CHECKING:
    import pyarrow as pa

PROMPT_VERSION: Final = "rag-chat/1"
"""Changes with the prompt (`corpus_guard.corpus.filterrag.features.build_chat`) or with what is read of a state."""
ANSWER_TOKENS: Final = 24
PROMPTS_PER_SHARD: Final = 32  # what is lost when a collection is killed


class AnswerKind(StrEnum):
    """Kind of an answer: whose answer it is."""

    ATTACKER = "attacker"
    RIGHT = "right"
    BOTH = "both"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class LabelledPrompt:
    """Question with the texts to answer it from, and the truth about them."""

    key: str  # of the question: questions are split by it
    source: str  # of the question: the data set
    kind: str  # how the texts were put together
    planted: int  # how many of the texts the attacker wrote
    question: str
    texts: tuple[str, ...]
    correct: tuple[str, ...]  # any of them is right
    incorrect: tuple[str, ...]  # any of them is the attacker's


@dataclass(frozen=True, slots=True)
class Recording:
    """One prompt that was read, without its state."""

    sample: str  # id
    key: str
    source: str
    kind: str
    planted: int
    texts: int
    tokens: int  # of the prompt
    answered: AnswerKind
    answer: str
    log_probability: float  # joint, of the answer; nats


@dataclass(frozen=True)
class Recordings:
    """Prompts that were read, and the states they led to."""

    model: str  # digest of the language model
    prompt: str  # version of the wording
    rows: tuple[Recording, ...]
    states: NDArray[np.float32]  # [rows, layers + 1, hidden]

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, predicate: Callable[[Recording], bool]) -> Recordings:
        """Return the recordings for which `predicate` holds, in their order."""
        indexes = [index for index, row in enumerate(self.rows) if predicate(row)]
        rows = tuple(self.rows[index] for index in indexes)
        return Recordings(self.model, self.prompt, rows, self.states[indexes])

    @property
    def labelled(self) -> Recordings:
        """Recordings whose answer is right, or is the attacker's and a text was planted."""
        return self.select(
            lambda row: row.answered is AnswerKind.RIGHT or (row.answered is AnswerKind.ATTACKER and row.planted > 0)
        )

    @property
    def poisoned(self) -> NDArray[np.bool_]:
        """True for each answer that was the attacker's; shape [rows]."""
        return np.array([row.answered is AnswerKind.ATTACKER for row in self.rows], bool)


def classify_answer(answer: str, correct: Sequence[str], incorrect: Sequence[str]) -> AnswerKind:
    """Return whose answer it is, compared by words (`corpus_guard.traceback.rag_model.agrees`)."""
    right = any(agrees(answer, expected) for expected in correct)
    wrong = any(agrees(answer, expected) for expected in incorrect)
    if right and wrong:
        return AnswerKind.BOTH
    return AnswerKind.RIGHT if right else AnswerKind.ATTACKER if wrong else AnswerKind.NEITHER


def sample_id(model: str, prompt: LabelledPrompt) -> str:
    """Return the id of a recording: a hash of everything it depends on, and of where it is counted."""
    lists = [part for texts in (prompt.texts, prompt.correct, prompt.incorrect) for part in (str(len(texts)), *texts)]
    about = [model, PROMPT_VERSION, prompt.key, prompt.source, prompt.kind, str(prompt.planted), prompt.question]
    return digest("activation/v1", [*about, *lists])[:32]


def collect_recordings(
    models: Models,
    prompts: Sequence[LabelledPrompt],
    folder: Path,
    *,
    shard: int = PROMPTS_PER_SHARD,
    progress: Progress = no_progress,
) -> Recordings:
    """Read the prompts that were not read before, and return the recordings of all.

    Args:
        folder: holds the shards; created if missing. Several processes may collect into it at once.

    Raises:
        SettingsError: the language model gives no hidden states.
        JudgeFailed: a state is not finite.
        Inconsistent: a file of the folder is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = models.language_model.digest
    ids = [sample_id(model, prompt) for prompt in prompts]
    recorded = _recorded_samples(folder)
    by_id = dict(zip(ids, prompts, strict=True))
    missing = [(sample, prompt) for sample, prompt in by_id.items() if sample not in recorded]
    for start in range(0, len(missing), shard):
        progress("reading", len(prompts) - len(missing) + start, len(prompts))
        batch = missing[start : start + shard]
        chats = [build_chat(prompt.question, prompt.texts) for _, prompt in batch]
        answers = models.language_model.answer_with_states(chats, ANSWER_TOKENS)
        states = np.stack([answer.states for answer in answers])
        require_finite(states, "the language model's states")
        rows = [
            Recording(
                sample=sample,
                key=prompt.key,
                source=prompt.source,
                kind=prompt.kind,
                planted=prompt.planted,
                texts=len(prompt.texts),
                tokens=answer.tokens,
                answered=classify_answer(answer.answered.text, prompt.correct, prompt.incorrect),
                answer=answer.answered.text,
                log_probability=answer.answered.log_probability,
            )
            for (sample, prompt), answer in zip(batch, answers, strict=True)
        ]
        _write(folder, model, rows, states)
    return load_recordings(folder, model, ids)


def load_existing(models: Models, prompts: Sequence[LabelledPrompt], folder: Path) -> Recordings:
    """Return the recordings of those prompts that were read before; reads no prompt.

    The language model is loaded for its digest.

    Raises:
        Misuse: none of the prompts was read.
        Inconsistent: a file of the folder is damaged.
    """
    model = models.language_model.digest
    recorded = _recorded_samples(folder)
    ids = dict.fromkeys(sample_id(model, prompt) for prompt in prompts)
    return load_recordings(folder, model, [sample for sample in ids if sample in recorded])


def load_recordings(folder: Path, model: str | None = None, ids: Sequence[str] | None = None) -> Recordings:
    """Read recordings from a folder.

    Args:
        model: digest of the language model; None: the only one in the folder.
        ids: only these, in this order; None: all, by id.

    Raises:
        Misuse: there is none, or they belong to several models or shapes.
        Inconsistent: a file is damaged, or one of `ids` is missing.
    """
    from safetensors.torch import load_file

    recordings: dict[str, tuple[Recording, NDArray[np.float32]]] = {}
    models: set[str] = set()
    for path in sorted(folder.glob("*.parquet")) if folder.is_dir() else ():
        table = _table(path)
        rows = table.to_pylist()
        origins = {(row.pop("model"), row.pop("prompt")) for row in rows}
        models_here = {name for name, prompt in origins if prompt == PROMPT_VERSION and model in {None, name}}
        if not models_here:
            continue
        models |= models_here
        states_path = path.with_suffix(".safetensors")
        try:
            states = load_file(states_path)["states"].float().numpy()
        except Exception as error:  # safetensors raises several, and a file may be missing
            raise Inconsistent(
                f"recordings {states_path}: {type(error).__name__}; remove it with its .parquet, and collect again"
            ) from error
        if len(states) != len(rows):
            raise Inconsistent(
                f"recordings {path}: {len(rows)} rows and {len(states)} states; remove both files, and collect again"
            )
        for row, state in zip(rows, states, strict=True):
            recording = Recording(**{**row, "answered": AnswerKind(row["answered"])})
            recordings[recording.sample] = (recording, state)
    samples = list(ids) if ids is not None else sorted(recordings)
    lost = [sample for sample in samples if sample not in recordings]
    if lost:
        raise Inconsistent(f"recordings in {folder}: {len(lost)} of {len(samples)} are missing; collect again")
    if not samples:
        raise Misuse(f"recordings in {folder}: none of prompt {PROMPT_VERSION}; collect some first")
    if len(models) != 1:
        raise Misuse(f"recordings in {folder}: got {len(models)} language models, expected one; name the model to read")
    shapes = {recordings[sample][1].shape for sample in samples}
    if len(shapes) != 1:
        raise Inconsistent(f"recordings in {folder}: states of shapes {sorted(shapes)}; expected one, of one model")
    return Recordings(
        models.pop(),
        PROMPT_VERSION,
        tuple(recordings[sample][0] for sample in samples),
        np.stack([recordings[sample][1] for sample in samples]),
    )


def require_finite(states: NDArray[np.float32], subject: str) -> None:
    """Refuse NaN and infinity.

    Raises:
        JudgeFailed: a row of `states` holds one; `subject` names the rows in the message.
    """
    bad = int((~np.isfinite(states)).any(axis=tuple(range(1, states.ndim))).sum())
    if bad:
        raise JudgeFailed(
            f"{subject}: {bad} of {len(states)} hold NaN or infinity, expected finite numbers; check the "
            "language model's files with `guard models prepare`"
        )


def _recorded_samples(folder: Path) -> set[str]:
    return {
        row["sample"]
        for path in sorted(folder.glob("*.parquet"))
        for row in _table(path).select(["sample"]).to_pylist()
    }


def _write(folder: Path, model: str, rows: Sequence[Recording], states: NDArray[np.float32]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch
    from safetensors.torch import save_file

    name = digest("activations/shard", [row.sample for row in rows])[:32]
    data = [
        {"model": model, "prompt": PROMPT_VERSION, **{key: getattr(row, key) for key in Recording.__slots__}}
        for row in rows
    ]
    with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as scratch:
        save_file({"states": torch.from_numpy(states).to(torch.bfloat16)}, f"{scratch}/states")
        pq.write_table(pa.Table.from_pylist(data, _schema()), f"{scratch}/rows")
        Path(scratch, "states").replace(folder / f"{name}.safetensors")
        Path(scratch, "rows").replace(folder / f"{name}.parquet")  # last: rows without states are never seen


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, count = pa.string(), pa.int32()
    types = {
        "model": text,
        "prompt": text,
        "sample": text,
        "key": text,
        "source": text,
        "kind": text,
        "planted": count,
        "texts": count,
        "tokens": count,
        "answered": text,
        "answer": text,
        "log_probability": pa.float64(),
    }
    return pa.schema([pa.field(name, type_, nullable=False) for name, type_ in types.items()])


def _table(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, schema=_schema())
    except (pa.ArrowException, OSError, KeyError) as error:
        raise Inconsistent(
            f"recordings {path}: {type(error).__name__}; remove it with its .safetensors, and collect again"
        ) from error
