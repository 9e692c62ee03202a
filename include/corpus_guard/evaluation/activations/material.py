"""Prompts to record, from questions under attack in PoisonedRAG's format.

    {"id", "question", "correct_answer", "incorrect_answer", "adversarial_texts", "clean_texts"}

``dataset`` names what a question is from (else the file does); ``payload_texts`` are what is planted where ``adversarial_texts`` have
words before them that only a retriever is meant to read, and ``gold_texts`` are honest where there are no ``clean_texts``.

Rules
    * a question with fewer honest texts than are retrieved gets the nearest of a collection (`Passages`), where one of those has the
      right answer; what holds the attacker's is never taken for honest;
    * both classes come with one to five texts: how many there are, and how long the prompt is, must not give the label away;
    * *clean* prompts are of texts that hold the right answer, each alone, and lead with one where there are more: what is wanted is a right
      answer from honest texts, and those are rarer than led ones;
    * *look-alike* prompts are the adversarial texts with the right answer put in the place of the wrong one. Nobody attacks, and they are
      written as attacks are: a probe that knows style instead of poison accuses them;
    * a question is in one half only, with everything that was planted for it. Which half follows from the question alone.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Final

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.activations.passages import Passages
from corpus_guard.evaluation.attacks.typos import misspelt
from corpus_guard.evaluation.samples import normal, read_rows
from corpus_guard.evaluation.traceback.targets import Target, target_of
from corpus_guard.traceback.activations.recording import Prompted
from corpus_guard.traceback.asking import agrees

K: Final = 5
LONGEST_ANSWER: Final = 5  # words: a longer one is a sentence, and no model says it word for word
TESTED: Final = 0.35  # share of questions that are never trained on
NOISE: Final = 0.1  # share of words misspelt in a noisy clean text (section 5.5 of the paper)

ALONE: Final = 3  # honest texts that hold the right answer, each read alone: a small model finds it in few of them
TABLED: Final = 40  # questions of a data set that each row of a table beyond `prompts_of` is measured on, at most
NO_PASSAGES: Final = Passages([])


def is_tested(key: str) -> bool:
    """Whether a question belongs to the half that is only tested on; follows from the question alone."""
    drawn = int.from_bytes(hashlib.sha256(b"activations/" + key.encode()).digest()[:4], "big")
    return drawn / 2**32 < TESTED


def prompts_of(
    paths: Sequence[Path], *, passages: Passages = NO_PASSAGES, limit: int | None = None, seed: int = 0
) -> list[Prompted]:
    """Prompts of every kind but *noisy* and *variant*, those of the first questions of every file first.

    Args:
        paths: JSONL.
        passages: for questions that bring few honest texts.
        limit: questions of a file, at most.
        seed: which texts stand beside each other.

    Raises:
        Misuse: a file cannot be read, or no question has what a prompt needs.
    """
    files = [
        [list(_prompts(target, source, _chance(seed, target))) for source, target in _targets(path, passages, limit)]
        for path in paths
    ]
    rounds = [[one for one in round_ if one is not None] for round_ in zip_longest(*files)]
    by_kind = [
        one
        for wanted in (False, True)
        for each in chain.from_iterable(rounds)
        for one in each
        if (one.kind == "mixed") is wanted
    ]
    if not by_kind:
        raise Misuse(
            f"{', '.join(map(str, paths))}: no question with a correct_answer, an incorrect_answer and adversarial_texts; expected rows in "
            "PoisonedRAG's format"
        )
    return list(dict.fromkeys(by_kind))


def _targets(path: Path, passages: Passages, limit: int | None) -> Iterator[tuple[str, Target]]:
    """Data set and question of each row that an answer can be told by."""
    for where, row in islice(read_rows(path), limit):
        texts = {
            "adversarial_texts": row.get("payload_texts") or row.get("adversarial_texts"),
            "clean_texts": row.get("clean_texts") or row.get("gold_texts"),
        }
        target, _ = target_of({**row, **texts}, where)
        if usable(target):
            yield str(row.get("dataset") or path.stem), _with_honest(target, passages)


def _with_honest(target: Target, passages: Passages) -> Target:
    if len(target.clean) >= K:
        return target
    found = [text for text in passages.nearest(target.question) if text not in target.clean]
    answered = any(agrees(text, one) for text in found for one in target.correct)
    return replace(target, clean=(*target.clean, *found)) if answered or target.clean else target


def _chance(seed: int, target: Target) -> random.Random:
    return random.Random(f"activations {seed} {target.key}")  # noqa: S311 - a sample, no secret


def usable(target: Target) -> bool:
    """Whether a model's short answer can be told to be the right one or the attacker's."""
    short = [len(answer.split()) <= LONGEST_ANSWER for answer in (*target.correct[:1], *target.incorrect[:1])]
    return len(short) == 2 and all(short) and bool(target.adversarial)


def _prompts(target: Target, source: str, chance: random.Random) -> Iterator[Prompted]:
    plain = Prompted(normal(target.question), source, "", 0, target.question, (), target.correct, target.incorrect)
    planted = list(target.adversarial[:K])
    turned = turned_round(target)
    clean = _leading(target)
    if clean:
        answering = [text for text in clean if any(agrees(text, one) for one in target.correct)]
        for texts in dict.fromkeys([*((text,) for text in answering[:ALONE] or clean[:1]), tuple(clean[:ALONE])]):
            yield replace(plain, kind="clean", texts=texts)
        yield replace(plain, kind="clean", texts=tuple(_shuffled(clean[:K], chance)))
    some = chance.randint(1, len(planted))
    for count in dict.fromkeys((some, len(planted))):
        yield replace(plain, kind="planted", planted=count, texts=tuple(planted[:count]))
    if turned:
        yield replace(plain, kind="look-alike", texts=tuple(turned[: chance.randint(1, len(turned))]))
    if len(clean) >= K - 1:
        yield mixed(target, source, chance.randint(1, min(K - 1, len(planted))))


def mixed(target: Target, source: str, planted: int) -> Prompted:
    """`planted` of the five texts are the attacker's, and stand first: they are nearer to the question than any other."""
    texts = (*target.adversarial[:planted], *target.clean[: K - planted])
    key = normal(target.question)
    return Prompted(key, source, "mixed", planted, target.question, texts, target.correct, target.incorrect)


