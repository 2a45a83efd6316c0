"""Counts and epochs against a plain loop, radii against their table, sets that follow their counts."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest

from tabpo import confidence, kernels, planning
from tests.confidence_pieces import TOLERANCE, Seen, random_set
from tests.conftest import random_policy


class PlainRun:
    """One run's counts in dictionaries, its epochs by the words of the specification."""

    def __init__(self) -> None:
        self.n, self.n_next, self.at_epoch, self.epochs = {}, {}, {}, 0

    def add(self, trajectory: list[tuple[int, int]]) -> None:
        for h, (s, a) in enumerate(trajectory):
            self.n[h, s, a] = self.n.get((h, s, a), 0) + 1
            if h + 1 < len(trajectory):
                key = h, s, a, trajectory[h + 1][0]
                self.n_next[key] = self.n_next.get(key, 0) + 1

    def ends_epoch(self, trajectory: list[tuple[int, int]]) -> bool:
        visited = [(h, *pair) for h, pair in enumerate(trajectory)]
        return any(self.n[key] >= max(1, 2 * self.at_epoch.get(key, 0)) for key in visited)

    def begin_epoch(self) -> None:
        self.at_epoch = dict(self.n)
        self.epochs += 1


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_counts_and_epochs_against_a_plain_loop(xp, rng):
    H, S, A, R = 3, 4, 2, 3
    counts = confidence.VisitCounts((H, S, A), R, xp)
    plain = [PlainRun() for _ in range(R)]
    for _ in range(60):
        states, actions = rng.integers(S, size=(H, R)), rng.integers(A, size=(H, R))
        counts.add(xp.asarray(states), xp.asarray(actions))
        begun = counts.begin_epochs()
        for r, one in enumerate(plain):
            trajectory = [(int(states[h, r]), int(actions[h, r])) for h in range(H)]
            one.add(trajectory)
            assert bool(begun[r]) == one.ends_epoch(trajectory)
            if begun[r]:
                one.begin_epoch()
    for r, one in enumerate(plain):
        assert int(counts.n_epochs[r]) == one.epochs
        for h, s, a in np.ndindex(H, S, A):
            n = one.n.get((h, s, a), 0)
            assert int(counts.visits[h, s, a, r]) == n
            row = [one.n_next.get((h, s, a, x), 0) for x in range(S)]
            assert [int(x) for x in counts.transitions[h, s, a, :, r]] == row
            centre = [c / n for c in row] if sum(row) else [1 / S] * S
            np.testing.assert_allclose(np.asarray(counts.centre()[h, s, a, :, r]), centre, rtol=1e-15)


def test_several_arrivals_at_once_are_one_epoch():
    counts = confidence.VisitCounts((1, 1, 1), 2)
    for _ in range(3):
        counts.add(np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=np.int64))
    assert counts.begin_epochs().tolist() == [1, 1]
    assert counts.n_epochs.tolist() == [1, 1]
    for expected in (0, 0, 1):  # 3 visits at its start: the next epoch begins at 6
        counts.add(np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=np.int64))
        assert counts.begin_epochs().tolist() == [expected, expected]


FORMULAS = {
    "delayed_uob_reps": lambda p, n, iota: 4 * math.sqrt(p * iota / max(1, n)) + 10 * iota / max(1, n),
    "uob_reps": lambda p, n, iota: 2 * math.sqrt(p * iota / max(1, n - 1)) + 14 * iota / (3 * max(1, n - 1)),
    "dilated_bonuses": lambda p, n, iota: 4 * math.sqrt(p * iota / max(1, n)) + 28 * iota / (3 * max(1, n)),
    "uob_ftrl": lambda p, n, iota: 2 * math.sqrt(p * iota / max(1, n)) + 14 * iota / (3 * max(1, n)),
}


@pytest.mark.parametrize("name", confidence.RADII)
def test_radii_against_the_table(name, rng):
    centre, _ = random_set(rng, 2, 3, 2, 4)
    visits = rng.integers(10**6, size=(2, 3, 2, 4)) // 10 ** rng.integers(8, size=(2, 3, 2, 4))
    scale = np.array([1.0, 0.1, 0.02, 0.0])
    radius = getattr(confidence, f"{name}_radius")(centre, visits, 7.5, scale)
    alone = getattr(confidence, f"{name}_radius")(centre[..., 1], visits[..., 1], 7.5, 0.1)
    np.testing.assert_array_equal(alone, radius[..., 1])
    for h, s, a, x, r in np.ndindex(centre.shape):
        expected = min(1.0, scale[r] * FORMULAS[name](centre[h, s, a, x, r], visits[h, s, a, r], 7.5))
        assert abs(radius[h, s, a, x, r] - expected) < TOLERANCE
    log_factor = 10 if name == "delayed_uob_reps" else 1
    iota = confidence.RADII[name].log_term((2, 3, 4), 100, 0.05)
    assert iota == pytest.approx(math.log(log_factor * 2 * 3 * 4 * 100 / 0.05), rel=1e-14)


