"""Plain, compiled and array-generic kernels of confidence sets agree; the compiled ones take each run by itself."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from tabpo import kernels
from tabpo.kernels import Boxes, compiled_bounds, compiled_boxes, plain_boxes
from tests.confidence_pieces import TOLERANCE, random_set
from tests.conftest import random_policy

SIZES = [
    (4, 5, 3, 6),
    (1, 1, 1, 1),
    (2, 13, 4, 1),
    (3, 2, 6, 9),
    (5, 9, 2, 3),
    (3, 17, 1, 2),
    (3, 6, 5, 2),
    (4, 4, 11, 2),
]


def box_arguments(name: str, rng: np.random.Generator, H: int, S: int, A: int, R: int) -> tuple:
    centre, radius = random_set(rng, H, S, A, R)
    boxes = Boxes.around(centre, radius)
    policy, initial = random_policy(rng, H, S, A, R), rng.dirichlet(np.full(S, 0.3))
    initial = np.where(initial < 0.05, 0, initial) / np.sum(np.where(initial < 0.05, 0, initial))
    early = np.where(np.arange(H)[:, None, None, None] < H - 1, policy, np.nan)
    states, actions = rng.integers(S, size=(H, R)), rng.integers(A, size=(H, R))
    counts = rng.integers(4, size=(H, S, A, S, R))
    counts[-1] = 0
    visits = counts.sum(axis=3) + (np.arange(H) == H - 1)[:, None, None, None] * rng.integers(4, size=(H, S, A, R))
    at_epoch = visits // 2
    tied = np.round(rng.normal(size=(H, S, R)), 1)
    return {
        "occupancy_bounds": (boxes, initial, policy),
        "occupancy_bounds_at": (boxes, initial, early, H - 1),
        "extreme_expectations": (boxes, tied, False),
        "extended_q_values": (boxes, rng.random((H, S, 1, R)), policy, 1 / H, True),
        "count_trajectory": (counts, visits, at_epoch, np.zeros(R, dtype=np.int64), states, actions),
        "refresh_boxes": (
            boxes, counts, visits, at_epoch, rng.integers(2, size=R), 2.0, 14 / 3, 1, 3.0, rng.random(R) / 5,
        ),
    }[name]  # fmt: skip


def compiled(name: str):
    return getattr(compiled_bounds if name.startswith("occupancy_bounds") else compiled_boxes, name)


def run(function, arguments) -> list[np.ndarray]:
    result = function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    flat = []
    for part in result if isinstance(result, tuple) else (result,):
        part = getattr(part, "dense", part)
        flat.extend([part.lowest, part.highest] if isinstance(part, Boxes) else [part])
    return [np.asarray(part) for part in flat]


def strict(argument):
    if isinstance(argument, Boxes):
        return Boxes(strict(argument.lowest), strict(argument.highest))
    return array_api_strict.asarray(argument) if isinstance(argument, np.ndarray) else argument


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", kernels.BOX_KERNELS)
def test_versions_agree(name, sizes, rng):
    arguments = box_arguments(name, rng, *sizes)
    packed = tuple(a.packed if isinstance(a, Boxes) else a for a in arguments)
    reference = run(getattr(plain_boxes, name), arguments)
    others = [
        run(getattr(kernels, name), arguments),
        run(compiled(name), packed),
        run(getattr(kernels, name), tuple(map(strict, arguments))),
    ]
    with kernels.using("numpy"):
        others.append(run(getattr(kernels, name), tuple(a.packed if isinstance(a, Boxes) else a for a in arguments)))
    for other in others:
        for expected, got in zip(reference, other, strict=True):
            np.testing.assert_allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", kernels.BOX_KERNELS)
def test_a_run_is_the_same_alone_and_beside_others(name, rng):
    R = 13
    arguments = box_arguments(name, rng, 4, 11, 3, R)
    together = run(compiled(name), arguments)

    def alone(argument, r):
        if isinstance(argument, Boxes):
            return Boxes(alone(argument.lowest, r), alone(argument.highest, r))
        is_by_run = isinstance(argument, np.ndarray) and argument.shape[-1] == R
        return np.ascontiguousarray(argument[..., r : r + 1]) if is_by_run else argument

    for r in (0, 6, 12):
        one = run(compiled(name), tuple(alone(a, r) for a in arguments))
        for whole, single in zip(together, one, strict=True):
            np.testing.assert_array_equal(whole[..., r], single[..., 0])


@pytest.mark.parametrize("width", [0.0, 1e-3, 0.05, 0.5, 3.0])
def test_bounds_of_narrow_and_of_vacuous_sets(width, rng):
    """Shortcuts: goods that are all the same, masses that are spent at once or never, actions that are never taken."""
    for H, S, A, R in ((5, 6, 5, 8), (4, 9, 11, 3)):
        centre, radius = random_set(rng, H, S, A, R, width)
        radius = np.where(rng.random((H, S, A, 1, R)) < 0.3, 1.0, radius)  # never visited
        centre[1, 2], radius[1, 2] = np.eye(S)[3][:, None], 0.0
        boxes = Boxes.around(centre, radius)
        policy = random_policy(rng, H, S, A, R, concentration=0.1)
        policy[..., :2] = np.eye(A)[rng.integers(A, size=(H, S, 2))].transpose(0, 1, 3, 2)
        for initial in (np.eye(S)[1], rng.dirichlet(np.ones(S))):
            expected = plain_boxes.occupancy_bounds(boxes, initial, policy)
            for one, other in zip(compiled_bounds.occupancy_bounds(boxes, initial, policy), expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)
