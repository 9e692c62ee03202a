from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.intake.sources import Fetched, FetchFailed, Source, SourceContext, open_source
from corpus_guard.intake.sources.rows import RowsConfig

FIELDS = {"id": "id", "text": "body", "title": "subject", "modified": "when", "metadata": ["author"]}
RECORDS = [
    {"id": "a", "body": "first text", "subject": "One", "when": "2026-01-01", "author": "x"},
    {"id": "b", "body": 'second, with\na line and a "quote"', "subject": "Two", "when": None, "author": "y"},
    {"id": "c", "body": "dritter Text äöü", "subject": "Three", "when": "2026", "author": None},
]


def rows(url: Path | str, max_bytes: int = 100_000, fields: dict[str, object] | None = None) -> Source:
    config = RowsConfig(
        kind="rows", name="tickets", url=str(url), owner="o", trust=TrustLevel.OPEN, fields=fields or FIELDS
    )  # type: ignore[arg-type]
    return open_source(config, SourceContext(max_bytes))


def everything(source: Source) -> list[Fetched | FetchFailed]:
    return [*source.fetch([*source.list()])]


def codes(one: Fetched | FetchFailed) -> list[str]:
    return [problem.code for problem in one.problems] if isinstance(one, Fetched) else [one.code]


def write(folder: Path, suffix: str, records: list[dict[str, object]]) -> Path:
    import csv

    path = folder / f"rows{suffix}"
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    elif suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path, row_group_size=2)
    else:
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, [*records[0]], delimiter="\t" if suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(records)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_each_row_is_a_document_and_each_can_be_fetched_alone(tmp_path: Path, suffix: str) -> None:
    source = rows(write(tmp_path, suffix, RECORDS))  # type: ignore[arg-type]
    items = [*source.list()]
    assert [item.uri for item in items] == [f"rows{suffix}#{name}" for name in "abc"]
    for item, record in zip(reversed(items), reversed(RECORDS), strict=True):
        (one,) = source.fetch([item])
        assert isinstance(one, Fetched)
        assert orjson.loads(one.content)["text"] == record["body"]
        assert one.declared["title"] == record["subject"]
        assert "author" not in one.declared or one.declared["author"] == record["author"]
        assert one.problems == ()
    again = [one.item.uri for one in source.fetch([*reversed(items)])]
    assert again == [item.uri for item in reversed(items)]


def test_the_order_of_keys_does_not_change_the_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"id": "1", "body": "t", "subject": "s", "noise": 1}\n')
    second.write_text('{"subject":"s",  "body":"t","noise": 2, "id":"1"}')
    (one,), (two,) = everything(rows(first)), everything(rows(second))
    assert isinstance(one, Fetched)
    assert isinstance(two, Fetched)
    assert one.content == two.content


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_second_row_with_an_id_gets_a_name_of_its_own_and_a_finding(tmp_path: Path, suffix: str) -> None:
    records: list[dict[str, object]] = [
        {"id": name, "body": f"{number}"} for number, name in enumerate(["a", "a", "a~2", "b", "a"])
    ]
    found = everything(rows(write(tmp_path, suffix, records)))
    names = [one.item.uri.partition("#")[2] for one in found]
    assert names == ["a", "a~2", "a~2~2", "b", "a~3"]
    assert [codes(one) == ["provenance.duplicate_id"] for one in found] == [False, True, True, False, True]


def test_a_name_that_is_taken_already_is_not_given_to_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f'{{"id": "{name}", "body": "x"}}\n' for name in ("a~2", "a", "a")))
    assert [item.uri for item in rows(path).list()] == ["r.jsonl#a~2", "r.jsonl#a", "r.jsonl#a~3"]


def test_without_an_id_column_the_row_number_names_the_row(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"body": "x"}\n\n{"body": "y"}\n')
    assert [item.uri for item in rows(path, fields={"text": "body"}).list()] == ["r.jsonl#row-1", "r.jsonl#row-3"]
    parquet = write(tmp_path, ".parquet", [{"body": str(number)} for number in range(5)])
    found = everything(rows(parquet, fields={"text": "body"}))
    assert [orjson.loads(one.content)["text"] for one in found if isinstance(one, Fetched)] == list("01234")


