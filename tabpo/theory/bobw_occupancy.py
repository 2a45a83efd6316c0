"""Claims of best of both worlds about upper and lower occupancies over a confidence set, L6."""

from __future__ import annotations

from functools import partial

import numpy as np

from tabpo import confidence
from tabpo.theory.bobw_common import PAPER, confidence_set, distributions, sizes, state_occupancy, vertex, with_bounds
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import log_uniform


def _set_and_members(rng: np.random.Generator) -> Instance:
    """Return a set, a member and a vertex of it, and a policy."""
    H, S, A = sizes(rng, 10**6)  # nothing is enumerated
    i = confidence_set(rng, H, S, A)
    i["vertex"] = vertex(rng, i["centre"], i["radius"])
    return with_bounds({**i, "policy": distributions(rng, (H, S), A, zeros=True)})


def _members(i: Instance) -> Floats:
    """Return the occupancies (2, H, S) of the member and the vertex."""
    return np.stack([state_occupancy({**i, "transitions": i[name]}) for name in ("transitions", "vertex")])


def _l6_left(i: Instance) -> Floats:
    return np.concatenate([_members(i), np.stack([i["lower"]] * 2)])


def _l6_right(i: Instance) -> Floats:
    return np.concatenate([np.stack([i["upper"]] * 2), _members(i)])


def _occupancy_difference(i: Instance) -> Floats:
    member, corner = _members(i)
    return np.asarray(corner - member)


def _difference_by_steps(i: Instance) -> Floats:
    """Return ``sum_{k<h} sum_{u,v,w} mu^P(u,v) (P' - P)(w|u,v) mu^{P'}(s|w)``, P' the vertex, shape (H, S)."""
    P, corner, policy = i["transitions"], i["vertex"], i["policy"]
    H, S, _ = policy.shape
    q = state_occupancy(i)[:, :, None] * policy
    moved = np.einsum("hsa,hsap->hp", q, corner - P)  # at step h + 1, by the difference of step h
    result = np.zeros((H, S))
    for h in range(1, H):
        carried = result[h - 1] @ np.einsum("sa,sap->sp", policy[h - 1], corner[h - 1])
        result[h] = carried + moved[h - 1]
    return result


def _counts(rng: np.random.Generator) -> Instance:
    """Return a set after ``episode`` - 1 episodes of T, with the radius of section 2.2 and delta = 1 / T^3."""
    H, S, A = sizes(rng, 10**6)
    n_episodes = int(log_uniform(rng, 2, 1e4))
    episode = int(rng.integers(1, n_episodes + 1))
    visits = rng.integers(0, episode, (H, S, A)) * rng.integers(0, 2, (H, S, A))
    counts = rng.multinomial(visits, distributions(rng, (H, S, A), S, zeros=True))
    seen = np.maximum(visits, 1)[..., None]
    centre = np.where(visits[..., None] > 0, counts / seen, 1 / S)
    log_term = confidence.RADII["uob_ftrl"].log_term((H, S, A), n_episodes, n_episodes**-3.0)
    return with_bounds(
        {
            "centre": centre,
            "radius": confidence.uob_ftrl_radius(centre, visits, log_term),
            "episode": episode,
            "initial": np.eye(S)[0],
            "policy": distributions(rng, (H, S), A, zeros=True),
        }
    )


def _least_upper_occupancy(i: Instance) -> Floats:
    """Return the upper occupancy of the first state and of all states of later steps."""
    return np.append(i["upper"][0, 0], i["upper"][1:])


def _share_of_an_episode(i: Instance) -> Floats:
    H, S, _ = i["policy"].shape
    return np.full(1 + (H - 1) * S, 1 / (H * S * i["episode"]))


_claim = partial(Claim, paper=PAPER, tolerance=1e-12, reason="sums of a few dozen products of at most 1")

CLAIMS = (
    _claim(
        name="bobw_occupancy_bounds",
        where="best of both worlds, section 5, L6",
        statement="lower <= mu^P <= upper for members P of a set and its vertices.",
        draw=_set_and_members,
        left=_l6_left,
        right=_l6_right,
        kind="<=",
    ),
    _claim(
        name="bobw_occupancy_difference",
        where="best of both worlds, section 5, L6",
        statement="mu^P'(s) - mu^P(s) = sum_{k < h} sum_{u, v, w} mu^P(u, v) (P' - P)(w|u, v) mu^P'(s|w).",
        draw=_set_and_members,
        left=_occupancy_difference,
        right=_difference_by_steps,
        kind="==",
    ),
    _claim(
        name="bobw_upper_occupancy",
        paper="Ito, Jamieson, Maiti, Luo, Tsuchiya 2025",
        where="lemma 21; best of both worlds, section 5, L6",
        statement="upper_t(s) >= 1 / (|S| t) for the sets of section 2.2; a single first state.",
        draw=_counts,
        left=_share_of_an_episode,
        right=_least_upper_occupancy,
        kind="<=",
    ),
)
