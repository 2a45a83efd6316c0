"""Sets of earlier times, in whatever order they are asked for, against copies made at the time."""

from __future__ import annotations

import copy
import gc

import array_api_strict
import numpy as np
import pytest

from tabpo import kernels
from tabpo.confidence import ConfidenceSets, ConfidenceSettings
from tabpo.confidence.history import Change
from tests.confidence_pieces import Seen
from tests.conftest import random_policy

SHAPE, R = (3, 4, 2), 5


def sets_of(refresh: str, shape: tuple[int, int, int] = SHAPE, xp=np) -> ConfidenceSets:
    return ConfidenceSets(shape, R, 100, ConfidenceSettings(width_scale=0.02, refresh=refresh), xp)


def seen(rng: np.random.Generator, shape: tuple[int, int, int] = SHAPE) -> Seen:
    H, S, A = shape
    return Seen(rng.integers(S, size=(H, R)), rng.integers(A, size=(H, R)))


def kept_changes() -> int:
    return sum(isinstance(thing, Change) for thing in gc.get_objects())


@pytest.mark.parametrize("refresh", ["epoch", "episode"])
@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_snapshots_are_the_sets_of_their_time(refresh, backend, rng):
    """Arrivals in random order, some of them early and asked for again, so that the copy moves both ways."""
    losses, policy = rng.normal(size=(*SHAPE, R)), random_policy(rng, *SHAPE, R)
    with kernels.using(backend):
        sets = sets_of(refresh)
        pending = []
        for episode in range(80):
            if rng.random() < 0.8:
                pending.append((sets.snapshot(), copy.deepcopy(sets.boxes)))
            sets.observe([seen(rng)] * int(rng.integers(3)))
            for _ in range(int(rng.integers(4)) if episode > 10 else 0):
                if not pending:
                    break
                at = int(rng.integers(len(pending)))
                snapshot, boxes = pending[at] if rng.random() < 0.5 else pending.pop(at)
                got = sets.evaluate(losses, policy, True, 0.1, snapshot)
                expected = kernels.extended_q_values(boxes, losses, policy, 0.1, True)
                np.testing.assert_array_equal(got[0], expected[0])
                np.testing.assert_array_equal(got[1], expected[1])


@pytest.mark.parametrize("looked_back", [False, True])
def test_dropped_snapshots_leave_nothing_behind(looked_back, rng):
    gc.collect()
    assert kept_changes() == 0
    sets = sets_of("episode")
    snapshots = []
    for _ in range(10):
        snapshots.append(sets.snapshot())
        sets.observe([seen(rng)])
    assert kept_changes() == 10
    if looked_back:
        assert snapshots[3].boxes is not sets.boxes
    del snapshots[:6]
    sets.observe([seen(rng)])
    assert kept_changes() == 5  # from the seventh version to the twelfth
    snapshots.clear()
    sets.observe([seen(rng)])
    assert kept_changes() <= looked_back  # a copy, once made, follows one change behind


def test_nothing_is_kept_without_delay(rng):
    sets = sets_of("episode")
    for _ in range(5):
        snapshot = sets.snapshot()
        assert snapshot.boxes is sets.boxes
        del snapshot
        sets.observe([seen(rng)])
        assert kept_changes() == 0


def test_one_version_has_one_snapshot(rng):
    """Episodes between refreshes share what is kept."""
    sets = sets_of("epoch")
    assert sets.snapshot() is sets.snapshot()
    first = sets.snapshot()
    sets.observe([seen(rng)])
    assert sets.snapshot() is not first
    trajectory = seen(rng)
    sets.observe([trajectory] * 9)
    before = sets.snapshot()
    sets.observe([trajectory])  # far from doubling a count
    assert sets.snapshot() is before


def test_snapshots_of_a_single_step_and_of_another_library(rng):
    sets = sets_of("episode", (1, 4, 2))
    snapshot = sets.snapshot()
    sets.observe([seen(rng, (1, 4, 2))])
    losses, policy = rng.random((1, 4, 2, R)), random_policy(rng, 1, 4, 2, R)
    np.testing.assert_array_equal(sets.evaluate(losses, policy, snapshot=snapshot)[0], losses)

    strict = sets_of("episode", xp=array_api_strict)
    before, snapshot = strict.bounds()[0], strict.snapshot()
    trajectory = seen(rng)
    strict.observe([Seen(*map(array_api_strict.asarray, (trajectory.states, trajectory.actions)))] * 9)
    np.testing.assert_array_equal(np.asarray(snapshot.boxes.lowest), np.asarray(before))
    assert np.any(np.asarray(strict.bounds()[0]) != np.asarray(before))
