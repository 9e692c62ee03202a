"""A second count of a document's text, by another parser: a model or a person may see text that one parser misses.

It counts the characters that are not white space, of all text, shown or hidden. The bounds were set on real
documents (the sample corpus, and pages and manuals from Debian and PyPI packages:
tests/intake/parsing/compare_counts.py prints the counts).
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


def count_html_chars(html: str) -> int | None:
    """Count the characters of all text nodes but scripts and styles, by libxml2; None where it gives up."""
    from lxml import etree

    parser = etree.HTMLParser(huge_tree=True, no_network=True, remove_comments=True, remove_pis=True, encoding="utf-8")
    try:
        root = etree.fromstring(html.encode("utf-8", "replace"), parser)
    except etree.LxmlError:
        return None
    if root is None:
        return 0
    # Iterating, not XPath: XPath over a deep tree recurses.
    skipped = {"script", "style", "title"}
    count = 0
    for element in root.iter():
        if isinstance(element.tag, str) and element.tag not in skipped and element.text:
            count += count_non_space(element.text)
        if element.tail:
            count += count_non_space(element.tail)
    return count


def count_run_chars(root: Element) -> int:
    """Count the characters of all text runs of Office XML, deleted ones too; copies for older programs count once."""
    copies = sum(count_non_space(run.text or "") for old in root.iter(_FALLBACK) for run in old.iter(*_RUNS))
    return sum(count_non_space(run.text or "") for run in root.iter(*_RUNS)) - copies
