"""Clauses of a sentence: what is said by itself, and what is only supposed.

"If you ask me, the gearbox needs oil every week, so keep a bottle at hand" holds three clauses; only the second says
anything of a gearbox. A sentence is cut only where both parts can stand alone: each has a verb or a few words.
Lists ("the pump and the valve must be replaced") stay whole. English; linear in the length of the sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_VERBS: Final = "is are was were be been am has have had do does did can cannot could may might must shall should will would need needs"
_LEXICAL: Final = (
    "takes take took gives give gave needs lasts last lasted costs cost holds hold held carries carry carried runs run ran "
    "starts start started ends end ended begins begin began opens open closes close works keeps keep kept gets get got goes go "
    "went lets let makes make made comes come came says say said tells tell told belongs belong belonged lies lie lay weighs "
    "weigh measures produces contains requires require expires expire sails sail leaves leave left arrives arrive applies pays "
    "pay paid means mean covers cover sells sell erupted ripens ripen rises flows survives survive switches switch "
    "helps help wants want uses use shows show finds find found knows know knew thinks think thought believes feels seems looks "
    "stands stand sits grows grow falls fall turns turn moves move brings bring helped allows allow contains includes include "
    "follows follow leads lead wins won lives live dies died causes cause damages damage serves serve supports support "
    "provides provide offers offer receives receive accepts accept refuses refuse connects reads read writes write wrote "
    "plays play speaks becomes become became remains remain happens depends protects prevents removes cleans cooks"
)
_VERB: Final = re.compile(rf"(?i)\b(?:{'|'.join((_VERBS + ' ' + _LEXICAL).split())}|\w+n't)(?!\w)")
FINITE: Final = re.compile(rf"(?i)\b(?:{'|'.join(_VERBS.split())}|\w+n't)(?!\w)")
"""An auxiliary or modal verb: before it stands the subject."""
_PRONOUNS: Final = "it|they|he|she|we|you|i|this|that|these|those|there|nobody|everybody|everyone|anybody|people"
_ORDERS: Final = "ask|call|use|see|bring|set|keep|send|take|cache|include|save|just|skip|do|don't|never|always|please|let|leave|stay|feel"
PRONOUN_FIRST: Final = re.compile(
    r"(?i)[\"'(*\s-]*(?:(?:and|but|or|so|because|then|also|in addition|moreover),? )*"
    r"(?:it|they|he|she|this|that|these|those|its|their|his|her|which|who|whose)\b"
)
"""A clause whose subject was named before."""
_PRONOUN_SUBJECT: Final = re.compile(rf"(?i)[\"'(*\s-]*(?:(?:and|but|or|so|because|then),? )?(?:{_PRONOUNS})\b")
_VERB_FIRST: Final = re.compile(
    rf"(?i)[\"'(*\s-]*(?:(?:and|but|or|so|then),? )?(?:{'|'.join((_VERBS + ' ' + _LEXICAL).split())}|\w+n't)\b"
)
_CUT: Final = re.compile(
    r";\s+|:\s+|\s[-–—]\s"
    r"|,?\s+(?=(?:but|because|although|though|whereas|while|unless|if|whenever|as long as)\s)"
    rf"|,?\s+(?=(?:since|so(?: that)?|then|as|when|before|after) (?:{_PRONOUNS}|the|my|our|your|a|an)\s)"
    rf"|,\s+(?=(?:{_PRONOUNS}|{_ORDERS})\b)"
    r"|,\s+(?=(?:which|who|whose|where)\b)|,\s+(?=not (?:even|once)\b)|,\s+(?=(?:in|for) my (?:experience|opinion|view)\b)"
    rf"|(?<=[a-z,])\s+that\s+(?=(?:{_PRONOUNS}|the|a|an|all|every|each|no|in|at|on|for|from|my|our|your|its|[A-Z])\b)"
    r"|,?\s+(?=and\s)|,\s+",
    re.IGNORECASE,
)
_SUPPOSING: Final = re.compile(
    r"(?i)[\"'(*\s-]*(?:and |but |even |only |,)*(?:if|unless|whether|when|whenever|in case|as long as)\b"
)
_OPENING: Final = re.compile(
    r"(?i)[\"'(*\s-]*(?:if|when|whenever|unless|although|though|while|since|because|as|once|after|before|for (?:everybody|everyone|those)"
    r"|in case|whether|given|even if)\b"
)
_RELATIVE: Final = re.compile(r"(?i)(?:which|who|whose|where)\b")
_REPORTING: Final = re.compile(
    r"(?i)\b(?:tells?|told|says?|said|kn[eo]ws?|reads?|confirm(?:s|ed)?|learn(?:ed|t|s)?|explain(?:s|ed)?"
    r"|wr[io]tes?|claim(?:s|ed)?|reports?|reported|warn(?:s|ed)?|remember|sure|clear|certain|true|fact|news|rule|counts? [\w ]{1,40} is)"
    r"(?: (?:me|us|you|them|him|her|all(?: of us)?|everybody|everyone|patients))?,?$"
)
_DETERMINER: Final = re.compile(r"(?i)(?:the|a|an|my|our|your|its|their) ")
_PREPOSITION: Final = re.compile(r"(?i)(?:as|since|before|after)\b")
_BEGINS_CLAUSE: Final = re.compile(
    rf"(?i)(?:{_PRONOUNS}|{_ORDERS}|but|because|although|though|whereas|while|unless|if|whenever|not (?:even|once)|so|as|since"
    r"|when|then|before|after|which|who|whose|where)\b"
)
_WORDS: Final = re.compile(r"[^\W\d_]{2,}")
_FEWEST_WORDS: Final = 3  # of a part without a verb
_CLAUSE_AFTER_AND: Final = 6  # words in which a clause that follows "and" shows its verb


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence."""

    start: int
    end: int
    is_supposed: bool = False  # a condition: it states nothing
    is_continued: bool = False  # its subject stands in the clause before


