"""The note on a DAG run, where several tasks write a line each."""

from __future__ import annotations

from corpus_guard.airflow_runs import NOTE, with_line


def test_a_line_takes_the_place_of_its_own_and_of_no_other() -> None:
    note = with_line("", "judge", "judge: not trained")
    note = with_line(note, "filter", "filter: somebody is asked")
    note = with_line(note, "judge", "judge: in use")

    assert note == "filter: somebody is asked\njudge: in use"
    assert with_line(note, "judge", "judge: in use") == note, "so that whoever writes can see that it stands"
    assert len(with_line("x" * NOTE, "judge", "judge: in use")) == NOTE
    assert with_line("x" * NOTE, "judge", "judge: in use").endswith("\njudge: in use")
