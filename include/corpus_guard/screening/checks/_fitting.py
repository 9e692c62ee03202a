"""Sentences that do not belong to the text around them.

A sentence that somebody slipped into a document is about something else: its words do not occur near it. An
honest question or step shares words with the text that follows: the answer repeats the question's words, a
step names the topic of the page.

Compared are the words of three or more letters, except those of any question or request, by their first five
letters, so that "equations" matches "equation". Half of them, or one longer word in the line before or after,
such as the heading, make a sentence fit. So do too few words, in it or around it.

What it does not see: a planted sentence that takes up the words of its surroundings.
"""

from __future__ import annotations

import re
from typing import Final

from corpus_guard.domain import Span

CONTEXT_CHARS: Final = 1_500
"""Characters on either side of a sentence that it is compared with."""
NEIGHBOUR_CHARS: Final = 120
"""Characters of the line before and of the line after it, one word of which is enough."""
MIN_CONTEXT_CHARS: Final = 100
"""Fewest characters other than white space around a sentence that can be foreign."""
MAX_SENTENCE_CHARS: Final = 300
"""Longest sentence; a longer one is a paragraph, with surroundings of its own."""
_STEM_LETTERS: Final = 5
_LETTERS: Final = re.compile(r"[^\W\d_]{3,}")


def _stem(word: str) -> str:
    """Return the first letters of a word; of a short one without the s of a plural."""
    is_short_plural = len(word) in (_STEM_LETTERS - 1, _STEM_LETTERS) and word[-1] == "s" != word[-2]
    return word[:-1] if is_short_plural else word[:_STEM_LETTERS]


# Words of questions and requests in general: they recur in any text, whatever its topic.
_COMMON_WORDS: Final = (
    "all and any are but can did few for get got had has her him his how its let may new not now off one our out own put say see set "
    "she too two use was way who why you about above after again also always another answer because been before being below between "
    "both could describe does doing done each else every explain following from give given have help here into just kind know like "
    "list long made main make many more most much must name need only other over please provide same should show some such tell than "
    "that their them then there these they thing things this those through under used using very want well were what when where which "
    "while will with without word words work works would write your yours yourself"
)
_COMMON_STEMS: Final = frozenset(map(_stem, _COMMON_WORDS.split()))


