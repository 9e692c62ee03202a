"""Detection of answers with status 200 that are an error page, a login or a consent wall instead of the page.

Only certain signs count, because a page that is taken for an error is not refreshed: where redirects led, a
password field on a page with little else, or a title that names nothing but an error on a page with little
else. A manual's page *about* "404 Not Found" has more text than that and is accepted.
"""

from __future__ import annotations

import re

import re2

SHORT_CHARS = 1_500  # of text; a page of documentation has more, or no such title
EMPTY_CHARS = 200  # an apology and a link home
MAX_BYTES = 256 * 1024  # a larger page is not an error page
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


def redirected_to_login(requested: str, final: str) -> bool:
    """Return whether redirects led from an ordinary path to one where people sign in."""
    return bool(_LOGIN_PATH.search(final)) and not _LOGIN_PATH.search(requested)


def classify_soft_error(content: bytes) -> str | None:
    """Return ``intake.error_page``, ``intake.login``, or None where an HTML body is a real page."""
    if len(content) > MAX_BYTES:
        return None
    html = content.decode("utf-8", "replace")
    words = " ".join(_TAGS.sub(" ", _without_code(content).decode("utf-8", "replace")).split())
    if len(words) > SHORT_CHARS:
        return None
    if _PASSWORD.search(html):
        return "intake.login"
    match = _TITLE.search(html)
    title = " ".join(match[1].split()) if match else ""
    for part in (title, *title.replace("–", "|").replace(" - ", "|").replace(" · ", "|").split("|")):
        phrase = part.strip()
        if _WALL.search(phrase) or (_SIGN_IN.search(phrase) and _FORM.search(html)):
            return "intake.login"
        if _ERROR.search(phrase) or (len(words) <= EMPTY_CHARS and _BARE.search(phrase)):
            return "intake.error_page"
    return None


def _without_code(content: bytes) -> bytes:
    """Drop the content of script and style elements, in one pass, even where one is never closed."""
    pieces: list[bytes] = []
    position, lower = 0, content.lower()  # of bytes: only ASCII changes, so positions agree
    for match in _CODE.finditer(lower):
        if match.start() < position:
            continue
        pieces.append(content[position : match.start()])
        end = lower.find(b"</" + match[1], match.end())
        if end < 0:
            return b"".join(pieces)
        position = end + len(match[1]) + 2
    return b"".join([*pieces, content[position:]])
