"""Statements: what a clause of a sentence is about, what it says of it, and whether it says or denies it.

Each clause is a statement of its own ("it weighs 2 kg and is made of steel" are two); its span is the whole sentence.
What a clause with "it", "which" or no subject is about stands in the clause or the sentence before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Final, TypeAlias

from corpus_guard.claims.clauses import FINITE, PRONOUN_FIRST, Clause, split_clauses
from corpus_guard.claims.languages import Language, Words, find_language, fold, load_languages, root, split_local_words
from corpus_guard.claims.local_values import is_dated, number_end, read_local_values
from corpus_guard.claims.names import may_hold_name
from corpus_guard.claims.negation import NOT
from corpus_guard.claims.plain_text import make_plain
from corpus_guard.claims.sentences import CHANGE_ENTRY, split_statements
from corpus_guard.claims.value import Kind, Value
from corpus_guard.claims.values import place_value, read_values, read_values_of_sentence
from corpus_guard.claims.vocabulary import EMPTY, stem
from corpus_guard.domain import Span

MAX_SHOWN: Final = 2_000  # characters of a text that show its language
MAX_STATEMENTS: Final = 2_000  # read of one text; the others are counted
MASK: Final = "\x1f"
LONGEST_GAP: Final = 12  # characters between "not" and the value it denies: " once every "
IDENTIFIER_WEIGHT: Final = 2.0  # "OX-12" says more than "sensor"
COMMON_BITS: Final = 11.0  # the words below it are some thousand that every text uses
MIN_WEIGHT: Final = 0.5  # of such a word
FEWEST_CODE_SIGNS: Final = 2  # of a sentence that reads as code
CODE_SHARE: Final = 0.25  # such signs for each word, from which it does
DEFINING: Final = 3  # sentences, of which the first that defines something tells what a text without a title is about
UNKNOWN_WEIGHT: Final = 2.75  # of a word in a language whose frequent words are not known
LONGEST_REACH: Final = 6  # sentences before one that may name what it is about
LONGEST_HEADING: Final = 120  # characters
_ENDS: Final = frozenset(".!?…。！？؟।")
_LOCAL_CUT: Final = re.compile(r"[,;:](?!\d)\s*|[，；：、،؛]\s*|\s[-–—]\s")
_CASELESS: Final = frozenset({"ar", "hi", "zh", "ja", "ko"})
_KNOWN_SENTENCES: Final = 4_096  # that are kept: footers, notices and licences stand in many documents
TELLING_BITS: Final = 13.0  # of a word of a title that tells what it is about: some 8,000 words are more frequent

Rarity = Callable[[str], float]
"""Bits of a lower-case word, 0 to about 16: the rarer, the more; `screening.wording.Wording.rarity` is one."""

_WORD: Final = re.compile(r"\x1f+|[^\W_][\w'-]*")
_NAME_WORD: Final = re.compile(r"[\w-]+")
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_YEAR: Final = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
_CODE_SIGN: Final = re.compile(
    r"(?m)```|~~~|>>>|^\s*[$%] |[=!<>]=|->|=>|::|[{};]|\w\(|[\w\"'\])] ?= ?[\w\"'{\[(]|\w+_\w+|[\"']:|(?<!\w)--?[a-z]|\\$|</?\w"
    r"|^\s*@\w|\w/\w+/\w|[\"'\])],?$|^\s*(?:import|from|def|class|return|export|sudo|pip|curl|git|docker|async|await)\b"
)
"""Signs of code, commands and their output, rare in prose."""
_HISTORY: Final = re.compile(
    r"(?i)\b(?:former(?:ly)?|previous(?:ly)?|used to (?:be|have|take|last|cost)|no longer|old revision|was once|originally|in the past"
    r"|obsolete|outdated|superseded|until (?:19|20)\d\d|(?:was|were) (?:planned|proposed|meant|intended|going) to)\b"
)
_REFERS: Final = re.compile(rf"^{PRONOUN_FIRST.pattern.removeprefix('(?i)')}|\b(?:it|them)\b", re.IGNORECASE)
POSSESSIVE: Final = re.compile(r"(?i)\W*(?:(?:and|but|so) )?(?:its|their|his|her)\b")  # "its battery" names a subject
_ORDERING: Final = re.compile(r"(?i)\b(?:before|after)\b")
LINES_OF_TITLE: Final = 2  # the declared title and the name of the file; a third one holds the folders
FEWEST_ENTRIES: Final = 2  # of a list of changes
_NUMBERED: Final = re.compile(r"(?<![\w-])(?P<name>[^\W\d_][\w-]*) (?P<number>\d{1,4})(?![\d%°]|[.,:/]\d)")
_KIND: Final = re.compile(r"(?<![\w'-])(?P<name>[A-Z][\w-]*) (?P<kind>[a-z][\w-]+) (?P<thing>[a-z][\w-]+)")
_STEP_END: Final = re.compile(r"[,;:]\s|[.!]\s")
_IS_A: Final = re.compile(r"(?i)\b(?:is|are|was|were) (?:an?|the|one of)\b")  # "Sanday is an island of Orkney"
_PAST: Final = re.compile(
    r"(?i)\b(?:was|were|had|did|didn't|gave|came|took|ran|cost|began|got|went|wrote|kept|held|paid|made|said|let|could|sold|asked"
    r"|[a-z]{2,}ed)\b"
)
_HAPPENED: Final = re.compile(
    r"(?i)\b(?:was|were|had|did|didn't|gave|came|took|ran|began|got|went|wrote|kept|held|paid|made|sold|asked"
    r"|(?:contained|weighed|lasted|measured|covered|charged|required|needed|allowed|supported|offered) (?=\W?\d)"
    r"|(?:I|we|he|she|they|it|you) [a-z]{2,}ed)\b"
)
_PRESENT: Final = re.compile(
    r"(?i)\b(?:is|are|has|have|must|may|can|cannot|will|shall|should|needs?|since|now|today|currently"
    r"|contains|weighs|lasts|measures|covers|charges|requires|allows|supports|offers)\b"
)
_CHANGED: Final = re.compile(
    r"(?i)\b(?:changed|raised|extended|increased|lowered|reduced|shortened|moved|updated|corrected|revised|set|replaced)"
    r" (?:\w+ ){0,3}(?:to|with)\b"
)


# "We have nine loggers": how many somebody has says nothing of the thing.
_OWN: Final = re.compile(
    r"(?i)\W*(?:(?:and|but|so) )?(?:I|we)(?:'ve)? (?:(?:still|now|already|only|also|just|currently) )?"
    r"(?:have|had|got|own|owned|keep|kept|use|used|run|ran|bought|ordered|installed|sold|lost|found|saw)\b"
)


_PRESENTS_ITSELF: Final = re.compile(
    r"(?i)\bthis (?:\w+ )?(?:document|page|article|section|guide|chapter|report|release|post|roadmap|tutorial|manual|newsletter"
    r"|issue|edition)\b"
    r",?(?: (?:we|you|I)\b)?[^.,;:]{0,20}\b(?:cover|describ|discuss|present|list|summari[sz]|explain|introduc|show|focus|outlin|learn)"
)


_LocalTexts: TypeAlias = tuple[Mapping[str, frozenset[str]], Words, Words, Words]
NamedKinds: TypeAlias = Mapping[tuple[str, str], frozenset[str]]


class Tense(StrEnum):
    """Time of which a statement tells."""

    PAST = "past"  # it happened: "last night it took 40 minutes"
    PRESENT = "present"  # or a rule: "it takes", "it must take"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Order:
    """Two steps of a sentence, each as the stems of its words."""

    value: Value  # the word that says which comes first
    first: frozenset[str]
    second: frozenset[str]


@dataclass(frozen=True)
class LocalWords:
    """Words of a statement in a language other than English."""

    language: Language
    words: Words  # that it is about, folded
    naming: tuple[tuple[int, str], ...]  # words of its sentence that may name what it is about, with their places
    before: tuple[str, ...]  # words of the names that stand last before its sentence, where that holds none
    numbered: frozenset[tuple[str, str]]  # words with a capital in its sentence before a number, folded: "Luvana 7"
    models: Mapping[
        str, frozenset[str]
    ]  # such words in the title and in a heading with which the text begins → numbers
    is_dated: bool  # its sentence tells of a time that a date names
    topic: Words  # of the title and of a heading with which the text begins
    heading: Words  # of the title of its text, and of a heading with which that begins
    context: Words  # of its text and the title


@dataclass(frozen=True)
class Statement:
    """A clause of a sentence, read. What its comparisons ask for again and again is kept."""

    span: Span  # of the sentence, in the text
    text: str  # of the clause, as a reader sees it
    masked: str  # the same with every value but names and weekdays as "#"
    values: tuple[Value, ...]  # denied ones and negations included
    places: tuple[tuple[int, int], ...]  # of the values, in `text`
    kinds: frozenset[Kind]  # of its values
    # (place in `text`, stem) of the words that it is about; names and weekdays included
    stems: tuple[tuple[int, str], ...]
    words: Mapping[str, float]  # each of these stems → weight, > 0
    is_negated: bool
    is_question: bool  # asks, supposes, or counts what the writer has: states nothing
    has_date: bool  # its sentence does
    about: frozenset[str]  # stems that it need not repeat: of the title, and of what "it" and "which" stand for
    referent: frozenset[str]  # of these, what its subject "it", "which" or none stands for; empty: it has a subject
    condition: frozenset[str]  # stems of the conditions in its sentence: "if the lid is open"
    context: frozenset[str]  # lower-case words of the text and its title
    find_subject: Callable[[], frozenset[str]] = field(compare=False, repr=False)  # see `subject`
    find_topic: Callable[[], frozenset[str]] = field(compare=False, repr=False)  # see `topic`
    title: frozenset[str] = frozenset()  # see `StatementReader.title`
    heading: frozenset[str] = frozenset()  # stems of the title
    years: frozenset[str] = frozenset()  # in the title
    is_code: bool = False  # its sentence reads as code, a command or its output
    order: Order | None = None  # of two steps of which its sentence tells
    is_entry: bool = False  # its line begins with a version or year, one of several: it tells of that time
    find_kinds: Callable[[], NamedKinds] = field(default=dict, compare=False, repr=False)  # see `named_kinds`
    local: LocalWords | None = None  # None: it is in English, or in a language that is read as English is

    @cached_property
    def subject(self) -> frozenset[str]:
        """The words of the name that it is about where it holds none: from before it, or from the title."""
        return self.find_subject()

    @cached_property
    def topic(self) -> frozenset[str]:
        """The words of the name that its whole text is about: the first one of the title, or of the first sentences."""
        return self.find_topic()

    @cached_property
    def named_kinds(self) -> NamedKinds:
        """Each name with the thing that it names in its text and title → the words between: "the Brandt acid wash"."""
        return self.find_kinds()

    @cached_property
    def names(self) -> tuple[Value, ...]:
        """The proper names and identifiers."""
        return tuple(value for value in self.values if value.kind is Kind.NAME) if Kind.NAME in self.kinds else ()

    @cached_property
    def name_stems(self) -> Mapping[str, str]:
        """Each word of its names → stem."""
        return {word: stem(word) for name in self.names for word in words_of_name(name.normal)}

    @cached_property
    def weekday_stems(self) -> frozenset[str]:
        """The stems of its weekdays."""
        places = [place for value, place in zip(self.values, self.places, strict=True) if value.kind is Kind.WEEKDAYS]
        return frozenset(stem for at, stem in self.stems if any(start <= at < end for start, end in places))

    @cached_property
    def reach(self) -> frozenset[str]:
        """The stems that it is about, with those that it need not repeat."""
        return self.about | self.condition | self.words.keys()

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The stems of all that its text and its title mention."""
        return self.reach | {stem(word) for word in self.context}

    @cached_property
    def tense(self) -> Tense:
        """Time of which it tells."""
        is_past = bool(_HAPPENED.search(self.text)) and not _CHANGED.search(self.text)
        is_present = bool(_PRESENT.search(self.text))
        return Tense.UNKNOWN if is_past == is_present else Tense.PAST if is_past else Tense.PRESENT

    @cached_property
    def is_dated(self) -> bool:
        """Return whether it tells of a time that a date names, "in 2014 it was 12 hours"; how it has been since then is no such thing."""
        text = self.text
        return self.has_date and bool(_PAST.search(text)) and not _PRESENT.search(text) and not _CHANGED.search(text)

    @cached_property
    def is_history(self) -> bool:
        """Return whether its first value is of former times, or was only planned; a later clause about them makes no history of it."""
        marked = _HISTORY.search(self.text)
        if marked is None:
            return self.is_entry
        stated = (
            end
            for value, (_, end) in zip(self.values, self.places, strict=True)
            if value.kind not in {Kind.NAME, Kind.NEGATION}
        )
        return "," not in self.text[next(stated, len(self.text)) : marked.start()]

    @cached_property
    def presents_itself(self) -> bool:
        """Return whether it says what its own document is about; see `presents_itself`."""
        return presents_itself(self.text)

    def before_verb(self) -> frozenset[str]:
        """Return the stems before the verb, where the subject stands; all where there is no verb that shows."""
        return _before_verb_of(self.text, self.stems)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a text, and how many more sentences it has."""

    statements: tuple[Statement, ...]
    not_read: int = 0


def read_statements(text: str, rarity: Rarity | None = None, title: str = "") -> Statements:
    """Return the statements of a text, the first MAX_STATEMENTS of them.

    Args:
        text: anything; linear in its length.
        rarity: bits of a word. None: every word that is not empty weighs the same.
        title: of the text: what a sentence without a subject is about; name of the file and folders may follow in two lines more.
    """
    reader = StatementReader(text, rarity, title)
    read: list[Statement] = []
    for number in range(len(reader.sentences)):
        if len(read) >= MAX_STATEMENTS:
            return Statements(tuple(read), len(reader.sentences) - number)
        read += reader.read(number)
    return Statements(tuple(read))


class StatementReader:
    """The sentences of a text, each read when it is asked for, with those before it that say what it is about."""

    def __init__(self, text: str, rarity: Rarity | None = None, title: str = "") -> None:
        """Split a text into sentences; the arguments are those of `read_statements`."""
        self._plain = make_plain(text)
        self._rarity = rarity
        self._heading = title
        self._statements: dict[int, tuple[Statement, ...]] = {}
        self._codes: dict[int, bool] = {}
        self._languages: dict[int, Language | None] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._local_contexts: dict[str, _LocalTexts] = {}
        self.sentences = tuple(split_statements(self._plain.text))

    @cached_property
    def _language(self) -> Language | None:
        """The language of most of the text."""
        return find_language(self._plain.text[:MAX_SHOWN])

    def language(self, number: int) -> Language | None:
        """Return the language of a sentence; None: English, or one that is read as English is."""
        if number not in self._languages:
            is_code = self.is_code(number)
            self._languages[number] = None if is_code else find_language(self.text(number), self._language)
        return self._languages[number]

    def text(self, number: int) -> str:
        """Return a sentence as a reader sees it."""
        return self.joined(number, number)

    def joined(self, first: int, last: int) -> str:
        """Return the text from the first to the last of some sentences, as a reader sees it."""
        return self._plain.text[self.sentences[first][0] : self.sentences[last][1]]

    def span(self, number: int) -> Span:
        """Return the place of a sentence in the text."""
        return self._plain.span(*self.sentences[number])

    def is_code(self, number: int) -> bool:
        """Return whether a sentence reads as code, a command or its output."""
        if number not in self._codes:
            text = self.text(number)
            signs = sum(1 for _ in _CODE_SIGN.finditer(text))
            self._codes[number] = signs >= FEWEST_CODE_SIGNS and signs >= CODE_SHARE * len(text.split())
        return self._codes[number]

    def read(self, number: int) -> tuple[Statement, ...]:
        """Return the statements of a sentence."""
        if number not in self._statements:
            self._statements[number] = tuple(self._state(number))
        return self._statements[number]

    def _state(self, number: int) -> Iterator[Statement]:
        sentence = self._sentence(number)
        span = self.span(number)
        start = self.sentences[number][0]
        condition = frozenset[str]().union(*(part.words for part in sentence.parts if part.clause.is_supposed))
        # The sentence before is read only where one of the first clauses is about what it is about.
        before = self._words_before(number) if sentence.parts and sentence.parts[0].refers else frozenset[str]()
        for part in sentence.parts:
            is_continued = part.refers and not POSSESSIVE.match(part.text) and not _first_name(part.values)
            yield Statement(
                span=span,
                text=part.text,
                masked=re.sub(f"{MASK}+", "#", part.masked),
                values=tuple(place_value(value, self._plain, start) for value in part.values),
                places=part.places,
                kinds=frozenset(value.kind for value in part.values),
                stems=part.stems,
                words=part.words,
                is_negated=part.is_negated,
                is_question=sentence.is_question or part.clause.is_supposed or part.counts_own(),
                has_date=any(value.kind is Kind.DATE for value in sentence.values),
                about=self._about_title | before if part.refers else self._about_title,
                referent=before if is_continued else frozenset(),
                condition=frozenset[str]() if part.clause.is_supposed else condition,
                context=self.context,
                find_subject=partial(self._subject_before, number),
                find_topic=lambda: self._topic,
                title=self.title,
                heading=self._about_title,
                years=self._years,
                is_code=self.is_code(number),
                order=sentence.order
                and replace(sentence.order, value=place_value(sentence.order.value, self._plain, start)),
                is_entry=number in self._entries,
                find_kinds=lambda: self._named_kinds,
                local=self._local(number, sentence, part),
            )
            if not part.refers:
                before = part.subject()

    def _local(self, number: int, sentence: _Sentence, part: _Part) -> LocalWords | None:
        language = sentence.language
        if language is None:
            return None
        if language.code not in self._local_contexts:
            self._local_contexts[language.code] = self._split_local(language)
        models, topic, heading, context = self._local_contexts[language.code]
        return LocalWords(
            language,
            Words(word for _, word in part.stems),
            _naming_words(sentence, part, language),
            self._named_before(number, sentence, language),
            _numbered(sentence.text),
            models,
            is_dated(sentence.text, sentence.values, language),
            topic,
            heading,
            context,
        )

    def _named_before(self, number: int, sentence: _Sentence, language: Language) -> tuple[str, ...]:
        """Return the words of the names in the last sentence before one without names that holds some."""
        if _local_names(sentence):
            return ()
        for earlier in range(number - 1, max(-1, number - 1 - LONGEST_REACH), -1):
            if self.language(earlier) is language and (names := _local_names(self._sentence(earlier))):
                return names
        return ()

    def _split_local(self, language: Language) -> _LocalTexts:
        """Return what a text is about: numbered names and words of titles, words of title and first heading, and all words."""
        first = self.text(0) if len(self.sentences) > 1 else ""
        is_heading = bool(first) and first[-1] not in _ENDS and len(first) < LONGEST_HEADING
        title, _, file = self._heading.partition("\n")
        texts = (title, first if is_heading else "", file, self._heading, self._plain.text)
        declared, shown, named, heading, text = (
            [word for _, word in split_local_words(each, language)] for each in texts
        )
        mentioned = Words(text)  # a file may be named as somebody likes
        numbered = (
            f"{word} {number}" for word, number in pairwise([*heading, *text]) if number.isdigit()
        )  # "Luvana 7"
        topic = [*declared, *shown, *filter(mentioned.__contains__, named)]
        models: dict[str, frozenset[str]] = {}
        for name, number in _numbered(f"{title}\n{first if is_heading else ''}"):
            models[name] = models.get(name, frozenset()) | {number}
        return models, Words(topic), Words([*heading, *shown]), Words([*heading, *text, *numbered])

    @cached_property
    def context(self) -> frozenset[str]:
        """The lower-case words of the text and its title."""
        return frozenset(_plain_words(f"{self._heading}\n{self._plain.text}"))

    @cached_property
    def _about_title(self) -> frozenset[str]:
        return frozenset(stem for _, stem in _weigh(self._heading, (), None)[0])

    @cached_property
    def title(self) -> frozenset[str]:
        """The words of the title that tell it from others, and of what the text defines first."""
        rarity = self._rarity
        if rarity is None:
            return frozenset()
        # A number, or a word with digits that the text does not say, numbers the page: "post-1234".
        # A folder tells what a text is about where that says the same.
        title, folders = self._heading, ""
        if title.count("\n") >= LINES_OF_TITLE:
            title, _, folders = title.rpartition("\n")
        words = [word for word in _plain_words(title) if not _DIGIT.search(word) or word in self._said]
        words += [word for word in _plain_words(folders) if word in self._said]
        return frozenset(word for word in words if rarity(word) >= TELLING_BITS) | self._defined_first(rarity)

    @cached_property
    def _said(self) -> frozenset[str]:
        return frozenset(word for word in _plain_words(self._plain.text) if not word.isdigit())

    def _defined_first(self, rarity: Rarity) -> frozenset[str]:
        """Return the telling words of the first thing that the text defines: "Littlestown is a borough in Adams County"."""
        for start, end in self.sentences[:DEFINING]:
            sentence = self._plain.text[start:end]
            if definition := _IS_A.search(sentence):
                words = _plain_words(sentence[: definition.start()])
                return frozenset(word for word in words if not word.isdigit() and rarity(word) >= TELLING_BITS)
        return frozenset()

    @cached_property
    def _entries(self) -> frozenset[int]:
        """The sentences of lines that begin with a version or a year, where there are several: a list of changes."""
        beginning = [
            number
            for number, (start, end) in enumerate(self.sentences)
            if CHANGE_ENTRY.match(self._plain.text, start, end)
        ]
        return frozenset(beginning if len(beginning) >= FEWEST_ENTRIES else ())

    @cached_property
    def _named_kinds(self) -> NamedKinds:
        kinds: dict[tuple[str, str], set[str]] = {}
        for match in _KIND.finditer(f"{self._heading}\n{self._plain.text}"):
            kinds.setdefault((match["name"].lower(), stem(match["thing"])), set()).add(stem(match["kind"]))
        return {named: frozenset(words) for named, words in kinds.items()}

    @cached_property
    def _years(self) -> frozenset[str]:
        return frozenset(_YEAR.findall(self._heading))

    @cached_property
    def _subject_of_title(self) -> frozenset[str]:
        return _name_of_title(self._heading, self._rarity)

    @cached_property
    def _topic(self) -> frozenset[str]:
        texts = [self._heading, *map(self.text, range(min(DEFINING, len(self.sentences))))]
        values = (read_values_of_sentence(text) for text in texts if may_hold_name(text))
        return next(filter(None, map(_first_name, values)), frozenset())

    def _sentence(self, number: int) -> _Sentence:
        if language := self.language(number):
            return _read_local_sentence(self.text(number), language.code)
        return _read_sentence(self.text(number), self._rarity)

    def _words_before(self, number: int) -> frozenset[str]:
        """Return the subject of the last clause before a sentence that has one."""
        for earlier in range(number - 1, -1, -1):
            for part in reversed(self._sentence(earlier).parts):
                if not part.refers:
                    return part.subject()
        return frozenset()

    def _subject_before(self, number: int) -> frozenset[str]:
        """Return the name that stood last in the place of a subject before a sentence, or that of the title."""
        for earlier in range(number - 1, -1, -1):
            if name := self._name(earlier):
                return name
        return self._subject_of_title or next(filter(None, map(self._defined, range(number))), frozenset())

    def _name(self, number: int) -> frozenset[str]:
        """Return the words of the name in the place of a sentence's subject; most sentences need no reading for it."""
        if number not in self._names:
            self._names[number] = self._sentence(number).name if may_hold_name(self.text(number)) else frozenset()
        return self._names[number]

    def _defined(self, number: int) -> frozenset[str]:
        """Return the words of the name that a sentence says what it is: "Sanday is an island of Orkney"."""
        if not _IS_A.search(self.text(number)):
            return frozenset()
        return _telling(_first_name(self._sentence(number).values), self._rarity)


