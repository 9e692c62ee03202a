"""Prompts to record, from questions under attack in PoisonedRAG's format.

    {"id", "question", "correct_answer", "incorrect_answer", "adversarial_texts", "clean_texts"}

``dataset`` names the data set of a question (default: the file's name). ``payload_texts`` are planted instead
of ``adversarial_texts`` if those begin with words for the retriever only. ``gold_texts`` are honest texts
used if there are no ``clean_texts``.

Rules
    * a question with fewer honest texts than are retrieved gets the nearest of a collection (`Passages`) if
      one of them contains the right answer; a text that contains the attacker's answer never counts as
      honest;
    * both classes have prompts with one to five texts: neither the number of texts nor the prompt's length
      may reveal the label;
    * *clean* prompts use texts that contain the right answer, each alone, and longer prompts begin with one:
      right answers from honest texts are needed, and they are rarer than answers from planted texts;
    * *look-alike* prompts use adversarial texts with the right answer in place of the wrong one. They are no
      attack but written like one: a probe that recognises style instead of poison accuses them;
    * a question is in one half only, with everything that was planted for it. The half is decided by the
      question alone.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final

from corpus_guard.attacks.misspelling import misspell
from corpus_guard.detectors.passages import Passages
from corpus_guard.detectors.samples import Row, question_key, read_rows
from corpus_guard.detectors.target_questions import TargetQuestion, parse_target
from corpus_guard.errors import Misuse
from corpus_guard.traceback.activations.recording import LabelledPrompt
from corpus_guard.traceback.rag_model import agrees

RETRIEVED_TEXTS: Final = 5
MAX_ANSWER_WORDS: Final = 5  # a longer answer is a sentence, which no model repeats word for word
TEST_SHARE: Final = 0.35  # of the questions; they are never trained on
NOISE_SHARE: Final = 0.1  # words misspelt in a noisy text; half of the clean texts are noisy (section 5.5 of the paper)
SINGLE_TEXT_PROMPTS: Final = 3  # honest texts that are each used alone: a small model finds the answer in few of them
MAX_TABLE_QUESTIONS: Final = 40  # of a data set, for each row of a table beyond `build_prompts`
NO_PASSAGES: Final = Passages([])


def is_tested(key: str) -> bool:
    """Return whether a question is tested on, and so never trained on; the key alone decides."""
    drawn = int.from_bytes(hashlib.sha256(b"activations/" + key.encode()).digest()[:4], "big")
    return drawn / 2**32 < TEST_SHARE


def build_prompts(
    paths: Sequence[Path], *, passages: Passages = NO_PASSAGES, limit: int | None = None, seed: int = 0
) -> list[LabelledPrompt]:
    """Return prompts of every kind except *noisy* and *variant*.

    The first questions of every file come first.

    Args:
        passages: honest texts for questions with few of their own.

    Raises:
        Misuse: a file cannot be read, or no question has the fields that a prompt needs.
    """
    files = [
        [
            list(_question_prompts(target, source, _random_for(seed, target)))
            for source, target in _read_usable(path, passages, limit)
        ]
        for path in paths
    ]
    prompts = [
        prompt
        for row in zip_longest(*files)
        for of_question in row
        if of_question is not None
        for prompt in of_question
    ]
    if not prompts:
        raise Misuse(
            f"{', '.join(map(str, paths))}: no question with a correct_answer, an incorrect_answer and adversarial_texts; expected "
            "rows in PoisonedRAG's format"
        )
    return list(dict.fromkeys(sorted(prompts, key=lambda prompt: prompt.kind == "mixed")))  # mixed ones last


def _read_usable(path: Path, passages: Passages, limit: int | None) -> Iterator[tuple[str, TargetQuestion]]:
    """Return data set and question of each row whose answers can be told apart."""
    for place, row in islice(read_rows(path), limit):
        texts = {
            "adversarial_texts": row.get("payload_texts") or row.get("adversarial_texts"),
            "clean_texts": row.get("clean_texts") or row.get("gold_texts"),
        }
        target, _ = parse_target({**row, **texts}, place)
        if is_usable(target):
            yield str(row.get("dataset") or path.stem), _add_passages(target, passages)


def _add_passages(target: TargetQuestion, passages: Passages) -> TargetQuestion:
    if len(target.clean) >= RETRIEVED_TEXTS:
        return target
    nearest = [text for text in passages.nearest(target.question) if text not in target.clean]
    answered = any(agrees(text, answer) for text in nearest for answer in target.correct)
    return replace(target, clean=(*target.clean, *nearest)) if answered or target.clean else target


def _random_for(seed: int, target: TargetQuestion) -> random.Random:
    return random.Random(f"activations {seed} {target.key}")  # noqa: S311 - a sample, no secret


def is_usable(target: TargetQuestion) -> bool:
    """Return whether a model's short answer can be recognised as the right one or the attacker's."""
    short = [len(answer.split()) <= MAX_ANSWER_WORDS for answer in (*target.correct[:1], *target.incorrect[:1])]
    return len(short) == 2 and all(short) and bool(target.adversarial)


def _question_prompts(target: TargetQuestion, source: str, rng: random.Random) -> Iterator[LabelledPrompt]:
    empty = LabelledPrompt(
        question_key(target.question), source, "", 0, target.question, (), target.correct, target.incorrect
    )
    planted = list(target.adversarial[:RETRIEVED_TEXTS])
    lookalikes = target.corrected_texts(RETRIEVED_TEXTS)
    clean = _honest_texts(target)
    if clean:
        answering = [text for text in clean if any(agrees(text, answer) for answer in target.correct)]
        alone = [(text,) for text in answering[:SINGLE_TEXT_PROMPTS] or clean[:1]]
        for texts in dict.fromkeys([*alone, tuple(clean[:SINGLE_TEXT_PROMPTS])]):
            yield replace(empty, kind="clean", texts=texts)
        retrieved = clean[:RETRIEVED_TEXTS]
        yield replace(empty, kind="clean", texts=tuple(rng.sample(retrieved, len(retrieved))))
    some = rng.randint(1, len(planted))
    for count in dict.fromkeys((some, len(planted))):
        yield replace(empty, kind="planted", planted=count, texts=tuple(planted[:count]))
    if lookalikes:
        yield replace(empty, kind="look-alike", texts=tuple(lookalikes[: rng.randint(1, len(lookalikes))]))
    if len(clean) >= RETRIEVED_TEXTS - 1:
        yield mixed_prompt(target, source, rng.randint(1, min(RETRIEVED_TEXTS - 1, len(planted))))


def mixed_prompt(target: TargetQuestion, source: str, planted: int) -> LabelledPrompt:
    """Return a prompt with five texts, the first `planted` of them the attacker's.

    Planted texts come first, as they are nearest to the question.
    """
    texts = (*target.adversarial[:planted], *target.clean[: RETRIEVED_TEXTS - planted])
    key = question_key(target.question)
    return LabelledPrompt(key, source, "mixed", planted, target.question, texts, target.correct, target.incorrect)


def noisy_prompt(prompt: LabelledPrompt, seed: int = 0) -> LabelledPrompt:
    """Return a clean prompt with a tenth of the words of half of its texts misspelt, except the answers.

    Of an odd number of texts, the half is rounded up or down by chance.
    """
    keep = (*prompt.correct, *prompt.incorrect)
    rng = random.Random(f"noise {seed} {prompt.key}")  # noqa: S311 - a sample, no secret
    count = len(prompt.texts)
    noisy = rng.sample(range(count), count // 2 + rng.randrange(count % 2 + 1))
    texts = tuple(
        misspell(text, keep, NOISE_SHARE, f"{seed} {number}") if number in noisy else text
        for number, text in enumerate(prompt.texts)
    )
    return replace(prompt, kind="noisy", texts=texts)


def _honest_texts(target: TargetQuestion) -> list[str]:
    """Return the clean texts without the attacker's answer, those with a right answer first."""
    honest = [text for text in target.clean if not any(agrees(text, answer) for answer in target.incorrect)]
    return sorted(honest, key=lambda text: not any(agrees(text, answer) for answer in target.correct))


