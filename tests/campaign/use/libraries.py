"""``python libraries.py NAME SECONDS`` lets a third-party library compute for this time with four threads.

The library first computes a result with one thread. Each later result must be equal to it. At the end ``right, N
times`` is printed; if a result differs, the exit status is 1.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

THREADS = 4
TOLERANCE = 1e-6

# Compute with this number of threads. The numbers returned depend on all of the work.
Work = Callable[[int], Sequence[float]]


def _points(rows: int, columns: int) -> tuple[Any, Any]:
    numpy = import_module("numpy")
    generator = numpy.random.default_rng(1)
    points = generator.random((rows, columns), dtype=numpy.float32)
    return points, (points[:, 0] * 3 + numpy.sin(points[:, 1] * 9) + points[:, 2] * points[:, 3]).astype("float32")


def _kmeans() -> Work:
    cluster, pools = import_module("sklearn.cluster"), import_module("threadpoolctl")
    points, _ = _points(60_000, 16)

    def work(threads: int) -> Sequence[float]:
        with pools.threadpool_limits(threads):
            model = cluster.KMeans(24, n_init=1, max_iter=25, random_state=1, init="random").fit(points)
        return [model.inertia_ / 1e4]

    # Sums in single precision depend on the order in which the threads add.
    return lambda threads: [round(value, 3) for value in work(threads)]


def _boosting() -> Work:
    ensemble, pools = import_module("sklearn.ensemble"), import_module("threadpoolctl")
    points, wanted = _points(40_000, 16)

    def work(threads: int) -> Sequence[float]:
        with pools.threadpool_limits(threads):
            model = ensemble.HistGradientBoostingRegressor(max_iter=25, random_state=1).fit(points, wanted)
            return [round(float(model.score(points, wanted)), 3)]

    return work


def _lightgbm() -> Work:
    lightgbm = import_module("lightgbm")
    points, wanted = _points(60_000, 16)

    def work(threads: int) -> Sequence[float]:
        settings = {"num_threads": threads, "deterministic": True, "force_row_wise": True, "seed": 1, "verbose": -1}
        model = lightgbm.train(settings, lightgbm.Dataset(points, wanted), 40)
        return [float(value) for value in model.predict(points[:500], num_threads=threads)]

    return work


def _xgboost() -> Work:
    xgboost = import_module("xgboost")
    points, wanted = _points(20_000, 16)

    def work(threads: int) -> Sequence[float]:
        rows = xgboost.DMatrix(points, wanted, nthread=threads)
        model = xgboost.train({"nthread": threads, "tree_method": "hist", "seed": 1}, rows, 30)
        return [round(float(value), 2) for value in model.predict(rows)[:50]]

    return work


def _faiss() -> Work:
    faiss = import_module("faiss")
    points, _ = _points(30_000, 32)

    def work(threads: int) -> Sequence[float]:
        faiss.omp_set_num_threads(threads)
        index = faiss.IndexFlatL2(32)
        index.add(points)
        _, nearest = index.search(points[:1500], 5)
        return [float(value) for value in nearest[:, 0]]

    return work


def _numba() -> Work:
    numba, numpy = import_module("numba"), import_module("numpy")
    numba.config.THREADING_LAYER = "omp"
    points, _ = _points(1_500, 24)

    def nearest(rows: Any) -> Any:
        found = numpy.empty(len(rows))
        for one in numba.prange(len(rows)):
            best = 1e30
            for other in range(len(rows)):
                distance = 0.0
                for column in range(rows.shape[1]):
                    distance += (rows[one, column] - rows[other, column]) ** 2
                if other != one and distance < best:
                    best = distance
            found[one] = best
        return found

    compiled = numba.njit(parallel=True)(nearest)

    def work(threads: int) -> Sequence[float]:
        numba.set_num_threads(threads)
        return [float(value) for value in compiled(points)[:500]]

    return work


def _implicit() -> Work:
    als, sparse = import_module("implicit.als"), import_module("scipy.sparse")
    ratings = sparse.random(6_000, 3_000, 0.01, format="csr", dtype="float32", random_state=1)

    def work(threads: int) -> Sequence[float]:
        model = als.AlternatingLeastSquares(
            factors=32, iterations=4, num_threads=threads, random_state=1, calculate_training_loss=True
        )
        losses: list[float] = []
        model.fit(ratings, show_progress=False, callback=lambda _at, _took, loss: losses.append(round(float(loss), 3)))
        return losses

    return work


def _pyscf() -> Work:
    lib, gto, scf = import_module("pyscf.lib"), import_module("pyscf.gto"), import_module("pyscf.scf")
    chain = "; ".join(f"H {0.0 if n % 2 else 0.7} {n * 0.9:.2f} 0" for n in range(16))
    molecule = gto.M(atom=chain, basis="6-31g", verbose=0)

    def work(threads: int) -> Sequence[float]:
        with lib.with_omp_threads(threads):
            return [round(float(scf.RHF(molecule).kernel()), 6)]

    return work


def _random_doubles(many: int) -> array[float]:
    chance = random.Random(1)
    return array("d", (chance.random() for _ in range(many)))


def _blas(library: str, set_threads: str) -> Work:
    opened = ctypes.CDLL(library)
    size = 700
    first, second, product = (_random_doubles(size * size) for _ in range(3))

    def work(threads: int) -> Sequence[float]:
        opened[set_threads](ctypes.c_long(threads))
        row_major, as_it_is, order, one = 101, 111, ctypes.c_int(size), ctypes.c_double(1.0)
        for _ in range(4):
            opened.cblas_dgemm(
                *(row_major, as_it_is, as_it_is, order, order, order, one),
                *(ctypes.c_void_p(first.buffer_info()[0]), order, ctypes.c_void_p(second.buffer_info()[0]), order),
                *(ctypes.c_double(0.0), ctypes.c_void_p(product.buffer_info()[0]), order),
            )
        return product[::977].tolist()

    return work


def _fftw() -> Work:
    library = ctypes.CDLL("libfftw3.so.3", mode=ctypes.RTLD_GLOBAL)
    threaded = ctypes.CDLL("libfftw3_omp.so.3", mode=ctypes.RTLD_GLOBAL)
    threaded.fftw_init_threads()
    size = 1024
    given, result = _random_doubles(2 * size * size), array("d", bytes(16 * size * size))
    library.fftw_plan_dft_2d.restype = ctypes.c_void_p

    def work(threads: int) -> Sequence[float]:
        threaded.fftw_plan_with_nthreads(threads)
        forward, estimate = -1, 1 << 6
        pointers = (ctypes.c_void_p(given.buffer_info()[0]), ctypes.c_void_p(result.buffer_info()[0]))
        plan = ctypes.c_void_p(library.fftw_plan_dft_2d(size, size, *pointers, forward, estimate))
        for _ in range(10):
            library.fftw_execute(plan)
        library.fftw_destroy_plan(plan)
        return result[::1009].tolist()

    return work


USES: dict[str, Callable[[], Work]] = {
    "sklearn-kmeans": _kmeans,
    "sklearn-boosting": _boosting,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "faiss": _faiss,
    "numba": _numba,
    "implicit": _implicit,
    "pyscf": _pyscf,
    "openblas": lambda: _blas("libopenblas.so.0", "openblas_set_num_threads"),
    "blis": lambda: _blas("libblis.so.4", "bli_thread_set_num_threads"),
    "fftw": _fftw,
}


def main(name: str, seconds: float) -> int:
    """Use a library for *seconds* seconds. Return 1 if the number of threads changes its results."""
    work = USES[name]()
    wanted, end, times = work(1), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        found = work(THREADS)
        for one, other in zip(wanted, found, strict=True):
            if not math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-9):
                print(f"wrong: {other} with {THREADS} threads, {one} with one")
                return 1
        times += 1
    print(f"right, {times} times, process {os.getpid()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