@dataclass(frozen=True)
class _Sentence:
    """A sentence, read by itself."""

    text: str
    values: tuple[Value, ...]  # spans are in the sentence
    parts: tuple[_Part, ...]
    name: frozenset[str]  # words of the name in the place of its subject
    language: Language | None = None
    order: Order | None = None

    @property
    def is_question(self) -> bool:
        return self.text.rstrip("\"')»").endswith(("?", "؟"))


@dataclass(frozen=True, slots=True)
class _Part:
    """A clause with the values in it; places count from its start."""

    clause: Clause
    text: str
    masked: str
    values: tuple[Value, ...]  # spans are in the sentence
    places: tuple[tuple[int, int], ...]
    stems: tuple[tuple[int, str], ...]
    words: Mapping[str, float]
    is_negated: bool
    refers: bool  # its subject stands before it

    def counts_own(self) -> bool:
        """Return whether it says how many of something the writer has, and nothing else that could be compared."""
        kinds = {value.kind for value in self.values} - {Kind.NAME, Kind.NEGATION}
        return kinds == {Kind.COUNT} and bool(_OWN.match(self.text))

    def subject(self) -> frozenset[str]:
        """Return what it is about."""
        return _before_verb_of(self.text, self.stems)


@lru_cache(maxsize=_KNOWN_SENTENCES)
def _read_sentence(text: str, rarity: Rarity | None) -> _Sentence:
    """Read a sentence by itself; one that stands in many documents is read once."""
    values = tuple(read_values_of_sentence(text))
    parts = tuple(_read_clause(text, clause, values, rarity) for clause in split_clauses(text))
    name = _telling(_first_name(_before_verb(text, values)), rarity)
    is_supposed = any(part.clause.is_supposed for part in parts)
    return _Sentence(text, values, parts, name, order=None if is_supposed else _read_order(text, values))


