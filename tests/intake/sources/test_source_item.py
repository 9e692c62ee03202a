"""A listed item, which goes from one task of a refresh to the next as JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.intake.sources.source import SourceItem

# Not zones by name: an hour that a change of the clock skips or repeats equals none in another zone (PEP 495).
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
ITEMS = st.builds(
    SourceItem,
    uri=st.text(),
    size=st.none() | st.integers(min_value=0),
    modified_at=st.none() | st.datetimes(timezones=OFFSETS),
    locator=st.text(),
    validator=st.none() | st.text(),
)


@given(ITEMS)
def test_nothing_that_was_listed_is_lost_on_the_way(item: SourceItem) -> None:
    assert SourceItem.from_dict(json.loads(json.dumps(item.as_dict()))) == item
    assert {field.name for field in fields(SourceItem)} - item.as_dict().keys() == {"known_validator"}
