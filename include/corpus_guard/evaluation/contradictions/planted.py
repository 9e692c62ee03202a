"""Attackers' texts that arrive in an open source beside trusted passages of their question, and honest passages that do.

Every trusted passage of every question lies beside them, as in a corpus; each text arrives alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from corpus_guard.detectors.contradictions.honest_texts import HonestText
from corpus_guard.detectors.contradictions.pairs import PairLabel
from corpus_guard.detectors.contradictions.planted import read_attacks
from corpus_guard.detectors.samples import Half
from corpus_guard.evaluation.contradictions.figures import contradicted_texts
from corpus_guard.evaluation.contradictions.honest import place_text
from corpus_guard.evaluation.contradictions.pairs import PairFigure
from corpus_guard.models import TextEmbedder
from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions
from corpus_guard.screening.survey.nearby_chunks import document_title
from corpus_guard.screening.wording import Wording

TRUSTED: Final = 10  # passages of a question
ARRIVING: Final = 5  # attackers' texts, and honest passages, of a question


def measure_planted(
    path: Path,
    passages: Mapping[str, Sequence[str]],
    embedder: TextEmbedder,
    wording: Wording,
    likely: LikelyContradictions | None = None,
    *,
    late: bool = False,
) -> list[PairFigure]:
    """Return how many attackers' texts, and how many honest passages, contradict a trusted one in the eyes of the guard.

    Questions of the validation half count of which a trusted passage gives the right answer.

    Raises:
        Misuse: the file cannot be read, or a row lacks a field.
    """
    trusted: list[HonestText] = []
    attacks: list[HonestText] = []
    honest: list[HonestText] = []
    for attack in read_attacks(path, Half.VALIDATION):
        question, own = attack.question, passages.get(attack.question, ())
        if any(attack.is_answered_by(each) for each in own[:TRUSTED]):
            title = document_title(question, "")
            trusted += [HonestText(each, question, title, each) for each in own[:TRUSTED]]
            honest += [HonestText(each, question, title, each) for each in own[TRUSTED : TRUSTED + ARRIVING]]
            attacks += [HonestText(each, question, "", each) for each in attack.texts[:ARRIVING]]
    both = [*trusted, *attacks, *honest]
    texts = [text.text for text in both]
    places = [place_text(text, number, number < len(trusted)) for number, text in enumerate(both)]
    contradicted = contradicted_texts(places, texts, embedder.embed(texts), wording, likely, late=late)
    numbers = {int(version) for version in contradicted}
    first_honest = len(trusted) + len(attacks)
    return [
        PairFigure(path.stem, PairLabel.CONTRADICTS, sum(number < first_honest for number in numbers), len(attacks)),
        PairFigure(path.stem, PairLabel.OTHER, sum(number >= first_honest for number in numbers), len(honest)),
    ]
