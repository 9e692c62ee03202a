"""Changes of a new version against its accepted predecessor, and signs that it hides them.

Rules
- The predecessor may have stood under another name that vanished from the source
  (`corpus_guard.screening.predecessors`). That is a note; changes weigh as much as under one name.
- An *instruction* in a new passage (the rules of the check `instructions`, in their paragraph) weighs one
  step more than in a new document: nobody turns a served page into one that gives orders by accident.
- A *quiet change* is one of a few short changes in an otherwise equal text that touches a fact: a number with
  its sign and unit, a date, a name, the sense (a negation, an opposite, "only", two parts that change places), an
  address, an account or a telephone
  number. Facts are corrected every day, so a number,
  date or name is of low severity in an open source; sense and address, which change what a reader does, are
  of medium severity. In reviewed and trusted sources, where somebody answers for the text, all are low.
- Each sign that *pretends that nothing changed* adds a step: a declared date of change or version that stayed
  the same, a modification time of the storage that did not move. A date that moved, declared or in a line
  that says "updated", cancels these signs.
- Many changes are an ordinary edit: a note. A sentence among them that now states another value, another
  contact or the opposite is named as that, of low severity in an open source. A page that keeps hardly a word
  is of low severity in an open source.
- New text that a reader does not see, in a page that is otherwise nearly equal, is of low severity.
- *Metadata*: another author or date for the same text, or a date of change before the predecessor's, is low
  in an open source, a note elsewhere.

A change of a fact points at the sentence before and after it.

What it does not do: decide which version is right. A quiet change among many loud ones passes as an edit, and
so do many small changes spread over versions; each leaves its finding, with the predecessor's id to compare
with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from pydantic import Field

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.statements import Statement, read_statements, shift_statement
from corpus_guard.claims.text_comparison import compare_texts
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Counterstatement, Finding, Severity, Span, TrustLevel, Version, plural
from corpus_guard.invisible import reveal_invisible
from corpus_guard.screening.check import Check, Params, SurveyCheck
from corpus_guard.screening.checks._changes import (
    ADDRESS,
    SENSE,
    FactKind,
    TokenisedText,
    WordChange,
    changed_fact,
    changed_value,
    find_changes,
)
from corpus_guard.screening.checks.provenance import AUTHOR_KEYS, MODIFIED_KEYS, normalise_key, parse_date
from corpus_guard.screening.survey.survey import Survey

_PARAGRAPH_CHARS: Final = 600  # on either side of a change, in which its paragraph may begin and end
_SEVERITIES: Final = tuple(Severity)
_VERSION_KEYS: Final = frozenset({"version", "revision", "edition"})
_MAX_COMPARED: Final = 200  # changes of an edit whose sentences are compared
_MAX_RESTATED: Final = 5  # sentences of an edit that are reported
_NAME_CHARS: Final = 200  # of a document's name in a message
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s)\s?|\n")
# The others are numbers.
_FACT_OF_KIND: Final[Mapping[Kind | None, tuple[str, str]]] = {
    **dict.fromkeys((Kind.PHONE, Kind.IBAN, Kind.EMAIL, Kind.DOMAIN), (ADDRESS, "An address or account")),
    Kind.NEGATION: (SENSE, "The sense"),
    Kind.DATE: ("date", "A date"),
    Kind.NAME: ("name", "A name"),
}
_LINE_CHARS: Final = 60  # before a change, in which its line must begin
_ANNOUNCEMENT: Final = re.compile(  # at the start of a line, at most two words before the change
    r"\W*(?:last |date |page )?(?:updated|modified|changed|revised|edited|version|revision|edition|aktualisiert|mis à jour)"
    r"(?: on| at)?\W*(?:\w+\W+){0,2}",
    re.IGNORECASE,
)


class ModificationParams(Params):
    """The section ``modification`` of policy.yaml."""

    places: int = Field(default=3, ge=1)
    """Most places that changes of an otherwise equal text touch."""
    words: int = Field(default=8, ge=1)
    """Most words of one such place."""
    equal: float = Field(default=0.9, gt=0, le=1)
    """Least share of words that an otherwise equal text keeps."""
    least: int = Field(default=20, ge=1)
    """Fewest words of a text: in a shorter one every change is large."""
    left: float = Field(default=0.1, ge=0, lt=1)
    """Share of the predecessor's words at or below which a page counts as replaced."""
    hidden_words: int = Field(default=5, ge=1)
    """New hidden words from which hidden text counts as added."""


