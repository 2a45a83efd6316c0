"""What the tests of confidence sets share."""

from __future__ import annotations

import numpy as np

# Sums of a few hundred products of numbers in [0, 1]: 1e-12 is a thousand times their rounding.
TOLERANCE = 1e-12


def random_set(rng: np.random.Generator, H: int, S: int, A: int, R: int, width: float = 0.3):
    centre = np.ascontiguousarray(np.moveaxis(rng.dirichlet(np.full(S, 0.5), (H, S, A, R)), -1, 3))
    return centre, rng.random(centre.shape) * width * (rng.random((H, S, A, 1, R)) < 0.9)


class Seen:
    """A trajectory of each run, as confidence sets count it."""

    def __init__(self, states: np.ndarray, actions: np.ndarray) -> None:
        self.states, self.actions = states, actions
