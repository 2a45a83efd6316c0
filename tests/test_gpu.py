"""The GPU path: the same runs on CuPy arrays. Without CuPy or a GPU: the sentence that says so."""

from __future__ import annotations

import numpy as np
import pytest

from tabpo import kernels, simulate
from tabpo.arrays import library
from tabpo.environments import MDPS, Environment
from tabpo.errors import MissingPartError
from tabpo.learners import resolve


def cupy_or_reason() -> str:
    try:
        library("cupy")
    except MissingPartError as error:
        return str(error)
    return ""


MISSING = cupy_or_reason()


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize(
    ("learner", "parameters"),
    [
        ("dapo", {}),
        ("d_oppo", {}),
        ("uniform", {}),
        ("bobw_tsallis", {"tuning": "practical"}),
        ("bobw_shannon", {"tuning": "practical"}),
        ("bobw_log_barrier", {"tuning": "practical"}),
        ("dapo", {"transitions": "unknown"}),
        ("oppo", {}),
        ("ucbvi", {}),
    ],
)
def test_the_gpu_gives_the_same_regret(learner, parameters):
    """1e-9 on a regret of hundreds: rounding of sums in another order, no sampled action differs."""
    mdp = MDPS["random"](n_states=20, n_actions=5, horizon=10)
    environment = Environment(mdp, mdp.losses, 10)
    n_episodes = 20 if "transitions" in parameters else 500  # plain confidence sets are slow
    on_cpu = simulate(environment, resolve(learner, parameters), n_episodes, 64, seed=1)
    with kernels.using("cupy"):
        on_gpu = simulate(environment, resolve(learner, parameters), n_episodes, 64, seed=1)
    np.testing.assert_allclose(on_gpu.regret, on_cpu.regret, rtol=0, atol=1e-9)


@pytest.mark.skipif(not MISSING, reason="CuPy and a GPU are there")
def test_a_missing_gpu_gets_a_sentence():
    mdp = MDPS["random"](n_states=2, n_actions=2, horizon=2)
    with kernels.using("cupy"), pytest.raises(MissingPartError, match=r"pip install 'tabpo\[gpu\]'|finds no GPU"):
        simulate(Environment(mdp, mdp.losses, 0), "dapo", 5)
