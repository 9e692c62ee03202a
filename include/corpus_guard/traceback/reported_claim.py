"""Claim of a report: the words of the wrong output that answer the question.

People report a phrase, a sentence, a quotation, or two sentences of which the second only comments. All of them
are reduced to the phrase, so that the same report gets the same verdict in every wording:

1. what frames the answer is left out ("According to the passages, …", "The assistant said: …", quotation marks,
   "Really!");
2. of several sentences the one that answers is kept: it adds something to the question, a value of the kind that
   the question asks for first of all, and something else than the right answer where that is known;
3. what the sentence denies is left out: "not six months but 36" reports 36;
4. of the rest, a value of the kind asked for is the answer; otherwise the words that the question lacks are.

An answer to a question of yes or no is its polarity, said ("No, …") or stated ("… is not a depressant"). Where
its sentence states a value as well, the value is reported too.

What it does not do: resolve pronouns, or read other languages than English.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from corpus_guard.claims.negation import read_negations
from corpus_guard.claims.plain_text import make_plain
from corpus_guard.claims.sentences import split_sentences
from corpus_guard.claims.value import Kind, Relation, Value, relate
from corpus_guard.claims.values import read_values
from corpus_guard.claims.vocabulary import EMPTY, stem

MAX_OUTPUT_LENGTH: Final = 6_000  # characters read of a question or an output
MAX_ANSWER_WORDS: Final = 12  # of an answer taken from a sentence; a longer one is kept as the whole sentence

MIN_SHARED: Final = 0.4  # of the words of a question of yes or no, from which a sentence affirms or denies it

_WORD: Final = re.compile(r"[^\W_](?:[\w.,:/'’-]*[^\W_])?%?")
_QUOTES: Final = "\"'“”‘’«»„` \t\n*_"
_SPEAKER: Final = (
    r"(?:the |your |our |this |its )?(?:assistant|chat ?bot|bot|system|model|tool|ai|search|app|helpdesk|documents?|passages?|texts?"
    r"|context|sources?|handbook|manual|page)"
)
_FRAMES: Final = re.compile(
    rf"(?i)^\W*(?:{_SPEAKER} (?:just )?(?:said|says|told (?:me|us)|replied|replies|answered|answers|claimed|claims|wrote|writes"
    r"|gave|states?|stated|responded|insists?|insisted)(?: that\b)?\W*"
    r"|(?:i|we) (?:got|was told|were told|received)(?: the answer)?(?: that\b)?\W*"
    rf"|(?:according to|based on|from|as per) {_SPEAKER}(?: (?:provided|given|above))?\s*,?\s*"
    r"|based on the (?:provided|given|retrieved) (?:context|passages?|documents?|information)\s*,?\s*"
    r"|(?:the )?(?:correct |right |short |final )?answer(?: to (?:the|this|your) question)? (?:is|was)(?: that\b)?\s*:?\s*"
    r"|(?:the )?answer\s*:\s*"
    r"|(?:so|well|sure|certainly|of course|okay|ok|yes of course|i think|i believe|it seems(?: that)?|apparently|actually)\b\s*,\s*"
    r"|(?:it|this|that)(?:'s| is| was)\s+(?=\S)(?!not\b))"
)
_TAIL: Final = re.compile(
    rf"(?i)\s*(?:\b(?:is|was) the (?:correct |right )?answer(?: to (?:the|this|your) question)?"
    rf"|,? (?:according to|based on|as stated in|says|said) {_SPEAKER}[^.]{{0,40}})\W*$"
)
_LEADING: Final = re.compile(
    r"(?i)^\W*(yes|yep|yeah|no|nope|true|false|correct|incorrect)\b(?!\s+(?:one|more|less|longer|\d))"
)
_SAID: Final = re.compile(r"(?i)\b(?:answer|it)\s+(?:is|was)\W{1,3}(yes|no|true|false)\b")
_YES: Final = frozenset({"yes", "yep", "yeah", "true", "correct"})
_POLAR_QUESTION: Final = re.compile(
    r"(?i)^\W*(?:is|are|was|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had|am|isn't|aren't"
    r"|doesn't|don't)\b"
)
_CHOICE: Final = re.compile(r"(?i)\bor\b(?! not\b)")
_DENIAL: Final = re.compile(
    r"(?i)(?:,\s*)?(?:\b(?:it|this|that)(?:'s| is| was) )?"
    r"\b(?:not(?! only\b| more\b| less\b| later\b| exceed)|isn't|wasn't|aren't|rather than|instead of|as opposed to|contrary to"
    r"|unlike)\b\s*[^,;.!?]{1,120}?"
    r"(?=\s*(?:,\s*but\b|\bbut\b|,|;|[.!?](?:\s|$)|$|\b(?:it|this|that)(?:'s| is)\b))"
    r"(?:\s*,?\s*but\b(?:\s+(?:it(?:'s| is)|rather|instead))?|\s*[,;]\s*(?:it|this|that)(?:'s| is| was)\b)?"
)
_NUMBERED: Final = (Kind.COUNT, Kind.QUANTITY, Kind.PERCENTAGE, Kind.MONEY, Kind.DURATION)
_ASKED: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), kinds)
    for pattern, kinds in (
        (r"\bhow (?:often|frequently)\b|\b(?:interval|frequency)\b", (Kind.FREQUENCY, Kind.DURATION)),
        (r"\bwhat (?:percent|percentage)\b|\bpercentage\b", (Kind.PERCENTAGE, Kind.COUNT)),
        (r"\b(?:how (?:many|much)|what (?:number|amount)|number of)\b", _NUMBERED),
        (r"\bhow (?:long|old)\b|\bwhat age\b", (Kind.DURATION, Kind.QUANTITY, Kind.COUNT)),
        (r"\bhow (?:deep|high|tall|far|fast|wide|heavy|big|large|hot|cold|close|late|early|soon)\b"
         r"|\b(?:limit|maximum|minimum|price|cost|temperature)\b",
         (Kind.QUANTITY, Kind.MONEY, Kind.DURATION, Kind.COUNT, Kind.TIME)),
        (r"\b(?:when|what (?:year|date|day|time|month)|which (?:year|date|day|month)|in what year)\b|^last time\b", (Kind.DATE, Kind.TIME)),
        (r"\b(?:e-?mail|address|download|url|website|reach|contact|phone|number)\b", (Kind.EMAIL, Kind.DOMAIN, Kind.PHONE)),
    )
)  # fmt: skip
_CONTRASTS: Final = (
    re.compile(
        r"(?i)\b(?:it|this|that)(?:'s| is| was) not [^!?]{1,120}?(?:[,;.]\s*(?:but )?|\s+but )"
        r"(?:it|this|that)(?:'s| is| was)\s+"
    ),
    re.compile(r"(?i)\bnot (?!only)[^!?]{1,120}?,? but(?: rather| instead)?\s+"),
)
_UNIT: Final = re.compile(r"(?i)\bhow (?:many|much) (?P<unit>[a-z]+(?: [a-z]+)?)")
_EVERY: Final = re.compile(r"(?i)^(?:once )?(?:every|each|per|in)\s+(?:(?=\d)|(?=[a-z]+[ -][a-z]))")
_OPTIONS: Final = re.compile(r"(?i)(?P<first>[^,?]+(?:,[^,?]+)?),? or (?:the |in the |an? )?(?P<second>[^,?]+)")
_REFUSALS: Final = re.compile(
    r"(?i)\b(?:could|can|did|do|does|am|was|were)(?: not|n't)(?: able to)?"
    r" (?:find|know|answer|say|tell|mention|contain|provide|specify|have)\b"
    r"|\b(?:cannot|unable to) (?:find|answer|say|tell)\b|\bno (?:information|answer|mention)\b"
    r"|\bnot (?:mentioned|specified|provided|stated)\b"
)
_SAID_IN_PASSING: Final = """
really seriously honestly wow hm hmm oh ah ok okay well sorry hello hi hey thanks thank you sure great good question done
please note yes no what why how the this is wrong again nonsense perfect right correct certainly absolutely that's that
it's it
"""
_INTERJECTIONS: Final = frozenset(_SAID_IN_PASSING.split())


@dataclass(frozen=True, slots=True)
class ReportedClaim:
    """Answer that a report names."""

    answer: str  # the bare answer: "36 months", "no"; never empty unless the output is
    sentence: str  # the sentence of the output that it was taken from
    values: tuple[Value, ...]  # that the answer states; spans are in `answer`
    is_affirmed: bool | None  # of a question of yes or no: yes; None: another question, or not said

    @property
    def is_refusal(self) -> bool:
        """Return whether the output says that there is no answer."""
        return self.is_affirmed is None and not self.values and bool(_REFUSALS.search(self.sentence))


def is_same_answer(first: ReportedClaim, second: ReportedClaim) -> bool:
    """Return whether two claims name one answer: equal values, the same of yes and no, or the same words."""
    values, others = (
        [value for value in claim.values if value.kind not in {Kind.NAME, Kind.NEGATION}] for claim in (first, second)
    )
    if values and others:
        return len(values) == len(others) and all(
            relate(value, other) is Relation.EQUAL for value, other in zip(values, others, strict=True)
        )
    if first.is_affirmed is not None or second.is_affirmed is not None:
        return first.is_affirmed is second.is_affirmed
    return [stem(word) for word in _words(first.answer)] == [stem(word) for word in _words(second.answer)]


def is_polar(question: str) -> bool:
    """Return whether yes or no answers a question."""
    return bool(_POLAR_QUESTION.match(question)) and not _CHOICE.search(question)


def read_reported_claim(question: str, output: str, correct: str | None = None) -> ReportedClaim:
    """Return the claim that a report traces.

    Args:
        correct: the right answer, where somebody knew it.
    """
    question, output = question[:MAX_OUTPUT_LENGTH], output[:MAX_OUTPUT_LENGTH]
    question_stems = {stem(word) for word in _words(question)}
    output = _without_contrast(output)
    sentences = _sentences(output)
    if not sentences:
        return ReportedClaim(output.strip(), output.strip(), (), None)
    affirmed = _polarity(output, sentences, question_stems) if is_polar(question) else None
    if affirmed is not None:
        telling = _best(sentences, question_stems, (), correct)
        others = _other_values(read_values(telling), question, correct)
        core = _bare_value(question, telling, others[0]) if others else ""
        return ReportedClaim(core or ("yes" if affirmed else "no"), telling, tuple(read_values(core)), affirmed)
    kinds = _kinds(question)
    sentence = _best(sentences, question_stems, kinds, correct)
    remainder = _without_denials(sentence)
    stated = read_values(remainder)
    values = _other_values(stated, question, correct) or _other_values(stated, question, None)
    values = [value for value in values if value.kind in kinds or (is_polar(question) and value.kind is not Kind.COUNT)]
    answer = (
        _bare_value(question, remainder, values[0])
        if values
        else _chosen(question, remainder) or _added(remainder, question_stems)
    )
    answer = answer.strip(_QUOTES + ".,;:!?") or remainder.strip(_QUOTES + ".")
    read = _with_unit(question, answer)
    main = read if values else tuple(value for value in read if _is_most_of(value, answer))
    return ReportedClaim(answer, sentence, main, None)


def _is_most_of(value: Value, answer: str) -> bool:
    """Return whether an answer says little but a value: not "Jane Doe, an architect, in 1957"."""
    return 2 * len(_words(answer[value.span.start : value.span.end])) >= len(_words(answer))


def _sentences(output: str) -> list[str]:
    """Return the sentences of an output without what frames them; all of it, if nothing is left."""
    plain = make_plain(output).text
    unframed = _unframe(plain)
    sentences = [_unframe(unframed[start:end]) for start, end in split_sentences(unframed)]
    telling = [
        sentence for sentence in sentences if not sentence.endswith("?") and set(_words(sentence)) - _INTERJECTIONS
    ]
    return telling or [sentence for sentence in sentences if sentence] or [plain.strip()]


def _unframe(text: str) -> str:
    text = text.strip(_QUOTES)
    for _ in range(4):
        shorter = _TAIL.sub("", _FRAMES.sub("", text, count=1)).strip(_QUOTES)
        if shorter == text or not shorter.strip(".!?,"):
            break
        text = shorter
    return text


def _kinds(question: str) -> tuple[Kind, ...]:
    """Return the kinds of value that answer a question; none: words do."""
    return next((kinds for pattern, kinds in _ASKED if pattern.search(question)), ())


def _best(
    sentences: Sequence[str], question_stems: Collection[str], kinds: Collection[Kind], correct: str | None
) -> str:
    """Return the sentence that answers."""
    right = {stem(word) for word in _words(correct or "")}

    def score(sentence: str) -> float:
        words = {stem(word) for word in _words(_without_denials(sentence)) if word not in EMPTY}
        added = words - set(question_stems)
        values = _other_values(read_values(sentence), "", correct)
        return (
            0.5 * bool(added - right)
            + 1.0 * any(value.kind in kinds for value in values)
            + 0.3 * any(value.kind not in {Kind.NAME, Kind.NEGATION} for value in values)
            + len(words & set(question_stems)) / max(1, len(question_stems))
        )

    return max(reversed(sentences), key=lambda sentence: (score(sentence), -sentences.index(sentence)))


def _other_values(values: Sequence[Value], question: str, correct: str | None) -> list[Value]:
    """Return the affirmed values that neither the question nor the right answer states."""
    given_values = [*read_values(question), *read_values(correct or "")]
    return [
        value
        for value in values
        if value.kind not in {Kind.NAME, Kind.NEGATION}
        and not value.is_denied
        and not any(relate(value, other) is Relation.EQUAL for other in given_values)
    ]


def _without_denials(sentence: str) -> str:
    """Return a sentence without what it denies; the whole sentence where it denies nothing, or nothing else is left."""
    remainder, denials = _DENIAL.subn(" ", sentence)
    remainder = remainder.strip(" ,;")
    return remainder if denials and set(_words(remainder)) - EMPTY else sentence


def _without_contrast(output: str) -> str:
    """Return what is left of "It is not A, it is B" or "not A but B" without A; all of it, where neither is said."""
    for pattern in _CONTRASTS:
        if match := pattern.search(output):
            return f"{output[: match.start()]} {output[match.end() :]}".strip()
    return output


def _with_unit(question: str, answer: str) -> tuple[Value, ...]:
    """Return the values of an answer; a bare number has the unit that the question asks for: "how many minutes"."""
    unit = _UNIT.search(question)
    if unit and answer.replace(",", "").replace(".", "", 1).isdigit():
        values = [value for value in read_values(f"{answer} {unit['unit']}") if value.kind is not Kind.NAME]
        if len(values) == 1:
            return tuple(values)
    return tuple(read_values(answer))


def _bare_value(question: str, sentence: str, value: Value) -> str:
    """Return a value without "every", and without the noun or unit that is asked for: "once every 36 months", "24 episodes"."""
    unit = _UNIT.search(question)
    counted = {
        stem(word) for word in (_words(question) if value.kind is Kind.COUNT else _words(unit["unit"]) if unit else [])
    }
    words = _EVERY.sub("", sentence[value.span.start : value.span.end]).split()
    while len(words) > 1 and stem(words[-1].strip(_QUOTES)) in counted:
        words.pop()
    return " ".join(words)


def _chosen(question: str, sentence: str) -> str:
    """Return the option of "… A or B …" that a sentence takes; empty: the question offers none, or it takes none."""
    choice = _OPTIONS.search(question)
    if choice is None:
        return ""
    second = choice["second"].strip()
    first = choice["first"].strip().split(",")[-1].strip()
    words = first.split()
    heads = [" ".join(words[start:]) for start in range(max(0, len(words) - max(3, len(second.split()))), len(words))]
    seconds = [" ".join(second.split()[:count]) for count in range(len(second.split()), 0, -1)]
    first_places = []
    for options in (heads, seconds):
        places = ((sentence.lower().find(option.lower()), option) for option in options)
        first_places += [next((pair for pair in places if pair[0] >= 0), (-1, ""))]
    taken = sorted(pair for pair in first_places if pair[0] >= 0)
    return taken[0][1] if taken else ""


def _added(sentence: str, question_stems: Collection[str]) -> str:
    """Return the words that a sentence adds to the question, from the first to the last of them."""
    core, added = _core(sentence, question_stems)
    if not added or added > MAX_ANSWER_WORDS:
        return sentence
    return core


def _core(sentence: str, question_stems: Collection[str]) -> tuple[str, int]:
    """Return the longest run of words that the question lacks, and how many words it lacks altogether."""
    runs: list[list[re.Match[str]]] = [[]]
    total = 0
    for match in _WORD.finditer(sentence):
        word = match.group().lower()
        if stem(word) in question_stems:
            runs.append([])
        elif word not in EMPTY or runs[-1]:
            runs[-1].append(match)
            total += word not in EMPTY
    trimmed = [_trim(run) for run in runs]
    best = max(trimmed, key=lambda run: sum(match.group().lower() not in EMPTY for match in run), default=[])
    if not best:
        return sentence, 0
    return sentence[best[0].start() : best[-1].end()], total


def _trim(run: list[re.Match[str]]) -> list[re.Match[str]]:
    run = run.copy()
    while (
        run and run[-1].group().lower() in EMPTY and not run[-1].group().isdigit() and not _is_number(run[-1].group())
    ):
        run.pop()
    return run


def _is_number(word: str) -> bool:
    return any(value.kind in _NUMBERED for value in read_values(word))


def _polarity(output: str, sentences: Sequence[str], question_stems: Collection[str]) -> bool | None:
    """Return whether an output affirms what was asked; None: it speaks of something else."""
    match = _LEADING.match(_unframe(output)) or _LEADING.match(sentences[0]) or _SAID.search(output)
    if match:
        return match[1].lower() in _YES
    shared = [len({stem(word) for word in _words(sentence)} & set(question_stems)) for sentence in sentences]
    if max(shared) < MIN_SHARED * len(question_stems):
        return None
    return sum(1 for _ in read_negations(sentences[shared.index(max(shared))])) % 2 == 0


def _words(text: str) -> list[str]:
    return [match.group().lower() for match in _WORD.finditer(text)]
