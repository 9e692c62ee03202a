"""The review pages inside Airflow's UI, and the same actions as a REST API.

app.py                 the FastAPI app: routers, access control, headers, errors
access.py              who may see and who may decide; checks on requests that change something; rate limit
headers.py             content security policy and other headers, on every response
shared_deployment.py   the deployment that all requests share, reopened when its policy changes
render.py              templates, and the escaping of every value
text_display.py        a text in pieces: evidence marked, invisible characters as code points
plots.py               small plots, as numbers for SVG
queue.py … health.py   one view per module
api.py                 /api/v1: reading; changes.py: deciding; exports.py: files
responses.py           JSON and file responses
"""
