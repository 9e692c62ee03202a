"""The steps of a refresh, one at a time, each with its parts of a deployment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from corpus_guard.deployment import Deployment
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.steps import RefreshResult, Shard


@dataclass(frozen=True)
class SteppedRun:
    """A run that goes only as far as a test takes it."""

    guard: Deployment
    run_id: str

    def discover(self, sources: Iterable[str] = ()) -> list[str]:
        """List the sources."""
        guard = self.guard
        return steps.discover(
            guard.ledger, guard.storage, guard.sources, guard.screening, guard.settings, self.run_id, tuple(sources)
        )

    def intake(self, listing: str) -> Shard:
        """Fetch the documents of one listing."""
        guard = self.guard
        return steps.intake(
            guard.ledger, guard.storage, guard.blobs, guard.chunker, guard.sources, guard.settings, self.run_id, listing
        )

    def fetch(self) -> list[Shard]:
        """List the sources and fetch every listing."""
        return [self.intake(listing) for listing in self.discover()]

    def embed(self, shard: Shard) -> Shard:
        """Embed the chunks of a shard."""
        return steps.embed(self.guard.ledger, self.guard.storage, self.guard.models, self.run_id, shard)

    def embed_changed(self, fetched: Iterable[Shard]) -> list[Shard]:
        """Embed the shards that hold a changed document."""
        return [self.embed(shard) for shard in steps.changed_shards(fetched)]

    def survey(self, shards: Iterable[Shard]) -> list[Shard]:
        """Compare the documents of all shards."""
        guard = self.guard
        return steps.survey(
            guard.ledger, guard.storage, guard.store, guard.models, guard.screening, self.run_id, shards
        )

    def screen(self, shard: Shard) -> Shard:
        """Judge the versions of a shard."""
        return steps.screen(self.guard.ledger, self.guard.storage, self.guard.screening, self.run_id, shard)

    def screen_changed(self, fetched: Iterable[Shard]) -> list[Shard]:
        """Embed, survey and screen the shards that hold a changed document."""
        return [self.screen(shard) for shard in self.survey(self.embed_changed(fetched))]

    def publish(self, shard: Shard) -> Shard:
        """Record the verdicts of a shard and serve what was accepted."""
        return steps.publish(self.guard.ledger, self.guard.storage, self.guard.store, self.run_id, shard)

    def finish(self, fetched: Iterable[Shard]) -> list[Shard]:
        """Take fetched shards through all steps before the seal."""
        return [self.publish(shard) for shard in self.screen_changed(fetched)]

    def seal(self, fetched: Iterable[Shard], published: Iterable[Shard]) -> RefreshResult:
        """End the run."""
        guard = self.guard
        return steps.seal(
            guard.ledger,
            guard.storage,
            guard.store,
            guard.chunker,
            guard.screening,
            guard.settings,
            self.run_id,
            fetched,
            published,
        )
