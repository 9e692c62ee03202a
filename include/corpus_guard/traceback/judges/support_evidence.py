"""Support that a text gives to a reported claim: the sentence that supports it, and what opposes it.

A text *supports* a claim where one of its sentences says the answer, about what was asked, without denying it. It
*opposes* the claim where a sentence about the same thing states another value of the same kind, or the other of
yes and no. Similar words alone are neither.

* A value is compared as a value: "three years" holds "36 months"; "7 games" does not answer "how many seasons".
  Where the question asks for a bound, bounds are compared: "within 180 days" does not hold "28 days".
* An answer of words is held by a sentence with most of their weight. Where its noun is the question's, another name
  before that noun opposes it: "Salt Lake County" is not "Utah County". So does one before the noun that the question
  asks for ("what county"), where the sentence does not hold the answer.
* An answer that follows the opposite of a word of the question is the other one's: "gram-positive cells stain purple" is
  not said of gram-negative ones.
* Where the question compares two things, what stands behind "than" opposes it.
* In a text that opposes it in one of these ways, a sentence without that noun, that word, or without a comparison, says
  little.
* A text *disowns* the claim where each sentence that holds the answer denies it, is refuted by the next one, or is about
  another thing (`disclaimers`); a reported "yes" where a sentence plainly says no. That acquits; it is no evidence for the
  trees.
* Yes or no is held by a sentence about what was asked that affirms or denies it. A negation denies only what its own
  clause says: "a depressant that is not approved" is no denial of "a depressant". A sentence that repeats the question
  and names an answer holds that one: an order to a model ("take no for the answer to …").

A sentence is about what was asked as far as it, the sentence before it and the beginning of the text hold the words of
the question, by weight; also the sentence after it, where that one goes on about the same ("Her second book …").
What a text says of itself to its reader ("this text will lead you to …") is about nothing but its own words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Final

from corpus_guard.claims.negation import read_negations
from corpus_guard.claims.plain_text import PlainText, make_plain
from corpus_guard.claims.sentences import split_sentences
from corpus_guard.claims.value import Kind, Relation, Value, relate
from corpus_guard.claims.values import read_sentence, read_values_of_sentence
from corpus_guard.corpus.filterrag.words import FUNCTION_WORDS
from corpus_guard.domain import Span
from corpus_guard.screening.wording import share_of_weight, stem
from corpus_guard.traceback.judges.disclaimers import asks_with_negation, is_about_another, is_denied, is_refutation
from corpus_guard.traceback.reported_claim import ReportedClaim

MAX_TEXT_LENGTH: Final = 6_000  # characters read of a text
MAX_SENTENCES: Final = 80  # read of a text
MIN_HELD: Final = 0.6  # share of an answer's words, by weight, from which a sentence holds it, 0..1
CONTEXT_SHARE: Final = 0.6  # what a word of the question counts that only the context of a sentence holds
NEARNESS: Final = 8.0  # words after which a word of the question counts a third
UNIT_REACH: Final = 4  # words around a number in which its noun may stand
BROKEN_SHARE: Final = 0.4  # what an answer counts of which only the words that the question lacks are there
SUBJECT_SHARE: Final = 0.5  # what a negation counts whose clause holds the words of the question only before it
SCOPE_LENGTH: Final = 160  # characters before and after a negation that may be its clause
FAMILY_LETTERS: Final = 5  # that words of one family begin with: "music", "musicians"
MIN_REPEATED: Final = 4  # words of a question, from which a sentence can repeat it
PLAIN_DENIAL: Final = 0.9  # opposition from which a sentence plainly says no where "yes" is reported
MIN_OUTWEIGHED: Final = 0.3  # by which it must exceed the support of the others: most sentences affirm something
MIN_ABOUT: Final = 0.35  # of the question, from which a sentence can support or oppose

_WORD: Final = re.compile(r"[^\W_]+")
_OPPOSITE_PAIRS: Final = """
positive/negative male/female men/women boys/girls maximum/minimum highest/lowest largest/smallest oldest/youngest
first/last north/south northern/southern east/west eastern/western upper/lower inner/outer internal/external
acute/chronic hot/cold wet/dry input/output inbound/outbound domestic/foreign public/private full/partial
"""
_NUMBER_WORDS: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
NUMBERS: Final = {word: str(value) for value, word in enumerate(_NUMBER_WORDS.split())}
_LAST_VOWEL: Final = re.compile(r"e$|[^aeiou]y$")
_ORDINAL_WORDS: Final = "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_IRREGULAR_WORDS: Final = """
begin began begun|bear bore born|break broke broken|bring brought|build built|buy bought|catch caught|choose chose chosen
city cities|come came|die died dies dying|draw drew drawn|drive drove driven|eat ate eaten|fall fell fallen|feel felt|fight fought
find found|fly flew flown|get got gotten|give gave given|go goes went gone|grow grew grown|hear heard|hold held|keep kept|know knew known
lead led leader|leave left|lose lost|make made maker makes making|mean meant|meet met|pay paid|run ran running|say said says
see saw seen|sell sold|send sent|shoot shot|sing sang sung singer singers|sit sat|speak spoke spoken|spend spent|stand stood
steal stole stolen|swim swam|take took taken taking|teach taught|tell told|think thought|throw threw thrown|wear wore worn
win won winner winning|write wrote written writer writers|child children|man men|woman women|person people|foot feet
"""
_FORMS: Final = {
    **{word: f"{value}th" if value > 3 else "3rd" for value, word in enumerate(_ORDINAL_WORDS.split(), 3)},
    **{form: forms.split()[0] for forms in re.split(r"[|\n]", _IRREGULAR_WORDS) for form in forms.split()},
}
"""Word → the one that it is a form of: "4th" of "fourth", "write" of "wrote"."""
_DENIES_WHAT_FOLLOWS: Final = re.compile(
    r"(?i)(?:\b(?:not|never|no longer|isn't|wasn't|aren't|formerly|previously|originally"
    r"|mistaken(?:ly)?|misconception|misunderstood|erroneously|falsely|wrongly|incorrectly|thought|believed|neither)\b"
    r"(?:(?!\b(?:but|it's|it is|it was)\b)[^.;:]){0,45}"  # "not in the Atlantic, but in the Pacific" denies the first
    r"|\b(?:rather than|instead of|contrary to|unlike)\b[^.;:,]{0,45})$"  # "Unlike most cells, sperm …" denies nothing more
)
_COMPARISON: Final = (
    "more|less|fewer|most|least|first|last|higher|lower|greater|larger|smaller|bigger|longer|shorter|older|younger|earlier|later"
    "|better|worse|heavier|lighter|faster|slower|taller"
)
_ASKS_COMPARISON: Final = re.compile(rf"(?i)\b(?:{_COMPARISON}|\w{{3,}}(?:ier|iest|est))\b")
_COMPARES: Final = re.compile(rf"(?i)\b(?:{_COMPARISON}|than)\b")
_ASKED_NOUN: Final = re.compile(
    r"(?i)^\W*(?:in |at |on |of )?(?:what|which) (?P<noun>\w+(?: \w+){0,2}?) (?:is|are|was|were|do|does|did|has|have|had|will|can)\b"
)
_THAN: Final = re.compile(r"(?i)\bthan\b[^.;:,]{0,30}$")
_KIND: Final = "categor(?:y|ies)|class(?:es)?|groups?|kinds?|types?|famil(?:y|ies)|genres?|fields?"
_TURNS: Final = re.compile(
    r"(?i)\b(?:contrary to|contrarily|conversely|misconceptions?|myths?|erroneous(?:ly)?|mistaken(?:ly)?|wrong(?:ly|fully)|false(?:ly)?"
    r"|incorrectly|unlike|misunderstood|misclassified|except|only the(?! (?:first|second|third|\w+th)\b)"
    rf"|(?:another|different|distinct|separate|unrelated) (?:\w+ )?(?:{_KIND}))\b"
)
_ASKS_OF_TWO: Final = re.compile(r"(?i)\b(?:and|both|same)\b")
_CONTRASTS: Final = re.compile(r"(?i)\b(?:however|on the other hand|in contrast|by contrast|instead|whereas)\b")
_CLAUSE_END: Final = re.compile(r"(?i)[;:]|,\s|\s[-–—]\s|\b(?:but|although|though|while|whereas)\b")
_CLAUSE_START: Final = re.compile(r"(?i)[,;:]|\s[-–—]\s|\b(?:that|which|who|whose|where|and|but|while|whereas)\b")
_FORMER: Final = re.compile(
    r"\b(?:[Ff]ormer|old|older|earlier|previous|outdated|obsolete|superseded|first generation)\b"
)
_FORMER_BEFORE: Final = re.compile(rf"(?:{_FORMER.pattern})[^.;]{{0,25}}$")
_FORMER_AFTER: Final = re.compile(rf"[^.;]{{0,40}}(?:{_FORMER.pattern})")
_ASKS_BOUND: Final = re.compile(
    r"(?i)\b(?:within|at most|at least|max(?:imum)?|min(?:imum)?|up to|allowed|limit|no later than|deadline)\b"
)
_GOES_ON: Final = re.compile(r"(?i)^\W*(?:\w+\W+){0,4}?(?:he|she|it|they|his|her|its|their|this|these)\b")
_NAMED_ANSWER: Final = re.compile(  # "no" as a word that is named, not the one of "no other"
    r"(?i)\b(?P<answer>yes|no)\b(?=\W*$|[\"'”’)]*[.,;:!]|\s+(?:and|as|for|if|in|is|to|when(?:ever)?|with)\b)"
)
_PAIR: Final = re.compile(r"(?i)(\w+)\W+and\W+(?:(?:the|an?)\W+)?(\w+)")
_SPEAKS_OF_ITSELF: Final = re.compile(r"(?i)\bthis (?:text|passage|document|article|paragraph)\b.*\byou\b")
_COMPARED: Final = frozenset(Kind) - {Kind.NAME, Kind.NEGATION}


@dataclass(frozen=True, slots=True)
class SupportEvidence:
    """Evidence of a text about a claim."""

    support: float  # of the best sentence, 0..1: how far it is about what was asked, and states the answer
    opposition: float  # the same of the best sentence that states something else
    denial: float  # of the best sentence that denies the answer
    nearness: float  # of the answer's words to the question's, 0..1
    unit: float  # 1: the number measures what was asked; 0: something else; 0.5: not said, or no number
    support_share: float  # of the text's sentences, 0..1
    span: Span | None  # the sentence that supports the claim best, in the text; None: none does
    disowns: bool = False  # each sentence that holds the answer denies it, is refuted, or is about another thing

    @property
    def numbers(self) -> tuple[float, ...]:
        """Return the numbers, one per name in SUPPORT_FEATURES."""
        return self.support, self.opposition, self.denial, self.nearness, self.unit, self.support_share

    @property
    def supports(self) -> bool:
        """Return whether a sentence states the answer about what was asked."""
        return self.support >= MIN_ABOUT and not self.disowns

    @property
    def opposes(self) -> bool:
        """Return whether the text states something else instead."""
        return self.opposition >= MIN_ABOUT and self.opposition > self.support


SUPPORT_FEATURES: Final = ("support", "oppose", "deny", "close", "unit", "supshare")


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """Reported claim with the weights of its words."""

    claim: ReportedClaim
    question: Mapping[str, float]  # weight by stem
    answer: Mapping[str, float]  # weight by stem of what the answer adds
    nouns: frozenset[str]  # stems of the question that a number may count
    phrase: tuple[str, ...]  # stems of the whole answer, the question's words included
    words: tuple[str, ...] = ()  # stems of the question, as it is asked
    asks_bound: bool = False  # "Within how many days …?"
    compares: bool = False  # "Which is heavier, A or B?"
    opposites: frozenset[str] = frozenset()  # "positive", "negative", where the question names one
    asks_of_two: bool = False  # "Are A and B both …?"
    pair: tuple[str, ...] = ()  # stems next to the "and" between those two
    asked_noun: str = ""  # stem: "what county"
    noun: str = ""  # stem that the report puts behind the answer, and the question asks for: "Utah County"

    @property
    def values(self) -> list[Value]:
        """Return the values that a text must state."""
        return self.comparable(self.claim.values)

    def comparable(self, values: Iterable[Value]) -> list[Value]:
        """Return the values that can state the answer: no names or negations; a bound as its end where one is asked for."""
        candidates = (value for value in values if value.kind in _COMPARED)
        return [_end_of_bound(value) if self.asks_bound else value for value in candidates]


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: tuple[int, int]  # in the plain text
    text: str
    words: list[str]


def read_support(asked_claim: AskedClaim, text: str) -> SupportEvidence:
    """Return what a text says about a claim. Linear in the text, which may be hostile."""
    plain = make_plain(text[:MAX_TEXT_LENGTH])
    sentences = [
        _Sentence((start, end), plain.text[start:end], stems(plain.text[start:end]))
        for start, end in islice(split_sentences(plain.text), MAX_SENTENCES)
    ]
    if not sentences:
        return SupportEvidence(0.0, 0.0, 0.0, 0.0, 0.5, 0.0, None)
    about = list(_about(asked_claim.question, sentences))
    readings = [_read(asked_claim, plain, sentence) for sentence in sentences]
    if any(_says_otherwise(asked_claim, sentence) for sentence in sentences):
        readings = [
            _doubt(asked_claim, reading, sentence) for reading, sentence in zip(readings, sentences, strict=True)
        ]
    supports = [share * reading.holds * (not reading.denies) for share, reading in zip(about, readings, strict=True)]
    best = max(range(len(sentences)), key=supports.__getitem__)
    units = [reading.unit for reading in readings if reading.holds >= MIN_HELD]
    span = plain.span(*sentences[best].span) if supports[best] > 0 else None
    opposition = max(share * reading.opposes for share, reading in zip(about, readings, strict=True))
    if asked_claim.claim.is_affirmed is not None and not asked_claim.values:
        is_plainly_denied = opposition >= PLAIN_DENIAL and opposition - supports[best] >= MIN_OUTWEIGHED
        disowns = asked_claim.claim.is_affirmed and is_plainly_denied
    else:
        disowns = _disowns(asked_claim, sentences)
    return SupportEvidence(
        support=supports[best],
        opposition=opposition,
        denial=max(share * reading.holds * reading.denies for share, reading in zip(about, readings, strict=True)),
        nearness=_nearness(asked_claim, sentences),
        unit=max(units, default=0.5),
        support_share=sum(support >= MIN_ABOUT for support in supports) / len(sentences),
        span=span,
        disowns=disowns,
    )


def _disowns(asked_claim: AskedClaim, sentences: Sequence[_Sentence]) -> bool:
    """Return whether each sentence that holds the answer denies it, is refuted by the next one, or is about another thing."""
    holding, may_deny = False, not asks_with_negation(asked_claim.words)
    for sentence, following in zip(sentences, [*sentences[1:], None], strict=True):
        places = _answer_places(asked_claim, sentence)
        if not places:
            continue
        holding = True
        is_disowned = (
            (may_deny and all(is_denied(sentence.text, *place) for place in places))
            or (following is not None and is_refutation(following.text))
            or is_about_another(asked_claim.words, sentence.text, sentence.words)
        )
        if not is_disowned:
            return False
    return holding


def _answer_places(asked_claim: AskedClaim, sentence: _Sentence) -> list[tuple[int, int]]:
    """Return start and end of each place where a sentence holds the answer."""
    values = asked_claim.comparable(read_values_of_sentence(sentence.text)) if asked_claim.values else []
    places = [
        (value.span.start, value.span.end)
        for value in values
        if _relate(asked_claim, value, sentence)[0] in {Relation.EQUAL, Relation.OVERLAPPING}
    ]
    least = 0.99 if asked_claim.values else MIN_HELD
    if places or share_of_weight(asked_claim.answer, sentence.words) < least:
        return places
    heaviest = max(asked_claim.answer, key=asked_claim.answer.__getitem__)
    return [match.span() for match in _WORD.finditer(sentence.text) if _stem(match.group()) == heaviest]


def _about(question: Mapping[str, float], sentences: Sequence[_Sentence]) -> Iterator[float]:
    """Yield how far each sentence is about what was asked, 0..1."""
    total = sum(question.values()) or 1.0
    head = set(sentences[0].words)
    before: set[str] = set()
    for sentence, following in zip(sentences, [*sentences[1:], None], strict=True):
        own = set(sentence.words)
        context = set() if speaks_of_itself(sentence.text) else head | before
        if following is not None and _GOES_ON.search(following.text):
            context |= set(following.words)
        yield (
            sum(
                weight * (1.0 if word in own else CONTEXT_SHARE if word in context else 0.0)
                for word, weight in question.items()
            )
            / total
        )
        before = own


@dataclass(frozen=True, slots=True)
class _Reading:
    """One sentence's word on a claim."""

    holds: float = 0.0  # the answer, 0..1
    opposes: float = 0.0  # 0..1
    denies: bool = False
    unit: float = 0.5