def test_a_broken_line_is_a_document_that_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(
        b'{"id": "a", "body": "x"}\n{"id": "b", "body"\n[1]\n\xff\xfe\n{"id": "c", "body": "y"}\n' + b"[" * 9_000
    )
    found = everything(rows(path))
    types = [one.media_type for one in found if isinstance(one, Fetched)]
    assert types[0] == types[4] == "application/x-row+json"
    assert types[1:4] == [f"application/x-broken-row; line={line}" for line in (2, 3, 4)]
    assert types[5] == "application/x-broken-row; line=6"
    assert found[1].content == b'{"id": "b", "body"\n'  # type: ignore[union-attr]


@pytest.mark.parametrize("body", ["null", '""', '"  "', "{}", "[]"])
def test_a_row_without_text_says_so(tmp_path: Path, body: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"id": "a", "body": {body}}}\n{{"id": "b"}}\n')
    assert [codes(one) for one in everything(rows(path))] == [["parsing.no_text"]] * 2


def test_half_characters_are_replaced_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"id": "a\\ud800", "body": "x \\ud800 y", "subject": "\\udfff"}\n')
    (one,) = everything(rows(path))
    assert codes(one) == ["parsing.surrogates"]
    assert "\ufffd" in orjson.loads(one.content)["text"]  # type: ignore[union-attr]
    assert one.item.uri.encode()