class Modification(SurveyCheck[ModificationParams]):
    """A version compared with its predecessor."""

    name = "modification"
    across_documents = True
    params_class = ModificationParams
    code_version = ("modification", "6")

    def __init__(self, params: ModificationParams, instructions: Check) -> None:
        """Keep the parameters."""
        super().__init__(params)
        self._instructions = instructions

    def resources(self) -> Sequence[str]:
        """Return the digest of the instruction rules."""
        return (self._instructions.digest,)

    def applies_to(self, version: Version) -> bool:
        """Return True for every version."""
        return True

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Return the reason why `version` has nothing to be compared with; None: it has."""
        if version.version_id not in survey.predecessors:
            return "no version of the document was accepted before"
        return None

    def judge(self, version: Version, survey: Survey) -> Iterator[Finding]:
        """Compare a version with its predecessor."""
        before = survey.predecessors.get(version.version_id)
        if before is None:
            return
        pair = _Pair.of(before, version)
        if pair.is_moved:
            message = f"Most of the text stood under another name, which vanished from the source: {_name(pair.old)}"
            yield self._finding("moved", Severity.INFO, 0.05, message, pair)
        if pair.changes:
            yield from self._find_instructions(pair)
            yield from self._compare_text(pair)
        elif not pair.hidden_words:
            yield from self._compare_metadata(pair)
        if pair.hidden_words >= self.params.hidden_words and self._isolated(pair):
            words = "1 word" if pair.hidden_words == 1 else f"{pair.hidden_words:,} words"
            message = f"{words} that a reader does not see were added; the rest is nearly the same"
            yield self._finding("hidden_text", Severity.LOW, 0.4, message, pair)
        yield from self._find_backdating(pair)

    def _find_instructions(self, pair: _Pair) -> Iterator[Finding]:
        passages = _passages(pair)
        worst: dict[str, Finding] = {}
        alone = [replace(pair.new, text=pair.new.text[span.start : span.end], hidden="") for span in passages]
        for number, finding in self._instructions.run(alone, None):
            before = worst.get(finding.code)
            if before is None or finding.severity.rank > before.severity.rank:
                worst[finding.code] = replace(finding, span=_shifted(finding.span, passages[number]))
        if not worst:
            return
        old_ranks: dict[str, int] = {}
        new_ranks: dict[str, int] = {}
        for position, finding in self._instructions.run([pair.old, pair.new], None):
            (new_ranks if position else old_ranks)[finding.code] = finding.severity.rank
        for code, finding in worst.items():
            # The whole text may excuse a hit that its paragraph does not: code fences are wider than
            # paragraphs.
            rank = min(finding.severity.rank, new_ranks.get(code, Severity.INFO.rank))
            if rank > max(old_ranks.get(code, -1), Severity.INFO.rank):
                # A hit at low was excused, as a quotation or an example: it is no order yet.
                rank += rank >= Severity.MEDIUM.rank
                yield replace(
                    finding,
                    check=self.name,
                    code=f"{self.name}.instruction",
                    severity=_clamped(rank, Severity.CRITICAL),
                    message=f"New in this version: {finding.message}{pair.reference}",
                )

    def _compare_text(self, pair: _Pair) -> Iterator[Finding]:
        if len(pair.before.words) >= self.params.least and pair.kept_share <= self.params.left:
            severity = Severity.LOW if pair.open else Severity.INFO
            yield self._finding("replaced", severity, 0.3, "Hardly a word of the predecessor remains", pair)
        elif self._isolated(pair):
            yield from self._describe_quiet_changes(pair)
        else:
            message = f"{plural(len(pair.changes), 'place')} changed; {pair.kept_share:.0%} of the words stayed"
            yield self._finding("edited", Severity.INFO, 0.05, message, pair, pair.span(pair.changes[0]))
            yield from self._describe_restated(pair)

    def _describe_restated(self, pair: _Pair) -> Iterator[Finding]:
        """Yield the changed sentences of an ordinary edit that contradict what the predecessor states."""
        new, old = (_read_changed(text, spans) for text, spans in pair.changed_sentences())
        conflicts = (
            comparison for comparison in compare_texts(new, old).comparisons if comparison.outcome is Outcome.CONFLICT
        )
        for conflict in islice(conflicts, _MAX_RESTATED):
            code, what = _FACT_OF_KIND.get(conflict.kind, ("number", "A value"))
            own, theirs = ([pair[side].span for pair in conflict.values] for side in (0, 1))
            counter = Counterstatement(
                pair.old.doc_id,
                pair.old.version_id,
                conflict.other.span,
                conflict.statement.span,
                tuple(theirs),
                tuple(own),
            )
            severity = Severity.LOW if pair.open else Severity.INFO
            yield self._finding(
                code, severity, 0.3, f"{what} changed among other changes", pair, conflict.statement.span, counter
            )

    def _isolated(self, pair: _Pair) -> bool:
        short = all(change.size <= self.params.words for change in pair.changes)
        few = len(pair.changes) <= self.params.places
        return few and short and len(pair.after.words) >= self.params.least and pair.kept_share >= self.params.equal

    def _describe_quiet_changes(self, pair: _Pair) -> Iterator[Finding]:
        facts = {
            change: kind
            for change in pair.changes
            if (kind := _find_fact(pair, change)) and not _announces(pair, change)
        }
        pretended = () if _is_announced(pair) else tuple(_unchanged_signs(pair))
        for change, kind in facts.items():
            grave = kind.name in {SENSE, ADDRESS} and pair.open
            rank = (Severity.MEDIUM if grave else Severity.LOW).rank + len(pretended)
            message = f"{kind.words} changed in a text that is otherwise nearly the same{''.join(pretended)}"
            score = min(0.9, (0.5 if grave else 0.3) + 0.2 * len(pretended))
            yield self._finding(
                kind.name,
                _clamped(rank, Severity.HIGH),
                score,
                message,
                pair,
                pair.span(change),
                pair.counterstatement(change),
            )
        if not facts:
            message = f"{plural(len(pair.changes), 'place')} changed, no fact among them that this check knows"
            yield self._finding("edited", Severity.INFO, 0.05, message, pair, pair.span(pair.changes[0]))

    def _compare_metadata(self, pair: _Pair) -> Iterator[Finding]:
        old, new = pair.declared_before, pair.declared
        keys = sorted(
            key
            for key in (AUTHOR_KEYS | MODIFIED_KEYS | {"date", "source"}) & (old.keys() | new.keys())
            if old.get(key) != new.get(key)
        )
        if keys:
            message = f"The text is the same, and the document declares other values of: {', '.join(keys)}"
            yield self._finding("metadata", Severity.LOW if pair.open else Severity.INFO, 0.25, message, pair)

    def _find_backdating(self, pair: _Pair) -> Iterator[Finding]:
        keys = sorted(key for key in MODIFIED_KEYS & pair.declared.keys() if _date_shift(pair, key) < 0)
        if keys:
            message = f"Declared as last changed before its predecessor was: {', '.join(keys)}"
            yield self._finding("backdated", Severity.LOW if pair.open else Severity.INFO, 0.25, message, pair)

    def _finding(
        self,
        code: str,
        severity: Severity,
        score: float,
        message: str,
        pair: _Pair,
        span: Span | None = None,
        counterstatement: Counterstatement | None = None,
    ) -> Finding:
        tags = () if severity is Severity.INFO else ("poisoning", "misinformation")
        return self.finding(
            code, severity, score, message + pair.reference, span=span, tags=tags, counterstatement=counterstatement
        )


@dataclass(frozen=True, slots=True)
class _Pair:
    """A version and its predecessor."""

    old: Version
    new: Version
    before: TokenisedText
    after: TokenisedText
    changes: tuple[WordChange, ...]
    declared_before: Mapping[str, str]
    declared: Mapping[str, str]
    hidden_words: int  # added

    @classmethod
    def of(cls, old: Version, new: Version) -> _Pair:
        same = old.text == new.text
        before, after = TokenisedText.of(old.text), TokenisedText.of(new.text)
        hidden = (
            []
            if old.hidden == new.hidden
            else find_changes(TokenisedText.of(old.hidden).words, TokenisedText.of(new.hidden).words)
        )
        return cls(
            old,
            new,
            before,
            after,
            () if same else tuple(find_changes(before.words, after.words)),
            {normalise_key(key): value for key, value in old.stamp.declared.items()},
            {normalise_key(key): value for key, value in new.stamp.declared.items()},
            sum(change.new_end - change.new_start for change in hidden),
        )

    @property
    def open(self) -> bool:
        return self.new.stamp.trust is TrustLevel.OPEN

    @property
    def is_moved(self) -> bool:
        return self.old.doc_id != self.new.doc_id

    @property
    def kept_share(self) -> float:
        """Return the share of the predecessor's words that stayed, 0..1."""
        gone = sum(change.old_end - change.old_start for change in self.changes)
        return 1 - gone / max(1, len(self.before.words))

    @property
    def reference(self) -> str:
        return f". Compare with version {self.old.version_id}"

    def old_words(self, change: WordChange) -> Sequence[str]:
        return self.before.words[change.old_start : change.old_end]

    def new_words(self, change: WordChange) -> Sequence[str]:
        return self.after.words[change.new_start : change.new_end]

    def span(self, change: WordChange) -> Span:
        return self.after.span(change.new_start, change.new_end)

    def counterstatement(self, change: WordChange) -> Counterstatement:
        """Return the sentence before a change, with the words that changed."""
        before = self.before.span(change.old_start, change.old_end)
        sentence = _sentence_at(self.old.text, before)
        own = _sentence_at(self.new.text, self.span(change))
        return Counterstatement(self.old.doc_id, self.old.version_id, sentence, own, (before,), (self.span(change),))

    def changed_sentences(self) -> Iterator[tuple[str, list[Span]]]:
        """Yield the new text with its changed sentences, and the old one with those they replace."""
        new = (self.span(change) for change in self.changes)
        old = (self.before.span(change.old_start, change.old_end) for change in self.changes)
        for text, spans in ((self.new.text, new), (self.old.text, old)):
            sentences = (_sentence_at(text, span) for span in islice(spans, _MAX_COMPARED))
            yield text, list(dict.fromkeys(sentences))


