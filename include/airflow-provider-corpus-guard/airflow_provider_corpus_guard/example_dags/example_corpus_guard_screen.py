"""
### Screen between loading and embedding

Loads documents with the common.ai provider, holds back what must not reach a model, and hands the rest on. Replace `embed` with
`LlamaIndexEmbeddingOperator(documents=screen.output, …)` and an embedding model of your own.
"""

from datetime import timedelta

from airflow.providers.common.ai.operators.document_loader import DocumentLoaderOperator
from airflow.sdk import dag, task

from airflow_provider_corpus_guard.operators import CorpusGuardScreenOperator


@dag(schedule=None, tags=["example"], doc_md=__doc__)
def example_corpus_guard_screen():
    load = DocumentLoaderOperator(task_id="load", source_path="{{ var.value.example_documents }}")
    screen = CorpusGuardScreenOperator(task_id="screen", documents=load.output, execution_timeout=timedelta(hours=1))

    @task
    def embed(documents: list[dict]) -> list[str]:
        return sorted(document["metadata"]["file_name"] for document in documents)

    embed(screen.output)


example_corpus_guard_screen()
