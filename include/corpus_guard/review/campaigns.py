"""Campaigns: groups of near-duplicates in the queue.

Rules
    * an item that shares at least MIN_SHARED_BANDS bands with earlier items that waited joins their
      campaign; two texts of similarity 0.8 share 6 to 7 of 16 bands, two of 0.5 share one;
    * an item that resembles nothing keeps the campaign of its author and checks, or one of its own
      (`corpus_guard.ledger.triage`); later items that resemble it join that campaign;
    * a campaign is a display aid: no verdict and no decision depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import sqlalchemy as sa

from corpus_guard.batches.tables import in_batches
from corpus_guard.ledger.queries import insert_missing, select_in_batches
from corpus_guard.ledger.tables import campaigns, versions
from corpus_guard.screening.survey.resemblance import band_keys
from corpus_guard.screening.survey.signals import Signals

MIN_SHARED_BANDS = 4  # of 16


def assign_campaigns(connection: sa.Connection, signals: Iterable[Signals]) -> None:
    """Assign the waiting items of a shard to campaigns, in the transaction that records their verdicts."""
    bands = {version.version_id: band_keys(version.minhash) for version in signals}
    own_campaigns = _waiting_versions(connection, bands)
    by_band = _campaigns_by_band(connection, {band for version_id in own_campaigns for band in bands[version_id]})
    moves: list[dict[str, str]] = []
    for version_id in sorted(own_campaigns):  # sorted: the same shard twice gives the same campaigns
        own = own_campaigns[version_id]
        votes = Counter(by_band[band] for band in bands[version_id] if band in by_band)
        (candidate, shared), *_ = votes.most_common(1) or [(own, 0)]
        campaign = candidate if shared >= MIN_SHARED_BANDS else own
        by_band |= {band: campaign for band in bands[version_id] if band not in by_band}
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
    rows = select_in_batches(connection, statement, versions.c.version_id, version_ids)
    return {row.version_id: row.campaign for row in rows}


def _campaigns_by_band(connection: sa.Connection, bands: Iterable[int]) -> dict[int, str]:
    rows = (
        row
        for batch in in_batches(sorted(bands))
        for row in connection.execute(sa.select(campaigns).where(campaigns.c.band.in_(batch)))
    )
    return {row.band: row.campaign for row in rows}
