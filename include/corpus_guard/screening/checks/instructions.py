"""Text that gives orders to the model that will read it.

Rules, in `rules/instructions.yaml`:

- A rule's patterns are RE2 regular expressions: linear in the text, so no document can hang the guard. They
  are written in lower case for the folded text (see `folding`), or for the text as it stands where the rule
  says ``raw: true``.
- All patterns are searched at once; only those that hit are searched again for their place.
- Text encoded in the text (base64, rot13, tag characters, …) is read by the same rules: code suffix
  ``.encoded``.
- Text that a reader does not see is read by the same rules: code suffix ``.hidden``, one severity higher, no
  span.
- Text *about* attacks is not an attack: a hit in quotation marks or code loses a step of severity, one near
  words such as "prompt injection" or "for example" another. Encoded and hidden hits lose nothing.

What it does not do: understand. A request in words that no rule foresees passes here, and is left to the
checks that compare a document with others. An author who knows the rules can quote an attack and call it an
example; the finding is then two severities lower, for the policy to weigh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

import re2
from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.domain import Finding, Severity, Span, Version, canonical_json, digest, sha256_bytes
from corpus_guard.errors import GuardError, SettingsError
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.checks._fitting import is_foreign
from corpus_guard.screening.checks._views import LEETSPEAK, DecodedView, decode_views
from corpus_guard.screening.folding import FOLDING_VERSION, FoldedText, char_offset, fold, fold_literals
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.screening.tags import TAG_KEYS, tag_ids
from corpus_guard.settings import load_yaml

RULES_FILE: Final = Path(__file__).parents[1] / "rules" / "instructions.yaml"
MAX_HITS: Final = 20
"""Hits of one pattern that are located in one text."""
FOLLOWED_BY_BYTES: Final = 800
"""Bytes after a hit in which a rule's ``followed_by`` must stand."""
MAX_VIEW_DEPTH: Final = 2
"""Encodings inside encodings that are unpacked."""


class InstructionsParams(Params):
    """The section ``instructions`` of policy.yaml."""

    context_window: int = Field(default=200, ge=0, le=2000)
    """Characters on either side of a hit that are searched for words about attacks."""
    teaching_factor: float = Field(default=0.5, gt=0, le=1)
    """Factor for a hit's score at each step that its severity is lowered."""


