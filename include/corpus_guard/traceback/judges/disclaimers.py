"""Disclaimers: sentences that hold the reported answer and do not state it.

After a wrong answer has gone round, honest texts warn of it: "The limit is not 120 mg", "A letter promises 6.5 percent. It
is a fraud". They hold the answer's words next to the question's, as a planted text does.

Rules
    * a sentence denies the answer where a negation governs it: before it in the same clause ("not 120 mg", "no pine
      nuts", "n'est pas de 120 mg"), or behind it ("120 mg is not enough", "zwölf Monate gibt es nicht");
    * a negation that only bounds, lists or emphasises denies nothing: "not more than 120 mg", "not only", "no doubt",
      "not until 1925";
    * the next sentence refutes it: "It is a fraud", "The board calls this false";
    * a sentence is about another thing where it ends by excluding what is asked ("belongs to Tower, not to Ground"), numbers
      it otherwise ("the second expedition" where the first is asked about), or says "with" for its "without".

Negations of twelve languages are read, refutations in English only. What it does not do: tell that "beef" is not "chicken".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from corpus_guard.corpus.filterrag.words import FUNCTION_WORDS

YEAR_DIGITS: Final = 4  # a year goes with any noun: "the 1986 film" is no other number of "film"
REACH: Final = 60  # characters between a negation and the answer

# Behind these words a negation denies something else, or nothing.
_TURNS: Final = (
    r"but|rather|instead|that|which|who|until|till|only|just|merely|doubt|forget|deny|hesitate|question|wrong|false|more|less"
    r"|fewer|over|above|below|beyond|exceed(?:ing)?|later|earlier|longer than|before|after|unless|because|since"
    r"|sondern|nur|mehr|weniger|länger|später|vor|mais|plus|moins|avant|seulement|sino|más|menos|sólo|solo|antes|mas|apenas"
    r"|ma|più|meno|soltanto|maar|meer|minder|alleen|lecz|ale|później|więcej|mniej|tylko|а|но|более|менее|больше|меньше|только"
)
_BEFORE: Final = re.compile(
    r"(?:\b(?:not|never|no longer|cannot|\w+n['’]t|neither|nor"
    r"|nicht|kein\w*|nie|niemals|niet|geen|nooit|non(?!-)|não|nunca|jamás|nigdy|не|никогда|inte|ikke)\b"
    r"|\bno (?=(?:se|es|son|fue|fueron|era|está|están|hay|tiene|tienen|debe|deben|puede|pueden|ha|han)\b)"
    r"|\b(?:ne|n['’])\W?[^.;:,]{1,25}?\b(?:pas|jamais)\b)"
    rf"(?:(?!\b(?:{_TURNS})\b)[^.,;:!?]){{0,{REACH}}}$",
    re.IGNORECASE,
)
_NO: Final = re.compile(r"\b(?:no|aucune?|ningún|ninguna|nenhum|nenhuma|nessun\w*|żad\w+) (?:\w+ )?$", re.IGNORECASE)
_NO_ALONE: Final = re.compile(
    r"\bno (?:more|less|fewer|later|earlier|longer|doubt|matter|wonder|other)\b", re.IGNORECASE
)
_AFTER: Final = re.compile(
    rf"^(?:(?!\b(?:{_TURNS})\b)[^.;:!?,]){{0,{REACH}}}?(?:"
    r"\b(?:is|are|was|were|may|must|can|could|should|would|will|does|do|did)(?:n['’]t| not| no longer)(?: be)?"
    r" (?:enough|sufficient|allowed|permitted|true|correct|right|valid|accepted|recommended|possible|offered|used)\b"
    r"|\bnicht\b\s*(?:[.;!,]|$|\w+ (?:erlaubt|möglich|zulässig|gestattet)|(?:aus|erlaubt|möglich|zulässig|gestattet|genug|mehr)\b)"
    r"|\b(?:ne|n['’])\W?[^.;:,]{1,25}?\b(?:pas|plus) (?:autoris|permis|suffi|possib|vrai|exact|correct)"
    r"|\bno (?:está|están|es|son) (?:permitid|autorizad|suficient|correct|posib)"
    r"|\bnão (?:é|são|está|estão) (?:permitid|suficient|corret|possív)"
    r"|\bnon (?:bast|è|sono|si può)|\bis\b[^.;:,]{0,40}\bniet\b|\bnie (?:wystarcz|jest|są|wolno)|\bне (?:разреш|достаточ|верно)"
    r"|\bdeğil)",
    re.IGNORECASE,
)
_REFUTED: Final = (
    r"(?:false|untrue|wrong|incorrect|mistaken?|mistakes?|errors?|misprint|lie|fraud|scam|hoax|myth|rumou?r|nonsense"
    r"|misleading|outdated)"
)
_REFUTATION: Final = re.compile(
    r"\b(?:it|this|that|these|they|both)\b(?:['’]s| is| are| was| were) (?:an? |the |simply |plainly )?(?:\w+ )?"
    rf"{_REFUTED}\b(?!\s+(?:that|to|not|only|except)\b)"
    rf"|\b(?:calls?|called) (?:it|this|that|the \w+) (?:\w+ )?{_REFUTED}\b"
    r"|\b(?:denie[sd]|refute[sd]|corrected|retracted|withdrew) (?:it|this|that|the (?:claim|statement|rumou?r|advert|post|letter))\b",
    re.IGNORECASE,
)
_NEGATIONS: Final = frozenset({"not", "never", "no", "nor", "neither", "cannot", "t"})  # "t" of "don't"
_ORDINALS: Final = frozenset(
    {"first", "1st", "second", "2nd", "last", *(f"{number}th" for number in range(4, 21)), "3rd"}
)
_EXCLUDES: Final = re.compile(r"(?i),\s*not (?:(?:to|for|in|on|at|of|by|the|an?) )*\w+\W*$")
_ROUGHLY: Final = frozenset({"nearl", "almost", "around", "approximatel", "roughl"})  # stems
_OPPOSITE: Final = {"with": "without", "without": "with"}


def asks_with_negation(question: Collection[str]) -> bool:
    """Return whether a question, as stems, holds a negation itself: a title, or "which is not …"."""
    return not _NEGATIONS.isdisjoint(question)


def is_denied(text: str, start: int, end: int) -> bool:
    """Return whether a sentence denies what stands between `start` and `end` of it."""
    before, after = text[max(0, start - 2 * REACH) : start], text[end : end + 2 * REACH]
    no = _NO.search(before)
    denied_by_no = no is not None and not _NO_ALONE.search(text, max(0, start - 30), end)
    return denied_by_no or bool(_BEFORE.search(before) or _AFTER.match(after))


def is_refutation(sentence: str) -> bool:
    """Return whether a sentence calls the one before it false."""
    return bool(_REFUTATION.search(sentence))


def is_about_another(question: Sequence[str], sentence: str, words: Sequence[str]) -> bool:
    """Return whether a sentence excludes what is asked, numbers it otherwise, or has it with what it should be without.

    Args:
        question: its words, as the judge compares them.
        words: those of the sentence.
    """
    numbers: dict[str, set[str]] = defaultdict(set)
    for noun, number in _numbered(question):
        numbers[noun].add(number)
    present = set(words)
    is_numbered_otherwise = any(
        noun in numbers
        and numbers[noun].isdisjoint(present)
        and (number in _ORDINALS) == (not numbers[noun].isdisjoint(_ORDINALS))
        for noun, number in _numbered(words)
    )
    stated = set(_accompanied(words))
    is_accompanied_otherwise = any(
        (how, noun) not in stated and (_OPPOSITE[how], noun) in stated for how, noun in _accompanied(question)
    )
    excluded = words[-1] if _EXCLUDES.search(sentence) else ""
    is_excluded = excluded in question and excluded not in words[:-1]
    return is_numbered_otherwise or is_accompanied_otherwise or is_excluded


def _numbered(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each content word next to a number, with the number: ("expedit", "second"), ("kestrel", "4"); not 000 of 10,000."""
    for before, first, second, after in zip(["", *words], words, words[1:], [*words[2:], ""], strict=False):
        if _is_number(first) and not _is_number(before) and _is_thing(second):
            yield second, first
        elif _is_number(second) and second.isdigit() and not _is_number(after) and _is_thing(first):
            yield first, second


def _accompanied(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield "with" or "without", and the noun behind it."""
    for place, word in enumerate(words):
        if word in _OPPOSITE:
            yield word, next((noun for noun in words[place + 1 : place + 4] if noun not in FUNCTION_WORDS), "")


def _is_thing(word: str) -> bool:
    return not (_is_number(word) or word in FUNCTION_WORDS or word in _ROUGHLY)


def _is_number(word: str) -> bool:
    return word in _ORDINALS or (word.isdigit() and len(word) != YEAR_DIGITS)
