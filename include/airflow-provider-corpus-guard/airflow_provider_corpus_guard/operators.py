"""Operators: screen documents between loading and embedding, and refresh a guarded corpus."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, XComArg, literal
from airflow.sdk.exceptions import AirflowException

from airflow_provider_corpus_guard.hooks import CorpusGuardHook

if TYPE_CHECKING:
    from airflow.sdk import Context

HELD_KEY = "held"
"""XCom with what was held back."""


class CorpusGuardScreenOperator(BaseOperator):
    """Screen documents and return those that may go on, unchanged and in their order.

    Documents are dicts with a text, as `DocumentLoaderOperator` of the common.ai provider returns them
    (``{"text": …, "metadata": {…}}``), so that the output can be given to `LlamaIndexEmbeddingOperator`::

        screen = CorpusGuardScreenOperator(task_id="screen", documents=load.output)
        embed = LlamaIndexEmbeddingOperator(task_id="embed", documents=screen.output, ...)

    What is held back is in the XCom ``held``: position, metadata, verdict, risk and codes of the findings, no text.

    It fails closed: a document without a verdict fails the task. Texts are never rendered as templates. It keeps no
    ledger: nobody can release what it holds back, and nothing is compared with what is served already. For that,
    declare a source and use `CorpusGuardRefreshOperator`.
    """

    template_fields: Sequence[str] = ("documents",)
    ui_color = "#dbe7f3"

    def __init__(
        self,
        *,
        documents: XComArg | Sequence[Mapping[str, Any]],
        text_key: str = "text",
        trust: str = "open",
        one_by_one: bool = False,
        fail_on_held: bool = False,
        corpus_guard_conn_id: str = CorpusGuardHook.default_conn_name,
        timeout: float = 3600,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            documents: output of another task, or a list.
            text_key: key of the text in a document.
            trust: trust level of the documents (trusted, reviewed or open).
            one_by_one: leave out the checks that compare documents with each other.
            fail_on_held: fail the task if a document is held back; the XCom ``held`` is there all the same.
            corpus_guard_conn_id: the connection.
            timeout: seconds that the screening may take.
        """
        super().__init__(**kwargs)
        # A list, also one that mapping put here, would be searched for templates: a document with "{{ conn.x.password }}" would
        # come back with the password. An XComArg is not.
        self.documents = documents if isinstance(documents, XComArg) else literal(documents)
        self.text_key, self.trust, self.one_by_one = text_key, trust, one_by_one
        self.fail_on_held, self.corpus_guard_conn_id, self.timeout = fail_on_held, corpus_guard_conn_id, timeout

    def execute(self, context: Context) -> list[Mapping[str, Any]]:
        """Screen the documents."""
        documents: Any = self.documents
        texts = [self._text(number, document) for number, document in enumerate(documents)]
        verdicts = self._screen(texts) if texts else []
        held_documents = [
            {
                "position": number,
                "metadata": dict(document.get("metadata") or {}),
                "verdict": verdict["verdict"],
                "risk": verdict["risk"],
                "codes": sorted({finding["code"] for finding in verdict["findings"]}),
            }
            for number, (document, verdict) in enumerate(zip(documents, verdicts, strict=True))
            if verdict["verdict"] != "accept"
        ]
        self.log.info(
            "%d of %d documents may go on, %d are held back",
            len(texts) - len(held_documents),
            len(texts),
            len(held_documents),
        )
        for document in held_documents:
            self.log.info(
                "document %d: %s: %s", document["position"], document["verdict"], ", ".join(document["codes"])
            )
        context["ti"].xcom_push(HELD_KEY, held_documents)
        if held_documents and self.fail_on_held:
            raise AirflowException(
                f"{len(held_documents)} of {len(texts)} documents are held back; the XCom {HELD_KEY!r} names them"
            )
        out = {document["position"] for document in held_documents}
        return [document for number, document in enumerate(documents) if number not in out]

    def _text(self, number: int, document: Mapping[str, Any]) -> str:
        text = document.get(self.text_key) if isinstance(document, Mapping) else None
        if not isinstance(text, str):
            raise AirflowException(
                f"document {number}: no text under {self.text_key!r}; name the right key with text_key"
            )
        return text

    def _screen(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        hook = CorpusGuardHook(self.corpus_guard_conn_id, self.timeout)
        with tempfile.TemporaryDirectory(prefix="corpus-guard-") as folder:  # only this user can read it
            file = Path(folder) / "documents.jsonl"
            rows = (json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts))
            file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
            options = ["--one-by-one"] if self.one_by_one else []
            done = hook.run(["screen", str(file), "--trust", self.trust, *options])
        verdicts = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
        if verdicts.keys() != {str(number) for number in range(len(texts))}:
            raise AirflowException(
                f"guard screen: {len(verdicts)} verdicts for {len(texts)} documents; nothing may go on"
            )
        return [verdicts[str(number)] for number in range(len(texts))]


class CorpusGuardRefreshOperator(BaseOperator):
    """Refresh the corpus of the connection: pull its sources, screen, publish, seal. Returns the counts.

    One task instead of the mapped tasks of the DAG `corpus_refresh`: for a small corpus, or an Airflow that does not
    have Corpus Guard's DAGs. Running it again converges.
    """

    template_fields: Sequence[str] = ("sources",)
    ui_color = "#dbe7f3"

    def __init__(
        self,
        *,
        sources: Sequence[str] = (),
        corpus_guard_conn_id: str = CorpusGuardHook.default_conn_name,
        timeout: float = 4 * 3600,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            sources: names from sources.yaml; none: all.
            corpus_guard_conn_id: the connection.
            timeout: seconds that the refresh may take.
        """
        super().__init__(**kwargs)
        self.sources, self.corpus_guard_conn_id, self.timeout = sources, corpus_guard_conn_id, timeout

    def execute(self, context: Context) -> dict[str, Any]:
        """Refresh the corpus."""
        hook = CorpusGuardHook(self.corpus_guard_conn_id, self.timeout)
        sealed = hook.run_json(["refresh", *(part for name in self.sources for part in ("--source", name))])
        names = (
            "accepted",
            "quarantined",
            "rejected",
            "unchanged",
            "failed",
            "published",
            "retired",
            "manifest_sha256",
        )
        counts = {name: sealed[name] for name in names}
        self.log.info("%s", ", ".join(f"{counts[name]} {name}" for name in names[:5]))
        return counts
