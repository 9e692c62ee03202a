"""The steps one after the other, without Airflow."""

from __future__ import annotations

from deploying import BAD, Workspace


def test_progress_names_each_step_and_ends_with_every_document(deployment: Workspace) -> None:
    deployment.page("a.md")
    deployment.page("b.md", BAD)
    told: list[tuple[str, int, int]] = []

    with deployment.guard() as guard:
        guard.refresh("r1", progress=lambda *what: told.append(what))

    assert [what for what, _, _ in told] == [
        "listing sources", "fetching and parsing", "loading the embedder", "comparing", "screening", "publishing", "sealing",
    ]  # fmt: skip
    assert all(0 <= done <= total for _, done, total in told)
    assert told[-1] == ("sealing", 2, 2)


def test_an_empty_source_is_sealed_as_an_empty_corpus(deployment: Workspace) -> None:
    with deployment.guard() as guard:
        sealed = guard.refresh("r1")
        assert not guard.store.is_open

    assert (sealed["documents"], sealed["served"]) == (0, 0)
