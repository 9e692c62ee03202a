"""The tamper matrix of what is stored: a changed byte in any file is named, with what it concerns and how to restore it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus_guard.batches.ownership import OWNER_FILE
from corpus_guard.batches.tables import (
    embedder_of,
    vectors_from_table,
    vectors_to_table,
    versions_from_table,
    versions_to_table,
)
from corpus_guard.deployment import Deployment
from corpus_guard.domain import no_progress, sha256_bytes
from corpus_guard.ledger.states import ReviewAction
from corpus_guard.ledger.tables import events
from corpus_guard.models import parts
from corpus_guard.models.champion import Detector, detector_folder, promote, store_detector
from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.proof.incidents import examine, open_incident
from corpus_guard.proof.log.rotation import rotate
from corpus_guard.proof.verify import files
from corpus_guard.proof.verify.files import FileShare, check_files, check_parts, check_weights
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.review.queue import load_page
from corpus_guard.settings import Settings
from deciding import decided
from deploying import BAD, Typed, Workspace, deploy
from hashed_models import HashedModels

TODAY = date(2026, 3, 1)
PROBE_TENSORS = b"numbers of a probe"


@pytest.fixture(scope="module")
def original(
    tmp_path_factory: pytest.TempPathFactory, chroma_url: str, models_home: Path, hashed_models: HashedModels
) -> Workspace:
    """A corpus with every kind of stored file; only copies of it are changed."""
    made = deploy(
        tmp_path_factory.mktemp("files") / "corpus",
        chroma_url=chroma_url,
        models_home=models_home,
        models=hashed_models,
    )
    made.page("pumps.html", "<p>The {title} are read every morning and written into the log book.</p><!-- hidden -->")
    made.page("bad.md", BAD)
    with made.guard() as guard:
        guard.refresh("r1")
        (item,) = load_page(guard.ledger).items
        decided(guard.ledger, item.version_id, ReviewAction.RELEASE)
        guard.apply_decisions("d1")
        _promote_detectors(guard)
        rotate(guard.ledger, guard.settings, "k1", 100, by="ada", reason="yearly")
        deviation = Deviation(DeviationKind.ADDED, "5" * 32, "a record nobody published")
        open_incident(guard.ledger, guard.storage, "v1", [deviation])
        guard.seal("s1")
    return made


def _promote_detectors(guard: Deployment) -> None:
    for detector in (Detector.JUDGE, Detector.FILTER):
        promote(guard.ledger, detector, store_detector(guard.storage, detector, b"{}"), run_id="t1", by="ada")
    description = json.dumps({"tensors_sha256": sha256_bytes(PROBE_TENSORS)}).encode()
    folder = detector_folder(Detector.PROBE, sha256_bytes(description))
    guard.storage.write(f"{folder}/probe.json", description)
    guard.storage.write(f"{folder}/probe.safetensors", PROBE_TENSORS)
    promote(guard.ledger, Detector.PROBE, sha256_bytes(description), run_id="t1", by="ada")


@pytest.fixture
def copy(original: Workspace, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment with a home of its own, over the same collections."""
    shutil.copytree(original.settings.home, tmp_path / "home", symlinks=True)
    with replace(original, settings=_at_home(original, tmp_path / "home")).guard() as guard:
        yield guard


def _at_home(workspace: Workspace, home: Path, **changes: int) -> Settings:
    values = workspace.settings.model_dump(exclude_defaults=True)
    return Settings(**{**values, "home": home, **changes})


def check(guard: Deployment, share: FileShare | None = None) -> DeviationCollector:
    collector = DeviationCollector()
    share = share or FileShare.everything()
    check_files(guard.ledger, guard.storage, guard.settings, share, collector, no_progress)
    return collector


def named(collector: DeviationCollector) -> set[tuple[str, str]]:
    return {(deviation.kind.value, deviation.subject) for deviation in collector.deviations}


def flip(file: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def stored(guard: Deployment, pattern: str) -> str:
    """Return the storage name of the first file that matches."""
    root = Path(guard.storage.url)
    return str(min(root.glob(pattern)).relative_to(root))


def test_an_unchanged_home_holds_and_every_file_is_read(copy: Deployment) -> None:
    collector = DeviationCollector()
    counts = check_files(
        copy.ledger, copy.storage, copy.settings, FileShare.everything(), collector, no_progress, checked_manifest=""
    )

    assert collector.deviations == []
    assert counts.read == counts.total
    root = Path(copy.storage.url)
    not_evidence = {"runs", OWNER_FILE}
    kept = [path for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] not in not_evidence]
    assert counts.total == len(kept) - 1, "the tensors of the probe are counted with its description"