def _read_order(text: str, values: Sequence[Value]) -> Order | None:
    """Return the two steps of a plain sentence: "rinse the flask before adding the acid"; None: there are none, or it is denied."""
    words = list(_ORDERING.finditer(text))
    if len(words) != 1 or any(value.kind is Kind.NEGATION for value in values):
        return None
    word = words[0]
    stated = (value.span.start for value in values if value.kind is not Kind.NAME)
    if any(0 < start - word.end() <= LONGEST_GAP for start in stated):
        return None  # "before 10 May", "after age 59"
    before, after = _STEP_END.split(text[: word.start()])[-1], text[word.end() :]
    if re.search(r"\w", before):
        after = _STEP_END.split(after)[0]
    else:  # "Before you pay, check the order"
        after, _, before = after.partition(",")
    earlier, later = (before, after) if word.group().lower() == "before" else (after, before)
    first, second = (frozenset(stem for _, stem in _weigh(part, (), None)[0]) for part in (earlier, later))
    if not (first - second and second - first):
        return None
    normal = f"{' '.join(sorted(first - second))} before {' '.join(sorted(second - first))}"
    return Order(Value(Kind.ORDER, Span(*word.span()), normal), first, second)


def _local_names(sentence: _Sentence) -> tuple[str, ...]:
    """Return the words of the names of a sentence; in German and in scripts without capitals those with which it begins.

    What stands between the first two small words is its subject, most often.
    """
    spans = [value.span for value in sentence.values if value.kind is Kind.NAME]
    stems = [(each.clause.start + place, word) for each in sentence.parts for place, word in each.stems]
    return tuple(word for place, word in stems if any(span.start <= place < span.end for span in spans))


