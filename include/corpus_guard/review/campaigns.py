"""Campaigns: items in the queue that belong together.

Rules
    * an item that shares at least MIN_SHARED_BANDS bands with earlier items that waited joins their
      campaign; two texts of similarity 0.8 share 6 to 7 of 16 bands, two of 0.5 share one;
    * else an item that waits because others state the same joins those of them that wait;
    * any other item keeps the campaign of its author and checks, or one of its own
      (`corpus_guard.ledger.triage`); later items that resemble it join that campaign;
    * a campaign is a display aid: no verdict and no decision depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import sqlalchemy as sa

from corpus_guard.ledger.queries import insert_missing, values_by_id
from corpus_guard.ledger.tables import campaigns, documents, versions
from corpus_guard.screening.survey.resemblance import band_keys
from corpus_guard.screening.survey.signals import Signals

MIN_SHARED_BANDS = 4  # of 16


def assign_campaigns(
    connection: sa.Connection, signals: Iterable[Signals], groups: Mapping[str, Collection[str]] | None = None
) -> None:
    """Assign the waiting items of a shard to campaigns, in the transaction that records their verdicts.

    Args:
        connection: of a `Ledger.write`.
        signals: of the versions of the shard.
        groups: ids of the documents that state the same as a version that waits because of them, by its id.
    """
    groups = groups or {}
    versions_of_shard = {version.version_id: version for version in signals}
    bands = {version_id: band_keys(version.minhash) for version_id, version in versions_of_shard.items()}
    own_campaigns = _waiting_versions(connection, bands)
    own_bands = {band for version_id in own_campaigns for band in bands[version_id]}
    by_band = values_by_id(connection, sa.select(campaigns.c.band, campaigns.c.campaign), own_bands)
    of_shard = {versions_of_shard[version_id].doc_id for version_id in own_campaigns}
    grouped = {doc_id for version_id in own_campaigns for doc_id in groups.get(version_id, ())}
    by_document = _campaigns_by_document(connection, grouped - of_shard)
    moves: list[dict[str, str]] = []
    for version_id in sorted(own_campaigns):  # sorted: the same shard twice gives the same campaigns
        own = own_campaigns[version_id]
        votes = Counter(by_band[band] for band in bands[version_id] if band in by_band)
        (campaign, shared), *_ = votes.most_common(1) or [(own, 0)]
        if shared < MIN_SHARED_BANDS:
            of_group = (by_document[doc_id] for doc_id in groups.get(version_id, ()) if doc_id in by_document)
            campaign = min(of_group, default=own)
        by_band |= {band: campaign for band in bands[version_id] if band not in by_band}
        by_document[versions_of_shard[version_id].doc_id] = campaign
        if campaign != own:
            moves.append({"version": version_id, "new_campaign": campaign})
    if moves:
        connection.execute(
            versions.update()
            .where(versions.c.version_id == sa.bindparam("version"))
            .values(campaign=sa.bindparam("new_campaign")),
            moves,
        )
    insert_missing(connection, campaigns, [{"band": band, "campaign": name} for band, name in by_band.items()])


def _waiting_versions(connection: sa.Connection, version_ids: Iterable[str]) -> dict[str, str]:
    """Return the campaigns of the versions that wait; only they have one."""
    statement = sa.select(versions.c.version_id, versions.c.campaign).where(versions.c.campaign != "")
    return values_by_id(connection, statement, version_ids)


def _campaigns_by_document(connection: sa.Connection, doc_ids: Iterable[str]) -> dict[str, str]:
    """Return the campaigns of the documents whose newest version waits."""
    statement = (
        sa.select(versions.c.doc_id, versions.c.campaign)
        .join(documents, documents.c.latest_version == versions.c.version_id)
        .where(versions.c.campaign != "")
    )
    return values_by_id(connection, statement, doc_ids)