def test_metadata_is_capped(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    names = [f"m{number}" for number in range(50)]
    path.write_text(json.dumps({"body": "x", "t": "T" * 5_000, **dict.fromkeys(names, "v\x00")}) + "\n")
    (one,) = everything(rows(path, fields={"text": "body", "title": "t", "metadata": names}))
    assert isinstance(one, Fetched)
    assert len(one.declared) == 50
    assert all(len(value) <= 1_000 and "\x00" not in value for value in one.declared.values())


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_row_above_the_limit_is_reported_and_the_others_come(tmp_path: Path, suffix: str) -> None:
    records: list[dict[str, object]] = [
        {"id": "a", "body": "x"},
        {"id": "b", "body": "x" * 5_000},
        {"id": "c", "body": "z"},
    ]
    found = everything(rows(write(tmp_path, suffix, records), max_bytes=1_000))
    assert [type(one) for one in found] == [Fetched, FetchFailed, Fetched]
    assert codes(found[1]) == ["parsing.too_large"]


def test_listing_and_fetching_a_line_without_end_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with path.open("wb") as stream:
        stream.write(b'{"id": "a", "body": "')
        stream.truncate(100 * 2**20)
        stream.seek(0, 2)
        stream.write(b'\n{"id": "b", "body": "x"}\n')
    tracemalloc.start()
    found = everything(rows(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [codes(one) for one in found] == [["parsing.too_large"], []]
    assert peak < 5 * 2**20


def test_a_csv_quote_that_never_closes_is_one_broken_row(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text('id,body\na,fine\nb,"never closed\nc,swallowed\n')
    first, second = everything(rows(path, fields={"id": "id", "text": "body"}))
    assert codes(first) == []
    assert isinstance(second, Fetched)
    assert second.media_type == "application/x-broken-row; line=3"
    assert b"swallowed" in second.content


def test_a_csv_row_of_another_shape_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(b"\xef\xbb\xbfid,body\na,one,two\nb,caf\xe9\nc,ok\r\nd,\xe2\x80\xa8line separator\n")
    found = everything(rows(path, fields={"id": "id", "text": "body"}))
    assert [codes(one) for one in found] == [["parsing.row_shape"], ["parsing.row_shape"], [], []]
    assert orjson.loads(found[3].content)["text"] == "\u2028line separator"  # type: ignore[union-attr]


def test_a_file_replaced_after_listing_does_not_lend_its_rows_another_name(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"id": "a", "body": "x"}\n{"id": "b", "body": "y"}\n')
    source = rows(path)
    items = [*source.list()]
    path.write_text('{"id": "c", "body": "x"}\n{"id": "b", "body": "y"}\n')
    first, second = source.fetch(items)
    assert codes(first) == ["intake.changed"]
    assert isinstance(second, Fetched)
    path.unlink()
    with pytest.raises(SourceUnavailable):
        [*source.fetch(items)]


def test_a_glob_takes_many_files_and_names_them_below_its_folder(tmp_path: Path) -> None:
    for name in ("x/one.jsonl", "y/one.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text('{"id": "a", "body": "x"}\n')
    source = rows(tmp_path / "*" / "*.jsonl")
    assert [item.uri for item in source.list()] == ["x/one.jsonl#a", "y/one.jsonl#a"]
    assert len([one for one in everything(source) if isinstance(one, Fetched)]) == 2


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("r.csv", b"id,other\na,b\n", "'body'"),
        ("r.csv", b"", "empty"),
        ("r.parquet", b"PAR1 not really", "Parquet"),
        ("missing.jsonl", None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_a_source_is_unavailable(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceUnavailable, match=words) as caught:
        [*rows(tmp_path / name).list()]
    assert name in str(caught.value)


@pytest.mark.parametrize("twice", ['"body"', '"bo\\u0064y"'])
def test_a_key_that_stands_twice_is_a_finding(tmp_path: Path, twice: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"id": "a", "body": "seen", {twice}: "read"}}\n{{"id": "b", "body": "fine"}}\n')
    assert [codes(one) for one in everything(rows(path))] == [["parsing.row_shape"], []]


@pytest.mark.parametrize("header", ["id,body,body", "id,body, body ", "id,id,body"])
def test_a_csv_file_with_two_columns_of_one_name_is_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n1,2,3\n")
    with pytest.raises(SourceUnavailable, match="more than one column"):
        [*rows(path).list()]


def test_a_parquet_file_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    cells = [pa.array(["x"])] * 3
    pq.write_table(pa.Table.from_arrays(cells, names=["id", "body", "body"]), path, store_schema=False)
    with pytest.raises(SourceUnavailable, match="more than one column"):
        [*rows(path, fields={"id": "id", "text": "body"}).list()]


def test_long_integers_are_ids_of_their_own_and_no_number_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"id": 18446744073709551617, "body": "a"}\n{"id": 18446744073709551618, "body": "b"}\n'
        '{"id": NaN, "body": NaN}\n{"id": 1e400, "body": "d", "n": Infinity}\n'
    )
    found = everything(rows(path))
    names = ["18446744073709551617", "18446744073709551618", "row-3", "row-4"]
    assert [one.item.uri for one in found] == [f"rows.jsonl#{name}" for name in names]
    assert [codes(one) for one in found] == [[], [], ["parsing.no_text"], []]


def test_one_cell_that_python_cannot_hold_leaves_the_other_rows_of_parquet_alone(tmp_path: Path) -> None:
    texts = pa.array([b"good", b"\xff\xfe bad", b"fine"], pa.binary())
    days = pa.array([1, 2, 10**8], pa.int32()).cast(pa.date32())
    not_utf8 = pa.Array.from_buffers(pa.string(), 3, texts.buffers())
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": not_utf8, "body": not_utf8, "subject": ["x"] * 3, "when": days}), path)
    found = everything(rows(path))
    assert [one.item.uri.partition("#")[2] for one in found] == ["good", "row-2", "fine"]
    assert [codes(one) for one in found] == [[], ["parsing.row_shape", "parsing.no_text"], ["parsing.row_shape"]]
    pq.write_table(pa.table({"id": ["a"], "body": texts[1:2]}), path)
    (one,) = everything(rows(path, fields={"id": "id", "text": "body"}))
    assert codes(one) == ["parsing.encoding"]


def test_a_broken_row_names_all_its_lines(tmp_path: Path, sandbox: ParsingSandbox) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('id,body\n1,"open\n2,swallowed\n3,"closed"\n4,fine\n')
    broken, fine = everything(rows(path))
    assert isinstance(broken, Fetched)
    assert isinstance(fine, Fetched)
    (problem,) = sandbox.parse(broken.content, broken.media_type, broken.item.uri).problems
    assert "lines 2 to 4 of the file" in problem.message
    assert fine.item.uri == "rows.csv#4"
