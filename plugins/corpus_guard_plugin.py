"""Airflow plugin for the review pages: one app and one entry in the navigation.

The pages are in `corpus_guard.web`.

Airflow executes this file in every task: it imports no web framework and opens nothing. The link is
relative, so that it works below any prefix a proxy adds.
"""

from airflow.plugins_manager import AirflowPlugin

from corpus_guard.airflow.plugin import PREFIX, ROUTE, LazyApp, airflow_app


class CorpusGuardReview(AirflowPlugin):
    """Plugin that registers the app and its entry in the navigation."""

    name = "corpus_guard_review"
    fastapi_apps = [{"app": LazyApp(airflow_app), "url_prefix": PREFIX, "name": "Corpus Guard review"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Corpus Guard",
            "href": f"{PREFIX.lstrip('/')}/",
            "destination": "nav",
            "url_route": ROUTE,
            "icon": f"{PREFIX.lstrip('/')}/static/icon.svg",
            "icon_dark_mode": f"{PREFIX.lstrip('/')}/static/icon-dark.svg",
        }
    ]
