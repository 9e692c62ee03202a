"""Who counts as two people: reviewers.yaml, signed-in users, and keys; a name typed in a terminal counts as nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.domain import TrustLevel, Verdict
from corpus_guard.errors import Misuse, NotAllowed, SettingsError
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.tables import decisions, events
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.key_files import read_private_key
from corpus_guard.proof.signed_acts import signature_problem
from corpus_guard.proof.verify.authority import check_authority
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.review.decisions import preview_decision
from corpus_guard.review.identities import (
    NOBODY,
    Identities,
    Person,
    ReviewAct,
    add_person,
    create_key,
    load_identities,
)
from corpus_guard.review.muting import confirm_mute, propose_mute
from corpus_guard.review.queue import find_item
from corpus_guard.review.release import count_pending_decisions
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.review.undo import undo_decision
from corpus_guard.screening.policy import ReviewRules, load_policy
from corpus_guard.settings import Settings
from deciding import decided
from material import Shelf, a_version

RULES = ReviewRules()
PAGE = a_version("law.md", ("The law is old.",), trust=TrustLevel.TRUSTED)
CODE = "instructions.override"
SHELL = Reviewer("root", "root", "cli")
REVIEWER, SECOND = (Reviewer(name, name, "SimpleAuthManager") for name in ("reviewer", "second"))
DIGEST = "0" * 64


@pytest.fixture
def waiting(lite_shelf: Shelf) -> Shelf:
    lite_shelf.record((PAGE, Verdict.QUARANTINE))
    return lite_shelf


class People:
    """A reviewers.yaml with Ada, who has a key and a login, and Mo, who has a user name on the review pages."""

    def __init__(self, folder: Path) -> None:
        self.key_file = folder / "ada.pem"
        self.key = create_key(self.key_file, "ada")
        self.ada = Person(name="Ada Lovelace", ui="ada", os="alovelace", key=self.key)
        self.identities = Identities((self.ada, Person(name="Mo Farah", ui="mo")))

    def with_key(self, login: str = "alovelace") -> Reviewer:
        return self.identities.sign_in(read_private_key(self.key_file), login)


@pytest.fixture
def people(tmp_path: Path) -> People:
    return People(tmp_path)


def release(shelf: Shelf, by: Reviewer, identities: Identities = NOBODY) -> tuple[int, int]:
    (made,) = decided(shelf.ledger, PAGE.version_id, by=by, rules=RULES, identities=identities)
    return made.approval, made.of


def ui(name: str) -> Reviewer:
    return Reviewer(name, name, "SimpleAuthManager")


# Without reviewers.yaml


def test_a_shell_and_a_login_are_not_two_people(waiting: Shelf) -> None:
    with pytest.raises(
        NotAllowed, match=r"needs two people, and a name typed in a terminal proves nobody: .*--key FILE"
    ):
        release(waiting, SHELL)
    assert release(waiting, REVIEWER) == (1, 2)
    with pytest.raises(NotAllowed, match="a name typed in a terminal proves nobody"):
        release(waiting, SHELL)

    assert count_pending_decisions(waiting.ledger) == 0
    shown = preview_decision(waiting.ledger, RULES, [PAGE.version_id], "release", SHELL)
    assert "proves nobody" in shown.refused[0][1]


def test_two_users_of_the_same_login_are_two_people(waiting: Shelf) -> None:
    assert release(waiting, REVIEWER) == (1, 2)
    with pytest.raises(
        NotAllowed, match=r"by reviewer \(SimpleAuthManager\), and you signed in otherwise \(Keycloak\)"
    ):
        release(waiting, Reviewer("4711", "somebody", "Keycloak"))

    assert release(waiting, SECOND) == (2, 2)


def test_an_approval_that_an_older_release_took_from_a_shell_counts_no_more(waiting: Shelf) -> None:
    release(waiting, REVIEWER)
    waiting.ledger.execute(decisions.update().values(auth="cli", reviewer="root", reviewer_id="root"))

    with pytest.raises(
        NotAllowed, match=r"by root \(cli\), and nothing proves that this is another person; take that back"
    ):
        release(waiting, SECOND)


def test_one_person_still_decides_alone_in_a_terminal(waiting: Shelf) -> None:
    (made,) = decided(waiting.ledger, PAGE.version_id, "reject", by=SHELL, rules=RULES)

    assert (made.approval, made.of) == (1, 1)


# With reviewers.yaml


def test_one_person_with_a_login_and_a_key_is_one(waiting: Shelf, people: People) -> None:
    assert release(waiting, ui("ada"), people.identities) == (1, 2)

    with pytest.raises(NotAllowed, match="was already released by ada; another person must agree"):
        release(waiting, people.with_key(), people.identities)

    assert release(waiting, ui("mo"), people.identities) == (2, 2)


@pytest.mark.parametrize(
    "stranger", [ui("zoe"), SHELL, Reviewer("alovelace", "alovelace", "cli")], ids=lambda r: r.name
)
def test_whom_the_file_does_not_prove_is_neither_first_nor_second(
    waiting: Shelf, people: People, stranger: Reviewer
) -> None:
    with pytest.raises(NotAllowed, match="needs two people, and"):
        release(waiting, stranger, people.identities)
    release(waiting, ui("mo"), people.identities)
    with pytest.raises(NotAllowed, match="needs two people, and"):
        release(waiting, stranger, people.identities)

    assert release(waiting, people.with_key(), people.identities) == (2, 2)


def test_a_first_approval_counts_only_while_the_file_knows_who_gave_it(waiting: Shelf, people: People) -> None:
    release(waiting, ui("zoe"))

    with pytest.raises(NotAllowed, match=r"was already released by zoe .*nothing proves"):
        release(waiting, ui("mo"), people.identities)


def test_a_mute_needs_the_same_two_people(waiting: Shelf, people: People) -> None:
    policy, ledger = load_policy(Settings().policy_file), waiting.ledger

    def act(by: Reviewer) -> ReviewAct:
        return ReviewAct(by, "it teaches", DIGEST, people.identities)

    with pytest.raises(NotAllowed, match="a mute needs two people, and a name typed in a terminal"):
        propose_mute(ledger, policy, "harbour", CODE, act(SHELL))
    mute = propose_mute(ledger, policy, "harbour", CODE, act(people.with_key()))
    for wrong in (SHELL, ui("ada"), ui("zoe")):
        with pytest.raises(NotAllowed):
            confirm_mute(ledger, mute.mute_id, act(wrong))

    assert confirm_mute(ledger, mute.mute_id, act(ui("mo"))).state == "active"


# Keys


def test_a_decision_with_a_key_holds_a_signature_over_what_was_decided(waiting: Shelf, people: People) -> None:
    item = find_item(waiting.ledger, PAGE.version_id)
    (made,) = decided(waiting.ledger, PAGE.version_id, by=people.with_key(), rules=RULES, identities=people.identities)
    undo_decision(waiting.ledger, made.decision_id, ReviewAct(people.with_key(), "wrong one"))

    with waiting.ledger.read() as connection:
        signed = sa.select(events).where(events.c.kind.in_(("decided", "review_undo"))).order_by(events.c.seq)
        decision, undoing = connection.execute(signed)
    body = decision.body
    assert (body["auth"], body["reviewer"], body["reviewer_id"]) == ("key", "Ada Lovelace", people.key)
    assert body["note"].split("\n")[1:5] == [made.decision_id, "release", PAGE.version_id, item.revision]
    assert signature_problem("decided", decision.subject, body) == ""
    assert signature_problem(undoing.kind, undoing.subject, undoing.body) == ""
    other = create_key(people.key_file.parent / "new folder" / "other.pem", "ada")
    for change in ({"decision_id": "f" * 32}, {"verdict": "reject"}, {"revision": "f" * 32}, {"note": ""}):
        assert signature_problem("decided", decision.subject, {**body, **change}) != ""
    assert "not signed by" in signature_problem("decided", decision.subject, {**body, "reviewer_id": other})
    assert (
        signature_problem("decided", "f" * 32, body) == f"{'+'.join(people.key.split('+')[:2])} signed something else"
    )


def test_verification_names_a_decision_that_its_person_did_not_sign(waiting: Shelf, people: People) -> None:
    decided(waiting.ledger, PAGE.version_id, by=people.with_key(), rules=RULES, identities=people.identities)
    collector = DeviationCollector()
    check_authority(waiting.ledger, collector)
    assert collector.deviations == []

    with waiting.ledger.write() as connection:
        body = connection.scalar(sa.select(events.c.body).where(events.c.kind == "decided"))
        forged = {**body, "decision_id": "f" * 32}
        append_event(connection, "decided", PAGE.version_id, "", **forged)
    check_authority(waiting.ledger, collector)

    (deviation,) = collector.deviations
    assert (deviation.kind, deviation.subject) == (DeviationKind.BAD_SIGNATURE, "f" * 32)


def test_nobody_is_known_by_a_key_that_they_do_not_hold(waiting: Shelf, people: People) -> None:
    with pytest.raises(NotAllowed, match="did not sign with it"):
        release(waiting, Reviewer(people.key, "Ada Lovelace", "key"), people.identities)
    with pytest.raises(NotAllowed, match="that of Ada Lovelace, who works as 'alovelace', and you are 'root'"):
        people.with_key("root")
    create_key(people.key_file.with_name("mine.pem"), "ada")
    with pytest.raises(NotAllowed, match=r"belongs to nobody in reviewers\.yaml"):
        people.identities.sign_in(read_private_key(people.key_file.with_name("mine.pem")), "alovelace")
    assert count_pending_decisions(waiting.ledger) == 0


# The file


def test_people_are_added_to_the_file_and_read_again(tmp_path: Path, people: People) -> None:
    settings = Settings(sources_file=tmp_path / "sources.yaml")
    assert load_identities(settings) == NOBODY

    for person in people.identities.people:
        add_person(settings.reviewers, person)

    assert load_identities(settings) == people.identities
    before = settings.reviewers.read_text()
    for wrong in (Person(name="Zoe", ui="ADA"), Person(name="mo farah"), Person(name="Zoe", key=people.key)):
        with pytest.raises(SettingsError, match="belongs to two people"):
            add_person(settings.reviewers, wrong)
    assert settings.reviewers.read_text() == before
    settings.reviewers.write_text("reviewers: [{name: Ada}]\n")
    with pytest.raises(Misuse, match="add the entry by hand"):
        add_person(settings.reviewers, people.ada)


def test_a_file_that_a_setting_names_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load_identities(Settings(reviewers_file=tmp_path / "people.yaml"))


def test_a_key_is_made_once_and_has_a_name(people: People) -> None:
    assert people.key_file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Misuse, match="exists already"):
        create_key(people.key_file, "ada")
    with pytest.raises(SettingsError, match="without spaces"):
        create_key(people.key_file.with_name("x.pem"), "ada l")
    with pytest.raises(ValueError, match="expected name"):
        Person(name="Ada", key="ada+1f0c9a2b+AQ")