def split_clauses(sentence: str) -> list[Clause]:
    """Return the clauses of a plain sentence in order; together they hold all its words."""
    cuts = [0]
    is_relative = False
    for match in _CUT.finditer(sentence):
        before, after = sentence[cuts[-1] : match.start()], sentence[match.end() : match.end() + 120]
        if before.count("(") > before.count(")"):
            continue  # "(18 June 1904 – 25 July 1973)"
        if is_relative and match.group().startswith(","):
            cuts.append(match.end())  # the clause ", which …," is over
            is_relative = False
        elif _is_cut(match.group(), before, after):
            cuts.append(match.end())
            is_relative = bool(_RELATIVE.match(after))
    ends = [*cuts[1:], len(sentence)]
    clauses: list[Clause] = []
    for start, next_start in zip(cuts, ends, strict=True):
        end = start + len(sentence[start:next_start].rstrip(" ,;:"))
        part = sentence[start:end]
        is_continued = bool(clauses) and bool(PRONOUN_FIRST.match(part) or _VERB_FIRST.match(part))
        clauses.append(Clause(start, end, len(cuts) > 1 and bool(_SUPPOSING.match(part)), is_continued))
    return clauses


def begins_with_pronoun(clause: str) -> bool:
    """Return whether the subject of a clause is a pronoun: "it", "she"."""
    return bool(_PRONOUN_SUBJECT.match(clause))


def _is_cut(mark: str, before: str, after: str) -> bool:
    """Return whether both sides of a mark can stand alone."""
    mark = mark.strip()
    following = after.lower().partition(" ")[0].strip(",")
    if mark.lower() == "that":  # "I can tell you that …"
        is_cut = bool(_REPORTING.search(before))
    elif _OPENING.match(before):  # "If you ask me, …": cut where the main clause begins
        is_cut = mark.startswith((",", ";", ":")) and _has_subject_or_verb(before) and following not in {"and", "or"}
    elif following == "and":
        words = after.split(" ")[1 : _CLAUSE_AFTER_AND + 1]
        is_listed = bool(words) and words[0].endswith(",")
        is_cut = bool(_VERB_FIRST.match(after)) or (_has_verb(before) and not is_listed and _has_verb(" ".join(words)))
    elif mark == "," and not _BEGINS_CLAUSE.match(after):
        words = after.split(" ")[:_CLAUSE_AFTER_AND]
        is_cut = bool(_DETERMINER.match(after) and _VERB.search(before) and _VERB.search(" ".join(words)))
    elif _PREPOSITION.match(after) and not _VERB.search(after[:80]):
        is_cut = False
    elif _RELATIVE.match(after):
        is_cut = True
    else:
        can_stand = _has_verb(before) if mark in {",", ""} else _stands_alone(before)
        is_cut = can_stand and (_stands_alone(after) or following == "not")
    return is_cut


def _stands_alone(part: str) -> bool:
    return _has_verb(part) or len(_WORDS.findall(part)) >= _FEWEST_WORDS


def _has_subject_or_verb(part: str) -> bool:
    return bool(_VERB.search(part) or re.search(rf"(?i)\b(?:{_PRONOUNS}|who|which)\b", part))


def _has_verb(part: str) -> bool:
    return bool(_VERB.search(part) or _PRONOUN_SUBJECT.match(part))
