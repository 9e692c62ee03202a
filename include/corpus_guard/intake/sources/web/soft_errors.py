"""Whether an answer that says 200 is the page it was: not an error page, a login, or a wall that asks for consent.

Certain signs only, because a page that is taken for an error is not refreshed: where the redirects led, a password field on a page
with little else, or a title that says nothing but an error on a page with little else. A manual's page *about* "404 Not Found" has more
text than that and is taken.
"""

from __future__ import annotations

import re

import re2

LITTLE = 1_500  # characters of text; a page of documentation has more, or no such title
NOTHING = 200  # characters; an apology and a link home
HEAD = 256 * 1024  # bytes; a larger page is no error page
_LOGIN_PATH = re2.compile(
    r"(?i)(^|/)(log[-_]?in|sign[-_]?in|sso|saml2?|oauth2?|authorize|authenticate|auth|session/new|wp-login|consent|captcha)(\.\w+)?(/|$)"
)
_CODE = re.compile(rb"<(script|style)")
_TITLE = re2.compile(r"(?is)<title[^>]*>([^<]{0,300})")
_PASSWORD = re2.compile(r"""(?i)<input[^>]*type\s*=\s*["']?password""")
_TAGS = re2.compile(r"<[^>]*>")
_STATUS = r"(error\W*)?[45]\d\d"
_PHRASE = (
    r"(page|file|document) (not|can(no|')t be) found|not found|page (does ?n.t|no longer) exists?|bad gateway|"
    r"service (temporarily )?unavailable|gateway time-?out|internal server error|access denied|"
    r"(site|down for|under) maintenance|too many requests|request (blocked|rejected)|seite nicht gefunden|page introuvable"
)
_WORD = r"error|forbidden|unauthorized|unavailable"  # names of classes and chapters, too
_ERROR = re2.compile(rf"(?i)^\W*({_STATUS}(\W+({_PHRASE}|{_WORD}))?|{_PHRASE})\W*$")
_BARE = re2.compile(rf"(?i)^\W*({_WORD})\W*$")
_SIGN_IN = re2.compile(r"(?i)^\W*(sign ?in|log ?in|login required|single sign.on|anmelden|connexion)\b")
_WALL = re2.compile(
    r"(?i)^\W*(just a moment|attention required|are you (a )?(human|robot)|verify you are human|security check|"
    r"before you continue|cookie consent)\b"
)
_FORM = re2.compile(r"(?i)<(form|input|button)\b")  # a manual may tell how to log in; it has no field to do it


def led_to_login(asked: str, came: str) -> bool:
    """Whether redirects led from an ordinary path to one where people sign in."""
    return bool(_LOGIN_PATH.search(came)) and not _LOGIN_PATH.search(asked)


def not_the_page(content: bytes) -> str | None:
    """``intake.error_page``, ``intake.login``, or None where an HTML body is a page of its own."""
    if len(content) > HEAD:
        return None
    html = content.decode("utf-8", "replace")
    words = " ".join(_TAGS.sub(" ", _without_code(content).decode("utf-8", "replace")).split())
    if len(words) > LITTLE:
        return None
    if _PASSWORD.search(html):
        return "intake.login"
    found = _TITLE.search(html)
    title = " ".join(found[1].split()) if found else ""
    for part in (title, *title.replace("–", "|").replace(" - ", "|").replace(" · ", "|").split("|")):
        said = part.strip()
        if _WALL.search(said) or (_SIGN_IN.search(said) and _FORM.search(html)):
            return "intake.login"
        if _ERROR.search(said) or (len(words) <= NOTHING and _BARE.search(said)):
            return "intake.error_page"
    return None


def _without_code(content: bytes) -> bytes:
    """Without what lies in script and style elements; one pass, whatever is left open."""
    kept: list[bytes] = []
    at, low = 0, content.lower()  # of bytes: ASCII alone, so that places stay
    for found in _CODE.finditer(low):
        if found.start() < at:
            continue
        kept.append(content[at : found.start()])
        end = low.find(b"</" + found[1], found.end())
        if end < 0:
            return b"".join(kept)
        at = end + len(found[1]) + 2
    return b"".join([*kept, content[at:]])