def _says_otherwise(asked_claim: AskedClaim, sentence: _Sentence) -> bool:
    """Return whether a sentence names another, or puts the answer behind "than" or behind the opposite of what is asked."""
    if asked_claim.values or asked_claim.claim.is_affirmed is not None:
        return False  # they are compared as values, and as yes or no
    return (
        _names_another(asked_claim, sentence)
        or (asked_claim.compares and _follows_than(asked_claim.answer, sentence.text))
        or _is_of_opposite(asked_claim, sentence.text)
    )


def _doubt(asked_claim: AskedClaim, reading: _Reading, sentence: _Sentence) -> _Reading:
    """Return what a sentence says in a text that says otherwise: little, unless it names what the text speaks of twice."""
    if asked_claim.noun:
        is_clear = asked_claim.noun in sentence.words
    elif asked_claim.compares:
        is_clear = bool(_COMPARES.search(sentence.text))
    else:
        is_clear = any(word in asked_claim.opposites and word in asked_claim.words for word in sentence.words)
    return reading if is_clear else replace(reading, holds=reading.holds * BROKEN_SHARE)


def _read(asked_claim: AskedClaim, plain: PlainText, sentence: _Sentence) -> _Reading:
    if asked_claim.claim.is_affirmed is not None and not asked_claim.values:
        return _read_polarity(asked_claim, asked_claim.claim.is_affirmed, sentence)
    if asked_claim.values:
        return _read_values(asked_claim, plain, sentence)
    share = share_of_weight(asked_claim.answer, sentence.words)
    if _says_otherwise(asked_claim, sentence):
        return _Reading(opposes=1.0)
    if share < MIN_HELD:
        return _Reading(opposes=float(_states_another(asked_claim, sentence)))
    if (
        len(asked_claim.phrase) > len(asked_claim.answer)
        and f" {' '.join(asked_claim.phrase)} " not in f" {' '.join(sentence.words)} "
    ):
        share *= BROKEN_SHARE  # "Salt Lake County, Utah" is not Utah County
    return _Reading(holds=share, denies=_is_denied(asked_claim.answer, sentence.text))


