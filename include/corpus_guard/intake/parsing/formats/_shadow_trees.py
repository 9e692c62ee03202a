"""Shadow trees that a page declares (HTML, 4.12.3): which content of their hosts they show.

A host shows its shadow tree. Its own content shows only in the tree's slots: a child in the slot that its attribute
``slot`` names, text and other children in the slot without a name. A slot hides what an element around it hides, and
``:host`` and ``::slotted()`` in the tree's style sheets hide the host and its children.

Not computed: trees within trees, and slots that a script assigns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from resiliparse.parse.html import DocumentNode, ElementNode, HTMLParserException, HTMLTree, Node

from corpus_guard.intake.parsing.formats import _css

_MAX_TREES = 200  # read in one page; the hosts of more count as hidden
_MAX_SLOTS = 50  # of one tree; what would stand in others counts as hidden
_MAX_RULES = 100  # for the host and its children; with more, all of them count as hidden
_MAX_DEPTH = 100  # elements around a slot
_WITHIN_HOST = re.compile(r":host(?:\([^()]*\))?(?=\s*[\s>+~]\s*[^\s{,>+~])")
_HOST = re.compile(r":host(?:\(([^{}]*)\))?\Z")
_SLOTTED = re.compile(r"::slotted\(([^{}]*)\)\Z")
_NO_SHEETS = _css.StyleSheets()


def find_shadowed(document: DocumentNode) -> dict[Node, str]:
    """Return the children of hosts that no slot shows, with what hides each: a key of `_hidden.HIDING_REASONS`."""
    shadowed: dict[Node, str] = {}
    hosts: set[ElementNode] = set()
    for template in document.query_selector_all("template[shadowrootmode]").values():
        host = template.parent
        if not isinstance(host, ElementNode) or host in hosts:
            continue
        hosts.add(host)
        find_reason = _read_tree(template, host) if len(hosts) <= _MAX_TREES else _hide_all
        for child in children(host):
            if reason := find_reason(child):
                shadowed[child] = reason
    return shadowed


def _hide_all(_: Node) -> str:
    return "fallback"


def _read_tree(template: ElementNode, host: ElementNode) -> Callable[[Node], str]:
    """Return a function that says what the tree of a template hides a child of the host by."""
    source = template.html.partition(">")[2].removesuffix("</template>")
    try:
        tree = HTMLTree.parse(f"<body>{_WITHIN_HOST.sub('body', source)}")
    except HTMLParserException as error:
        raise MemoryError from error
    if tree.document is None:
        raise MemoryError
    slots = _find_slots(tree.document)
    sheets = [style.text or "" for style in tree.document.query_selector_all("style").values()]
    rules = [
        (selector, reason)
        for selector, declarations, _ in (_css.StyleSheets.parse(sheets).rules if sheets else ())
        if ":host" in selector or "::slotted" in selector
        if (reason := _css.find_reason(declarations))
    ]
    if len(rules) > _MAX_RULES:
        return _hide_all
    own = next(
        (reason for selector, reason in rules if (rule := _HOST.search(selector)) and _matches(host, rule[1])), ""
    )

    def find_reason(child: Node) -> str:
        if own:
            return own
        if not isinstance(child, ElementNode):
            return slots.get("", "fallback")
        slotted = (
            reason for selector, reason in rules if (rule := _SLOTTED.search(selector)) and _matches(child, rule[1])
        )
        return slots.get(child.getattr("slot") or "", "fallback") or next(slotted, "")

    return find_reason


def _matches(element: ElementNode, selector: str | None) -> bool:
    try:
        return selector is None or element.matches(selector)
    except ValueError:
        return True


def _find_slots(document: DocumentNode) -> Mapping[str, str]:
    """Return the slots of a tree by their names, each with what hides it; empty where it shows."""
    styles = _css.DocumentStyles(document, _NO_SHEETS)
    slots: dict[str, str] = {}
    for slot in document.query_selector_all("slot").values():
        if len(slots) >= _MAX_SLOTS:
            break
        name = slot.getattr("name") or ""
        if name not in slots:
            slots[name] = _find_reason_around(slot, styles)
    return slots


def _find_reason_around(slot: ElementNode, styles: _css.DocumentStyles) -> str:
    unseen: str | None = None
    color = background = None
    element: Node | None = slot
    for _ in range(_MAX_DEPTH):
        if not isinstance(element, ElementNode):
            is_same = color == _css.TRANSPARENT or _css.colors_match(color, background or _css.WHITE)
            return unseen or ("colour" if is_same else "")
        style = styles.of(element)
        if style.gone:
            return style.gone
        unseen = style.unseen if unseen is None else unseen
        color, background = color or style.color, background or style.background
        element = element.parent
    return "fallback"


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes right below a node, in order."""
    child = node.first_child
    while child is not None:
        yield child
        child = child.next_sibling
