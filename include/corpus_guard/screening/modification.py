"""What a new version changed against its accepted predecessor, and whether it hides that it did.

Rules
- An *instruction* in a passage that is new (the rules of the check `instructions`, in their paragraph) weighs one step more
  than in a new document: nobody turns a page that was served into one that gives orders by accident.
- A *quiet change* is one of a few short ones in an otherwise equal text that touches a fact: a number, a date, a name, the
  sense (a negation or an opposite), an address. Facts are corrected every day, so a number, date or name is of low severity
  in an open source; sense and address, which turn what a reader does, are of medium. In reviewed and trusted sources,
  where somebody answers for it, all are low.
- Each sign that *pretends nothing changed* adds a step: a declared date of change or version that stayed the same, a
  modification time of the storage that did not move. A date that moved, declared or in a line that says "updated", takes
  them away.
- Many changes are an ordinary edit: a note. A page of which hardly a word is left is of low severity in an open source.
- Text that a reader does not see and that is new, in a page that is otherwise nearly equal, is of low severity.
- *Metadata*: another author or date for the same text, or a date of change before the predecessor's, is low in an open
  source, a note elsewhere.

What it does not do: know which version is right. A quiet change among many loud ones passes as an edit, and so do many small
changes one version at a time; each leaves its finding, with the predecessor's id to compare with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, TrustLevel, Version, digest
from corpus_guard.screening import check
from corpus_guard.screening._changes import Change, Text, changes
from corpus_guard.screening._facts import ADDRESS, SENSE, kind_of
from corpus_guard.screening.provenance import AUTHORS, MODIFIED, plain_key, read_date
from corpus_guard.screening.survey import Survey
from corpus_guard.screening.tags import tags

_CODE_VERSION: Final = "1"
_PARAGRAPH: Final = 600  # characters on either side of a change in which its paragraph may begin and end
_SEVERITIES: Final = tuple(Severity)
_VERSIONS: Final = frozenset({"version", "revision", "edition"})
_LINE: Final = 60  # characters before a change in which its line must begin
_ANNOUNCED: Final = re.compile(  # at the start of a line, at most two words before what changed
    r"\W*(?:last |date |page )?(?:updated|modified|changed|revised|edited|version|revision|edition|aktualisiert|mis à jour)"
    r"(?: on| at)?\W*(?:\w+\W+){0,2}",
    re.IGNORECASE,
)


class ModificationParams(check.Params):
    """The section ``modification`` of policy.yaml."""

    places: int = Field(default=3, ge=1)
    """Places up to which changes are isolated."""
    words: int = Field(default=8, ge=1)
    """Words up to which one place is short."""
    equal: float = Field(default=0.9, gt=0, le=1)
    """Share of words that must have stayed for an otherwise equal text."""
    least: int = Field(default=20, ge=1)
    """Words a text must have: in a shorter one every change is a large one."""
    left: float = Field(default=0.1, ge=0, lt=1)
    """Share of the predecessor's words at or below which a page was replaced."""
    hidden_words: int = Field(default=5, ge=1)
    """New hidden words from which hidden text was added."""


