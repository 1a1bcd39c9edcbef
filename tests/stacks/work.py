"""A process of some 200 modules, whose threads fit models until it is stopped."""

import contextlib
import importlib
import pkgutil
import sys
import threading
import warnings

import numpy
import scipy
import sklearn
from sklearn.cluster import DBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC


def load_all() -> None:
    """Import all modules of scikit-learn and SciPy, so that the process has many libraries."""
    for package in (sklearn, scipy):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda name: None):
            if not any(part in module.name for part in ("test", "conftest", "setup", "_build", "array_api")):
                # Some need packages that are not installed.
                with contextlib.suppress(ImportError, AttributeError, TypeError, RuntimeError):
                    importlib.import_module(module.name)


def work(number: int, rows: numpy.ndarray, classes: numpy.ndarray) -> None:
    """Fit one kind of model over and over."""
    kinds = (
        lambda: KMeans(5, n_init=1).fit(rows),
        lambda: HistGradientBoostingClassifier(max_iter=5).fit(rows, classes),
        lambda: RandomForestClassifier(5, n_jobs=2).fit(rows, classes),
        lambda: SVC().fit(rows, classes),
        lambda: PCA(5).fit(rows),
        lambda: KNeighborsClassifier().fit(rows, classes).predict(rows),
        lambda: LogisticRegression(max_iter=50).fit(rows, classes),
        lambda: SGDClassifier().fit(rows, classes),
        lambda: DBSCAN().fit(rows),
    )
    while True:
        kinds[number % len(kinds)]()


warnings.simplefilter("ignore")
load_all()
numbers = numpy.random.default_rng(1)
rows = numbers.normal(size=(600, 12))
for number in range(int(sys.argv[1])):
    threading.Thread(target=work, args=(number, rows, rows[:, 0] > 0), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