FOLDERS = {
    "raw bytes": "raw/sha256/*/*",
    "texts": "batches/*/versions.parquet",
    "measures": "batches/*/signals.parquet",
    "judgements": "batches/*/judgements-*.parquet",
    "vectors": "batches/*/vectors-*.parquet",
    "an older manifest": "manifests/*.jsonl",
    "a canary record": "canaries/[0-9a-f]*.json",
    "the last canary record": "canaries/last-*.json",
    "evidence of an incident": "incidents/*.jsonl",
    "a promoted judge": "detectors/judge/*/judge.json",
    "a promoted filter": "detectors/filter/*/filter.json",
    "a promoted probe": "detectors/activations/*/probe.json",
    "tensors of a promoted probe": "detectors/activations/*/probe.safetensors",
}


@pytest.mark.parametrize("pattern", FOLDERS.values(), ids=FOLDERS)
def test_a_flipped_bit_is_named_with_how_to_restore_the_file(copy: Deployment, pattern: str) -> None:
    name = stored(copy, pattern)
    flip(Path(copy.storage.location(name)))

    collector = check(copy)

    kind = "manifest_changed" if name.startswith("manifests/") else "file_changed"
    assert named(collector) == {(kind, name)}
    (deviation,) = collector.deviations
    assert copy.storage.location(name) in deviation.message
    assert "estore" in deviation.message or "made again" in deviation.message
    assert deviation.expected and deviation.actual and deviation.expected != deviation.actual
    concerns_documents = name.startswith(("raw/", "batches/"))
    assert bool(deviation.doc_id) == concerns_documents
    assert ("of pages" in deviation.message) == concerns_documents


@pytest.mark.parametrize("pattern", FOLDERS.values(), ids=FOLDERS)
def test_a_missing_file_is_named(copy: Deployment, pattern: str) -> None:
    name = stored(copy, pattern)
    Path(copy.storage.location(name)).unlink()

    kind = "manifest_missing" if name.startswith("manifests/") else "file_missing"
    assert named(check(copy)) == {(kind, name)}


def test_the_message_says_whether_a_batch_can_be_made_again(copy: Deployment) -> None:
    batch = stored(copy, "batches/*/versions.parquet")
    flip(Path(copy.storage.location(batch)))
    (alone,) = check(copy).deviations
    flip(Path(copy.storage.location(stored(copy, "raw/sha256/*/*"))))
    with_bytes = {deviation.subject: deviation for deviation in check(copy).deviations}

    assert "can be made again from the raw bytes, which are intact" in alone.message
    assert "the raw bytes of 1 of its 2 documents are damaged, too" in with_bytes[batch].message


def an_edited_batch(guard: Deployment, **changes: Any) -> str:
    name = stored(guard, "batches/*/versions.parquet")
    held = versions_from_table(guard.storage.read_table(name))
    Path(guard.storage.location(name)).unlink()
    guard.storage.write_table(name, versions_to_table([replace(version, **changes) for version in held]))
    return name


def test_hidden_text_that_was_edited_is_named_by_the_logged_hash(copy: Deployment) -> None:
    name = an_edited_batch(copy, hidden="")

    (deviation,) = check(copy).deviations

    assert (deviation.kind, deviation.subject) == (DeviationKind.FILE_CHANGED, name)
    assert "texts, stamps and chunks are those judged" in deviation.message


