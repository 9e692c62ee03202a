"""Signatures that reviewers put under their own acts: a signed note in the act's event.

Rules
    * the note states the act's id, its kind, its subject and the revision that the reviewer saw. The id is a digest that
      covers the reviewer, the time, and the source and code of a mute;
    * an event whose `auth` is ``key`` holds such a note, signed by the key that its `reviewer_id` is.

Not done here: deciding whose key it is (`corpus_guard.review.identities`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corpus_guard.errors import GuardError
from corpus_guard.proof.log.note import Note, Signer, VerifierKey, parse_note

KEY_AUTH: Final = "key"
"""Value of `auth` for people who signed with their own key."""


def sign_act(signer: Signer, act_id: str, kind: str, subject: str, revision: str = "") -> str:
    """Return the note that states an act, signed.

    Args:
        kind: release, mute, confirm, ….
        subject: subject of its event: a version, or a mute.
        revision: of the item as the reviewer saw it; empty where there is none.
    """
    text = _statement(act_id, kind, subject, revision)
    return Note(text, (signer.sign(text),)).serialize()


def signature_problem(kind: str, subject: str, body: Mapping[str, object]) -> str:
    """Return what is wrong with the signature of an event of a review; empty if it is good, or none is due.

    Args:
        kind: of the event: ``decided`` or ``review_…``.
    """
    if body.get("auth") != KEY_AUTH:
        return ""
    act_id = str(body.get("decision_id") or body.get("act_id"))
    verb = str(body.get("verdict") or kind.removeprefix("review_"))
    try:
        note = parse_note(str(body.get("note", "")))
        key = VerifierKey.parse(str(body.get("reviewer_id", "")))
        signed = bool(note.verified_by([key]))
    except GuardError as error:
        return f"its signature cannot be verified: {error}"
    if not signed:
        return f"it is not signed by {key}, the key that it names"
    if note.text != _statement(act_id, verb, subject, str(body.get("revision", ""))):
        return f"{key} signed something else"
    return ""


def _statement(act_id: str, kind: str, subject: str, revision: str) -> str:
    return f"corpus-guard review/v1\n{act_id}\n{kind}\n{subject}\n{revision}\n"
