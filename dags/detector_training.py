"""
### Detector training

Trains the three detectors that learn, each by itself: the **judge** of tracebacks, the **filter** of what is retrieved (ML-FilterRAG)
and the **probe** of the RAG model's activations (RevPRAG). Puts one into use once somebody approved.

**What it does.** Reads questions under attack (`CORPUS_GUARD_DETECTOR_QUESTIONS`; those of the sample corpus where the sample is screened),
trains on about two thirds and measures on the rest, the same in every run, beside the detector in use. The candidate is logged in MLflow
with both figures and registered as *challenger*, files without pickle. Where it is better, a person is asked under *Required Actions*;
approved, it is the *champion*, and what uses it next takes it: traces the judge and the probe, the guarded retriever the filter.

- judge, filter: *better* is no figure worse and one better. Judge: texts judged rightly under three attacks, honest texts accused, honest
  complaints turned against a text, some among honest texts written as attacks are. Filter: poisoned and honest texts dropped.
- probe: of three kinds the best is the candidate; *better* is a higher AUC. Beside them stand probes trained on random labels, which must
  fail.

**What it does not do.** Decide by itself, or prove that a gain is no chance: the counts are in the question. A file that a setting names
(`CORPUS_GUARD_JUDGE_MODEL`, `…_FILTER_MODEL`, `…_ACTIVATION_PROBE`) stays in use. A retriever that is open keeps its filter until it is
opened again; screening does not use it. A RAG model behind an endpoint shows no activations.

**When it fails.** What was in use stays in use, and the other detectors go on. By task:

- `train_judge`, `train_filter`: a row of a file is wrong, or MLflow or Chroma did not answer; the error says which. Correct it and clear
  the task: what the language model read is not read again. With too few questions it is skipped, and the run's note says so.
- `train_probe`: as those, or a control that scores. Prompts that were read are not read again, and a training goes on from its last epoch.
- `approve_judge`, `approve_filter`, `approve_probe`: it was refused, or nobody answered within 15 hours; trigger the DAG again.
- `promote_judge`, `promote_filter`, `promote_probe`: the ledger or MLflow did not answer, or the candidate's file is not what was measured;
  clear the task, a promotion that was made is not made twice.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow_detectors import promote_detector, train_detector
from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_tasks import APPROVE

MODELS = "models"  # pool: one slot a machine, because a model takes all cores
TRAIN_TIME = {  # in the order they get the slot; with ANSWER_TIME within the run's 24 hours
    "judge": timedelta(hours=1),  # 200 questions: some minutes
    "filter": timedelta(hours=2),  # the language model reads 3 texts a second
    "probe": timedelta(hours=5),  # 2,000 prompts take about an hour on one core, the trainings less
}
ANSWER_TIME = timedelta(hours=15)


@dag(
    schedule=CronDataIntervalTimetable("30 6 * * 6", timezone="UTC"),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/traceback"],
    doc_md=__doc__,
    **shared(),
)
def detector_training():
    for place, (name, limit) in enumerate(TRAIN_TIME.items()):
        first = len(TRAIN_TIME) - place
        train = task.short_circuit(
            train_detector, task_id=f"train_{name}", execution_timeout=limit, pool=MODELS, priority_weight=first
        )
        promote = task(promote_detector, task_id=f"promote_{name}", execution_timeout=timedelta(minutes=10))
        candidate = train(name)
        approve = HITLOperator(
            task_id=f"approve_{name}",
            subject=f"Put this {name} into use?",
            body=f"{{% set found = ti.xcom_pull(task_ids='train_{name}') %}}{{{{ found['told'] }}}}. Version {{{{ found['version'] }}}} in "
            "MLflow's registry has all figures. Whatever is not approved stays as it is.",
            options=[APPROVE, "Reject"],
            response_timeout=ANSWER_TIME,
            execution_timeout=ANSWER_TIME,
            retries=0,
        )
        candidate >> approve
        promote(name, candidate, approve.output)


detector_training()