def _numbered(text: str) -> frozenset[tuple[str, str]]:
    """Return the words with a capital that stand before a number, folded."""
    matches = (match for match in _NUMBERED.finditer(text) if match["name"][0].isupper())
    return frozenset((fold(match["name"]), match["number"]) for match in matches)


def _naming_words(sentence: _Sentence, part: _Part, language: Language) -> tuple[tuple[int, str], ...]:
    """Return the words of a sentence that may name what a part is about: those of names, and the first word, which has a capital anyway.

    German gives one to every noun, and scripts without capitals to none: there all nouns or words before the first value.
    """
    stated = (value.span.start for value in sentence.values if value.kind not in {Kind.NAME, Kind.NEGATION})
    last = min(next(stated, part.clause.end), part.clause.end)
    names = [value.span for value in sentence.values if value.kind is Kind.NAME]
    stems = [(each.clause.start + place, word) for each in sentence.parts for place, word in each.stems]
    first = _LETTER.search(sentence.text)
    return tuple(
        (place, word)
        for place, word in stems
        if any(span.start <= place < span.end for span in names)
        or (first is not None and place == first.start())
        or (place < last and (language.code in _CASELESS or (language.code == "de" and sentence.text[place].isupper())))
    )


@lru_cache(maxsize=_KNOWN_SENTENCES)
def _read_local_sentence(text: str, code: str) -> _Sentence:
    """Read a sentence in a language other than English; its parts end at a comma."""
    language = load_languages()[code]
    values = tuple(read_local_values(text, language))
    masked = text
    for value in values:
        if value.kind not in {Kind.NAME, Kind.NEGATION}:
            start, end = value.span.start, number_end(text, value)
            masked = masked[:start] + MASK * (end - start) + masked[end:]
    stems = tuple(split_local_words(masked, language))
    parts = tuple(
        _read_local_part(text, masked, clause, values, stems) for clause in _local_clauses(masked, values, stems)
    )
    return _Sentence(text, values, parts, frozenset(), language)