def build_table_prompts(
    paths: Sequence[Path],
    variants: Sequence[Path],
    *,
    passages: Passages = NO_PASSAGES,
    limit: int | None = None,
    seed: int = 0,
) -> list[LabelledPrompt]:
    """Return prompts for the tables beyond `build_prompts`, for tested questions only.

    They have noisy clean texts; one to four planted texts among five; or texts of other attacks.

    Args:
        variants: JSONL with ``question``, ``correct_answer``, ``incorrect_answer``, ``adversarial_texts`` and
            ``attack``, such as GARAG's typos and HotFlip's prefixes; the kind of a prompt is its attack. Rows
            without both answers are left out.

    Raises:
        Misuse: a file cannot be read, or a row lacks a field.
    """
    prompts: list[LabelledPrompt] = []
    counts: Counter[tuple[str, str]] = Counter()
    for source, target in (usable for path in paths for usable in _read_usable(path, passages, limit)):
        if not is_tested(question_key(target.question)) or len(target.clean) < RETRIEVED_TEXTS:
            continue
        if counts[source, ""] >= MAX_TABLE_QUESTIONS:
            continue
        counts[source, ""] += 1
        prompts += [
            noisy_prompt(prompt, seed)
            for prompt in _question_prompts(target, source, _random_for(seed, target))
            if prompt.kind == "clean" and len(prompt.texts) == RETRIEVED_TEXTS
        ]
        most = min(RETRIEVED_TEXTS - 1, len(target.adversarial))
        prompts += [mixed_prompt(target, source, planted) for planted in range(1, most + 1)]
    for path in variants:
        for place, row in read_rows(path):
            if not row.get("correct_answer") or not row.get("incorrect_answer"):  # its answers cannot be told apart
                continue
            prompt = _variant_prompt(row, path, place)
            if is_tested(prompt.key) and counts[prompt.source, prompt.kind] < MAX_TABLE_QUESTIONS:
                counts[prompt.source, prompt.kind] += 1
                prompts.append(prompt)
    return list(dict.fromkeys(prompts))


def _variant_prompt(row: Row, path: Path, place: str) -> LabelledPrompt:
    question = row.get("question")
    correct, incorrect, planted = (
        _string_list(row.get(name)) for name in ("correct_answer", "incorrect_answer", "adversarial_texts")
    )
    if not isinstance(question, str) or not correct or not incorrect or not planted:
        raise Misuse(f"{place}: expected question, correct_answer, incorrect_answer and adversarial_texts, of strings")
    source = str(row.get("dataset") or path.stem)
    kind = str(row.get("attack") or "variant")[:40]
    texts = planted[:RETRIEVED_TEXTS]
    return LabelledPrompt(question_key(question), source, kind, len(texts), question, texts, correct, incorrect)


def _string_list(value: object) -> tuple[str, ...]:
    """Return a string, a number or a list of strings as a tuple; empty for anything else."""
    values = [str(value)] if isinstance(value, str | int) else value
    if not isinstance(values, list) or not all(isinstance(part, str) for part in values):
        return ()
    return tuple(values)
