"""The steps one after the other, without Airflow."""

from __future__ import annotations

from corpus_guard.refresh.run import refresh
from deploying import BAD, Deployment


def test_progress_names_each_step_and_ends_with_every_document(deployment: Deployment) -> None:
    deployment.page("a.md")
    deployment.page("b.md", BAD)
    told: list[tuple[str, int, int]] = []

    with deployment.guard() as guard:
        refresh(guard, "r1", progress=lambda *what: told.append(what))

    assert [what for what, _, _ in told] == [
        "listing sources", "fetching and parsing", "embedding", "comparing", "screening", "publishing", "sealing",
    ]  # fmt: skip
    assert all(0 <= done <= total for _, done, total in told)
    assert told[-1] == ("sealing", 2, 2)


def test_an_empty_source_is_sealed_as_an_empty_corpus(deployment: Deployment) -> None:
    with deployment.guard() as guard:
        sealed = refresh(guard, "r1")
        assert "store" not in vars(guard)

    assert (sealed["documents"], sealed["served"]) == (0, 0)
