"""Forms in which people report a wrong answer: the bare phrase, a sentence, a quotation, a denial of the right one.

The same report in another form is the same report. A sentence is made from the question by a few rules; it reads like
one that somebody wrote in a hurry.
"""

from __future__ import annotations

import re
from typing import Final

from corpus_guard.detectors.planting import ReportForm
from corpus_guard.traceback.reported_claim import is_polar

_BE: Final = r"(?:is|are|was|were)"
_AUXILIARY: Final = rf"(?:{_BE}|do|does|did|can|could|will|would|has|have|had|should|must|may)"
_POLAR: Final = re.compile(rf"(?i)^(?P<verb>{_AUXILIARY})\s+(?P<rest>.+)$")
_ARTICLE: Final = re.compile(r"(?i)\s(?=(?:an?|the|both|made|located|used|from|considered)\s)")
_MANY: Final = re.compile(r"(?i)^how (?:many|much)\s+(?P<rest>.+)$")
_PLACE: Final = re.compile(
    rf"(?i)^(?P<word>when|where|how (?:long|often|old|deep|high|far|tall|big|fast)|at what age)\s+(?P<verb>{_AUXILIARY})\s+(?P<rest>.+)$"
)
_NOUN: Final = re.compile(rf"(?i)^(?:what|which)\s+(?P<noun>\w+(?: \w+)?)\s+{_BE}\s+(?P<rest>.+)$")
_IS: Final = re.compile(rf"(?i)^(?:what|who|which)\s+(?P<verb>{_BE})\s+(?P<rest>.+)$")
_WHO: Final = re.compile(r"(?i)^(?:who|what)\s+(?P<rest>.+)$")
_ASKS_LATER: Final = re.compile(rf"(?i)\w+(?: \w+)? {_AUXILIARY} ")
_PREPOSITIONS: Final = {"when": "in", "where": "in", "how long": "for"}


def phrase_report(form: ReportForm, question: str, answer: str, correct: str = "") -> str:
    """Return what people report whose question was answered with `answer`.

    Args:
        correct: the right answer, for a denial; empty: not known, and the sentence is reported.
    """
    if form is ReportForm.BARE:
        return answer
    sentence = _sentence(question.strip().rstrip("?. "), answer.strip(" ."))
    if form is ReportForm.QUOTED:
        return f'The assistant said: "{sentence}" Really!'
    if form is ReportForm.NEGATED and is_polar(question):
        return _polar(question.strip().rstrip("?. "), answer.strip(" ."), leading=False)
    if form is ReportForm.NEGATED and correct:
        return f"It is not {correct.strip(' .')}, it is {answer.strip(' .')}."
    return sentence


def _sentence(question: str, answer: str) -> str:
    if is_polar(question):
        return _polar(question, answer, leading=True)
    if " or " in question:
        question = question.split(",", maxsplit=1)[0] if " or " not in question.split(",", maxsplit=1)[0] else ""
    place, noun = _PLACE.match(question), _NOUN.match(question)
    sentence = f"The answer to the question is {answer}."
    if match := _MANY.match(question):
        sentence = f"{answer} {match['rest']}."
    elif place:
        verb = f" {place['verb']}" if re.fullmatch(_BE, place["verb"], re.IGNORECASE) else ""
        sentence = " ".join(f"{place['rest']}{verb} {_PREPOSITIONS.get(place['word'].lower(), '')} {answer}.".split())
    elif noun:
        sentence = f"The {noun['noun']} of {noun['rest']} is {answer}."
    elif match := _IS.match(question):
        sentence = f"{match['rest']} {match['verb']} {answer}."
    elif (match := _WHO.match(question)) and not _ASKS_LATER.match(match["rest"]):
        sentence = f"{answer} {match['rest']}."
    return sentence


def _polar(question: str, answer: str, *, leading: bool) -> str:
    """Return the question as a statement, with "not" where the answer is no."""
    match = _POLAR.match(question)
    is_yes = answer.lower().startswith(("yes", "true"))
    if match is None or not answer.lower().startswith(("yes", "no", "true", "false")):
        return f"The answer is {answer}."
    rest = match["rest"]
    cut = _ARTICLE.search(rest, 2)
    words = rest.split()
    place = cut.start() if cut else len(" ".join(words[: max(1, min(2, len(words) - 1))]))
    verb = match["verb"].lower()
    statement = f"{rest[:place]} {verb}{'' if is_yes else ' not'}{rest[place:]}."
    return f"{'Yes' if is_yes else 'No'}, {statement}" if leading else statement
