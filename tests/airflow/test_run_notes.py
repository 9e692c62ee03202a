"""The note on a DAG run, where several tasks write a line each."""

from __future__ import annotations

from corpus_guard.airflow.run_notes import MAX_NOTE, replace_line


def test_a_line_takes_the_place_of_its_own_and_of_no_other() -> None:
    note = replace_line("", "judge", "judge: not trained")
    note = replace_line(note, "filter", "filter: somebody is asked")
    note = replace_line(note, "judge", "judge: in use")

    assert note == "filter: somebody is asked\njudge: in use"
    assert replace_line(note, "judge", "judge: in use") == note, "so that whoever writes can see that it stands"
    assert len(replace_line("x" * MAX_NOTE, "judge", "judge: in use")) == MAX_NOTE
    assert replace_line("x" * MAX_NOTE, "judge", "judge: in use").endswith("\njudge: in use")
