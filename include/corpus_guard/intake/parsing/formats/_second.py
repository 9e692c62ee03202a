"""A second count of a document's text, by another parser: what one of them misses, a model or a person may still see.

Counted are characters that are not white space, of all text, shown or hidden. The bounds were set on real documents (the sample
corpus, and pages and manuals that Debian and PyPI packages bring: tests/intake/parsing/count_second.py prints the counts).
"""

from __future__ import annotations

from typing import Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.formats._hidden import ink
from corpus_guard.intake.parsing.formats._ooxml import A, W
from corpus_guard.intake.parsing.parsed import problem

SHARE = 0.8
"""The smaller count may be this share of the larger."""
SLACK = 200
"""Characters by which two counts may differ whatever the share."""
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_RUNS = (f"{W}t", f"{W}delText", f"{A}t")


def compare(what: str, first: int, second: int | None) -> tuple[Finding, ...]:
    """A finding where two counts of a document's characters disagree; None for `second`: it could not be counted."""
    if second is None:
        message = f"a second parser cannot read the {what} that the first one read"
        return (problem("extractors_disagree", Severity.MEDIUM, message, score=0.5),)
    small, large = sorted((first, second))
    if large - small <= SLACK or small >= SHARE * large:
        return ()
    message = f"two parsers of the {what} disagree on its text: {first:,} characters and {second:,}"
    return (problem("extractors_disagree", Severity.MEDIUM, message, score=0.5),)


def html_chars(html: str) -> int | None:
    """Of all text nodes but scripts and styles, by libxml2; None where it gives up."""
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
            count += ink(element.text)
        if element.tail:
            count += ink(element.tail)
    return count


def run_chars(root: Any) -> int:
    """Of all text runs of Office XML, deleted ones too; what stands there twice for older programs counts once."""
    copies = sum(ink(run.text or "") for old in root.iter(_FALLBACK) for run in old.iter(*_RUNS))
    return sum(ink(run.text or "") for run in root.iter(*_RUNS)) - copies
