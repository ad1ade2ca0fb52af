"""What a fit depends on beside its rows."""

import os
import platform
import subprocess
import sys
import threading

import pytest
from threadpoolctl import threadpool_info  # type: ignore[import-untyped] # it has no types

from oracle.predictors.ensemble.fitting import _WORKER
from oracle.predictors.ensemble.numerics import _limit, _pools, apart, libraries
from tests.predictors.ensemble.setting import TREE


def _threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_libraries_are_named():
    """Versions, machine and kernels, and the package that an import path begins with."""
    named = libraries(TREE, "hypothesis.strategies.Any")
    assert {"python", "numpy", "scipy", "scikit-learn", "hypothesis", "machine", "simd", "blas"} == set(named)
    assert all(named.values())
    assert named["python"] == "{}.{}".format(*sys.version_info)
    assert libraries() == libraries(TREE) == {name: said for name, said in named.items() if name != "hypothesis"}


_DIGESTS = """
from oracle.predictors.ensemble.fitting import _WORKER
from oracle.predictors.ensemble.numerics import libraries
from oracle.predictors.ensemble.teachers import fit_teachers
from tests.predictors.ensemble.setting import Setting, TREE, some_rows
for learner in (TREE, "sklearn.linear_model.LogisticRegression"):
    print(fit_teachers(Setting(learner), *some_rows(300, 1), 7).digest.hex())
print(libraries()["blas"])
"""


def _fitted_on(kernel: str) -> list[str]:
    """Return the digests of trees and of linear models, and the name of what they were fitted with."""
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel}
    made = subprocess.run([sys.executable, "-c", _DIGESTS], env=environment, capture_output=True, text=True, check=True)
    return made.stdout.split("\n")[:3]


@pytest.mark.slow
def test_other_processors_fit_the_same_trees_and_other_linear_models():
    """A tree is on no kernel of BLAS; a linear model is, and `OPENBLAS_CORETYPE` brings the same bits anywhere."""
    nehalem, again, prescott = map(_fitted_on, ("Nehalem", "Nehalem", "Prescott"))
    assert nehalem == again
    named = platform.machine() == "x86_64"  # OpenBLAS passes over names of kernels that a machine cannot have
    assert [one == other for one, other in zip(nehalem, prescott, strict=True)] == [True, not named, not named]


def test_blas_has_its_threads_back_when_the_last_one_is_done():
    """Not before, whoever began first."""
    _WORKER.submit(bool).result()  # a fit that an earlier test left behind holds it, too
    before = [pool.num_threads for pool in _pools()]
    _limit([2] * len(before))  # `threadpool_limits` does nothing where another thread has ever set it
    try:
        first, second = threading.Event(), threading.Event()

        def fit() -> None:
            with apart(finite=True):
                first.set()
                second.wait(10.0)

        other = threading.Thread(target=fit)
        other.start()
        first.wait(10.0)
        with apart(finite=True):
            second.set()
            other.join()
            assert _threads() == {1}
        assert _threads() == {2}
    finally:
        _limit(before)