class Modification:
    """A version compared with its predecessor."""

    name: ClassVar[str] = "modification"
    across_documents: ClassVar[bool] = True
    second_stage: ClassVar[bool] = False
    Params: ClassVar[type[ModificationParams]] = ModificationParams

    def __init__(self, params: ModificationParams, instructions: check.Check) -> None:
        """Build.

        Args:
            params: limits.
            instructions: the rules by which new passages are read.
        """
        self._params = params
        self._instructions = instructions

    @cached_property
    def digest(self) -> str:
        """Of the parameters, the instruction rules and the code's version."""
        return digest("check/v1", [self.name, _CODE_VERSION, self._params.model_dump_json(), self._instructions.digest])

    def applies_to(self, version: Version) -> bool:
        """Every version."""
        return True

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Why nothing can be said of `version`; None where it can."""
        if version.version_id not in survey.predecessors:
            return "no version of the document was accepted before"
        return None

    def run(self, batch: Sequence[Version], survey: Survey | None) -> check.Hits:
        """Compare each version with what it follows."""
        for position, version in enumerate(batch):
            before = survey.predecessors.get(version.version_id) if survey else None
            if before is not None:
                for finding in self._compare(_Pair.of(before, version)):
                    yield position, finding

    def _compare(self, pair: _Pair) -> Iterator[Finding]:
        if pair.changes:
            yield from self._instruction(pair)
            yield from self._text(pair)
        elif not pair.hidden_words:
            yield from self._metadata(pair)
        if pair.hidden_words >= self._params.hidden_words and self._isolated(pair):
            message = f"{pair.hidden_words} words that a reader does not see are new; the rest is nearly the same"
            yield self._finding("hidden_text", Severity.LOW, 0.4, message, pair)
        yield from self._backdated(pair)

    def _instruction(self, pair: _Pair) -> Iterator[Finding]:
        passages = _passages(pair)
        found: dict[str, Finding] = {}
        alone = [replace(pair.new, text=pair.new.text[span.start : span.end], hidden="") for span in passages]
        for number, finding in self._instructions.run(alone, None):
            known = found.get(finding.code)
            if known is None or finding.severity.rank > known.severity.rank:
                found[finding.code] = replace(finding, span=_shifted(finding.span, passages[number]))
        if not found:
            return
        ranks: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for which, finding in self._instructions.run([pair.old, pair.new], None):
            ranks[which][finding.code] = finding.severity.rank
        for code, finding in found.items():
            # The whole text may excuse what its paragraph does not: code fences are wider than paragraphs.
            rank = min(finding.severity.rank, ranks[1].get(code, Severity.INFO.rank))
            if rank > max(ranks[0].get(code, -1), Severity.INFO.rank):
                # At low it was excused, as a quotation or an example: it is no order yet.
                rank += rank >= Severity.MEDIUM.rank
                yield replace(
                    finding,
                    check=self.name,
                    code=f"{self.name}.instruction",
                    severity=_clamped(rank, Severity.CRITICAL),
                    message=f"New in this version: {finding.message}{pair.reference}",
                )

    def _text(self, pair: _Pair) -> Iterator[Finding]:
        if len(pair.before.words) >= self._params.least and pair.kept <= self._params.left:
            severity = Severity.LOW if pair.open else Severity.INFO
            yield self._finding("replaced", severity, 0.3, "Hardly a word of the predecessor is left", pair)
        elif self._isolated(pair):
            yield from self._quiet(pair)
        else:
            message = f"{len(pair.changes)} places changed; {pair.kept:.0%} of the words stayed"
            yield self._finding("edited", Severity.INFO, 0.05, message, pair, pair.span(pair.changes[0]))

    def _isolated(self, pair: _Pair) -> bool:
        short = all(change.size <= self._params.words for change in pair.changes)
        few = len(pair.changes) <= self._params.places
        return few and short and len(pair.after.words) >= self._params.least and pair.kept >= self._params.equal

    def _quiet(self, pair: _Pair) -> Iterator[Finding]:
        facts = {
            change: kind
            for change in pair.changes
            if (kind := kind_of(pair.old_words(change), pair.new_words(change))) and not _announces(pair, change)
        }
        pretended = () if _announced(pair) else tuple(_pretended(pair))
        for change, kind in facts.items():
            grave = kind.name in {SENSE, ADDRESS} and pair.open
            rank = (Severity.MEDIUM if grave else Severity.LOW).rank + len(pretended)
            message = f"{kind.words} changed in a text that is otherwise nearly the same{''.join(pretended)}"
            score = min(0.9, (0.5 if grave else 0.3) + 0.2 * len(pretended))
            yield self._finding(kind.name, _clamped(rank, Severity.HIGH), score, message, pair, pair.span(change))
        if not facts:
            message = f"{len(pair.changes)} places changed, none of them a fact that is looked for"
            yield self._finding("edited", Severity.INFO, 0.05, message, pair, pair.span(pair.changes[0]))

    def _metadata(self, pair: _Pair) -> Iterator[Finding]:
        old, new = pair.declared_before, pair.declared
        told = sorted(
            key
            for key in (AUTHORS | MODIFIED | {"date", "source"}) & (old.keys() | new.keys())
            if old.get(key) != new.get(key)
        )
        if told:
            message = f"The text is the same, and the document now says other things of itself: {', '.join(told)}"
            yield self._finding("metadata", Severity.LOW if pair.open else Severity.INFO, 0.25, message, pair)

    def _backdated(self, pair: _Pair) -> Iterator[Finding]:
        back = sorted(key for key in MODIFIED & pair.declared.keys() if _moved(pair, key) < 0)
        if back:
            message = f"Declared as last changed before its predecessor was: {', '.join(back)}"
            yield self._finding("backdated", Severity.LOW if pair.open else Severity.INFO, 0.25, message, pair)

    def _finding(
        self, what: str, severity: Severity, score: float, message: str, pair: _Pair, span: Span | None = None
    ) -> Finding:
        keys = () if severity is Severity.INFO else ("poisoning", "misinformation")
        return Finding(
            self.name, f"{self.name}.{what}", severity, score, message + pair.reference, span=span, tags=tags(keys)
        )


@dataclass(frozen=True, slots=True)
class _Pair:
    """A version and what it follows."""

    old: Version
    new: Version
    before: Text
    after: Text
    changes: tuple[Change, ...]
    declared_before: Mapping[str, str]
    declared: Mapping[str, str]
    hidden_words: int  # new ones

    @classmethod
    def of(cls, old: Version, new: Version) -> _Pair:
        same = old.text == new.text
        before, after = Text.of(old.text), Text.of(new.text)
        hidden = [] if old.hidden == new.hidden else changes(Text.of(old.hidden).words, Text.of(new.hidden).words)
        return cls(
            old,
            new,
            before,
            after,
            () if same else tuple(changes(before.words, after.words)),
            {plain_key(key): value for key, value in old.stamp.declared.items()},
            {plain_key(key): value for key, value in new.stamp.declared.items()},
            sum(change.new_end - change.new_start for change in hidden),
        )

    @property
    def open(self) -> bool:
        return self.new.stamp.trust is TrustLevel.OPEN

    @property
    def kept(self) -> float:
        """Share of the predecessor's words that stayed, 0..1."""
        gone = sum(change.old_end - change.old_start for change in self.changes)
        return 1 - gone / max(1, len(self.before.words))

    @property
    def reference(self) -> str:
        return f". Compare with version {self.old.version_id}"

    def old_words(self, change: Change) -> Sequence[str]:
        return self.before.words[change.old_start : change.old_end]

    def new_words(self, change: Change) -> Sequence[str]:
        return self.after.words[change.new_start : change.new_end]

    def span(self, change: Change) -> Span:
        return self.after.span(change.new_start, change.new_end)


