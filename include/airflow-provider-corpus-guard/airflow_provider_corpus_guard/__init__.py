"""Airflow provider of Corpus Guard."""

from __future__ import annotations

from typing import Any

__version__ = "0.2.0"


def get_provider_info() -> dict[str, Any]:
    """Return what Airflow shows and loads of this package; called through its entry point."""
    text = {"type": ["string", "null"]}
    return {
        "package-name": "airflow-provider-corpus-guard",
        "name": "Corpus Guard",
        "description": "Screens documents before they reach a RAG knowledge base.",
        "versions": [__version__],
        "hooks": [{"integration-name": "Corpus Guard", "python-modules": ["airflow_provider_corpus_guard.hooks"]}],
        "operators": [
            {"integration-name": "Corpus Guard", "python-modules": ["airflow_provider_corpus_guard.operators"]}
        ],
        "sensors": [{"integration-name": "Corpus Guard", "python-modules": ["airflow_provider_corpus_guard.sensors"]}],
        "connection-types": [
            {
                "hook-class-name": "airflow_provider_corpus_guard.hooks.CorpusGuardHook",
                "hook-name": "Corpus Guard",
                "connection-type": "corpus_guard",
                "conn-fields": {
                    "command": {"label": "Command (default: guard)", "schema": text},
                    "home": {"label": "Home (CORPUS_GUARD_HOME)", "schema": text},
                    "sources_file": {"label": "sources.yaml", "schema": text},
                    "policy_file": {"label": "policy.yaml", "schema": text},
                    "extensions_folder": {"label": "Folder of suites, checks and rules of your own", "schema": text},
                    "models_folder": {"label": "Folder of the language model", "schema": text},
                    "chroma_url": {"label": "URL of Chroma", "schema": text},
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "schema", "login", "port"],
                    "relabeling": {"password": "URL of the ledger"},
                    "placeholders": {"password": "postgresql+psycopg2://user:password@host/database"},
                },
            }
        ],
    }
