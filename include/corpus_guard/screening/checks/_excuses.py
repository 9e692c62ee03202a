"""Reasons to read an order in a text as one that the text talks about, and does not give.

- *Quoted*: it stands in quotation marks (paired in a paragraph) or in code (paired in a line, or a fence).
- *Taught*: words such as "prompt injection" or "for example" stand near a quotation, or right before it.

Each is one step of severity. What only the classifier finds is excused by code that holds other code too, and by
words about attacks around a quotation. Quotation marks, a fence, or "for example" nearby excuse nothing alone: any order
can stand there.

Neither reason counts beside an imperative frame: words that tell a reader, a model among them, to carry the quotation
out ("to be carried out when read", "this is not a drill", "examples for assistants"). What a guide says about others
("the model then follows it") is no frame.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache, cached_property
from typing import Final

import re2

from corpus_guard.domain import Span

LEAD_CHARS: Final = 60
"""Characters before a hit, in its paragraph, in which words about attacks or examples count without a quotation."""
FRAME_WINDOW: Final = 600
"""Characters on either side of a hit that are searched for an imperative frame."""
PARAGRAPH_CHARS: Final = 600
"""Characters on either side of a hit in which marks are paired."""
MIN_PROGRAM_LINES: Final = 3
MIN_PROGRAM_SHARE: Final = 0.25
"""Fewest lines of code that hold the signs of a program beside an order, and their share of all; prose and logs have fewer."""


class Excuses:
    """Surroundings of the hits in one text."""

    def __init__(self, text: str, window: int) -> None:
        """
        Args:
            window: characters on either side of a hit that are searched for words about attacks.
        """
        self._text = text
        self._window = window

    @cached_property
    def _blocks(self) -> list[Span]:
        """Places of the code blocks: from the start of a fence to the start of the next one like it."""
        blocks: list[Span] = []
        opened: re.Match[str] | None = None
        for fence in _FENCE.finditer(self._text):
            if opened is None:
                opened = fence
            elif fence[1].startswith(opened[1]) and not fence[2].strip():
                blocks.append(Span(opened.start(1), fence.start(1)))
                opened = None
        return blocks

    def steps(self, span: Span, *, foreseen: bool = True) -> tuple[str, ...]:
        """Return the reasons for which a hit weighs less, in words for a reviewer; each is one step.

        Args:
            span: of the hit.
            foreseen: a rule knows the order; otherwise the classifier alone found it.
        """
        code = self._code(span)
        is_quoted = code is not None or self._is_quoted(span)
        is_cited = is_quoted or self._is_in_quoted_line(span)
        if foreseen:
            is_taught = self._near(_TEACHING, span, self._window) if is_cited else self._is_led_by(_TEACHING, span)
        else:
            is_taught = is_cited and self._near(_ABOUT_ATTACKS, span, self._window)
            is_quoted = code is not None and self._holds_program(code[1], span)
        if not (is_quoted or is_taught) or self._near(_FRAME, span, FRAME_WINDOW):
            return ()
        quoted = [f"it stands in {code[0] if code else 'quotation marks'}"] if is_quoted else []
        return (*quoted, *(["the words around it are about attacks or examples"] if is_taught else []))

    def _near(self, pattern: re.Pattern[str], span: Span, window: int) -> bool:
        """Return whether words stand near a hit, outside of the quotation that holds it; those of addresses do not count."""
        around = self._quotation(span) or span
        before = self._text[max(0, around.start - window) : around.start]
        behind = self._text[around.end : around.end + window]
        return any(_holds(pattern, _ADDRESS.sub(" ", part)) for part in (before, behind))

    def _is_led_by(self, pattern: re.Pattern[str], span: Span) -> bool:
        return _holds(pattern, self._paragraph(span)[0][-LEAD_CHARS:])

    def _code(self, span: Span) -> tuple[str, Span] | None:
        """Return the name and the place of the code that holds a hit."""
        number = bisect_left(self._blocks, span.start, key=lambda block: block.start)
        if number and self._blocks[number - 1].end >= span.end:
            return "a code block", self._blocks[number - 1]
        before, after = self._paragraph(span)
        line_before, line_after = before.rpartition("\n")[2], after.partition("\n")[0]
        if line_before.count("`") % 2 and "`" in line_after:
            return "code", Span(span.start - len(line_before.rpartition("`")[2]), span.end + line_after.index("`"))
        return None

    def _holds_program(self, code: Span, span: Span) -> bool:
        """Return whether code holds more lines of a program than a hit."""
        rest = self._text[code.start : span.start] + self._text[span.end : code.end]
        lines = [line for line in rest.strip("` \n").split("\n") if line.strip()]
        programs = [line for line in lines if len(_PROGRAM_SIGN.findall(line)) > 1]
        return len(programs) >= max(MIN_PROGRAM_LINES, MIN_PROGRAM_SHARE * len(lines))

    def _is_quoted(self, span: Span) -> bool:
        return self._quotation(span) is not None

    def _quotation(self, span: Span) -> Span | None:
        """Return the place between the quotation marks around a hit; None where it is not quoted."""
        before, behind = self._paragraph(span)
        # A mark behind a figure may be that of inches or the end of a quotation: it must be odd either way.
        is_odd = before.count('"') % 2 == 1 and len(_QUOTE.findall(before)) % 2 == 1
        pairs = ((opening, closing) for opening, closing in _PAIRS if before.rfind(opening) > before.rfind(closing))
        for opening, closing in ((('"', '"'),) if is_odd else ()) + tuple(pairs):
            if closing in behind:
                first = span.start - len(before.rpartition(opening)[2])
                return Span(min(first, span.start), span.end + behind.index(closing))
        return None

    def _is_in_quoted_line(self, span: Span) -> bool:
        """Return whether Markdown quotes the line in which a hit begins."""
        return self._paragraph(span)[0].rpartition("\n")[2].lstrip().startswith(">")

    def _paragraph(self, span: Span) -> tuple[str, str]:
        """Return what stands before and behind a hit in its paragraph; a mark that it begins with stands before it."""
        before = self._text[max(0, span.start - PARAGRAPH_CHARS) : span.start].rpartition("\n\n")[2]
        if (first := self._text[span.start : span.start + 1]) in _MARKS:
            before += first
        return before, self._text[span.end : span.end + PARAGRAPH_CHARS].partition("\n\n")[0]


def _holds(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a pattern occurs; RE2 rules most ASCII text out in a hundredth of the time."""
    if text.isascii() and not _without_lookaround(pattern).search(text):
        return False
    return bool(pattern.search(text))


