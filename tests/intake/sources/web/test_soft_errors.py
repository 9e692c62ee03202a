from __future__ import annotations

import time

import pytest

from corpus_guard.intake.sources.web.soft_errors import classify_soft_error, redirected_to_login

SOME = "Open the valve, wait for the pressure to fall, and write the value into the book. " * 5
MUCH = SOME * 10


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<title>404</title>", "intake.error_page"),
        ("<title>Error 404 (Not Found)!!</title><p>That's an error.", "intake.error_page"),
        ("<title>Page Not Found – Harbour</title>", "intake.error_page"),
        ("<title>503 Service Temporarily Unavailable</title>", "intake.error_page"),
        ("<title>Forbidden</title><p>No.", "intake.error_page"),
        (f"<title>Harbour | Sign in</title><form></form>{SOME}", "intake.login"),
        (f"<title>Harbour</title><script>{MUCH}</script><input name=p type=password>{SOME}", "intake.login"),
        ("<title>Before you continue to Harbour</title>", "intake.login"),
        # pages of a manual
        (f"<title>404 Not Found - HTTP</title>{MUCH}", None),
        (f"<title>Error</title>{SOME}", None),
        (f"<title>Forbidden</title>{SOME}", None),
        (f"<title>Maintenance</title>{SOME}", None),
        (f"<title>Log in to the pump</title>{SOME}", None),
        (f"<title>Changing a password</title>{MUCH}<input type=password>", None),
        ("<title>401k plans</title><p>Short.", None),
        ("", None),
        ("<p>No title at all", None),
    ],
)
def test_only_what_is_certain_is_no_page(html: str, expected: str | None) -> None:
    assert classify_soft_error(html.encode()) == expected


@pytest.mark.parametrize(
    ("asked", "came", "expected"),
    [
        ("/guide", "/login", True),
        ("/guide", "/users/sign_in", True),
        ("/guide", "/wp-login.php", True),
        ("/guide", "/sso/start", True),
        ("/guide", "/guide/logins-explained", False),
        ("/auth/guide", "/auth/guide/", False),
    ],
)
def test_where_redirects_lead(asked: str, came: str, expected: bool) -> None:
    assert redirected_to_login(asked, came) is expected


@pytest.mark.parametrize("piece", ["<", "<script", "<script>", "<title", "<input ", "<style></style", "</script>"])
def test_markup_that_never_closes_costs_little(piece: str) -> None:
    began = time.process_time()
    classify_soft_error((piece * 200_000)[: 250 * 1024].encode())
    assert time.process_time() - began < 10
