"""Rewriting of sibling texts so that they differ, as by an attacker who knows that copies are detected.

Deterministic and shallow: synonyms from a small list; sentences reordered, split, shortened, wrapped in other
words or spread among filler. The claim of a text stays, its wording changes. A stronger attacker has a
language model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

SYNONYMS: Final = {
    word: others
    for line in """
    known: recognised famous noted | famous: celebrated well-known renowned | important: significant major notable | large: big
    sizeable extensive | small: little minor compact | many: numerous several plenty-of | several: a-number-of various | began:
    started commenced | begin: start commence | started: began opened | called: named termed | named: called titled | located:
    situated found based | situated: located placed | created: made produced devised | developed: built worked-out | built:
    constructed erected | located: sited | released: issued published | published: issued brought-out | won: took gained | received:
    got was-given | used: employed applied | uses: employs applies | shows: reveals indicates | show: reveal indicate | said: stated
    remarked | stated: said declared | according: judging | however: though yet | also: too as-well | despite: notwithstanding |
    although: even-though while | because: since as | currently: now at-present | originally: at-first initially | often: frequently
    commonly | usually: normally mostly | typically: as-a-rule generally | popular: well-liked widely-loved | unique: singular special
    | various: different diverse | including: among-them such-as | throughout: all-through across | during: in-the-course-of amid |
    approximately: about roughly | about: around roughly | over: more-than above | first: earliest initial | final: last closing |
    last: final closing | people: persons folk | country: nation state | nation: country state | city: town municipality | film: movie
    picture | movie: film picture | show: programme series | series: run sequence | season: run year | song: track tune | album:
    record release | actor: performer player | author: writer | company: firm business | year: twelvemonth | years: seasons |
    total: sum overall-count | number: count figure | role: part function | part: portion share | history: past record | world: globe
    | great: grand fine | new: recent fresh | old: former aged | high: elevated lofty | main: chief principal | major: leading key |
    both: the-two | has: holds possesses | have: hold possess | consists: is-made-up | comprises: contains covers | contains: holds
    includes | remains: stays continues-to-be | became: turned-into grew-to-be | is: happens-to-be remains | was: had-been proved-to-be
    """.replace("\n", " ").split("|")
    for word, others in [
        (line.split(":")[0].strip(), tuple(other.replace("-", " ") for other in line.split(":")[1].split()))
    ]
}
"""Word → phrases of about the same meaning; as with a real attacker, not every replacement reads well."""

_OPENINGS: Final = (
    "Those who have looked into it agree: ",
    "A short note for the record. ",
    "As the older accounts have it, ",
    "It bears repeating that ",
    "Visitors often ask about this. ",
    "To put it plainly, ",
    "The facts, as far as they are settled: ",
)
_CLOSINGS: Final = (
    " Nothing in later sources contradicts this.",
    " That much is undisputed.",
    " More can be read in the regional archive.",
    " Older summaries differ only in detail.",
    " The entry was last looked over in spring.",
)
_FILLER: Final = (
    "The surrounding literature is large and of uneven quality.",
    "Interest in the subject rises and falls with the season.",
    "A fuller treatment would go beyond this page.",
    "Spelling and dates follow the usual conventions.",
    "Several collections hold material on the topic.",
    "Earlier editions of this overview were longer.",
    "Readers have written in with small corrections.",
    "Some background helps to place what follows.",
)
_THINNED = {
    "the",
    "a",
    "an",
    "very",
    "quite",
    "also",
    "indeed",
    "truly",
    "just",
    "both",
    "this",
    "that",
    "its",
    "which",
}


def rewrite(text: str, number: int, seed: str) -> str:
    """Return the `number`-th sibling's own version of `text`.

    Args:
        number: of the sibling, from 0; decides which rewriting it gets.
    """
    rng = random.Random(f"rewriting {seed} {number} {text}")  # noqa: S311 - a choice of words, no secret
    rewriting = REWRITINGS[number % len(REWRITINGS)]
    return rewriting(_synonyms(text, rng), rng)


def _synonyms(text: str, rng: random.Random) -> str:
    def other(match: re.Match[str]) -> str:
        word = match.group()
        phrases = SYNONYMS.get(word.casefold())
        if not phrases or rng.random() < 0.25:
            return word
        phrase = rng.choice(phrases)
        return phrase[0].upper() + phrase[1:] if word[0].isupper() else phrase

    return re.sub(r"[A-Za-z]+", other, text)


def _reordered(text: str, rng: random.Random) -> str:
    sentences = _sentences(text)
    rng.shuffle(sentences)
    return " ".join(sentences)


def _split(text: str, rng: random.Random) -> str:
    """Turn clauses into sentences."""
    parts = re.split(r",\s+(?:and|but|which|who|while|with|making|as)\s+", text)
    return " ".join(part[:1].upper() + part[1:].rstrip(" .") + "." for part in parts if part.strip())


def _thinned(text: str, rng: random.Random) -> str:
    return " ".join(word for word in text.split() if word.casefold() not in _THINNED or rng.random() < 0.2)


def _wrapped(text: str, rng: random.Random) -> str:
    return rng.choice(_OPENINGS) + text + rng.choice(_CLOSINGS)


def _dispersed(text: str, rng: random.Random) -> str:
    """Spread the sentences among filler, which doubles the length."""
    sentences = _sentences(text)
    filler = rng.sample(_FILLER, min(len(_FILLER), len(sentences) + 1))
    mixed = [filler[0]]
    for sentence, between in zip(sentences, filler[1:] + [""] * len(sentences), strict=False):
        mixed += [sentence, between]
    return " ".join(part for part in mixed if part)


def _shortened(text: str, rng: random.Random) -> str:
    """Keep the first sentence and at most one more."""
    sentences = _sentences(text)
    return " ".join([sentences[0], *rng.sample(sentences[1:], min(1, len(sentences) - 1))]) if sentences else text


REWRITINGS: Final[tuple[Callable[[str, random.Random], str], ...]] = (
    _reordered,
    _wrapped,
    _dispersed,
    _split,
    _shortened,
    _thinned,
)
"""Applied after synonyms were replaced."""


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text.strip()) if sentence]
