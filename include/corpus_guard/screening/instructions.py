"""Text that gives orders to the model that will read it.

Rules, in `rules/instructions.yaml`:

- A rule's patterns are RE2 regular expressions: linear in the text, so no document can hang the guard. They are written
  in lower case for the folded text (see `_folding`), or for the text as it stands where the rule says ``raw: true``.
- All patterns are looked for at once; only those that hit are looked at again for their place.
- What is encoded in the text (base64, rot13, tag characters, …) is read by the same rules: code suffix ``.encoded``.
- What a reader does not see is read by the same rules: code suffix ``.hidden``, one severity higher, no span.
- Text *about* attacks is not an attack: a hit in quotation marks or code loses a step of severity, one near words such
  as "prompt injection" or "for example" another. Encoded and hidden hits lose nothing.

It does not understand: a request in words no rule foresees passes here, and is left to the checks that compare a
document with others. An author who knows the rules can quote an attack and call it an example; it then stands two
severities lower, for the policy to weigh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

import re2
from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.domain import Finding, Severity, Span, Version, canonical_json, digest, sha256_bytes
from corpus_guard.errors import GuardError, SettingsError
from corpus_guard.screening._fitting import foreign
from corpus_guard.screening._folding import FOLDING_VERSION, Folded, char_offset, fold, fold_literals
from corpus_guard.screening._views import LEETSPEAK, View, views
from corpus_guard.screening.check import Hits, Params
from corpus_guard.screening.survey import Survey
from corpus_guard.screening.tags import KEYS, tags
from corpus_guard.settings import load_yaml

PACK: Final = Path(__file__).parent / "rules" / "instructions.yaml"
MAX_HITS: Final = 20
"""Hits of one pattern that are placed in one text."""
FOLLOWED_WITHIN: Final = 800
"""Bytes after a hit in which a rule's ``followed_by`` must stand."""
MAX_VIEW_DEPTH: Final = 2
"""Encodings inside encodings that are unpacked."""
_CODE_VERSION: Final = "4"


class InstructionsParams(Params):
    """The section ``instructions`` of policy.yaml."""

    context_window: int = Field(default=200, ge=0, le=2000)
    """Characters on either side of a hit in which words about attacks are looked for."""
    teaching_factor: float = Field(default=0.5, gt=0, le=1)
    """What a hit's score is multiplied with for each step that its severity is lowered."""


