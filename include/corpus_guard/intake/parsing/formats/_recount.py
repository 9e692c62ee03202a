"""A second count of a document's text, by another parser: a model or a person may see text that one parser misses.

It counts the characters that are not white space, of all text, shown or hidden. The bounds were set on real
documents: the sample corpus, and pages and manuals from Debian and PyPI packages. `guard screen FOLDER --json` tells
which of other documents are beyond them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.document import make_problem
from corpus_guard.intake.parsing.formats._hidden import count_non_space
from corpus_guard.intake.parsing.formats._ooxml import A, W

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MIN_SHARE = 0.8
"""Smallest accepted ratio of the smaller count to the larger."""
SLACK_CHARS = 200
"""Difference that is accepted whatever the ratio."""
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_RUNS = (f"{W}t", f"{W}delText", f"{A}t")


def compare_counts(what: str, first: int, second: int | None) -> tuple[Finding, ...]:
    """Return a finding where two counts of a document's characters disagree, or `second` (None) failed."""
    if second is None:
        message = f"a second parser cannot read the {what} that the first one read"
        return (make_problem("extractors_disagree", Severity.MEDIUM, message, score=0.5),)
    small, large = sorted((first, second))
    if large - small <= SLACK_CHARS or small >= MIN_SHARE * large:
        return ()
    message = f"two parsers of the {what} disagree on its text: {first:,} characters and {second:,}"
    return (make_problem("extractors_disagree", Severity.MEDIUM, message, score=0.5),)


def count_html_chars(html: str) -> int:
    """Count the characters of all text nodes but scripts, styles and titles, as the HTML standard builds the tree."""
    import justhtml

    count = 0
    nodes: list[justhtml.Node | justhtml.Text] = [justhtml.JustHTML(html, sanitize=False, scripting_enabled=False).root]
    while nodes:
        node = nodes.pop()
        if isinstance(node, justhtml.Text):
            count += count_non_space(node.data or "")
        elif node.name not in {"script", "style", "title"}:
            nodes += node.children or ()
            if isinstance(node, justhtml.Template) and node.template_content:
                nodes.append(node.template_content)
    return count


def count_run_chars(root: Element) -> int:
    """Count the characters of all text runs of Office XML, deleted ones too; copies for older programs count once."""
    copies = sum(count_non_space(run.text or "") for old in root.iter(_FALLBACK) for run in old.iter(*_RUNS))
    return sum(count_non_space(run.text or "") for run in root.iter(*_RUNS)) - copies