def _is_of_opposite(asked_claim: AskedClaim, text: str) -> bool:
    """Return whether the answer follows the opposite of a word of the question, nearer than the word itself."""
    place = min(_places(asked_claim.answer, text), default=0) if asked_claim.opposites else 0
    before = [word for word in stems(text[:place]) if word in asked_claim.opposites]
    return bool(before) and before[-1] not in asked_claim.words


def _names_another(asked_claim: AskedClaim, sentence: _Sentence) -> bool:
    """Return whether a sentence puts another name before the noun that question and answer share: "what county"."""
    names = {_stem(name) for name, _ in _names_before(asked_claim.noun, asked_claim.question, sentence.text)}
    return bool(names) and not names & asked_claim.answer.keys()


def _states_another(asked_claim: AskedClaim, sentence: _Sentence) -> bool:
    """Return whether a sentence puts another name before the noun that the question asks for, and does not deny it."""
    names = _names_before(asked_claim.asked_noun, asked_claim.question, sentence.text)
    return any(not _DENIES_WHAT_FOLLOWS.search(sentence.text, max(0, place - 80), place) for _, place in names)


def _names_before(noun: str, question: Collection[str], text: str) -> Iterator[tuple[str, int]]:
    """Yield each name that stands before a noun and not in the question, and where it begins."""
    for match, following in pairwise(_WORD.finditer(text)) if noun else ():
        word, written = match.group(), following.group().casefold()
        is_noun = _stem(written) == noun and written.endswith("s") == noun.endswith("s")  # not "the United States"
        is_noun &= text[match.end() : following.start()].isspace()  # not "hence, Manila"
        if is_noun and word[0].isupper() and word.casefold() not in FUNCTION_WORDS and _stem(word) not in question:
            yield word, match.start()


