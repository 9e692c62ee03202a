"""Airflow's side of the guard: task functions, notifications, run notes, lineage, assets, sign-in."""
