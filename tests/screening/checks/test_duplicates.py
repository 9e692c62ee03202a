from dataclasses import replace

import pytest
from sample_versions import a_version

from corpus_guard.domain import Severity, TrustLevel
from corpus_guard.screening.checks.duplicates import Duplicates, DuplicatesParams
from corpus_guard.screening.survey.resemblance import EmptyHistory, SimilarDocument, Standing
from corpus_guard.screening.survey.signals import measure_signals
from corpus_guard.screening.survey.survey import Survey, build_survey

OPEN, REVIEWED, TRUSTED = TrustLevel.OPEN, TrustLevel.REVIEWED, TrustLevel.TRUSTED
NEW, SERVED, QUARANTINED, REJECTED = Standing.NEW, Standing.SERVED, Standing.QUARANTINED, Standing.REJECTED
TEXT = " ".join(f"Secretword{n}" for n in range(60))


def neighbour(number: int, standing: Standing, similarity: float, trust: TrustLevel = OPEN) -> SimilarDocument:
    return SimilarDocument(f"v{number}", f"document{number}", "elsewhere", trust, standing, similarity)


def found(
    *neighbours: SimilarDocument, trust: TrustLevel = OPEN, text: str = TEXT, params: DuplicatesParams | None = None
):
    version = a_version(text, trust=trust)
    survey = Survey({}, {version.version_id: neighbours})
    findings = [finding for position, finding in Duplicates(params).run([version], survey) if position == 0]
    assert not any("Secretword" in finding.message for finding in findings)
    return {finding.code.removeprefix("duplicates."): finding for finding in findings}


def test_a_document_without_neighbours_has_no_findings():
    assert not found()
    assert not list(Duplicates().run([a_version()], None))


@pytest.mark.parametrize("trust", TrustLevel)
def test_an_exact_copy_is_a_note(trust):
    findings = found(neighbour(1, SERVED, 1.0), neighbour(2, NEW, 1.0), trust=trust)
    assert set(findings) == {"same_text"} and findings["same_text"].severity is Severity.INFO
    assert "document1" in findings["same_text"].message and "document2" in findings["same_text"].message


def test_a_near_copy_of_a_peer_is_nothing():
    assert not found(neighbour(1, SERVED, 0.95))


@pytest.mark.parametrize("standing", [QUARANTINED, REJECTED])
@pytest.mark.parametrize(
    ("own", "its", "similarity", "severity"),
    [
        (OPEN, OPEN, 1.0, Severity.HIGH),
        (OPEN, OPEN, 0.85, Severity.HIGH),
        (OPEN, TRUSTED, 0.85, Severity.HIGH),
        (TRUSTED, TRUSTED, 1.0, Severity.HIGH),
        (TRUSTED, TRUSTED, 0.85, Severity.MEDIUM),
        # Whoever can write to an open source must not be able to block a trusted document by handing in a copy.
        (TRUSTED, OPEN, 1.0, Severity.LOW),
        (REVIEWED, OPEN, 1.0, Severity.LOW),
        (TRUSTED, REVIEWED, 0.9, Severity.LOW),
    ],
)
def test_a_text_that_was_stopped_elsewhere(standing, own, its, similarity, severity):
    findings = found(neighbour(1, standing, similarity, its), trust=own)
    assert findings["known_bad"].severity is severity
    assert standing.value in findings["known_bad"].message and "document1" in findings["known_bad"].message
    assert "same_text" not in findings


def test_the_worst_known_bad_neighbour_counts():
    findings = found(neighbour(1, QUARANTINED, 1.0, OPEN), neighbour(2, REJECTED, 1.0, TRUSTED), trust=TRUSTED)
    assert findings["known_bad"].severity is Severity.HIGH


@pytest.mark.parametrize(
    ("others", "severity"), [(2, None), (3, Severity.MEDIUM), (6, Severity.MEDIUM), (7, Severity.HIGH)]
)
def test_a_burst_grows_with_its_documents(others, severity):
    findings = found(*(neighbour(n, NEW, 0.9) for n in range(others)))
    assert findings["burst"].severity is severity if severity else "burst" not in findings


