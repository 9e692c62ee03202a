"""The journey of a document: discover → intake → survey → screen → embed → publish → seal.

steps.py     the steps, each a function of paths and counts; Airflow maps them, `guard refresh` loops over them
refresh.py   the same steps in one process
rescreen.py  what another policy changes: stored versions judged anew
"""