def _local_clauses(masked: str, values: Sequence[Value], stems: Sequence[tuple[int, str]]) -> Iterator[Clause]:
    """Yield the parts of a sentence between commas, each with a word of its own."""
    start = 0
    for match in _LOCAL_CUT.finditer(masked):
        is_inside = any(value.span.start <= match.start() < value.span.end for value in values)
        has_words = (
            any(start <= place < match.start() for place, _ in stems),
            any(place >= match.end() for place, _ in stems),
        )
        if all(has_words) and not is_inside:
            yield Clause(start, match.start())
            start = match.end()
    yield Clause(start, len(masked))


def _read_local_part(
    text: str, masked: str, clause: Clause, values: Sequence[Value], stems: Sequence[tuple[int, str]]
) -> _Part:
    start, end = clause.start, clause.end
    own = tuple(value for value in values if start <= value.span.start < end)
    places = tuple((value.span.start - start, min(value.span.end, end) - start) for value in own)
    own_stems = tuple((place - start, word) for place, word in stems if start <= place < end)
    words = {root(word): UNKNOWN_WEIGHT for _, word in own_stems}
    negations = sum(value.kind is Kind.NEGATION and value.normal == NOT for value in own)
    return _Part(
        clause, text[start:end], masked[start:end], own, places, own_stems, words, bool(negations % 2), refers=False
    )


