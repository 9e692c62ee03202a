"""The note on a DAG run, where several tasks write a line each."""

from __future__ import annotations

import pytest
from airflow.sdk import Connection

from corpus_guard.airflow.run_notes import MAX_NOTE, api_address, replace_line, summarize_counts


def test_a_line_takes_the_place_of_its_own_and_of_no_other() -> None:
    note = replace_line("", "judge", "judge: not trained")
    note = replace_line(note, "filter", "filter: somebody is asked")
    note = replace_line(note, "judge", "judge: in use")

    assert note == "filter: somebody is asked\n\njudge: in use"
    assert replace_line(note, "judge", "judge: in use") == note, "so that whoever writes can see that it stands"
    assert len(replace_line("x" * MAX_NOTE, "judge", "judge: in use")) == MAX_NOTE
    assert replace_line("x" * MAX_NOTE, "judge", "judge: in use").endswith("\njudge: in use")


def test_a_refresh_tells_what_it_skipped() -> None:
    skipped = {"pages": {"links that lead out of the source": 2, "left out by include and exclude": 900}}

    note = summarize_counts({"accepted": 3, "unchanged": 0, "published": 7, "skipped": skipped})

    assert note == "3 accepted, 7 published, 2 skipped in pages (links that lead out of the source)"


def test_an_alert_stands_before_everything_else_and_is_never_cut_off() -> None:
    note = replace_line("The corpus holds: 9 records", "Incidents", "Incidents: 1 not acknowledged", first=True)

    assert note == "Incidents: 1 not acknowledged\n\nThe corpus holds: 9 records"
    assert replace_line(note, "Incidents", "Incidents: acknowledged by ada", first=True).startswith(
        "Incidents: acknowledged by ada\n\nThe corpus"
    )
    long = replace_line("x" * MAX_NOTE, "Incidents", "Incidents: 1 not acknowledged", first=True)
    assert long.startswith("Incidents: 1 not acknowledged\n") and len(long) == MAX_NOTE


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("http://guard:secret@127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://guard:secret@airflow.example.org", "https://airflow.example.org"),
        ("http://guard:secret@airflow.example.org:8443/https", "https://airflow.example.org:8443"),
    ],
)
def test_the_api_is_called_as_the_connection_says(uri: str, address: str) -> None:
    assert api_address(Connection.from_uri(uri, conn_id="corpus_guard_airflow")) == address