def _find_fact(pair: _Pair, change: WordChange) -> FactKind | None:
    """Return the kind of fact that a change touches, in its words or in its sentence."""
    kind = changed_fact(pair.old_words(change), pair.new_words(change))
    if kind is not None and kind.name in {ADDRESS, SENSE}:
        return kind
    old = _sentence_at(pair.old.text, pair.before.span(change.old_start, change.old_end))
    new = _sentence_at(pair.new.text, pair.span(change))
    value = changed_value(pair.old.text[old.start : old.end], pair.new.text[new.start : new.end])
    return value if value is not None and (kind is None or value.name == ADDRESS) else kind


def _passages(pair: _Pair) -> list[Span]:
    """Return the paragraphs with changes, in order, each once: the words beside a hit can excuse it."""
    passages: list[Span] = []
    text = pair.new.text
    for change in pair.changes:
        span = pair.span(change)
        above = text.rfind("\n\n", max(0, span.start - _PARAGRAPH_CHARS), span.start)
        below = text.find("\n\n", span.end, span.end + _PARAGRAPH_CHARS)
        start = above + 2 if above >= 0 else max(0, span.start - _PARAGRAPH_CHARS)
        end = below if below >= 0 else min(len(text), span.end + _PARAGRAPH_CHARS)
        if passages and start <= passages[-1].end:
            passages[-1] = Span(passages[-1].start, max(end, passages[-1].end))
        else:
            passages.append(Span(start, end))
    return passages


