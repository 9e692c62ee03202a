"""The pages inside Airflow's UI, and the same actions as a REST API.

app.py            the FastAPI app: routers, door, headers, errors
door.py           who may come in, and what a request that changes something must look like
airflow_door.py   Airflow's own auth manager as the door; the only module here that knows Airflow
headers.py        content security policy and the like, on every answer
desk.py           the deployment the pages look at, reopened when its policy changes
render.py         templates, and what every value goes through before it is written
shown.py          a text in pieces: evidence marked, invisible characters as code points
plots.py          small plots, as numbers for SVG
queue.py … health.py   one view a module
api.py            /api/v1: reading; changes.py: deciding; exports.py: files
"""
