"""
### Detector training

Trains the probe that sees poisoned answers in the RAG model's activations (RevPRAG), compares it with the one in use, and puts it into
use once somebody approved.

**What it does.** Asks the embedded RAG model questions under attack (`CORPUS_GUARD_DETECTOR_QUESTIONS`; those of the sample corpus where
the sample is screened), from honest texts, planted ones and both, and keeps its states. Trains a network and a linear probe on two thirds
of the questions, measures both on the rest, and beside them probes trained on random labels, which must fail. The better one is logged in
MLflow (loss, confusion, t-SNE, all figures) and registered as *challenger*, files without pickle. Where it does better than the one in
use, on the same answers, a person is asked under *Required Actions*; approved, it is the *champion*, and `traceback_nightly` hears it.

**What it does not do.** A probe whose figures are under the floor in its file may be promoted, and is then shown beside the judge's verdict
without changing it. The embedded judge and the model of ML-FilterRAG are not trained here: `guard train judge` and
`guard evaluate filter --save-model` do, and their files are named by settings. A RAG model behind an endpoint shows no activations.

**When it fails.** What was in use stays in use. By task:

- `train`: too few questions, a control that scores, or MLflow did not answer; the error says which. Clear the task: prompts that were
  read are not read again, and a training goes on from its last epoch.
- `approve_promotion`: it was refused, or nobody answered within 18 hours; trigger the DAG again, it asks again without training anew.
- `promote`: the ledger or MLflow did not answer; clear the task, a promotion that was made is not made twice.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow_detectors import promote_probe, train_probe
from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_tasks import APPROVE

MODELS = "models"  # pool: one slot a machine, because a model takes all cores
TRAIN_TIME = timedelta(hours=5)  # 2,000 prompts take about an hour on one core, the trainings less
ANSWER_TIME = timedelta(hours=18)


@dag(
    schedule=CronDataIntervalTimetable("30 6 * * 6", timezone="UTC"),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/traceback"],
    doc_md=__doc__,
    **shared(),
)
def detector_training():
    @task.short_circuit(execution_timeout=TRAIN_TIME, pool=MODELS)
    def train() -> dict:
        return train_probe()

    @task(execution_timeout=timedelta(minutes=10))
    def promote(planned: dict, answer: dict):
        promote_probe(planned, answer)

    candidate = train()
    approve_promotion = HITLOperator(
        task_id="approve_promotion",
        subject="Put this probe into use?",
        body="{% set found = ti.xcom_pull(task_ids='train') %}A {{ found['kind'] }} probe with AUC {{ '%.3f'|format(found['auc']) }} on "
        "questions it never saw{% if found['champion_auc'] is not none %}, the one in use {{ '%.3f'|format(found['champion_auc']) }}"
        "{% endif %}. Its word {{ 'counts' if found['counts'] else 'is shown and does not count' }} beside the judge. Version "
        "{{ found['version'] }} of corpus-guard-activation-probe in MLflow has all figures. Whatever is not approved stays as it is.",
        options=[APPROVE, "Reject"],
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        retries=0,
    )
    candidate >> approve_promotion
    promote(candidate, approve_promotion.output)


detector_training()