class InstructionRule(BaseModel):
    """Patterns for one way to give orders to a model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    description: str
    """Message for a reviewer: "The text tells …"."""
    severity: Severity
    score: float = Field(gt=0, le=1)
    tags: tuple[str, ...] = ()
    """Keys of `corpus_guard.screening.tags`."""
    languages: tuple[str, ...] = ("en",)
    raw: bool = False
    """Patterns read the text as it stands, with case and line breaks."""
    loose: bool = False
    """Patterns also read text without word boundaries (spaced-out letters, leetspeak)."""
    patterns: tuple[str, ...] = Field(min_length=1)
    excusable: bool = True
    """A hit loses severity in quotation marks, in code, and near words about attacks or examples."""
    followed_by: str | None = None
    """A hit counts only if this stands shortly after it."""
    unless: str | None = None
    """A hit that holds this does not count."""
    foreign: bool = False
    """A hit counts only if its words differ from those of the text around it (see `_fitting`)."""
    examples: tuple[str, ...] = Field(min_length=1)
    """Texts that must hit."""
    counter_examples: tuple[str, ...] = ()
    """Texts that must not hit."""


class RulePack(BaseModel):
    """Rule file, validated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pack: str
    version: str
    words: dict[str, str] = Field(default_factory=dict)
    """Alternatives that patterns name as ``{{word}}``."""
    rules: tuple[InstructionRule, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class _Hit:
    """Place of a pattern in UTF-8 text."""

    rule: InstructionRule
    start: int  # bytes
    end: int


@dataclass(slots=True)
class _RuleHits:
    """Hits of one rule in one kind of place, to become one finding."""

    rule: InstructionRule
    severity: Severity
    score: float
    span: Span | None
    notes: tuple[str, ...]
    count: int = 1

    def finding(self, code: str) -> Finding:
        times = f" ({self.count} times)" if self.count > 1 else ""
        message = "; ".join((self.rule.description + times, *self.notes))
        return Finding(
            check=Instructions.name,
            code=f"{Instructions.name}.{code}",
            severity=self.severity,
            score=self.score,
            message=message,
            span=self.span,
            tags=tag_ids((*self.rule.tags, "obfuscation")) if code.endswith(".encoded") else tag_ids(self.rule.tags),
        )


class _Matcher:
    """Patterns compiled together."""

    def __init__(self, patterns: Sequence[tuple[InstructionRule, str]], where: str) -> None:
        """Compile the patterns.

        Raises:
            SettingsError: RE2 refuses a pattern.
        """
        options = re2.Options()
        options.log_errors = False
        options.max_mem = 256 << 20  # bytes; the automaton of many patterns grows with the texts
        self._rules: list[tuple[InstructionRule, _Pattern, _Pattern | None, _Pattern | None]] = []
        self._set = re2.Set.SearchSet(options)
        for rule, pattern in patterns:
            blame = f"{where}: rule {rule.id}"
            after = _compile(rule.followed_by, blame, options) if rule.followed_by else None
            unless = _compile(rule.unless, blame, options) if rule.unless else None
            self._rules.append((rule, _compile(pattern, blame, options), after, unless))
            self._set.Add(pattern)
        # A set that runs out of memory answers "nothing hits"; the empty pattern, which always hits, reveals
        # it.
        self._always = self._set.Add("")
        self._set.Compile()

    def hits(self, data: bytes) -> Iterator[_Hit]:
        """Yield every hit in UTF-8 text, pattern by pattern."""
        matched = self._set.Match(data)
        if len(matched) == 1 and matched[0] == self._always:
            return
        if self._always not in matched:
            raise GuardError(
                "instruction rules: RE2 ran out of memory on a text, expected an answer; the text counts as unchecked"
            )
        for number in sorted(matched):
            if number != self._always:
                rule, pattern, after, unless = self._rules[number]
                for match in islice(pattern.finditer(data), MAX_HITS):
                    start, end = match.span()
                    if after is not None and not after.search(data[end : end + FOLLOWED_BY_BYTES]):
                        continue
                    if unless is None or not unless.search(data[start:end]):
                        yield _Hit(rule, start, end)


class _Match(Protocol):
    """A match as RE2 gives it."""

    def span(self) -> tuple[int, int]:
        """Return start and end, in bytes."""


class _Pattern(Protocol):
    """A compiled RE2 pattern: the library has no types."""

    def search(self, data: bytes) -> _Match | None:
        """Return the first match."""

    def finditer(self, data: bytes) -> Iterator[_Match]:
        """Yield every match."""


def _compile(pattern: str, blame: str, options: re2.Options) -> _Pattern:
    try:
        compiled: _Pattern = re2.compile(pattern.encode(), options)
        return compiled
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else error
        raise SettingsError(
            f"{blame}: RE2 refuses a pattern ({reason}); write it without lookaround and back-references, "
            "and without repetition above 1000"
        ) from error


def load_rules(path: Path = RULES_FILE) -> RulePack:
    """Read a rule file and validate what its model cannot.

    Raises:
        SettingsError: the file or a key is wrong, an id is used twice, or a tag or a ``{{word}}`` is unknown.
    """
    pack = load_yaml(path, RulePack)
    ids: set[str] = set()
    for rule in pack.rules:
        blame = f"{path}: rule {rule.id}"
        if rule.id in ids:
            raise SettingsError(f"{blame}: the id is used twice; ids are part of finding codes, choose another")
        ids.add(rule.id)
        if unknown := sorted(set(rule.tags) - TAG_KEYS):
            raise SettingsError(f"{blame}: unknown tag {unknown[0]!r}; expected one of: {', '.join(sorted(TAG_KEYS))}")
        for pattern in rule.patterns:
            if missing := [word for word in _PLACEHOLDER.findall(pattern) if word not in pack.words]:
                words = ", ".join(sorted(pack.words))
                raise SettingsError(f"{blame}: unknown word {missing[0]!r}; expected one of: {words}")
    return pack


_PLACEHOLDER: Final = re.compile(r"\{\{([a-z_]+)\}\}")


@lru_cache(maxsize=2)
def _compile_matchers(path: Path, _digest: str) -> tuple[_Matcher, ...]:
    """Compile the rules of a pack that has this digest."""
    pack = load_rules(path)
    kinds: tuple[list[tuple[InstructionRule, str]], ...] = ([], [], [])
    for rule in pack.rules:
        for pattern in rule.patterns:
            whole = _PLACEHOLDER.sub(lambda word: f"(?:{pack.words[word[1]]})", pattern)
            kinds[rule.raw].append((rule, whole if rule.raw else fold_literals(whole)))
            if rule.loose and not rule.raw:
                kinds[2].append((rule, _loosen(fold_literals(whole))))
    return tuple(_Matcher(patterns, str(path)) for patterns in kinds)


class Instructions(ConfiguredCheck[InstructionsParams]):
    """Instruction patterns, plain, encoded and hidden."""

    name = "instructions"
    params_class = InstructionsParams
    code_version = ("4",)

    def __init__(self, params: InstructionsParams | None = None, *, pack: Path = RULES_FILE) -> None:
        """Load the rules.

        Args:
            params: limits.
            pack: the rule file.

        Raises:
            SettingsError: the rule file is wrong.
        """
        super().__init__(params)
        self._path = pack
        load_rules(pack)  # a mistake in the file is reported at once
        if pack != RULES_FILE:
            self._matchers  # noqa: B018 - a pattern that RE2 refuses is reported at once to the author of a pack

    @cached_property
    def _matchers(self) -> tuple[_Matcher, ...]:
        """Return matchers for folded, plain and disguised text; compiled with the first text of a process."""
        return _compile_matchers(self._path, self._pack_digest)

    @cached_property
    def _pack_digest(self) -> str:
        return sha256_bytes(self._path.read_bytes())

    @cached_property
    def digest(self) -> str:
        """Return the digest of the pack's bytes, the parameters, the code's version and the folding tables."""
        params = canonical_json(self.params.model_dump()).decode()
        return digest("check/instructions/v1", [self._pack_digest, params, *self.code_version, FOLDING_VERSION])

    def applies_to(self, version: Version) -> bool:
        """Return True for every version, whatever its language."""
        return True

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Search the text and the hidden text of each version."""
        for position, version in enumerate(batch):
            for finding in self._in_text(version.text, hidden=False):
                yield position, finding
            if version.hidden:
                for finding in self._in_text(version.hidden, hidden=True):
                    yield position, finding

    def _in_text(self, text: str, *, hidden: bool) -> Iterator[Finding]:
        folded = fold(text)
        by_code: dict[str, _RuleHits] = {}
        plain: set[str] = set()
        for rule, span in self._plain_hits(folded):
            plain.add(rule.id)
            if hidden:
                hits = _RuleHits(rule, _raise_severity(rule.severity), _raise_score(rule.score), None, (_HIDDEN,))
                _add_hits(by_code, "hidden", hits)
            else:
                _add_hits(by_code, "", self._weigh(rule, text, span))
        for view in decode_views(folded):
            written = f"it is written in {view.kind}"
            for rule, span in self._encoded_hits(view, 1):
                if view.loose and rule.id in plain:
                    continue
                if view.kind == LEETSPEAK and not _DISGUISED.search(text, span.start, span.end):
                    continue  # the text holds leetspeak elsewhere; here nothing stands for a letter
                if hidden:
                    severity, notes = _raise_severity(rule.severity), (written, _HIDDEN)
                    _add_hits(by_code, "hidden", _RuleHits(rule, severity, _raise_score(rule.score), None, notes))
                else:
                    hits = _RuleHits(rule, rule.severity, _raise_score(rule.score), span, (written,))
                    _add_hits(by_code, "encoded", hits)
        for code, hits in by_code.items():
            # Romance languages share words with English: where both rules hit, only the English rule counts.
            if "_translated" not in code or code.replace("_translated", "", 1) not in by_code:
                yield hits.finding(code)

    def _plain_hits(self, folded: FoldedText) -> Iterator[tuple[InstructionRule, Span]]:
        in_folded, in_raw, _ = self._matchers
        for hit in in_folded.hits(folded.data):
            span = folded.origin_bytes(hit.start, hit.end)
            if not hit.rule.foreign or is_foreign(folded.original, span):
                yield hit.rule, span
        # Lone surrogates have no UTF-8 form; one character for one keeps the offsets.
        data = folded.original.encode("utf-8", "replace")
        same_places = len(data) == len(folded.original)
        for hit in in_raw.hits(data):
            places = (hit.start, hit.end) if same_places else (char_offset(data, hit.start), char_offset(data, hit.end))
            if not hit.rule.foreign or is_foreign(folded.original, Span(*places)):
                yield hit.rule, Span(*places)

    def _encoded_hits(self, view: DecodedView, depth: int) -> Iterator[tuple[InstructionRule, Span]]:
        if view.loose:
            data = view.text.encode()
            for hit in self._matchers[2].hits(data):
                yield hit.rule, view.locate(char_offset(data, hit.start), char_offset(data, hit.end))
            return
        inner = fold(view.text)
        for rule, span in self._plain_hits(inner):
            yield rule, view.locate(span.start, span.end)
        if depth < MAX_VIEW_DEPTH:
            for nested in decode_views(inner):
                for rule, span in self._encoded_hits(nested, depth + 1):
                    yield rule, view.locate(span.start, span.end)

    def _weigh(self, rule: InstructionRule, text: str, span: Span) -> _RuleHits:
        window = self.params.context_window
        steps: list[str] = []
        if rule.excusable and (mark := _quoted(text, span)):
            steps.append(f"it stands in {mark}")
        around = (text[max(0, span.start - window) : span.start], text[span.end : span.end + window])
        if rule.excusable and any(map(_TEACHING.search, around)):
            steps.append("the words around it are about attacks or examples")
        severity = _SEVERITIES[max(Severity.INFO.rank, rule.severity.rank - len(steps))]
        notes = (f"lowered, because {' and '.join(steps)}",) if steps else ()
        return _RuleHits(rule, severity, rule.score * self.params.teaching_factor ** len(steps), span, notes)


_SEVERITIES: Final = tuple(Severity)
_DISGUISED: Final = re.compile(r"[0-9@$!|+]")
_HIDDEN: Final = "a reader does not see it"


def _raise_severity(severity: Severity) -> Severity:
    return _SEVERITIES[min(severity.rank + 1, Severity.CRITICAL.rank)]


def _raise_score(score: float) -> float:
    return min(1.0, score + 0.1)


def _add_hits(by_code: dict[str, _RuleHits], suffix: str, hit: _RuleHits) -> None:
    code = f"{hit.rule.id}.{suffix}" if suffix else hit.rule.id
    before = by_code.get(code)
    if before is None:
        by_code[code] = hit
        return
    # The worst hit stands for all: a plain one is not excused by another in quotation marks.
    worst = hit if (hit.severity.rank, hit.score) > (before.severity.rank, before.score) else before
    worst.count = before.count + 1
    by_code[code] = worst


# --- text about attacks -------------------------------------------------------------------------------------

_TEACHING: Final = re.compile(
    r"prompt.injections?|injection.attacks?|jail.?break(?:s|ing)\b|attackers?\b|adversar(?:y|ies|ial)"
    r"|\battacks?\b|red.team"
    r"|(?<![\w./@-])examples?\b(?![./@]\w)|\be\.g\.|\bsuch as\b|for instance"
    r"|beispiel|angreifer|par exemple|attaquant|por ejemplo|atacante|por exemplo|ad esempio|voorbeeld|например"
    r"|例えば|例如|攻撃|攻击",
    re.IGNORECASE,
)
_PARAGRAPH_CHARS: Final = 600  # on either side, in which marks are paired
_PAIRS: Final = (("“", "”"), ("«", "»"), ("„", "“"), ("»", "«"), ("「", "」"), ("『", "』"), ("‘", "’"))


def _quoted(text: str, span: Span) -> str | None:
    """Return the name of the marks around a hit.

    Quotation marks are paired in a paragraph, code marks in a line or as a fence.
    """
    if text.count("```", 0, span.start) % 2 and text.find("```", span.end) >= 0:
        return "a code block"
    before = text[max(0, span.start - _PARAGRAPH_CHARS) : span.end].rpartition("\n\n")[2]
    before = before[: max(0, len(before) - (span.end - span.start))]
    after = text[span.end : span.end + _PARAGRAPH_CHARS].partition("\n\n")[0]
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


# --- patterns where word boundaries are lost ----------------------------------------------------------------


def _loosen(pattern: str) -> str:
    """Return a pattern for a view without spaces and punctuation, where l looks like i."""
    anywhere = _ANCHOR.sub("", pattern).replace("[,:!] ?", "[,:!]? ?").replace(r"\b", "")
    return re.sub(r"(?<!\\)l", "i", anywhere.replace(" ", " ?"))


_ANCHOR: Final = re.compile(r"^\(\?:\^\|\[(?:\\.|[^\]\\])*\] \?\)")  # a sentence's beginning: (?:^|[.!?:;] ?)