def _before_verb_of(text: str, stems: Iterable[tuple[int, str]]) -> frozenset[str]:
    verb = FINITE.search(text)
    end = verb.start() if verb else len(text)
    return frozenset(stem for place, stem in stems if place < end)


def _read_clause(sentence: str, clause: Clause, values: tuple[Value, ...], rarity: Rarity | None) -> _Part:
    inside = [
        (value, (value.span.start - clause.start, min(value.span.end, clause.end) - clause.start))
        for value in values
        if clause.start <= value.span.start < clause.end
    ]
    own, own_places = tuple(value for value, _ in inside), tuple(place for _, place in inside)
    text = sentence[clause.start : clause.end]
    masked = _mask(text, own, list(own_places))
    stems, words = _weigh(masked, own, rarity)
    negations = sum(
        value.kind is Kind.NEGATION
        and value.normal == NOT
        and not _denies(value, own)
        and not (text[:start].endswith(", ") and not FINITE.search(text, end))  # "in one arm, not both"
        for value, (start, end) in inside
    )
    refers = clause.is_continued or bool(_REFERS.search(text))
    return _Part(clause, text, masked, own, own_places, stems, words, bool(negations % 2), refers)


def _first_name(values: Iterable[Value]) -> frozenset[str]:
    """Return the words of the first name among `values`."""
    return next((frozenset(words_of_name(value.normal)) for value in values if value.kind is Kind.NAME), frozenset())