def _read_polarity(asked_claim: AskedClaim, is_affirmed: bool, sentence: _Sentence) -> _Reading:
    named = _NAMED_ANSWER.search(sentence.text) if _repeats_question(asked_claim, sentence) else None
    if named:
        denial = float(named["answer"].casefold() == "no")
    elif sentence.text.rstrip("\"')").endswith("?"):
        return _Reading()
    else:
        denial = _denial(asked_claim.question, sentence.text, of_two=asked_claim.asks_of_two)
    if is_affirmed:
        return _Reading(holds=1 - denial, opposes=denial)
    # Of two things, it may hold of one.
    is_of_one = not set(asked_claim.pair) <= {*sentence.words} and "both" not in sentence.words
    return _Reading(holds=denial, opposes=0.0 if is_of_one else 1 - denial)


def _repeats_question(asked_claim: AskedClaim, sentence: _Sentence) -> bool:
    return (
        len(asked_claim.words) >= MIN_REPEATED and f" {' '.join(asked_claim.words)} " in f" {' '.join(sentence.words)} "
    )


def _denial(question: Collection[str], text: str, *, of_two: bool) -> float:
    """Return how far a sentence denies what was asked, 0..1: two denials affirm it.

    A negation denies it where its clause goes on with a word of the question ("is not a depressant") or with nothing
    ("it is not"), half where such a word only stands before it in the clause, and not at all elsewhere: "a depressant
    that is not approved". A contrast denies what is asked of two things: "the other, however, is a chef".
    """
    scopes = [_scope(question, text, *span) for span in read_negations(text) if not _asks(question, text[slice(*span)])]
    full = scopes.count(1.0) + _says_opposite(question, text)
    turn = _TURNS.search(text)
    turns = turn is not None and not _asks(question, turn.group().split()[0])
    if not full and (turns or (of_two and _CONTRASTS.search(text))):
        return 1.0
    return full % 2 if full else max(scopes, default=0.0)


