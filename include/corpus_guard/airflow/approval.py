"""Required action that asks about each proposed withdrawal by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict

if TYPE_CHECKING:
    from airflow.sdk import Context

    from corpus_guard.traceback.proposals import WithdrawalProposal

WITHDRAW_TICKED: Final = "Withdraw what is ticked"
KEEP_ALL: Final = "Keep all in service"
MAX_TITLE_LENGTH = 120  # characters of a document's path
MAX_EXPLANATION_LENGTH = 300  # characters


class WithdrawalApproval(HITLOperator):
    """Asks a person which of the pending withdrawals to carry out: one switch for each document.

    The switches are made when the task runs. On only where every document is open: a trusted or reviewed one is off
    until a person turns it on. Nobody answers: the task fails, and nothing is withdrawn.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(options=[WITHDRAW_TICKED, KEEP_ALL], **kwargs)

    def execute(self, context: Context) -> Any:
        """Read the proposals from the ledger, and ask."""
        from corpus_guard.deployment import Deployment
        from corpus_guard.traceback.proposals import list_proposals
        from corpus_guard.traceback.withdrawal_plan import list_pending_traces

        with Deployment() as deployment:
            proposals = list_proposals(deployment.ledger, list_pending_traces(deployment.ledger))
        self.params = ParamsDict({proposal.proposal_id: _switch(proposal) for proposal in proposals})
        self.body = describe_proposals(proposals)
        return super().execute(context)


def describe_proposals(proposals: Sequence[WithdrawalProposal]) -> str:
    """Return the proposals as Markdown, without a word of their texts."""
    lines = [
        "Each switch is one document, with its copies. What is off stays in service, and the same report does not accuse it "
        "again. What is withdrawn can be restored (`guard trace restore`). Read the texts and their sentences under "
        "*Corpus Guard*, *Reports & traces*.",
        "",
        "| Score | Trust | Document | Served since (UTC) | Retrieved | Trace | Why |",
        "|---|---|---|---|---|---|---|",
    ]
    for proposal in proposals:
        for document in proposal.documents:
            since = f"{document.served_since:%Y-%m-%d %H:%M}" if document.served_since else "not served"
            cells = (
                f"{proposal.score:.2f}",
                document.trust,
                plain_markdown(f"{document.source}/{document.uri}", MAX_TITLE_LENGTH),
                since,
                f"{document.retrievals:,}",
                proposal.traces[0][:8],
                plain_markdown(proposal.explanation, MAX_EXPLANATION_LENGTH),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plain_markdown(text: str, max_length: int) -> str:
    """Return hostile text for a table in Markdown: one line, cut, with nothing that Markdown or HTML reads."""
    shown = _printable(text[:max_length])
    return "".join(f"\\{character}" if character in "\\`*_{}[]()<>#+-.!|~:&@" else character for character in shown)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _switch(proposal: WithdrawalProposal) -> Param:
    accused = proposal.documents[0]
    copies = len(proposal.documents) - 1
    return Param(
        proposal.ticked,
        type="boolean",
        title=_printable(f"{accused.source}/{accused.uri}"[:MAX_TITLE_LENGTH]),
        description=f"{accused.trust}, score {proposal.score:.2f}"
        + (f", with {copies} of equal content" if copies else ""),
    )