def _sentence_at(text: str, span: Span) -> Span:
    """Return the sentence or line around a place."""
    before = text[max(0, span.start - _PARAGRAPH_CHARS) : span.start]
    after = text[span.end : span.end + _PARAGRAPH_CHARS]
    starts = [match.end() for match in _SENTENCE_END.finditer(before)]
    end = _SENTENCE_END.search(after)
    start = span.start - len(before) + (starts[-1] if starts else 0)
    return Span(start, span.end + (end.start() if end else len(after)))


def _read_changed(text: str, spans: Sequence[Span]) -> list[Statement]:
    """Return the statements of some sentences of a text, with their places in it."""
    return [
        shift_statement(statement, span.start)
        for span in spans
        for statement in read_statements(text[span.start : span.end]).statements
    ]


def _name(version: Version) -> str:
    uri = version.stamp.uri
    return reveal_invisible(uri if len(uri) <= _NAME_CHARS else f"…{uri[-_NAME_CHARS:]}")


def _shifted(span: Span | None, passage: Span) -> Span:
    return Span(passage.start + span.start, passage.start + span.end) if span else passage


def _clamped(rank: int, highest: Severity) -> Severity:
    return _SEVERITIES[min(rank, highest.rank)]


# --- announced and pretended --------------------------------------------------------------------------------


def _date_shift(pair: _Pair, key: str) -> int:
    """Return -1 if the declared date went back, 1 if it moved on, 0 if it stayed or cannot be read."""
    old, new = (parse_date(declared.get(key, "")) for declared in (pair.declared_before, pair.declared))
    return 0 if old is None or new is None else (new > old) - (new < old)


def _is_announced(pair: _Pair) -> bool:
    declared = any(_date_shift(pair, key) > 0 for key in MODIFIED_KEYS | {"date"})
    versions = (pair.declared.get(key) != pair.declared_before.get(key) for key in _VERSION_KEYS)
    return declared or any(versions) or any(_announces(pair, change) for change in pair.changes)


def _announces(pair: _Pair, change: WordChange) -> bool:
    """Return True for a change in a line such as "Last updated: 3 May"."""
    start = pair.span(change).start
    line = pair.new.text[max(0, start - _LINE_CHARS) : start].rpartition("\n")[2]
    kind = changed_fact(pair.old_words(change), pair.new_words(change))
    return kind is not None and kind.name in {"date", "number"} and bool(_ANNOUNCEMENT.fullmatch(line))


def _unchanged_signs(pair: _Pair) -> Iterator[str]:
    """Yield the signs that pretend nothing changed, as parts of the message."""
    keys = sorted((MODIFIED_KEYS | _VERSION_KEYS) & pair.declared.keys() & pair.declared_before.keys())
    if keys:
        yield f"; declared as before: {', '.join(keys)}"
    times = (pair.old.stamp.modified_at, pair.new.stamp.modified_at)
    if times[0] is not None and times[0] == times[1]:
        yield "; the storage says that it was not modified"