def _says_opposite(question: Collection[str], text: str) -> bool:
    """Return whether a sentence says "same" where "different" is asked, or the other way round."""
    words = set(stems(text))
    return any(
        wanted & set(question) and opposite & words and not wanted & words
        for wanted, opposite in ((_SAME, _DIFFERENT), (_DIFFERENT, _SAME))
    )


def _asks(question: Collection[str], negation: str) -> bool:
    """Return whether the question itself holds a negation: "is it illegal"."""
    return any(word in question for word in stems(negation))


def _scope(question: Collection[str], text: str, start: int, end: int) -> float:
    """Return how far a negation is about the question, 0..1."""
    following = _CLAUSE_END.split(text[end : end + SCOPE_LENGTH], maxsplit=1)[0]
    words = [short for short, written in stemmed_words(following) if written not in FUNCTION_WORDS]
    if not words or _is_any_asked(question, words):
        return 1.0
    before = _CLAUSE_START.split(text[max(0, start - SCOPE_LENGTH) : start])[-1]
    return SUBJECT_SHARE if _is_any_asked(question, stems(before)) else 0.0


def _is_any_asked(question: Collection[str], words: Iterable[str]) -> bool:
    """Return whether a word is one of the question's, or of its family: "music" of "musicians"."""
    return any(
        word in question
        or any(
            min(len(word), len(other)) >= FAMILY_LETTERS and word[:FAMILY_LETTERS] == other[:FAMILY_LETTERS]
            for other in question
        )
        for word in words
    )