@lru_cache(maxsize=_KNOWN_SENTENCES)
def _name_of_title(title: str, rarity: Rarity | None) -> frozenset[str]:
    return _telling(_first_name(read_values(title)), rarity)


def _before_verb(sentence: str, values: Sequence[Value]) -> Sequence[Value]:
    """Return the values that stand before the verb, where the subject stands; all of a sentence without one."""
    verb = FINITE.search(sentence)
    return [value for value in values if verb is None or value.span.start < verb.start()]


def _telling(words: frozenset[str], rarity: Rarity | None) -> frozenset[str]:
    """Return the words of a name that tell it from others: of "Hotel Meridian" the second."""
    rare = frozenset(word for word in words if rarity is None or rarity(word) >= COMMON_BITS + 1)
    return rare or words


def _mask(sentence: str, values: tuple[Value, ...], places: list[tuple[int, int]]) -> str:
    for value, (start, end) in zip(values, places, strict=True):
        if value.kind in {Kind.NAME, Kind.NEGATION, Kind.WEEKDAYS}:
            continue
        stop = end
        if value.kind is Kind.COUNT and value.unit:  # the noun is part of what the sentence is about
            noun = re.search(r"[^\W\d_]+$", sentence[start:end])
            stop -= len(noun.group()) if noun else 0
        sentence = sentence[:start] + MASK * (stop - start) + sentence[stop:]
    return sentence


