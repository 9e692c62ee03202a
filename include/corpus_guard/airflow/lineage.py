"""OpenLineage events of a refresh: sources in, collections and manifest out.

Events go where Airflow's OpenLineage provider sends them (``AIRFLOW__OPENLINEAGE__TRANSPORT``). Without the provider nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from corpus_guard.deployment import Deployment
    from corpus_guard.settings import Settings


def emit_lineage(deployment: Deployment, sealed: Mapping[str, Any], sources: list[str]) -> None:
    """Send what a refresh read and wrote as an OpenLineage event of the current task.

    Data sets are named by https://openlineage.io/docs/spec/naming, so that they match those of other tools.
    """
    try:
        from airflow.providers.openlineage.api import emit_dataset_lineage, is_openlineage_active
    except ImportError:
        return
    if not is_openlineage_active():
        return
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import dataset_version_dataset, datasource_dataset, ownership_dataset

    from corpus_guard.intake.sources.declarations import source_location
    from corpus_guard.intake.sources.sources_file import read_declarations

    inputs, collections = [], set()
    folder = str(deployment.settings.sources_file.parent)
    for config in read_declarations(deployment.settings.sources_file):
        if config.name not in sources:
            continue
        url = source_location(config)
        collections.add(deployment.store.collection_name(config.trust))
        facets: Any = {
            "dataSource": datasource_dataset.DatasourceDatasetFacet(name=config.name, uri=url or None),
            "ownership": ownership_dataset.OwnershipDatasetFacet(
                owners=[ownership_dataset.Owner(name=config.owner, type="OWNER")]
            ),
        }
        inputs.append(Dataset(*_dataset_name(url, folder, config.name), facets=facets))
    version: Any = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=sealed["manifest_sha256"])
    }
    outputs = [Dataset(*_collection_name(deployment.settings, name), facets=version) for name in sorted(collections)]
    outputs.append(
        Dataset(*_dataset_name(deployment.storage.location(sealed["manifest"]), "", "manifest"), facets=version)
    )
    emit_dataset_lineage(inputs=inputs, outputs=outputs)


def _dataset_name(url: str, folder: str, name: str) -> tuple[str, str]:
    """Return namespace and name of a location."""
    if not url:
        return "corpus-guard", name
    if "://" not in url:
        return "file", url if url.startswith("/") or not folder else f"{folder}/{url}"
    parts = urlsplit(url)
    if parts.scheme == "file":
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"


def _collection_name(settings: Settings, name: str) -> tuple[str, str]:
    """Return namespace and name of a collection; for the home's own Chroma, whose port differs from run to run, its folder."""
    if settings.store == "pgvector":
        url = urlsplit(settings.pgvector)
        return f"postgres://{url.hostname}:{url.port or 5432}", f"{url.path.lstrip('/')}.corpus_guard.{name}"
    if not settings.chroma_url:
        return f"chroma://{settings.home / 'chroma'}", name
    return f"chroma://{urlsplit(settings.chroma_url).netloc.rpartition('@')[2]}", name
