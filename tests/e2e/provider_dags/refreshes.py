"""A DAG as users of the provider write it: refresh, wait for the seal, go on with its counts."""

from airflow.sdk import dag, task
from airflow_provider_corpus_guard.operators import CorpusGuardRefreshOperator
from airflow_provider_corpus_guard.sensors import CORPUS, CorpusGuardSealedSensor


@dag(schedule=None)
def refreshes():
    refresh = CorpusGuardRefreshOperator(task_id="refresh", outlets=[CORPUS])
    sealed = CorpusGuardSealedSensor(task_id="sealed", poke_interval=1, timeout=60)

    @task
    def counts(refreshed: dict) -> str:
        return f"accepted {refreshed['accepted']}, manifest {refreshed['manifest_sha256']}"

    refresh >> sealed >> counts(refresh.output)


refreshes()