@pytest.mark.parametrize("refresh", ["epoch", "episode"])
@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_sets_follow_the_counts_at_epochs_or_every_episode(refresh, backend, rng):
    """The sets that are refreshed row by row are those computed afresh from the counts of the last refresh."""
    shape, R, K = (3, 5, 2), 4, 500
    scale = [1.0, 0.1, 0.01, 0.0]
    chosen = confidence.ConfidenceSettings("uob_reps", width_scale=scale, refresh=refresh)
    model = np.moveaxis(rng.dirichlet(np.full(5, 0.3), shape[:3]), -1, 3)
    with kernels.using(backend):
        sets = confidence.ConfidenceSets(shape, R, K, chosen)
        centre, visits = sets.counts.centre(), sets.counts.visits.copy()
        for k in range(30):
            states = [rng.integers(5, size=R)]
            actions = rng.integers(2, size=(3, R))
            for h in range(2):
                rows = model[h, states[h], actions[h]]
                states.append(np.array([rng.choice(5, p=row) for row in rows]))
            before = sets.counts.n_epochs.copy()
            sets.observe([Seen(np.array(states), actions)] * (k % 3))  # none, one or several arrive
            begun = np.ones(R, dtype=bool) if refresh == "episode" else sets.counts.n_epochs > before
            centre = np.where(begun, sets.counts.centre(), centre)
            visits = np.where(begun, sets.counts.visits, visits)
        iota = math.log(np.prod(shape) * K / 0.1)
        radius = confidence.uob_reps_radius(centre, visits, iota, np.array(scale))
        lowest, highest = sets.bounds()
        np.testing.assert_allclose(lowest[:-1], np.maximum(centre - radius, 0)[:-1], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(highest[:-1], np.minimum(centre + radius, 1)[:-1], rtol=0, atol=TOLERANCE)
        np.testing.assert_array_equal(sets.visits_in_force, visits)
        policy, initial = random_policy(rng, *shape, R), rng.dirichlet(np.ones(5))
        losses = rng.random((*shape, R))
        for got, expected in zip(
            (*sets.occupancy_bounds(initial, policy), *sets.evaluate(losses, policy, False, 0.5)),
            (
                *confidence.occupancy_bounds(centre, radius, initial, policy),
                *confidence.extended_evaluate(centre, radius, losses, policy, False, 0.5),
            ),
            strict=True,
        ):
            np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
        whole = sets.occupancy_bounds(initial, policy)
        for h in range(3):
            begun_policy = np.where(np.arange(3)[:, None, None, None] < h, policy, np.nan)
            for of_step, bound in zip(sets.occupancy_bounds_at(h, initial, begun_policy), whole, strict=True):
                np.testing.assert_array_equal(of_step, bound[h])


@pytest.mark.parametrize("refresh", ["epoch", "episode"])
def test_sets_of_no_width_are_the_empirical_model(refresh, rng):
    shape, R = (4, 7, 3), 5
    sets = confidence.ConfidenceSets(shape, R, 100, confidence.ConfidenceSettings(width_scale=0.0, refresh=refresh))
    for _ in range(60):
        sets.observe([Seen(rng.integers(7, size=(4, R)), rng.integers(3, size=(4, R)))])
    policy, initial = random_policy(rng, *shape, R), rng.dirichlet(np.ones(7))
    upper, lower = sets.occupancy_bounds(initial, policy)
    np.testing.assert_array_equal(upper, lower)
    for r in range(R):
        exact = planning.state_occupancy(sets.bounds()[0][..., r], initial, policy[..., r])
        np.testing.assert_allclose(upper[..., r], exact, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["delayed_uob_reps", "uob_reps", "dilated_bonuses"])
def test_the_true_transitions_are_inside(name, rng):
    """delta = 0.1 over 100 runs: 10 failures would be allowed (40 for UOB-REPS); the radii are loose, none is seen."""
    H, S, A, R, K = 2, 3, 2, 100, 4000
    model = rng.dirichlet(np.ones(S), (H, S, A))
    sets = confidence.ConfidenceSets((H, S, A), R, K, confidence.ConfidenceSettings(name))
    table, first = kernels.inverse_cdf_table(model), kernels.inverse_cdf_table(np.ones(S) / S)
    policy = np.full((H, S, A, R), 1 / A)
    missed = np.zeros(R, dtype=bool)
    for _ in range(K):
        states, actions = kernels.sample_trajectories(table, first, policy, rng.random((2 * H, R)))
        sets.observe([Seen(states, actions)])
        if sets.counts.n_trajectories % 500 == 0:
            lowest, highest = sets.bounds()
            outside = (model[..., None] < lowest) | (model[..., None] > highest)
            missed |= outside[:-1].any(axis=(0, 1, 2, 3))
    assert missed.sum() == 0
    assert np.mean(highest[:-1] - lowest[:-1]) < 0.9  # and the sets say something


def test_settings_are_reported():
    chosen = confidence.ConfidenceSettings(width_scale=0.1, bias_scale=0.2)
    assert chosen.reported == {
        "radius": "delayed_uob_reps",
        "failure_probability": 0.1,
        "width_scale": 0.1,
        "bias_scale": 0.2,
        "refresh": "epoch",
        "counts": "immediate",
    }


def test_sets_in_another_array_library(rng):
    shape, R = (3, 4, 2), 3
    both = [
        confidence.ConfidenceSets(shape, R, 50, confidence.ConfidenceSettings("uob_ftrl", width_scale=0.05), xp)
        for xp in (np, array_api_strict)
    ]
    for _ in range(20):
        states, actions = rng.integers(4, size=(3, R)), rng.integers(2, size=(3, R))
        both[0].observe([Seen(states, actions)])
        both[1].observe([Seen(*map(array_api_strict.asarray, (states, actions)))])
    arguments = rng.dirichlet(np.ones(4)), random_policy(rng, *shape, R)
    for expected, got in zip(
        (*both[0].bounds(), *both[0].occupancy_bounds(*arguments)),
        (*both[1].bounds(), *both[1].occupancy_bounds(*map(array_api_strict.asarray, arguments))),
        strict=True,
    ):
        np.testing.assert_allclose(np.asarray(got), expected, rtol=0, atol=TOLERANCE)