def test_mirrors_of_one_text_are_one_voice():
    def mirror(number, of, similarity=0.9):
        return replace(neighbour(number, NEW, similarity), mirrored=of)

    findings = found(*(mirror(n, "one") for n in range(6)))
    assert findings["mirrored"].severity is Severity.LOW and "burst" not in findings
    assert "7 new documents" in findings["mirrored"].message and "1 text " in findings["mirrored"].message

    assert "burst" not in found(*(mirror(n, f"{n % 3}") for n in range(6)))  # this one is among the three
    apart = found(*(mirror(n, f"{n % 3}", 0.7) for n in range(6)))  # this one is a fourth
    assert apart["burst"].severity is Severity.MEDIUM and "mirrored" not in apart
    assert "mirrored" not in found(mirror(1, "one"), mirror(2, "one"))


def test_what_is_no_burst():
    near = [neighbour(n, NEW, 0.9) for n in range(8)]
    assert "burst" not in found(*near, trust=REVIEWED) and "burst" not in found(*near, trust=TRUSTED)
    assert "burst" not in found(*(neighbour(n, NEW, 1.0) for n in range(8)))  # exact copies
    assert "burst" not in found(*(neighbour(n, SERVED, 0.9) for n in range(8)))  # not of this run
    assert "burst" not in found(*(neighbour(n, NEW, 0.9, REVIEWED) for n in range(8)))
    assert "burst" not in found(*near, text="X is a village in Y, in the district of Z")
    assert "burst" not in found(*[neighbour(1, NEW, 0.9)] * 8)  # one document


@pytest.mark.parametrize("standing", [SERVED, NEW])
@pytest.mark.parametrize(("similarity", "severity"), [(0.82, Severity.LOW), (0.95, Severity.MEDIUM)])
def test_an_open_document_that_is_nearly_a_more_trusted_one(standing, similarity, severity):
    findings = found(neighbour(1, standing, similarity, REVIEWED))
    assert findings["imitation"].severity is severity and "document1" in findings["imitation"].message


def test_what_is_no_imitation():
    assert "imitation" not in found(neighbour(1, SERVED, 1.0, TRUSTED))
    assert "imitation" not in found(neighbour(1, SERVED, 0.95, OPEN))
    assert "imitation" not in found(neighbour(1, SERVED, 0.95, TRUSTED), trust=REVIEWED)
    assert "imitation" not in found(neighbour(1, REJECTED, 0.95, TRUSTED))


def test_a_message_names_few_documents_and_counts_the_rest():
    message = found(*(neighbour(n, SERVED, 1.0) for n in range(9)))["same_text"].message
    assert message.count("document") == 4 and "and 6 more" in message


def test_from_texts_to_findings():
    # Of an open source, editions that differ in a few words are mirrors; texts that differ in more are a burst.
    def series(trust, step):
        return [
            a_version(
                " ".join(
                    f"Newword{chr(97 + n) * 5}" if at % step == 0 else word for at, word in enumerate(2 * TEXT.split())
                ),
                uri=f"{n}",
                trust=trust,
            )
            for n in range(5)
        ]

    for trust, step, expected in (
        (REVIEWED, 15, set()),
        (OPEN, 15, {"duplicates.burst"}),
        (OPEN, 60, {"duplicates.mirrored"}),
    ):
        batch = series(trust, step)
        survey = build_survey([measure_signals(version) for version in batch], EmptyHistory())
        hits = list(Duplicates().run(batch, survey))
        assert {finding.code for _, finding in hits} == expected
        assert bool(expected) == (len(hits) >= 4)


def test_pages_that_share_only_a_menu_are_no_burst():
    def pages(menu, text):
        return [a_version("\n".join([*menu(n), text(n)]), uri=f"{n}") for n in range(5)]

    def codes(batch):
        survey = build_survey([measure_signals(version) for version in batch], EmptyHistory())
        return [finding.code for _, finding in Duplicates().run(batch, survey)]

    def entries(site):
        return [f"- Shelf {site} {n} (https://shop.example/{n})" for n in range(60)]

    def edited(page):
        return " ".join(f"Newword{page}" if at % 15 == 0 else word for at, word in enumerate(2 * TEXT.split()))

    assert codes(pages(lambda page: entries("one"), lambda page: TEXT.replace("word", f"word{page}x"))) == []
    assert codes(pages(lambda page: entries("one"), lambda page: f"Page {page}")) == []  # a menu and nothing else
    assert codes(pages(entries, edited)) == ["duplicates.burst"] * 5  # other menus do not hide near copies


def test_the_digest_follows_the_parameters():
    assert Duplicates().digest == Duplicates().digest != Duplicates(DuplicatesParams(burst=5)).digest