def _read_values(asked_claim: AskedClaim, plain: PlainText, sentence: _Sentence) -> _Reading:
    stated = asked_claim.comparable(read_sentence(plain, *sentence.span))
    holds, unit, is_denied, opposes = 0.0, 0.0, True, 0.0
    for value in stated:
        relation, fits = _relate(asked_claim, value, sentence)
        if relation is Relation.OVERLAPPING and value.low is not None:
            continue  # both can be true: "at most 16 V" states nothing of 10.5 to 36 V
        if relation in {Relation.EQUAL, Relation.OVERLAPPING}:
            strength = 1.0 if relation is Relation.EQUAL else 0.6
            holds, unit = max((strength, fits), (holds, unit))
            is_denied &= value.is_denied or _is_former(plain, value, sentence)
        elif relation is Relation.DIFFERENT and not value.is_denied and not _is_former(plain, value, sentence):
            opposes = max(opposes, fits)
    if (
        not holds and share_of_weight(asked_claim.answer, sentence.words) >= 0.99
    ):  # written in a way that no value is read from
        return _Reading(holds=0.8, denies=_is_denied(asked_claim.answer, sentence.text), unit=0.4)
    return _Reading(
        holds=holds, opposes=0.0 if holds else opposes, denies=bool(holds) and is_denied, unit=unit if holds else 0.5
    )