def _passages(pair: _Pair) -> list[Span]:
    """The paragraphs in which something changed, in order, none twice: what stands beside a hit can excuse it."""
    found: list[Span] = []
    text = pair.new.text
    for change in pair.changes:
        span = pair.span(change)
        above = text.rfind("\n\n", max(0, span.start - _PARAGRAPH), span.start)
        below = text.find("\n\n", span.end, span.end + _PARAGRAPH)
        start = above + 2 if above >= 0 else max(0, span.start - _PARAGRAPH)
        end = below if below >= 0 else min(len(text), span.end + _PARAGRAPH)
        if found and start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(end, found[-1].end))
        else:
            found.append(Span(start, end))
    return found


def _shifted(span: Span | None, passage: Span) -> Span:
    return Span(passage.start + span.start, passage.start + span.end) if span else passage


def _clamped(rank: int, most: Severity) -> Severity:
    return _SEVERITIES[min(rank, most.rank)]


# --- does it say that something changed? ------------------------------------------------------------------------------


def _moved(pair: _Pair, key: str) -> int:
    """-1: the declared date went back, 1: it went on, 0: it stayed or cannot be read."""
    old, new = (read_date(declared.get(key, "")) for declared in (pair.declared_before, pair.declared))
    return 0 if old is None or new is None else (new > old) - (new < old)


def _announced(pair: _Pair) -> bool:
    declared = any(_moved(pair, key) > 0 for key in MODIFIED | {"date"})
    versions = (pair.declared.get(key) != pair.declared_before.get(key) for key in _VERSIONS)
    return declared or any(versions) or any(_announces(pair, change) for change in pair.changes)


def _announces(pair: _Pair, change: Change) -> bool:
    """A change in a line such as "Last updated: 3 May"."""
    start = pair.span(change).start
    line = pair.new.text[max(0, start - _LINE) : start].rpartition("\n")[2]
    kind = kind_of(pair.old_words(change), pair.new_words(change))
    return kind is not None and kind.name in {"date", "number"} and bool(_ANNOUNCED.fullmatch(line))


def _pretended(pair: _Pair) -> Iterator[str]:
    """What says that nothing changed, for the message."""
    told = sorted(key for key in (MODIFIED | _VERSIONS) & pair.declared.keys() & pair.declared_before.keys())
    if told:
        yield f"; declared as before: {', '.join(told)}"
    times = (pair.old.stamp.modified_at, pair.new.stamp.modified_at)
    if times[0] is not None and times[0] == times[1]:
        yield "; the storage says it was not modified"