# Lines of a log of changes (git, GNU, Debian), and of lists that name what commands and functions do.
_LOG_MARK: Final = re.compile(
    r"^[ \t]*(?:commit [0-9a-f]{7,}|(?:Author|Date|Signed-off-by|Reviewed-by|Acked-by): |\d{4}-\d\d-\d\d\s+\S"
    r"|\* [\w./-]+(?: \([^)\n]*\))?:|\[ ?[A-Z][^\]\n]*\]$|-- [A-Z].+<\S+@)|\(#\d+\)|\(closes: #|\bPR[ /#]\d+|<\S+@\S+>$",
    re.MULTILINE | re.IGNORECASE,
)
_CHANGE: Final = re.compile(
    r"^[ \t]*(?:[-*+•][ \t]+)?(?:[\w./-]+: )?(?:Add|Allow|Append|Apply|Avoid|Build|Bump|Call|Change|Check|Clean"
    r"|Close|Compute|Configure|Construct|Convert|Copy|Correct|Create|Declare|Decode|Define|Delete|Determine|Disable"
    r"|Display|Document|Don't|Download|Drop|Enable|Encode|Ensure|Escape|Export|Extend|Extract|Find|Fix|Format"
    r"|Generate|Get|Handle|Implement|Improve|Include|Initiali[sz]e|Insert|Install|Inspect|Introduce|List|Load|Make"
    r"|Manage|Mark|Mention|Merge|Move|Normali[sz]e|Open|Parse|Pass|Prevent|Print|Process|Provide|Read|Refactor|Register|Reinstall"
    r"|Remove|Rename|Replace|Report|Resolve|Retrieve|Return|Revert|Run|Save|Search|Select|Send|Set|Show|Simplify"
    r"|Skip|Sort|Split|Start|Stop|Store|Support|Switch|Test|Uninstall|Update|Upgrade|Use|Validate|Verify|Wrap|Yield)"
    r"\b(?! (?:me|us|your?)\b)",
    re.MULTILINE,
)
# Options and functions, as manuals head what each does: "-k, --kernel-dir PATH", "close(stream)", "close :: Stream -> m ()".
_HEADING: Final = re.compile(
    r"^[ \t]*(?:(?:-[A-Za-z0-9]\b|--[a-z][\w-]+)(?:[ \t,=|\[<].{0,80})?|[\w.]+\([^()\n]{0,80}\):?|[\w']+ :: \S.{0,200}"
    r"|(?:\|[ \t]*|[-*+][ \t]+)`{0,2}(?:-[A-Za-z0-9]\b|--[a-z][\w-]+).*)$",
    re.MULTILINE,
)
_ATTRIBUTE: Final = re.compile(
    r"^[ \t]*(?:[-*+] )?(?:Default|Type|Required|Optional|Deprecated|Since|Env|Alias(?:es)?): \S.{0,80}$", re.MULTILINE
)
"""Words of manuals on an option before they tell what it does: "Default: false"."""
_OPTION: Final = re.compile(
    rf"{_HEADING.pattern}|^[ \t]*(?:#{{1,6}}|[-*+])[ \t]+[`\w][\w.`-]*$|^[a-z][\w.-]*[_.-][\w.-]*:?$|`[^`\n]+`",
    re.MULTILINE,
)
"""Option that such words are about: a heading that is a name, or a name written as code."""
_LINK: Final = re.compile(r"\(https?://[^\s)]+\)")
"""An address, as parsing writes it behind the words of a link."""
_QUESTION: Final = re.compile(r"\?[ \t\r]*$", re.MULTILINE)
_ENTRY: Final = re.compile(r"[ \t]+\S|[-*+•][ \t]|\d{1,3}[.)][ \t]")
"""Beginning of an entry of a list, or of the text of one that is set in."""
_MIN_LINKS, _MIN_QUESTIONS = 3, 3
_MIN_MARKS, _MIN_CHANGES, _MIN_HEADINGS, _MIN_ATTRIBUTES = 2, 4, 4, 2


_ADDRESSED = re.compile(
    r"\b(?:assistants?|(?:chat ?)?bots?|(?:language )?models?|a\.?i|llms?|agents?|whoever|anyone|readers?"
    r"|(?:answer|repl[iy]|respon|summari[sz])\w*|(?:this|these) (?:page|text|document|passage|article|source|lines?))\b",
    re.IGNORECASE,
)
"""Words for whoever answers, and for what they answer from: no entry of a list is about them."""


def addresses_a_reader(text: str, span: Span) -> bool:
    """Return True if a sentence says who is told, or what they are reading."""
    return bool(_ADDRESSED.search(text, span.start, span.end))


def is_listed(text: str, span: Span) -> bool:
    """Return True if a sentence is an entry of a log of changes, or of a manual's list of commands.

    Marks around it make the list; where it stands itself makes it an entry: anybody can put two numbers of issues near an order.
    """
    around, line = _surroundings(text, span), _line_of(text, span)
    before, after = _neighbouring_lines(text, span)
    is_entry = bool(_ENTRY.match(line) or _LOG_MARK.search(line))
    is_described = any(map(_HEADING.search, (before, line))) or line[:1].isspace() or before.startswith("#")
    has_attributes = any(map(_ATTRIBUTE.search, (before, line, after))) and bool(_OPTION.search(around))
    return any(
        stands_there and len(marks.findall(around)) >= least
        for stands_there, marks, least in (
            (is_entry, _LOG_MARK, _MIN_MARKS),
            (bool(_CHANGE.match(line)), _CHANGE, _MIN_CHANGES),
            (is_described, _HEADING, _MIN_HEADINGS),
            (has_attributes, _ATTRIBUTE, _MIN_ATTRIBUTES),
        )
    )


