"""Typed settings: environment variables with the prefix ``CORPUS_GUARD_``, and the loading of YAML files.

Thresholds that decide verdicts are not here but in ``policy.yaml`` (`corpus_guard.screening.policy`): its
digest goes into every verdict, so that nobody who may set an environment variable or trigger a DAG can loosen
it unnoticed.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from corpus_guard.errors import SettingsError, why_unreadable
from corpus_guard.yaml_text import parse_yaml

log = logging.getLogger(__name__)

PROJECT = Path(__file__).resolve().parents[2]  # the checkout, when installed editable
PACKAGE = Path(__file__).resolve().parent
DRIVERS: Final = {"sqlite": "pysqlite", "postgresql": "psycopg2"}
"""Kinds of databases for the ledger, each with the driver that is installed with the package."""


class Settings(BaseSettings):
    """Locations and limits of a deployment. Verdicts depend on none of them."""

    model_config = SettingsConfigDict(
        env_prefix="CORPUS_GUARD_", frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    home: Path = PROJECT / "var"
    """Folder for everything the guard writes, unless a URL below says otherwise."""
    sources_file: Path = PROJECT / "include" / "sources.yaml"
    """Sources of documents, with their owners and trust levels."""
    policy_file: Path = PACKAGE / "policy.yaml"
    """Policy: the checks and their thresholds."""
    extensions_folder: Path = PROJECT / "include"
    """Additions to the screening: ``expectations/*.yaml`` (Great Expectations suites), ``checks/*.py`` and
    ``rules/*.yaml``. Its Python files run with the rights of a refresh."""
    reviewers_file: Path | None = None
    """People who review, with their logins and public keys. Empty: ``reviewers.yaml`` beside ``sources_file``, where
    there is one."""
    storage_url: str = ""
    """Raw bytes and Parquet batches: any fsspec URL. Empty: ``<home>/storage``."""
    ledger_url: str = ""
    """SQLAlchemy URL of the ledger. Empty: SQLite at ``<home>/ledger.sqlite``."""
    store: Literal["chroma", "pgvector"] = "chroma"
    """Vector store: ``chroma``, or ``pgvector`` in PostgreSQL."""
    pgvector_url: str = ""
    """SQLAlchemy URL of the PostgreSQL database for ``store=pgvector``; its extension ``vector`` must be installed.
    Empty: the ledger's, if that is in PostgreSQL."""
    chroma_url: str = ""
    """URL of the Chroma server. Empty: the home's own, which ``make up`` or a command starts at a free port for as
    long as it runs. If none answers at a loopback address that is given, a command starts one too."""
    collection_prefix: str = "corpus"
    """Collections are named ``<prefix>-<trust level>``. It stays what it was at the first refresh."""

    embedder: str = "builtin:all-minilm-l6-v2"
    """``builtin:all-minilm-l6-v2``, a sentence-transformers folder, or a hub id."""
    language_model: str = "builtin:smollm2-135m"
    """``builtin:smollm2-135m``, a transformers folder (causal LM), or a hub id."""
    models_folder: Path | None = None
    """Folder of the converted language model; the image contains one. Empty: ``<home>/models``."""
    chunk_tokens: int = Field(default=200, ge=32, le=2048)
    """Length of a chunk at most, in tokens of the embedder."""

    retrieval_filter: Literal["off", "filterrag", "ml_filterrag"] = "off"
    """Filter of retrieved texts. ``ml_filterrag`` catches 8 or 9 of 10 poisoned texts and drops 5 to 7 % of
    clean encyclopaedia passages, but most short pages that answer the question: try it on your corpus first.
    It takes the language model a third of a second per chunk on one core. ``filterrag`` costs the same and
    drops more than half of clean passages. ``off`` serves whatever the ledger vouches for, and says so."""
    filter_epsilon: float = Field(default=0.2, ge=0, le=1)
    """``filterrag``: Freq-Density above which a text is dropped."""
    filter_tau: float = Field(default=0.6, ge=0, le=1)
    """``filterrag``: cosine above which two words are similar. A model of ``ml_filterrag`` has its own."""
    filter_model: Path | None = None
    """A model for ``ml_filterrag`` that you trained. Empty: the one that the DAG ``detector_training``
    promoted last, else the one of the package."""
    filter_model_sha256: str = ""
    """SHA-256 of ``filter_model``; a file with another hash is not read."""
    retrieval_log: Literal["on", "hashed", "off"] = "hashed"
    """``hashed``: the ledger logs which chunks were served; the question is stored as a keyed hash and a coarse form of
    its embedding, and no answer is. The query bank then holds reported questions and headings of trusted documents.
    ``on``: the texts of questions and answers as well; the query bank learns from them. ``off``: nothing is logged."""
    retrieval_days: int = Field(default=90, ge=1, le=3_650)
    """Days after which a retrieval, and a question that nobody reported, is deleted."""

    judge: Literal["embedded", "llm"] = "embedded"
    """Judge of whether a text led to a reported wrong answer. ``embedded`` needs no endpoint; ``llm`` asks
    ``chat_url``."""
    judge_model: Path | None = None
    """An embedded judge that you trained (`guard train judge`). Empty: the one that the DAG
    ``detector_training`` promoted last, else the one of the package."""
    rag_model: Literal["embedded", "chat"] = "embedded"
    """Model that answers a reported question again without the traced texts: the small language model, or
    ``chat_url``."""
    activation_probe: Path | None = None
    """Folder of a probe of the embedded RAG model's activations (`guard train activations`). Empty: the one
    that the DAG ``detector_training`` promoted last, else the one of the package."""
    detector_questions: str = ""
    """Questions under attack for the DAG ``detector_training``: JSONL files in PoisonedRAG's format,
    separated by ``;``. Empty: those of the sample corpus if ``sources_file`` is the sample's; otherwise
    nothing is trained."""
    chat_url: str = ""
    """An OpenAI-compatible endpoint, such as ``http://127.0.0.1:8000/v1``, for ``judge=llm``,
    ``rag_model=chat`` and the model that the check ``conflict`` may ask."""
    chat_model: str = ""
    """Name of the model at ``chat_url``."""
    chat_key: SecretStr = SecretStr("")
    """Key for the endpoint. Empty: none."""
    chat_seconds: float = Field(default=60.0, gt=0)
    """Seconds that one answer may take."""
    chat_at_once: int = Field(default=4, ge=1, le=64)
    """Requests that the endpoint gets at a time."""
    traceback_k: int = Field(default=5, ge=1, le=100)
    """Number of texts that your RAG application retrieves for a question."""
    traceback_replays: int = Field(default=50, ge=0, le=1_000)
    """Closed reports that ``traceback_nightly`` traces again each night, those traced longest ago first."""
    feedback: str = ""
    """Reports of wrong answers for the DAG ``feedback_import``: files, fsspec URLs or ``mlflow:EXPERIMENT``,
    separated by ``;``. Empty: those of the sample corpus if ``sources_file`` is the sample's; otherwise
    nothing is imported."""
    feedback_mark: str = "reported_wrong=true"
    """Mark of a wrong answer in these records: name and value of an MLflow assessment, a Langfuse score or a
    Phoenix annotation. Empty: every record is a report. Files with Corpus Guard's own field names need no
    mark."""

    keys_folder: Path | None = None
    """Folder of the signing keys and of the trusted keys; created by the first seal. If several machines
    seal, mount a secret here. Empty: ``<home>/keys``."""
    log_origin: str = Field(default="corpus-guard.local/corpus", pattern=r"^[A-Za-z0-9._/-]{3,200}$")
    """Name of this corpus's log in its checkpoints; give each corpus its own."""
    head_max_hours: float = Field(default=48.0, gt=0)
    """Hours after which the newest signed head is stale: somebody may be serving an old corpus."""
    verify_nights: int = Field(default=30, ge=0, le=366)
    """Nights within which `guard verify` reads every stored file once: raw bytes, batches, older manifests and
    records. 0: only `guard verify --deep` reads them."""
    witness_url: str = ""
    """URL of a witness (`guard witness run`) that cosigns every head and remembers the last one. Empty:
    none."""
    witness_key: str = ""
    """Public key of the witness, as `guard witness init` prints it."""
    anchor_url: str = ""
    """Second place for every head: an fsspec URL (a bucket with object lock) or ``git+URL``. Empty: none."""

    clean_days: int = Field(default=30, ge=0, le=3_650)
    """Days after which `guard clean`, and every night, removes stored files that nobody needs any more: working
    files of runs, batches and vectors to which nothing refers. Whatever was published, waits or was decided on
    stays, and so do raw bytes. 0: every file stays."""

    refresh_deadline_hours: float = Field(default=4.0, ge=0)
    """Hours after which a queued run of ``corpus_refresh`` that is not done is late, and people are notified.
    0: never."""
    shard_documents: int = Field(default=256, ge=1, le=10_000)
    """Documents in one shard: the unit of retry and of scale."""
    task_queues: bool = False
    """Send the tasks of Airflow that parse, embed, or load a language model to Celery queues of their own:
    ``parse``, ``embed``, ``language-model``. Workers have to listen to them."""
    refetch_days: float = Field(default=30.0, ge=0)
    """Days for which a source's "unchanged" (304, an ETag, a watermark) is trusted after the bytes were last
    read; then they are read and hashed again, because a server can lie. The documents are spread over these
    days. 0: trust no source."""
    max_document_bytes: int = Field(default=32 * 2**20, ge=1024)
    """Size of a document at most, in bytes; a larger one is rejected without reading it."""
    max_text_chars: int = Field(default=4_000_000, ge=1024)
    """Length of a text at most, in characters; a longer one is rejected."""
    parse_seconds: float = Field(default=20.0, gt=0)
    """Seconds of CPU time that parsing one document may take. By the clock it may take six times as long, for the
    machine may be busy."""
    parse_memory_bytes: int = Field(default=2 * 2**30, ge=256 * 2**20)
    """Address space of the parsing process, in bytes."""

    @field_validator("home", "sources_file", "policy_file", "extensions_folder")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().absolute()

    @field_validator("chroma_url")
    @classmethod
    def _http(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0):
            raise ValueError("expected http://host:port")
        return url

    @field_validator("pgvector_url")
    @classmethod
    def _postgresql(cls, url: str) -> str:
        if url and not _is_postgresql(url):
            raise ValueError("expected postgresql+psycopg2://user:password@host/database")
        return _with_driver(url)

    @field_validator("ledger_url")
    @classmethod
    def _database(cls, url: str) -> str:
        if url and url.partition(":")[0].partition("+")[0] not in DRIVERS:
            raise ValueError("expected sqlite:////path/to/file or postgresql+psycopg2://user:password@host/database")
        return _with_driver(url)

    @model_validator(mode="after")
    def _store_with_database(self) -> Self:
        if self.store == "pgvector" and not self.pgvector:
            raise ValueError(
                "CORPUS_GUARD_STORE=pgvector needs CORPUS_GUARD_PGVECTOR_URL, or a ledger in PostgreSQL; set one of them"
            )
        return self

    @model_validator(mode="after")
    def _filter_model_with_digest(self) -> Self:
        if bool(self.filter_model) != bool(self.filter_model_sha256):
            raise ValueError(
                "CORPUS_GUARD_FILTER_MODEL and CORPUS_GUARD_FILTER_MODEL_SHA256 go together; set both or neither"
            )
        return self

    @model_validator(mode="after")
    def _chat_with_model(self) -> Self:
        needs_chat = self.judge == "llm" or self.rag_model == "chat"
        if bool(self.chat_url) != bool(self.chat_model) or (needs_chat and not self.chat_url):
            raise ValueError(
                "CORPUS_GUARD_CHAT_URL and CORPUS_GUARD_CHAT_MODEL go together, and CORPUS_GUARD_JUDGE=llm and "
                "CORPUS_GUARD_RAG_MODEL=chat need them; set both"
            )
        return self

    @model_validator(mode="after")
    def _witness_with_key(self) -> Self:
        if bool(self.witness_url) != bool(self.witness_key):
            raise ValueError("CORPUS_GUARD_WITNESS_URL and CORPUS_GUARD_WITNESS_KEY go together; set both or neither")
        return self

    @cached_property
    def ledger(self) -> str:
        """SQLAlchemy URL of the ledger."""
        return self.ledger_url or f"sqlite:///{self.home / 'ledger.sqlite'}"

    @property
    def pgvector(self) -> str:
        """SQLAlchemy URL of the database for ``store=pgvector``; empty if there is none."""
        return self.pgvector_url or (self.ledger_url if _is_postgresql(self.ledger_url) else "")

    @cached_property
    def feedback_sources(self) -> tuple[str, ...]:
        """Places that reports are imported from; may be empty."""
        if self.feedback.strip():
            return tuple(part.strip() for part in self.feedback.split(";") if part.strip())
        sample = PROJECT / "include" / "sample_corpus" / "feedback.jsonl"
        return (str(sample),) if self.sources_file == PROJECT / "include" / "sources.yaml" else ()

    @cached_property
    def detector_files(self) -> tuple[Path, ...]:
        """Files of questions that detectors are trained on; may be empty."""
        if self.detector_questions.strip():
            return tuple(Path(part.strip()) for part in self.detector_questions.split(";") if part.strip())
        sample = PROJECT / "include" / "sample_corpus" / "questions.jsonl"
        return (sample,) if self.sources_file == PROJECT / "include" / "sources.yaml" else ()

    @cached_property
    def keys(self) -> Path:
        """Folder of the signing keys."""
        return self.keys_folder or self.home / "keys"

    @cached_property
    def models(self) -> Path:
        """Folder of converted models; written once, then only read."""
        return self.models_folder or self.home / "models"

    @cached_property
    def map_cache(self) -> Path:
        """Folder of the planes of the corpus map, one for each seal; it may be deleted."""
        return self.home / "cache" / "maps"

    @cached_property
    def reviewers(self) -> Path:
        """File of the people who review; it may not exist."""
        return self.reviewers_file or self.sources_file.with_name("reviewers.yaml")

    @cached_property
    def storage(self) -> str:
        """Fsspec URL of raw bytes and batches."""
        return self.storage_url or str(self.home / "storage")


_NOT_SETTINGS: Final = re.compile(
    r"CORPUS_GUARD_(SECRETS_DIR|CONNECTION_.*"  # read elsewhere in the package
    r"|DATA|ENCLOSED|EXECUTOR|LEDGER|STACK_.*|UID|WORKER_CONCURRENCY"  # of the Makefile, docker/ and the benchmarks
    r"|.*_PORT(_.*)?|.*_SERVICE_HOST)"  # of docker/local, and what Kubernetes sets for a service named corpus-guard-…
)


def load_settings(**overrides: Any) -> Settings:
    """Read the environment, and the files of the folder ``CORPUS_GUARD_SECRETS_DIR``, if it is set.

    That folder holds one file per setting, named like its variable in lower case, as container platforms
    mount secrets. A variable wins over a file. A variable that is no setting is ignored, with a warning.

    Raises:
        SettingsError: a variable is malformed, or the folder does not exist; the message names it.
    """
    folder = os.environ.get("CORPUS_GUARD_SECRETS_DIR")
    if folder and not Path(folder).is_dir():
        raise SettingsError(
            "environment variable CORPUS_GUARD_SECRETS_DIR: expected a folder of files such as corpus_guard_ledger_url, got "
            f"{folder!r}"
        )
    for name in os.environ:
        if name.startswith("CORPUS_GUARD_") and not _NOT_SETTINGS.fullmatch(name):
            _warn_if_unknown(name)
    try:
        return Settings(**{"_secrets_dir": folder or None, **overrides})
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        name = key if key.isupper() else f"CORPUS_GUARD_{key.upper()}"
        # `from None`: pydantic's own message quotes the value with its password.
        raise SettingsError(
            f"environment variable {name}: {_expectation(problem, Settings)} (got {_without_password(problem['input'])!r})"
        ) from None


@cache  # once for each name
def _warn_if_unknown(variable: str) -> None:
    name = variable.removeprefix("CORPUS_GUARD_").lower()
    if name not in Settings.model_fields:
        near = get_close_matches(name, Settings.model_fields, 1)
        advice = f"do you mean CORPUS_GUARD_{near[0].upper()}?" if near else "remove it"
        log.warning("environment variable %s is no setting and is ignored; %s", variable, advice)


def source_names() -> list[str]:
    """Return the names in sources.yaml, for forms; imports no connector.

    None are returned where the file cannot be read: a DAG whose file fails to load is gone from Airflow, and nobody is
    notified. The task that reads the file says what is wrong.
    """
    path = load_settings().sources_file
    try:
        names = load_yaml(path, _Names).sources
    except SettingsError as error:
        log.warning("no names of sources for forms: %s", error)
        return []
    return [source.name for source in names]


class _Named(BaseModel):
    name: str


class _Names(BaseModel):
    sources: list[_Named]


Model = TypeVar("Model", bound=BaseModel)


def load_yaml(path: Path, model: type[Model]) -> Model:
    """Read a YAML file into a typed value.

    Raises:
        SettingsError: the file is missing, is not YAML, or has a wrong key; the message names file, key and
            fix.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: no such file; create it, or name another one with the option or the CORPUS_GUARD_..._FILE variable"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read ({why_unreadable(error)}); expected a UTF-8 YAML file") from error
    data = parse_yaml(text, str(path))
    if not isinstance(data, dict):
        got = "nothing" if data is None else type(data).__name__
        raise SettingsError(f"{path}: expected keys and values at the top level, got {got}")
    return validate(data, model, where=str(path))


def validate(data: object, model: type[Model], *, where: str, below: str = "") -> Model:
    """Convert `data` to a typed value.

    Args:
        data: of a YAML file.
        where: the file, for messages.
        below: the key that holds `data`, for messages.

    Raises:
        SettingsError: something is wrong; the message names one problem, a misspelt key first, and counts the others.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # A misspelt key is also a missing one: the spelling is what a person has to see.
        problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
        first = problems[0]
        key = ".".join([*filter(None, [below]), *map(str, first["loc"])]) or "(top)"
        others = len(problems) - 1
        more = f" ({others} more {'problem' if others == 1 else 'problems'})" if others else ""
        raise SettingsError(f"{where}: {key}: {_explanation(first, model, problems)}{more}") from error


MAX_SHOWN: Final = 200
"""Characters of a wrong value in a message."""
_LIST_ERRORS: Final = frozenset({"tuple_type", "list_type", "set_type", "frozen_set_type"})
_MAPPING_ERRORS: Final = frozenset({"dict_type", "mapping_type", "model_type", "model_attributes_type"})
_PLAIN_ERRORS: Final = {
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
}


def _without_password(value: object) -> object:
    return re.sub(r"//\S*@", "//***@", value) if isinstance(value, str) else value


def _explanation(problem: ErrorDetails, model: type[BaseModel], problems: Sequence[ErrorDetails]) -> str:
    if problem["type"] == "extra_forbidden":
        return f"unknown key; remove it or correct its spelling ({_known_keys(problem['loc'], model, problems)})"
    if problem["type"] == "missing":
        return "missing; add it"
    return f"{_expectation(problem, model)} (got {_shown(problem['input'])})"


def _expectation(problem: ErrorDetails, model: type[BaseModel]) -> str:
    """Return what the file should hold, without pydantic's names of Python's types."""
    kind, value = problem["type"], problem["input"]
    if kind in _LIST_ERRORS:
        field = model.model_fields.get(str(problem["loc"][0])) if len(problem["loc"]) == 1 else None
        holds_text = field is None or str in get_args(field.annotation)
        example = f", such as {_shown([value])}" if isinstance(value, str | int | float) and holds_text else ""
        return f"expected a list{example or ', each entry after a dash'}"
    if kind in _MAPPING_ERRORS:
        return "expected keys and values, such as {key: value}"
    if kind == "string_type":
        is_scalar = isinstance(value, int | float | date)
        return f'expected text, such as "{value}"' if is_scalar else "expected text"
    if kind in _PLAIN_ERRORS:
        return _PLAIN_ERRORS[kind]
    message = problem["msg"].removeprefix("Value error, ")
    message = re.sub(r"\AInput should be (?=greater|less)", "expected a number ", message)
    return re.sub(r"\AInput should (?:be|have) ", "expected ", message)


def _shown(value: object) -> str:
    """Return a value as YAML has it, without passwords and cut in length."""
    if value is None:
        return "nothing"
    shown = json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, bool | list | dict) else repr(value)
    shown = str(_without_password(shown))
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"


def _known_keys(location: tuple[int | str, ...], model: type[BaseModel], problems: Sequence[ErrorDetails]) -> str:
    # Only the top level is resolved; for a nested key the message names its full path, which is enough to
    # find it.
    if len(location) == 1:
        return f"known keys: {', '.join(model.model_fields)}"
    missing = [
        str(other["loc"][-1]) for other in problems if other["type"] == "missing" and other["loc"][:-1] == location[:-1]
    ]
    return f"missing here: {', '.join(missing)}" if missing else "known keys: see the comments in the file"


def _is_postgresql(url: str) -> bool:
    return url.partition(":")[0].partition("+")[0] == "postgresql"


def is_open_to_others(secret: os.stat_result) -> bool:
    """Return whether others can read or change the file of a secret.

    A secret that Kubernetes mounts belongs to root, and the pod's group may read it: there is no other way to.
    """
    return bool(secret.st_mode & (0o077 if secret.st_uid == os.geteuid() else 0o037))


def _with_driver(url: str) -> str:
    """Return the URL of a database with its driver named: SQLAlchemy's own choice for PostgreSQL need not be installed."""
    scheme, colon, rest = url.partition(":")
    kind, _, driver = scheme.partition("+")
    if driver and driver != DRIVERS[kind]:
        raise ValueError(f"the driver {driver} is not used; write {kind}+{DRIVERS[kind]}://…, or {kind}://…")
    return f"{kind}+{DRIVERS[kind]}{colon}{rest}" if kind == "postgresql" else url