def _end_of_bound(value: Value) -> Value:
    """Return "at most 28 days" as "28 days"; other values as they are."""
    if value.low is None or value.high is None or math.isfinite(value.high - value.low):
        return value
    end = value.low if math.isfinite(value.low) else value.high
    return replace(value, low=end, high=end)


def speaks_of_itself(sentence: str) -> bool:
    """Return whether a sentence speaks of its own text to its reader: "this text will lead you to …"."""
    return bool(_SPEAKS_OF_ITSELF.search(sentence))


def asked_noun(question: str) -> str:
    """Return the stem of the noun that a question asks for: "county" of "What county is …"; empty: there is none."""
    match = _ASKED_NOUN.match(question)
    return _stem(match["noun"].rpartition(" ")[2]) if match else ""


def asks_of_two(question: str) -> bool:
    """Return whether a question asks something of two things together."""
    return bool(_ASKS_OF_TWO.search(question))


def pair_asked_of(question: str) -> tuple[str, ...]:
    """Return the stems of the words around "and", where a question asks something of two things together."""
    match = _PAIR.search(question) if asks_of_two(question) else None
    return tuple(map(_stem, match.groups())) if match else ()


def opposites_asked_of(words: Collection[str]) -> frozenset[str]:
    """Return the stems of two opposites of which a question names one; empty: none, or both."""
    return next((pair for pair in _OPPOSITES if len(pair & set(words)) == 1), frozenset())


def compares(question: str) -> bool:
    """Return whether a question asks which of two things is more or less."""
    return " or " in question and bool(_ASKS_COMPARISON.search(question))


def asks_bound(question: str) -> bool:
    """Return whether a question asks how much something may be at most or at least."""
    return bool(_ASKS_BOUND.search(question))


def _is_former(plain: PlainText, value: Value, sentence: _Sentence) -> bool:
    """Return whether a sentence tells of a value that held formerly, or that it denies."""
    if plain.positions is not None:
        return bool(_FORMER.search(sentence.text))
    start, end = (place - sentence.span[0] for place in (value.span.start, value.span.end))
    before, after = sentence.text[max(0, start - 60) : start], sentence.text[end : end + 60]
    return bool(_DENIES_WHAT_FOLLOWS.search(before) or _FORMER_BEFORE.search(before) or _FORMER_AFTER.match(after))


def _relate(asked_claim: AskedClaim, value: Value, sentence: _Sentence) -> tuple[Relation | None, float]:
    """Return how a text's value relates to the reported ones, and whether it measures what was asked, 0..1."""
    relations: list[tuple[Relation, float]] = []
    for reported in asked_claim.values:
        relation = _relate_times(reported, value) or relate(reported, value)
        if relation is not None and reported.kind is not Kind.COUNT:
            relations.append((relation, 1.0))
        elif reported.low is not None and value.low is not None and Kind.COUNT in {reported.kind, value.kind}:
            fits = _unit_fits(asked_claim, value, reported, sentence)
            if math.isclose(reported.low, value.low) and math.isclose(reported.high or 0, value.high or 0):
                relations.append((Relation.EQUAL, fits))
            elif fits > 0.5:
                relations.append((Relation.DIFFERENT, fits))
    order = (Relation.EQUAL, Relation.OVERLAPPING, Relation.DIFFERENT)
    return min(relations, key=lambda pair: (order.index(pair[0]), -pair[1]), default=(None, 0.5))