@cache
def _without_lookaround(pattern: re.Pattern[str]) -> re2._Regexp:
    """Return a pattern of RE2 that occurs wherever `pattern` does, and in more places."""
    return re2.compile(f"(?i){_LOOKAROUND.sub('', pattern.pattern)}")


_FENCE: Final = re.compile(r"^[ \t>]*(`{3,}|~{3,})([^`\n]*)$", re.MULTILINE)
_QUOTE: Final = re.compile(r'(?<!\d)"')
_ADDRESS: Final = re.compile(r"\S+@\S+|\w+://\S+")
_LOOKAROUND: Final = re.compile(r"\(\?<?[!=][^()]*\)")
_ATTACK_WORDS: Final = (
    r"prompt.injections?|injection.attacks?|jail.?break(?:s|ing)\b|attackers?\b|adversar(?:y|ies|ial)"
    r"|(?<!heart )(?<!panic )(?<!asthma )\battacks\b|\b(?:an?|the|this|such|of|poisoning|security|cyber|phishing|malicious|hidden"
    r"|indirect|possible|successful|engineering|extraction|leak(?:ing|age)?) attack\b(?! of)"
    r"|\battack (?:that|which|on|against|vectors?|surfaces?|strings?|texts?|prompts?|payloads?|examples?|success|techniques?)\b"
    r"|red.team|angreifer|attaquant|atacante|攻撃|攻击"
)
_ABOUT_ATTACKS: Final = re.compile(_ATTACK_WORDS, re.IGNORECASE)
_TEACHING: Final = re.compile(
    _ATTACK_WORDS + r"|(?<![\w./@-])examples?\b(?![./@]\w)|\be\.g\.|\bsuch as\b|for instance"
    r"|beispiel|par exemple|por ejemplo|por exemplo|ad esempio|voorbeeld|например|例えば|例如",
    re.IGNORECASE,
)
_DO: Final = (
    r"(?:carry(?:ing)? out|execut(?:e|ing)|follow(?:ing)?|obey(?:ing)?|perform(?:ing)?|comply(?:ing)? with"
    r"|act(?:ing)? (?:up)?on|heed(?:ing)?)"
)
_DONE: Final = (
    r"(?:carried out|executed|followed|obeyed|performed|complied with|acted (?:up)?on|heeded|done|applied"
    r"|taken (?:literally|seriously))"
)
_IT: Final = (
    r"(?:it|this|these|them|the (?:following|quoted|quotation|above|below|example|text|order|words|line|sentence)"
    r"|what (?:it|they|follows|is|stands|the))"
)
_MODEL: Final = (
    r"(?:a\.?i\.?s?|assistants?|llms?|(?:language )?models?|(?:ai )?agents?|chat ?bots?|bots?|summari[sz]ers?"
    r"|machines?|whoever (?:reads|summari[sz]es|answers|processes)(?: (?:this|it|the (?:text|page|document)))?)"
)
_MUST: Final = (
    r"(?:must|shall|should|is to|are to|has to|have to|needs? to|will now) (?:always |now |then |also |still |all )?"
)
_AT_ONCE: Final = r"(?:when|once|upon|as soon as|by|exactly|literally|to the letter|word for word|at once|immediately|without|in full)"
_FRAME: Final = re.compile(
    "|".join(
        (
            rf"(?<!not )(?<!never )\bto be {_DONE}",
            rf"\b{_MUST}be {_DONE} {_AT_ONCE}",
            rf"\b(?:{_MODEL}|you|readers?) {_MUST}{_DO} {_IT}",
            rf"(?:^|[.!?:;\n(–—-] *|\b(?:please|kindly|now|then|so) ){_DO} {_IT}",
            rf"\bexamples? (?:is |are )?(?:meant |intended |made )?(?:for|to) (?:all |any |every |the |our )?{_MODEL}\b",
            r"\b(?:is|are|was) (?:not|no) (?:just |merely |only |really )?(?:an? )?"
            r"(?:examples?|quotations?|quotes?|drill|tests?)\b",
            r"\bmeant (?:seriously|literally|in earnest)|\bin earnest\b|\b(?:is|are) (?:in force|binding)\b",
            r"\bdo (?:exactly )?(?:as|what) (?:it|they|the (?:following|quot\w+|example|above|text)) "
            r"(?:says?|asks?|tells?|orders?|commands?)\b",
            r"(?:auszuf(?:ü|ue)hren|zu befolgen|à exécuter|à suivre à la lettre|debe ejecutarse|a ejecutar|da eseguire"
            r"|uit te voeren|выполнить при чтении)",
        )
    ),
    re.IGNORECASE,
)
_PROGRAM_SIGN: Final = re.compile(r"[=(){}<>\[\];]|::|->")
_PAIRS: Final = (("“", "”"), ("«", "»"), ("„", "“"), ("»", "«"), ("「", "」"), ("『", "』"), ("‘", "’"))
_MARKS: Final = frozenset('`"“«„»「『‘')
