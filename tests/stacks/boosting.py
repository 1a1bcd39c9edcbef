"""Threads of scikit-learn's own libgomp fit a model until the process is stopped."""

import numpy
from sklearn.ensemble import HistGradientBoostingClassifier


def fit(rounds: int) -> None:
    """Fit a model."""
    HistGradientBoostingClassifier(max_iter=rounds).fit(rows, rows[:, 0] + rows[:, 1] ** 2 > 1)


rows = numpy.random.default_rng(0).normal(size=(100_000, 40))
fit(2)
print("ready", flush=True)
while True:
    fit(500)
