"""What a document says is shown as it is and never as what it wants to be."""

from __future__ import annotations

import io
import json
import unicodedata
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from corpus_guard.cli import console as _console
from corpus_guard.cli.console import STATE_STYLE, as_json, format_time, styled, table, visible
from corpus_guard.invisible import BLANK_CHARACTER

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "a\rb\bc\x7f",
    "[red]not red[/red]",
    "[/bold] [link=http://evil]x[/link]",
    "a\u202eb\u2066c",
    "p\u200ba\u200dy\ufeff",
    "\U000e0049\U000e0067",
    "\ud800",
    "\u2028\u2029",
    "v\ufe0f\U000e0100",
    "\u3164\u115f\u2800\u034f",
    ":skull: :warning-text:",
    "https://evil 12 'x' None",
    "back\\slash\\",
    "[bold",
    "[",
    "\\[red]",
]
anything = st.text(
    st.one_of(st.characters(exclude_categories=()), st.sampled_from("[]/\\:@#=abr \u202e\u200b\x1b\n")), max_size=40
)


def rendered(*markup: str) -> str:
    """What a colour terminal is sent."""
    file = io.StringIO()
    for one in markup:
        Console(
            file=file, force_terminal=True, color_system="truecolor", width=10_000, emoji=False, highlight=False,
        ).print(one, soft_wrap=True)  # fmt: skip
    return file.getvalue()