def noisy(one: Prompted, seed: int = 0) -> Prompted:
    """A clean prompt with a tenth of the words of its texts misspelt; the answers stay."""
    keep = (*one.correct, *one.incorrect)
    texts = tuple(misspelt(text, keep, NOISE, f"{seed} {number}") for number, text in enumerate(one.texts))
    return replace(one, kind="noisy", texts=texts)


def turned_round(target: Target) -> list[str]:
    """Its adversarial texts with the right answer for the wrong one; none where they do not hold it."""
    wrong = re.compile(rf"(?<!\w){re.escape(target.incorrect[0].strip(' .'))}(?!\w)", re.IGNORECASE)
    correct = target.correct[0].strip(" .")
    return [wrong.sub(lambda _: correct, text) for text in target.adversarial[:K] if wrong.search(text)]


def _leading(target: Target) -> list[str]:
    """Its clean texts, those that hold a right answer first, and none that holds the attacker's."""
    honest = [text for text in target.clean if not any(agrees(text, one) for one in target.incorrect)]
    return sorted(honest, key=lambda text: not any(agrees(text, one) for one in target.correct))


def _shuffled(texts: Sequence[str], chance: random.Random) -> list[str]:
    return chance.sample(list(texts), len(texts))


def extras_of(
    paths: Sequence[Path],
    variants: Sequence[Path],
    *,
    passages: Passages = NO_PASSAGES,
    limit: int | None = None,
    seed: int = 0,
) -> list[Prompted]:
    """What a table shows beyond `prompts_of`, of questions that are tested on only.

    Noisy clean texts; one to four planted texts among five, each of them; and texts of other attacks.

    Args:
        paths: as for `prompts_of`.
        variants: JSONL with ``question``, ``correct_answer``, ``incorrect_answer``, ``adversarial_texts`` and ``attack``, such as GARAG's
            typos and HotFlip's prefixes; the kind of a prompt is its attack. Rows without both answers are left out.
        passages: as for `prompts_of`.
        limit: questions of a file, at most.
        seed: which words are misspelt.

    Raises:
        Misuse: a file cannot be read, or a row lacks something.
    """
    found: list[Prompted] = []
    counts: Counter[tuple[str, str]] = Counter()
    for source, target in (each for path in paths for each in _targets(path, passages, limit)):
        if not is_tested(normal(target.question)) or len(target.clean) < K or counts[source, ""] >= TABLED:
            continue
        counts[source, ""] += 1
        clean = [one for one in _prompts(target, source, _chance(seed, target)) if one.kind == "clean"]
        found += [noisy(one, seed) for one in clean if len(one.texts) == K]
        found += [mixed(target, source, count) for count in range(1, min(K - 1, len(target.adversarial)) + 1)]
    for path in variants:
        for where, row in read_rows(path):
            if not row.get("correct_answer") or not row.get("incorrect_answer"):  # nothing to tell an answer by
                continue
            one = _variant(row, path, where)
            if is_tested(one.key) and counts[one.source, one.kind] < TABLED:
                counts[one.source, one.kind] += 1
                found.append(one)
    return list(dict.fromkeys(found))


def _variant(row: Mapping[str, Any], path: Path, where: str) -> Prompted:
    needed = {name: row.get(name) for name in ("question", "incorrect_answer", "correct_answer", "adversarial_texts")}
    texts = needed["adversarial_texts"]
    lists = [
        [str(value)] if isinstance(value, str | int) else value
        for value in (needed["correct_answer"], needed["incorrect_answer"], texts)
    ]
    if not isinstance(needed["question"], str) or not all(
        isinstance(value, list) and value and all(isinstance(part, str) for part in value) for value in lists
    ):
        raise Misuse(f"{where}: expected question, correct_answer, incorrect_answer and adversarial_texts, of strings")
    correct, incorrect, planted = (tuple(value or ()) for value in lists)
    question = str(needed["question"])
    source = str(row.get("dataset") or path.stem)
    kind = str(row.get("attack") or "variant")[:40]
    return Prompted(normal(question), source, kind, len(planted[:K]), question, planted[:K], correct, incorrect)
