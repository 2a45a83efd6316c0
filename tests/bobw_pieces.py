"""What the tests of best-of-both-worlds policy optimization share."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from tabpo import Environment, simulate
from tabpo.learners import LogBarrierPO, Problem, ShannonPO, TsallisPO
from tabpo.mdp import TabularMDP
from tests.reference_bobw import LogBarrier, Shannon, Tsallis

EVERY = {"tsallis": TsallisPO, "shannon": ShannonPO, "log_barrier": LogBarrierPO}


def problem(mdp, n_episodes=100, n_runs=1, **others):
    return Problem(mdp, n_episodes, n_runs, 0, 0, **others)


def random_model(rng, H, S, A, initial=None):
    return TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S)) if initial is None else initial)


def recorded(environment, make, n_episodes, n_runs=3, seed=11, **others):
    """Return the simulation's result, the learner and its policies (K, H, S, A, R)."""
    kept, policies = [], []

    def build(problem):
        learner = make(problem)
        act = learner.act

        def remember(k):
            policies.append(act(k))
            return policies[-1]

        learner.act = remember
        kept.append(learner)
        return learner

    result = simulate(environment, build, n_episodes, n_runs, seed, **others)
    return result, kept[0], np.array(policies)


def reference_rates(name, sizes, K, tuning, c, initial=None, virtual=False):
    """Return the slow version of a learner's rates with the constants of sections 2.4 to 2.7, c_0 if it is given."""
    H, _, A = sizes
    theory = tuning == "theory"
    kind, _, indexing = name.partition(" ")
    common = {"theory": theory, "paper": indexing == "paper"}
    if kind == "tsallis":
        c0 = 120 * math.sqrt(2) * math.e * H**3 * math.sqrt(A) if theory else 0.0
        c0 = c0 if initial is None else initial
        return Tsallis(sizes, K, c0, 1.0 if theory else 0.5, c1=2.0 if theory else 0.5, **common)
    if kind == "shannon":
        log_term = 1 + math.log(2 * K * (1 + K / c)) if c else math.nan
        c0 = 18 * math.e * H**3 * math.sqrt(A * log_term * math.log(A)) if theory else 0.5
        c0 = c0 if initial is None else initial
        kappa = H * math.sqrt(A * log_term) if theory else 0.3 * math.sqrt(A)
        return Shannon(sizes, K, c0, 1.0 if theory else 0.02, kappa=kappa, log_term=log_term, **common)
    c0 = max(21 * H**2, 4 * math.e * H**3) if theory else 3.0
    c0 = c0 if initial is None else initial
    return LogBarrier(sizes, K, c0, 5.0 if theory else 0.2, has_virtual=virtual, **common)


def default_exploration(name, H, A):
    """Return the theory's c in ``gamma_t = c / (c + t)``."""
    kind = name.partition(" ")[0]
    tsallis, shannon = 120 * math.e * H**2 * math.sqrt(A), (36 * math.e * H**2 * math.log(A)) ** 2
    return {"tsallis": tsallis, "shannon": shannon, "log_barrier": 1.0}[kind]


def learner(name, **parameters):
    kind, _, indexing = name.partition(" ")
    return partial(EVERY[kind], **parameters, **({"indexing": indexing} if indexing else {}))


def environment(mdp, losses, delays=0, **others):
    return Environment(mdp, losses, delays, **others)
