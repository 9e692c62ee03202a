"""What belongs together in the queue: near-duplicates share a campaign.

Rules
    * an item that shares at least SHARED of its bands with earlier ones that waited joins their campaign; at a similarity of 0.8 two
      texts share 6 to 7 of 16, at 0.5 one;
    * what resembles nothing keeps the campaign of its principal and checks (`corpus_guard.ledger.triage`), and lends it to what
      resembles it later;
    * a campaign is for the eye: no verdict and no decision depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import campaigns, versions
from corpus_guard.review._marks import AT_ONCE
from corpus_guard.screening.signals import Signals
from corpus_guard.screening.survey import band_keys

SHARED = 4  # of 16 bands


def group(ledger: Ledger, connection: sa.Connection, measured: Iterable[Signals]) -> None:
    """Bring what waits of a shard into its campaigns, in the transaction that records its verdicts."""
    bands = {one.version_id: band_keys(one.minhash) for one in measured}
    own = _waiting(connection, list(bands))
    known = _known(connection, {band for version in own for band in bands[version]})
    moved: list[dict[str, str]] = []
    for version in sorted(own):  # the same shard twice gives the same campaigns
        votes = Counter(known[band] for band in bands[version] if band in known)
        (found, shared), *_ = votes.most_common(1) or [(own[version], 0)]
        campaign = found if shared >= SHARED else own[version]
        known |= {band: campaign for band in bands[version] if band not in known}
        if campaign != own[version]:
            moved.append({"version": version, "found": campaign})
    if moved:
        connection.execute(
            versions.update()
            .where(versions.c.version_id == sa.bindparam("version"))
            .values(campaign=sa.bindparam("found")),
            moved,
        )
    rows = [{"band": band, "campaign": campaign} for band, campaign in known.items()]
    ledger.insert_missing(connection, campaigns, rows)


def _waiting(connection: sa.Connection, ids: list[str]) -> dict[str, str]:
    columns = sa.select(versions.c.version_id, versions.c.campaign)
    rows = (
        row
        for part in split(ids, AT_ONCE)
        for row in connection.execute(columns.where(versions.c.version_id.in_(part), versions.c.campaign != "")).all()
    )
    return {row.version_id: row.campaign for row in rows}


def _known(connection: sa.Connection, bands: Iterable[int]) -> dict[int, str]:
    rows = (
        row
        for part in split(sorted(bands), AT_ONCE)
        for row in connection.execute(sa.select(campaigns).where(campaigns.c.band.in_(part))).all()
    )
    return {row.band: row.campaign for row in rows}