def _denies(negation: Value, values: tuple[Value, ...]) -> bool:
    """Return whether a negation belongs to a denied value: "every 6 months, not 36"."""
    gaps = (value.span.start - negation.span.end for value in values if value.is_denied)
    return any(0 <= gap <= LONGEST_GAP for gap in gaps)


def _weigh(
    masked: str, values: tuple[Value, ...], rarity: Rarity | None
) -> tuple[tuple[tuple[int, str], ...], dict[str, float]]:
    """Return the stems of a masked sentence with their places, and the weight of each."""
    stems: list[tuple[int, str]] = []
    weights: dict[str, float] = {}
    identifiers = {value.normal for value in values if value.kind is Kind.NAME and any(map(str.isdigit, value.normal))}
    placed_words = [
        (match.start(), match.group().lower().strip("'-").removesuffix("'s")) for match in _WORD.finditer(masked)
    ]
    placed_words = [(place, word) for place, word in placed_words if word and not word.startswith(MASK)]
    # A sentence of nothing but such words ("It may be used down to 300 m") is compared by them.
    for place, word in [pair for pair in placed_words if pair[1] not in EMPTY] or placed_words:
        stems.append((place, stem(word)))
        weights[stem(word)] = word_weight(word, rarity) * (IDENTIFIER_WEIGHT if word in identifiers else 1.0)
    return tuple(stems), weights


def presents_itself(sentence: str) -> bool:
    """Return whether a sentence says what its own document is about: "in this guide, we cover May to June 2021"."""
    return bool(_PRESENTS_ITSELF.search(sentence))


def word_weight(word: str, rarity: Rarity | None) -> float:
    """Return what a lower-case word says of the thing that a sentence is about, above 0."""
    return 1.0 if rarity is None else max(MIN_WEIGHT, (rarity(word) - COMMON_BITS + 1) / 2)


def shift_statement(statement: Statement, start: int) -> Statement:
    """Return a statement of a part of a text as one of the whole, in which the part begins at `start`."""
    values = tuple(value.placed(Span(value.span.start + start, value.span.end + start)) for value in statement.values)
    span = Span(statement.span.start + start, statement.span.end + start)
    return replace(statement, span=span, values=values)


def _plain_words(text: str) -> list[str]:
    """Return the words of a name or a text as they are compared, lower case and without "'s"."""
    return _NAME_WORD.findall(text.lower().replace("'s", ""))


@lru_cache(maxsize=100_000)
def words_of_name(name: str) -> tuple[str, ...]:
    """Return the words of a name as they are compared."""
    return tuple(_plain_words(name))
