"""``make bench``: speed and memory as ratios within one run, because machines differ and are noisy."""
