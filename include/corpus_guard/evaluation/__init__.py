"""How well the guard does: data sets, attacks, metrics, experiments."""