def expected(text: str, lines: bool = False) -> str:
    """The text with code points for what nobody would see."""
    kept = "\n\t" if lines else ""
    return "".join(
        f"⟨U+{ord(one):04X}⟩"
        if one not in kept and (unicodedata.category(one) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
        else one
        for one in text
    )


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_nothing_of_a_hostile_text_steers_the_terminal(text: str) -> None:
    sent = rendered(f"before {visible(text)} after")

    assert "\x1b" not in sent
    assert sent.startswith("before ")
    assert sent.endswith(" after\n")
    assert sent[:-1].isprintable() or "\u3000" in sent


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\x1b[31m", "⟨U+001B⟩[31m"),
        ("a\nb", "a⟨U+000A⟩b"),
        ("\ud800", "⟨U+D800⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("x\ufe0f", "x⟨U+FE0F⟩"),
        ("\U000e0101", "⟨U+E0101⟩"),
        ("\u3164", "⟨U+3164⟩"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("naïve 漢字 🚢 e\u0301", "naïve 漢字 🚢 e\u0301"),
        (":skull:", ":skull:"),
    ],
    ids=ascii,
)
def test_what_a_reader_gets_to_see(text: str, shown: str) -> None:
    assert rendered(visible(text)) == shown + "\n"


def test_line_breaks_are_kept_where_asked_for() -> None:
    assert rendered(visible("a\n\tb\r", lines=True)) == "a\n\tb⟨U+000D⟩\n".expandtabs(8)


@given(anything)
@example("\\\\[bold]\\")
@example("[a][b")
@example("\\[0")
@example("\\\\[a [b]")
@example("[[red]")
def test_markup_in_a_text_is_text(text: str) -> None:
    parsed = Text.from_markup(f"[bold]{visible(text)}[/bold] after", emoji=False)

    assert [str(span.style) for span in parsed.spans] == ["bold"]
    assert parsed.plain.endswith(" after")
    assert parsed.spans[0].end == len(parsed.plain) - len(" after")
    shown = parsed.plain.removesuffix(" after").replace("⟨U+005B⟩", "[").replace("⟨U+005C⟩", "\\")
    if not BLANK_CHARACTER.search(text):
        assert shown == expected(text)


@given(anything, anything)
@example("[red", "x] [/red]")
@example("a\\", "[bold]")
@example("[link=http://evil", " ]click[/]")
@example("x [a[b", "]")
def test_two_texts_side_by_side_do_not_join_into_markup(one: str, other: str) -> None:
    parsed = Text.from_markup(f"{visible(one)} · {visible(other)}[bold]end[/bold]", emoji=False)

    assert [str(span.style) for span in parsed.spans] == ["bold"]
    assert parsed.plain.endswith("end")


@given(st.recursive(st.none() | st.booleans() | st.integers() | anything, lambda inner: st.lists(inner, max_size=3)))
def test_json_says_the_same_and_can_be_looked_at(value: object) -> None:
    text = as_json({"value": value})

    assert json.loads(text) == {"value": value}
    text.encode()  # lone surrogates are escaped
    assert not any(unicodedata.category(one) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for one in text)


def test_json_keeps_letters_readable_and_its_own_lines() -> None:
    assert as_json({"é": "漢字 🚢"}) == '{"é": "漢字 🚢"}'
    assert as_json({"a": "\u202e"}, indent=2) == '{\n  "a": "\\u202e"\n}'
    assert as_json({"a": "\U000e0041\x7f"}) == '{"a": "\\udb40\\udc41\\u007f"}'


def test_the_consoles_add_nothing_of_their_own() -> None:
    for console in (_console.out, _console.err):
        assert console._emoji is False
        assert console._highlight is False


def test_a_table_of_hostile_cells_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    _console.out.print(table("Title", ("one", "two"), [(text, text) for text in HOSTILE]))

    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "⟨U+001B⟩" in shown
    assert "[red]not red[/red]" in shown


def test_a_table_shows_numbers_times_and_answers_alike(capsys: pytest.CaptureFixture[str]) -> None:
    when = datetime(2026, 3, 1, 1, 30, tzinfo=UTC)
    rows = [(1_234, 0.5, True, when, styled("released")), (5, 1.25, False, None, "[red]a[/red]")]

    _console.print_table("All", ("texts", "risk", "served", "since", "state"), rows)

    assert capsys.readouterr().out.splitlines()[1:] == [
        "texts  risk  served  since             state       ",
        "1,234  0.50  yes     2026-03-01 01:30  released    ",
        "    5  1.25  no                        [red]a[/red]",
    ]


def test_a_state_has_its_colour_and_an_unknown_word_none() -> None:
    assert styled("quarantined") == "[yellow]quarantined[/yellow]"
    assert styled("anything") == "anything"
    assert all(Text.from_markup(styled(word)).plain == word for word in STATE_STYLE)


def test_progress_is_silent_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with _console.progress(True) as tell:
        tell("screening", 1, 2)

    assert capsys.readouterr() == ("", "")


def test_a_time_is_shown_in_utc_to_the_minute_or_the_second() -> None:
    when = datetime(2026, 3, 1, 1, 30, 59, tzinfo=timezone(timedelta(hours=2)))

    assert format_time(when) == format_time(when.isoformat()) == "2026-02-28 23:30"
    assert format_time(when, seconds=True) == "2026-02-28 23:30:59"
    assert format_time(None) == format_time("") == ""
    assert format_time(None, missing="never") == "never"


def test_what_a_list_leaves_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(_console, "say", said.append)

    for rows in (range(20), range(1_021)):
        _console.say_rest(rows, 20)

    assert said == ["… and 1,001 more; --json shows all"]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_narrow_table_folds_and_loses_no_character(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason, path = "wrong document, sorry", "notes · pump-winter-note.md"
    rows = [
        ("a82b9717", "2026-11-30 01:37", "undo of release", "root (cli)", path, "wrong document", ""),
        ("c779e8e5", "2026-11-30 01:36", "release (undone)", "ada (SimpleAuth)", path, reason, ""),
    ]
    monkeypatch.setattr(_console.out, "width", width)

    _console.print_table("2 decisions", ("id", "when", "what", "who", "about", "why", "never"), rows)

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    assert Counter(shown.replace(" ", "")) >= Counter("".join(map("".join, rows)).replace(" ", ""))
    assert "a82b9717" in shown and ("2026-11-30 01:37" in shown or width < 100)


def test_a_long_cell_takes_no_room_from_a_short_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "forum-best-cable-glands.html"
    monkeypatch.setattr(_console.out, "width", 100)

    _console.print_table("queue", ("item", "document", "why"), [("512998ff", path, "It gives orders. " * 20)])
    _console.print_table("queue", ("item", "document", "why"), [("512998ff", "a" * 250, "It gives orders " * 3)])

    shown = capsys.readouterr().out
    assert path in shown
    assert "It gives orders It gives orders It" in shown