def stands_in_series(text: str, span: Span) -> bool:
    """Return True if a question stands among links, as headlines of a portal do, or among questions, as in an interview."""
    around = _surroundings(text, span)
    return len(_LINK.findall(around)) >= _MIN_LINKS or len(_QUESTION.findall(around)) >= _MIN_QUESTIONS


def stands_between_links(text: str, span: Span) -> bool:
    """Return True if the lines before and after a sentence, empty ones left out, hold a link each: a list of teasers."""
    return all(map(_LINK.search, _neighbouring_lines(text, span)))


def is_foreign(text: str, span: Span) -> bool:
    """Return True if fewer than half of the sentence's words occur around it."""
    if span.end - span.start > MAX_SENTENCE_CHARS:
        return False
    own = _stems(text[span.start : span.end])
    around = _surroundings(text, span)
    if not own or len("".join(around.split())) < MIN_CONTEXT_CHARS:
        return False
    return 2 * len(own & _stems(around)) < len(own) and not own & _neighbouring_stems(text, span)


def _neighbouring_stems(text: str, span: Span) -> set[str]:
    """Return the longer stems of the nearest lines before and after a sentence, such as the heading that it stands under."""
    before, after = _neighbouring_lines(text, span)
    stems = _stems(before[-NEIGHBOUR_CHARS:]) | _stems(after[:NEIGHBOUR_CHARS])
    return {stem for stem in stems if len(stem) == _STEM_LETTERS}


def _neighbouring_lines(text: str, span: Span) -> tuple[str, str]:
    before, after = text[max(0, span.start - CONTEXT_CHARS) : span.start], text[span.end : span.end + CONTEXT_CHARS]
    return before.rstrip().rpartition("\n")[2], after.lstrip().partition("\n")[0]


def _line_of(text: str, span: Span) -> str:
    """Return the line that a sentence begins in, up to the sentence's end."""
    return text[text.rfind("\n", 0, span.start) + 1 : span.end]


def _surroundings(text: str, span: Span) -> str:
    return f"{text[max(0, span.start - CONTEXT_CHARS) : span.start]}\n{text[span.end : span.end + CONTEXT_CHARS]}"


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in _LETTERS.findall(text.casefold())} - _COMMON_STEMS


_REFERENCE: Final = re.compile(
    r"\b(?:include|quote|state|give|mention|indicate|provide|send us)\b(?: (?:the|your|our|a|this))?(?: [a-z]+){0,2}"
    r" (?:number|reference|code)\b"
    r"[^.;:!?\n]{0,30}\b(?:(?:in|with|on) (?:your|all|any|every) (?:reply|answer|response|letter|e-?mail|correspondence)"
    r"|when you (?:reply|answer|write))\b|\bin your (?:reply|answer|letter|e-?mail),? (?:please )?quote our reference\b",
    re.IGNORECASE,
)
"""Request of a letter to whoever answers it. No account, password or address is a reference."""
_WORDS_BESIDE: Final = 8
"""Words of the sentence that are not of the request; more of them ask for something else."""
_NO_REFERENCE: Final = re.compile(
    r"\b(?:account|card|bank|phone|telephone|pass\w*|pin|security|secret|access)\b", re.IGNORECASE
)


def asks_for_reference(text: str, span: Span) -> bool:
    """Return True if a sentence asks for a number or a reference in an answer, as letters do."""
    sentence = text[span.start : span.end]
    request = _REFERENCE.search(sentence)
    if not request or _NO_REFERENCE.search(sentence):
        return False
    return len(f"{sentence[: request.start()]} {sentence[request.end() :]}".split()) <= _WORDS_BESIDE