def _forget_hashes(guard: Deployment) -> None:
    """Leave the home as a release left it that logged no hashes of files."""
    guard.ledger.close()
    with guard.ledger.write() as connection:
        for (trigger,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all():
            connection.exec_driver_sql(f"DROP TRIGGER {trigger}")
        connection.execute(events.delete().where(events.c.kind == "stored"))


def test_a_home_of_an_older_release_holds_and_its_texts_and_vectors_are_compared(copy: Deployment) -> None:
    _forget_hashes(copy)
    assert named(check(copy)) == set()

    batch = an_edited_batch(copy, text="Another text. " * 50)
    vectors = stored(copy, "batches/*/vectors-*.parquet")
    table = copy.storage.read_table(vectors)
    Path(copy.storage.location(vectors)).unlink()
    turned = -np.stack(list(vectors_from_table(table).values()))
    copy.storage.write_table(vectors, vectors_to_table(table["chunk_id"].to_pylist(), turned, embedder_of(table)))

    messages = {deviation.subject: deviation.message for deviation in check(copy).deviations}
    assert set(messages) == {batch, vectors}
    assert "its text is not the one that was judged" in messages[batch]
    assert "does not hold as they were published: 1" in messages[vectors]


def the_public_keys(folder: Path) -> str:
    flip(folder / "log.pub")
    return "log.pub"


def the_keyring(folder: Path) -> str:
    """The replaced key is trusted for longer than it was."""
    content = json.loads((folder / "keyring.json").read_text())
    content["keys"][0]["to_size"] += 1_000
    (folder / "keyring.json").write_text(json.dumps(content))
    return "keyring.json"


def a_private_key(folder: Path) -> str:
    """Both keys still sign; each gets the other's private half."""
    first, second = sorted(folder.glob("*.pem"))
    first.write_bytes(second.read_bytes())
    return first.name


@pytest.mark.parametrize("tamper", [the_public_keys, the_keyring, a_private_key], ids=lambda act: act.__name__)
def test_a_changed_file_of_the_keys_is_named(copy: Deployment, tamper: Callable[[Path], str]) -> None:
    name = tamper(copy.settings.keys)

    (deviation,) = check(copy, FileShare(0, 0)).deviations

    assert (deviation.kind, deviation.subject) == (DeviationKind.KEYS_CHANGED, str(copy.settings.keys / name))
    assert "restore" in deviation.message.lower()


def test_a_changed_weight_is_named(copy: Deployment, tmp_path: Path) -> None:
    models = copy.settings.models
    (shared,) = models.glob("smollm2-*")
    made = tmp_path / "models" / shared.name
    made.mkdir(parents=True)
    (made / "model.safetensors").write_bytes(b"weights")
    (made / "complete").write_text(json.dumps({"model.safetensors": sha256_bytes(b"weights")}))
    settings = copy.settings.model_copy(update={"models_folder": made.parent})
    settings.__dict__.pop("models", None)
    collector = DeviationCollector()
    check_weights(settings, collector)
    assert collector.deviations == []

    flip(made / "model.safetensors")
    check_weights(settings, collector)

    assert named(collector) == {("weights_changed", str(made / "model.safetensors"))}


def test_every_file_has_its_turn_once_in_so_many_nights(copy: Deployment) -> None:
    name = stored(copy, "raw/sha256/*/*")
    flip(Path(copy.storage.location(name)))
    nights = [FileShare.of_day(TODAY + timedelta(days=day), 5) for day in range(5)]

    found = [named(check(copy, share)) for share in nights]

    assert sorted(map(len, found)) == [0, 0, 0, 0, 1]
    assert nights[found.index({("file_changed", name)})].covers(name)
    assert not FileShare.of_day(TODAY, 0).covers(name)


def test_a_missing_file_is_named_on_the_day_it_is_missing(copy: Deployment) -> None:
    name = stored(copy, "raw/sha256/*/*")
    Path(copy.storage.location(name)).unlink()

    for day in range(5):
        collector = check(copy, FileShare.of_day(TODAY + timedelta(days=day), 5))
        assert named(collector) == {("file_missing", name)}
    assert "cannot be made again from anything stored here" in collector.deviations[0].message


def test_what_an_open_incident_names_is_read_again_until_it_is_whole(
    copy: Deployment, original: Workspace, tmp_path: Path
) -> None:
    never = replace(original, settings=_at_home(original, tmp_path / "home", verify_nights=0))
    name = stored(copy, "canaries/last-*.json")
    file = Path(copy.storage.location(name))
    content = file.read_bytes()
    flip(file)
    with never.guard() as guard:
        parts = (guard.ledger, guard.storage, guard.store, guard.settings)
        assert examine(*parts).clean, "it is nobody's turn"
        deep = examine(*parts, deep=True)
        assert {deviation.subject for deviation in deep.unanswered} == {name}
        open_incident(guard.ledger, guard.storage, "v2", deep.unanswered)

        assert {deviation.subject for deviation in examine(*parts).unanswered} == {name}
        file.write_bytes(content)
        assert examine(*parts).clean


def test_the_command_names_all_damage_exits_with_1_and_counts_files(
    copy: Deployment, monkeypatch: pytest.MonkeyPatch, original: Workspace, typed: Typed
) -> None:
    for name, value in replace(original, settings=copy.settings).environment.items():
        monkeypatch.setenv(name, value)
    code, text, _ = typed("verify", "--deep")
    assert code == 0, text
    assert "stored files." in text

    patterns = [pattern for pattern in FOLDERS.values() if not pattern.endswith(".safetensors")]
    names = {stored(copy, pattern) for pattern in patterns}
    for name in names:
        flip(Path(copy.storage.location(name)))
    code, text, _ = typed("verify", "--deep", "--json", "--no-incident")

    assert code == 1
    assert names <= {deviation["subject"] for deviation in json.loads(text)["deviations"]}


@pytest.mark.parametrize(
    "part",
    ["screening/learned/coordination.yaml", "screening/learned/contradictions.npz", "traceback/judges/embedded.json"],
)
def test_a_learned_part_that_changed_since_the_last_run_is_named(
    copy: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    installed = tmp_path / "installed"
    for name in parts.hash_parts():
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(parts.PACKAGE / name, installed / name)
    monkeypatch.setattr(parts, "PACKAGE", installed)
    collector = DeviationCollector()
    check_parts(copy.ledger, collector)
    assert named(collector) == set()

    flip(installed / part)
    check_parts(copy.ledger, collector)
    assert named(collector) == {("weights_changed", part)}
    assert "the next refresh logs the change" in collector.deviations[0].message
    assert not copy.verify().holds

    monkeypatch.setattr(files, "__version__", "another release")
    collector = DeviationCollector()
    check_parts(copy.ledger, collector)
    assert named(collector) == set()