class Rule(BaseModel):
    """One way to give orders to a model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    description: str
    """What was seen, for a reviewer: "The text tells …"."""
    severity: Severity
    score: float = Field(gt=0, le=1)
    tags: tuple[str, ...] = ()
    """Keys of `corpus_guard.screening.tags`."""
    languages: tuple[str, ...] = ("en",)
    raw: bool = False
    """Patterns are for the text as it stands: case, line breaks and all."""
    loose: bool = False
    """Also read where word boundaries are lost (spaced-out letters, leetspeak)."""
    patterns: tuple[str, ...] = Field(min_length=1)
    excusable: bool = True
    """A hit loses severity in quotation marks, in code, and near words about attacks or examples."""
    followed_by: str | None = None
    """A hit counts only if this stands shortly after it."""
    unless: str | None = None
    """A hit that holds this does not count."""
    foreign: bool = False
    """A hit counts only if its words are not those of the text around it (see `_fitting`)."""
    examples: tuple[str, ...] = Field(min_length=1)
    """Must hit."""
    counter_examples: tuple[str, ...] = ()
    """Must not hit."""


class Pack(BaseModel):
    """A rule file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pack: str
    version: str
    words: dict[str, str] = Field(default_factory=dict)
    """Alternatives that patterns name as ``{{word}}``."""
    rules: tuple[Rule, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class _Hit:
    rule: Rule
    start: int  # bytes
    end: int


@dataclass(slots=True)
class _Seen:
    """Hits of one rule in one kind of place, on their way to one finding."""

    rule: Rule
    severity: Severity
    score: float
    span: Span | None
    notes: tuple[str, ...]
    count: int = 1

    def finding(self, code: str) -> Finding:
        often = f" ({self.count} times)" if self.count > 1 else ""
        message = "; ".join((self.rule.description + often, *self.notes))
        return Finding(
            check=Instructions.name,
            code=f"{Instructions.name}.{code}",
            severity=self.severity,
            score=self.score,
            message=message,
            span=self.span,
            tags=tags((*self.rule.tags, "obfuscation")) if code.endswith(".encoded") else tags(self.rule.tags),
        )


class _Matcher:
    """Patterns compiled together.

    Raises:
        SettingsError: RE2 refuses a pattern.
    """

    def __init__(self, patterns: Sequence[tuple[Rule, str]], where: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = 256 << 20  # bytes; the automaton of many patterns is built as texts need it
        self._rules: list[tuple[Rule, Any, Any, Any]] = []
        self._set = re2.Set.SearchSet(options)
        for rule, pattern in patterns:
            blame = f"{where}: rule {rule.id}"
            after = _compile(rule.followed_by, blame, options) if rule.followed_by else None
            unless = _compile(rule.unless, blame, options) if rule.unless else None
            self._rules.append((rule, _compile(pattern, blame, options), after, unless))
            self._set.Add(pattern)
        # A set that runs out of memory answers "nothing hits"; the empty pattern, which always does, tells.
        self._always = self._set.Add("")
        self._set.Compile()

    def hits(self, data: bytes) -> Iterator[_Hit]:
        """Every hit in UTF-8 text, pattern by pattern."""
        matched = self._set.Match(data)
        if len(matched) == 1 and matched[0] == self._always:
            return
        if self._always not in matched:
            raise GuardError("instruction rules: RE2 ran out of memory on a text; expected an answer for every text")
        for number in sorted(matched):
            if number != self._always:
                rule, pattern, after, unless = self._rules[number]
                for match in islice(pattern.finditer(data), MAX_HITS):
                    start, end = match.span()
                    if after is not None and not after.search(data[end : end + FOLLOWED_WITHIN]):
                        continue
                    if unless is None or not unless.search(data[start:end]):
                        yield _Hit(rule, start, end)


def _compile(pattern: str, blame: str, options: Any) -> Any:
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else error
        raise SettingsError(
            f"{blame}: RE2 refuses a pattern ({reason}); write it without lookaround and back-references, "
            "and without repetition above 1000"
        ) from error


def load_pack(path: Path = PACK) -> Pack:
    """Read a rule file and check what its model cannot.

    Raises:
        SettingsError: the file, a key, an id used twice, an unknown tag or an unknown ``{{word}}``.
    """
    pack = load_yaml(path, Pack)
    seen: set[str] = set()
    for rule in pack.rules:
        blame = f"{path}: rule {rule.id}"
        if rule.id in seen:
            raise SettingsError(f"{blame}: the id is used twice; ids are part of finding codes, choose another")
        seen.add(rule.id)
        if unknown := sorted(set(rule.tags) - KEYS):
            raise SettingsError(f"{blame}: unknown tag {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
        for pattern in rule.patterns:
            if missing := [word for word in _WORD.findall(pattern) if word not in pack.words]:
                raise SettingsError(f"{blame}: unknown word {missing[0]!r}; known: {', '.join(sorted(pack.words))}")
    return pack


_WORD = re.compile(r"\{\{([a-z_]+)\}\}")


class Instructions:
    """Instruction patterns, plain, encoded and hidden."""

    name: ClassVar[str] = "instructions"
    across_documents: ClassVar[bool] = False
    second_stage: ClassVar[bool] = False
    Params: ClassVar[type[InstructionsParams]] = InstructionsParams

    def __init__(self, params: InstructionsParams | None = None, *, pack: Path = PACK) -> None:
        self._params = params or InstructionsParams()
        self._path = pack
        self._pack = load_pack(pack)
        if pack != PACK:
            self._matchers  # noqa: B018 - who wrote a pack is told at once which pattern is refused

    @cached_property
    def _matchers(self) -> tuple[_Matcher, ...]:
        """For folded text, for text as it is, for disguised text; compiled when a text is first looked at."""
        kinds: tuple[list[tuple[Rule, str]], ...] = ([], [], [])
        for rule in self._pack.rules:
            for pattern in rule.patterns:
                whole = _WORD.sub(lambda word: f"(?:{self._pack.words[word[1]]})", pattern)
                kinds[rule.raw].append((rule, whole if rule.raw else fold_literals(whole)))
                if rule.loose and not rule.raw:
                    kinds[2].append((rule, _loosened(fold_literals(whole))))
        return tuple(_Matcher(patterns, str(self._path)) for patterns in kinds)

    @cached_property
    def digest(self) -> str:
        """Of the pack's bytes, the parameters and the code's version."""
        pack = sha256_bytes(self._path.read_bytes())
        parts = [pack, canonical_json(self._params.model_dump()).decode(), _CODE_VERSION, FOLDING_VERSION]
        return digest("check/instructions/v1", parts)

    def applies_to(self, version: Version) -> bool:
        """Every version, whatever its language."""
        return True

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look at text and hidden text of each version."""
        for position, version in enumerate(batch):
            for finding in self._in_text(version.text, hidden=False):
                yield position, finding
            if version.hidden:
                for finding in self._in_text(version.hidden, hidden=True):
                    yield position, finding

    def _in_text(self, text: str, *, hidden: bool) -> Iterator[Finding]:
        folded = fold(text)
        seen: dict[str, _Seen] = {}
        plain: set[str] = set()
        for rule, span in self._plain_hits(folded):
            plain.add(rule.id)
            if hidden:
                _note(seen, "hidden", _Seen(rule, _raised(rule.severity), _surer(rule.score), None, (_HIDDEN,)))
            else:
                _note(seen, "", self._weighed(rule, text, span))
        for view in views(folded):
            written = f"it is written in {view.kind}"
            for rule, span in self._encoded_hits(view, 1):
                if view.loose and rule.id in plain:
                    continue
                if view.kind == LEETSPEAK and not _DISGUISED.search(text, span.start, span.end):
                    continue  # the text holds leetspeak elsewhere; here nothing stands for a letter
                if hidden:
                    severity, notes = _raised(rule.severity), (written, _HIDDEN)
                    _note(seen, "hidden", _Seen(rule, severity, _surer(rule.score), None, notes))
                else:
                    _note(seen, "encoded", _Seen(rule, rule.severity, _surer(rule.score), span, (written,)))
        for code, found in seen.items():
            # Romance languages share words with English: the rule for one language speaks when both have hit.
            if "_translated" not in code or code.replace("_translated", "", 1) not in seen:
                yield found.finding(code)

    def _plain_hits(self, folded: Folded) -> Iterator[tuple[Rule, Span]]:
        in_folded, in_raw, _ = self._matchers
        for hit in in_folded.hits(folded.data):
            span = folded.origin_bytes(hit.start, hit.end)
            if not hit.rule.foreign or foreign(folded.original, span):
                yield hit.rule, span
        # Lone surrogates have no UTF-8 form; one character for one keeps the offsets.
        data = folded.original.encode("utf-8", "replace")
        same_places = len(data) == len(folded.original)
        for hit in in_raw.hits(data):
            places = (hit.start, hit.end) if same_places else (char_offset(data, hit.start), char_offset(data, hit.end))
            if not hit.rule.foreign or foreign(folded.original, Span(*places)):
                yield hit.rule, Span(*places)

    def _encoded_hits(self, view: View, depth: int) -> Iterator[tuple[Rule, Span]]:
        if view.loose:
            data = view.text.encode()
            for hit in self._matchers[2].hits(data):
                yield hit.rule, view.locate(char_offset(data, hit.start), char_offset(data, hit.end))
            return
        inner = fold(view.text)
        for rule, span in self._plain_hits(inner):
            yield rule, view.locate(span.start, span.end)
        if depth < MAX_VIEW_DEPTH:
            for nested in views(inner):
                for rule, span in self._encoded_hits(nested, depth + 1):
                    yield rule, view.locate(span.start, span.end)

    def _weighed(self, rule: Rule, text: str, span: Span) -> _Seen:
        window = self._params.context_window
        steps: list[str] = []
        if rule.excusable and (mark := _quoted(text, span)):
            steps.append(f"it stands in {mark}")
        around = (text[max(0, span.start - window) : span.start], text[span.end : span.end + window])
        if rule.excusable and any(map(_TEACHING.search, around)):
            steps.append("the words around it speak about attacks or examples")
        severity = _SEVERITIES[max(Severity.INFO.rank, rule.severity.rank - len(steps))]
        notes = (f"lowered, for {' and '.join(steps)}",) if steps else ()
        return _Seen(rule, severity, rule.score * self._params.teaching_factor ** len(steps), span, notes)


_SEVERITIES: Final = tuple(Severity)
_DISGUISED: Final = re.compile(r"[0-9@$!|+]")
_HIDDEN: Final = "a reader does not see it"


def _raised(severity: Severity) -> Severity:
    return _SEVERITIES[min(severity.rank + 1, Severity.CRITICAL.rank)]


def _surer(score: float) -> float:
    return min(1.0, score + 0.1)


def _note(seen: dict[str, _Seen], suffix: str, hit: _Seen) -> None:
    code = f"{hit.rule.id}.{suffix}" if suffix else hit.rule.id
    known = seen.get(code)
    if known is None:
        seen[code] = hit
        return
    # The worst hit speaks for all: one that stands plainly is not excused by another in quotation marks.
    worst = hit if (hit.severity.rank, hit.score) > (known.severity.rank, known.score) else known
    worst.count = known.count + 1
    seen[code] = worst


# --- text about attacks -----------------------------------------------------------------------------------------------

_TEACHING: Final = re.compile(
    r"prompt.injections?|injection.attacks?|jail.?break(?:s|ing)\b|attackers?\b|adversar(?:y|ies|ial)"
    r"|\battacks?\b|red.team"
    r"|(?<![\w./@-])examples?\b(?![./@]\w)|\be\.g\.|\bsuch as\b|for instance"
    r"|beispiel|angreifer|par exemple|attaquant|por ejemplo|atacante|por exemplo|ad esempio|voorbeeld|например"
    r"|例えば|例如|攻撃|攻击",
    re.IGNORECASE,
)
_PARAGRAPH: Final = 600  # characters on either side in which marks are paired
_PAIRS: Final = (("“", "”"), ("«", "»"), ("„", "“"), ("»", "«"), ("「", "」"), ("『", "』"), ("‘", "’"))


def _quoted(text: str, span: Span) -> str | None:
    """What a hit stands in, if it is quotation marks (paired in its paragraph) or code (in its line, or fenced)."""
    if text.count("```", 0, span.start) % 2 and text.find("```", span.end) >= 0:
        return "a code block"
    before = text[max(0, span.start - _PARAGRAPH) : span.end].rpartition("\n\n")[2]
    before = before[: max(0, len(before) - (span.end - span.start))]
    after = text[span.end : span.end + _PARAGRAPH].partition("\n\n")[0]
    inside = text[span.start : span.end]
    if inside[:1] in _MARKS and inside[:1]:
        before, inside = before + inside[0], inside[1:]
    line_before, line_after = before.rpartition("\n")[2], after.partition("\n")[0]
    if line_before.count("`") % 2 and "`" in line_after:
        return "code"
    if before.count('"') % 2 and '"' in after:
        return "quotation marks"
    for opening, closing in _PAIRS:
        if before.rfind(opening) > before.rfind(closing) and closing in after:
            return "quotation marks"
    return None


_MARKS: Final = frozenset('`"“«„»「『‘')


# --- patterns where word boundaries are lost --------------------------------------------------------------------------


def _loosened(pattern: str) -> str:
    """A pattern for a view where spaces and punctuation are lost and l cannot be told from i (`_views.View.loose`)."""
    anywhere = _ANCHOR.sub("", pattern).replace("[,:!] ?", "[,:!]? ?").replace(r"\b", "")
    return re.sub(r"(?<!\\)l", "i", anywhere.replace(" ", " ?"))


_ANCHOR: Final = re.compile(r"^\(\?:\^\|\[(?:\\.|[^\]\\])*\] \?\)")  # a sentence's beginning: (?:^|[.!?:;] ?)
