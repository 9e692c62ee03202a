"""
### Detector training

Trains the three learned detectors, each by itself: the **judge** of tracebacks, the **filter** of retrieved texts (ML-FilterRAG) and the
**probe** of the RAG model's activations (RevPRAG). Promotes one only after approval.

**What it does.** Reads questions under attack (`CORPUS_GUARD_DETECTOR_QUESTIONS`; those of the sample corpus when the sample is
screened), trains on about two thirds and measures on the rest, the same in every run, next to the champion. The candidate is logged in
MLflow with both sets of figures and registered as *challenger*, without pickle files. If it is better, a person is asked under *Required
Actions*. Once approved it is the *champion*: traces use the judge and the probe, the guarded retriever uses the filter.

- judge, filter: *better* means no figure worse and at least one better. Judge: texts judged correctly under three attacks, honest texts
  accused, honest complaints turned against a text, some among honest texts written like attacks. Filter: poisoned and honest texts dropped.
- probe: the best of three kinds is the candidate; *better* means a higher AUC. Probes trained on random labels must fail.

**What it does not do.** It does not decide by itself, and it does not prove that a gain is more than chance: the counts are in the
question. A file named by a setting (`CORPUS_GUARD_JUDGE_MODEL`, `…_FILTER_MODEL`, `…_ACTIVATION_PROBE`) stays in use. An open retriever
keeps its filter until it is opened again; screening does not use the filter. A RAG model behind an endpoint shows no activations.

**When it fails.** The champions stay in use, and the other detectors continue. By task:

- `train_judge`, `train_filter`: a row of a file is wrong, or MLflow or Chroma does not answer; the error says which. Correct it and
  clear the task: finished readings of the language model are reused. With too few questions it is skipped, and the run's note says so.
- `train_probe`: the same, or a control that scores. Prompts are not read twice, and a training continues from its last epoch.
- `approve_judge`, `approve_filter`, `approve_probe`: it was refused, or nobody answered within 15 hours; trigger the DAG again.
- `promote_judge`, `promote_filter`, `promote_probe`: the ledger or MLflow does not answer, or the candidate's file is not the measured
  one; clear the task, a promotion is recorded once.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow.assets import LANGUAGE_MODEL
from corpus_guard.airflow.context import APPROVE
from corpus_guard.airflow.detectors import promote_detector, train_detector
from corpus_guard.airflow.notifications import dag_defaults

TRAIN_TIME = {  # in the order they get the slot; with ANSWER_TIME within the run's 24 hours
    "judge": timedelta(hours=1),  # 200 questions take minutes
    "filter": timedelta(hours=2),  # the language model reads 3 texts a second
    "probe": timedelta(hours=5),  # 2,000 prompts take about an hour on one core, the trainings less
}
ANSWER_TIME = timedelta(hours=15)


@dag(
    schedule=CronDataIntervalTimetable("30 6 * * 6", timezone="UTC"),
    max_active_runs=1,
    is_paused_upon_creation=True,  # it learns from decisions, and takes hours of CPU
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/traceback"],
    doc_md=__doc__,
    **dag_defaults(),
)
def detector_training():
    for position, (name, limit) in enumerate(TRAIN_TIME.items()):
        train = task.short_circuit(
            train_detector,
            task_id=f"train_{name}",
            execution_timeout=limit,
            priority_weight=len(TRAIN_TIME) - position,
            **LANGUAGE_MODEL,
        )
        promote = task(promote_detector, task_id=f"promote_{name}", execution_timeout=timedelta(minutes=10))
        candidate = train(name)
        approve = HITLOperator(
            task_id=f"approve_{name}",
            subject=f"Promote this {name}?",
            body=f"{{% set candidate = ti.xcom_pull(task_ids='train_{name}') %}}{{{{ candidate['summary'] }}}}. All figures are in version "
            "{{ candidate['version'] }} of MLflow's registry. Without approval nothing changes.",
            options=[APPROVE, "Reject"],
            response_timeout=ANSWER_TIME,
            execution_timeout=ANSWER_TIME,
            retries=0,
        )
        candidate >> approve
        promote(name, candidate, approve.output)


detector_training()