def _relate_times(reported: Value, value: Value) -> Relation | None:
    """Return how an interval and a duration relate: "every 36 months" and "36 months"; None: they are not such a pair."""
    if {reported.kind, value.kind} != {Kind.DURATION, Kind.FREQUENCY}:
        return None
    return relate(replace(reported, kind=Kind.FREQUENCY), replace(value, kind=Kind.FREQUENCY))


def _unit_fits(asked_claim: AskedClaim, value: Value, reported: Value, sentence: _Sentence) -> float:
    """Return whether a bare number counts what was asked: 1 where its noun is the question's."""
    if value.unit and (stem(value.unit) in asked_claim.nouns or stem(value.unit) == stem(reported.unit)):
        return 1.0
    number = f"{value.low:g}" if value.low is not None else ""
    for place, word in enumerate(sentence.words):
        if word == number and asked_claim.nouns & set(
            sentence.words[max(0, place - UNIT_REACH) : place + UNIT_REACH + 1]
        ):
            return 0.8
    return 0.3 if value.unit else 0.5


def _is_denied(answer: Mapping[str, float], text: str) -> bool:
    """Return whether every place of the answer's heaviest word follows a denial."""
    places = _places(answer, text)
    return bool(places) and all(_DENIES_WHAT_FOLLOWS.search(text, max(0, place - 80), place) for place in places)


def _follows_than(answer: Mapping[str, float], text: str) -> bool:
    """Return whether the first place of the answer's heaviest word follows "than"."""
    places = _places(answer, text)
    return bool(places) and bool(_THAN.search(text, max(0, places[0] - 80), places[0]))


def _places(answer: Mapping[str, float], text: str) -> list[int]:
    """Return where the answer's heaviest word stands."""
    heaviest = max(answer, key=answer.__getitem__)
    return [match.start() for match in _WORD.finditer(text) if _stem(match.group()) == heaviest]


def _nearness(asked_claim: AskedClaim, sentences: Sequence[_Sentence]) -> float:
    words = [word for sentence in sentences for word in sentence.words]
    answer = [place for place, word in enumerate(words) if word in asked_claim.answer]
    total = sum(asked_claim.question.values())
    if not answer or not total:
        return 0.0
    distances = dict.fromkeys(asked_claim.question, math.inf)
    last = -math.inf
    places = set(answer)
    for direction in (range(len(words)), range(len(words) - 1, -1, -1)):
        last = math.inf
        for place in direction:
            last = 0 if place in places else last + 1
            if words[place] in distances:
                distances[words[place]] = min(distances[words[place]], last)
    return sum(weight * math.exp(-distances[word] / NEARNESS) for word, weight in asked_claim.question.items()) / total


def stems(text: str) -> list[str]:
    """Return the words of a text as the judge compares them: folded, stemmed, numbers in digits."""
    return [short for short, _ in stemmed_words(text)]


def stemmed_words(text: str) -> list[tuple[str, str]]:
    """Return each word of a text as the judge compares it, and as it is written, folded: a stem need be no word."""
    folded = unicodedata.normalize("NFKC", text[:MAX_TEXT_LENGTH])
    return [(_stem(word), word.casefold()) for word in _WORD.findall(folded)]


def _stem(word: str) -> str:
    """Return the stem without a last e or y, so that "calibrate" and "calibrated", "country" and "countries" are one word."""
    folded = word.casefold()
    short = stem(_FORMS.get(folded) or NUMBERS.get(folded, folded))
    return short[:-1] if len(short) > 4 and _LAST_VOWEL.search(short) else short


_OPPOSITES: Final = tuple(frozenset(map(_stem, pair.split("/"))) for pair in _OPPOSITE_PAIRS.split())
_SAME: Final = frozenset({_stem("same")})
_DIFFERENT: Final = frozenset(map(_stem, ("different", "differ", "distinct")))
