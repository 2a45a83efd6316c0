"""A user's own losses, checked as they are handed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabpo.arrays import namespace
from tabpo.environments.losses_base import Adversary, Noise, RealisedLosses, check_noise
from tabpo.errors import InvalidInputError
from tabpo.mdp import Array, unit_interval


def checked(losses: Any, shape: tuple[int, int, int], n_episodes: int) -> RealisedLosses | Adversary:
    """Return realised losses whose numbers raise an InvalidInputError where they are no losses (H, S, A) in [0, 1].

    Raises
    ------
    InvalidInputError
        If ``losses`` lack an attribute, or their noise or switches are none.
    """
    if hasattr(losses, "respond"):
        return CheckedAdversary(losses, n_episodes)
    return CheckedMeans(losses, shape, n_episodes)


class _Checked:
    """What both kinds have: noise and switches."""

    def __init__(self, losses: Any, n_episodes: int) -> None:
        self._losses, self._name = losses, type(losses).__name__
        for wanted in ("noise", "switches"):
            self._require(wanted)
        check_noise(losses.noise)
        self.noise: Noise = losses.noise
        switches = np.asarray(losses.switches)
        within = switches.ndim == 1 and ((switches >= 0) & (switches < n_episodes)).all()
        if not within or (np.diff(switches) <= 0).any() or (switches.size and switches.dtype.kind not in "iu"):
            raise InvalidInputError(
                f"{self._name}.switches must be increasing episodes in 0 ... {n_episodes - 1}, got {switches.tolist()}"
            )
        self.switches = switches.astype(np.int64)

    def _require(self, wanted: str) -> None:
        if not hasattr(self._losses, wanted):
            raise InvalidInputError(
                "realised losses need noise, switches and mean(k), or respond(k, policy) if they adapt to the "
                f"policies; {self._name} has no {wanted!r}"
            )


class CheckedMeans(_Checked):
    """Losses that are the same for all runs."""

    def __init__(self, losses: Any, shape: tuple[int, int, int], n_episodes: int) -> None:
        super().__init__(losses, n_episodes)
        self._require("mean")
        self._shape = shape

    def mean(self, k: int) -> Array:
        """Return the mean losses (H, S, A) of episode ``k``; raise an InvalidInputError if they are none."""
        means = unit_interval(f"{self._name}.mean({k})", self._losses.mean(k), "h s a")
        if means.shape != self._shape:
            raise InvalidInputError(
                f"{self._name}.mean({k}) must have shape (H, S, A) = {self._shape}, got {means.shape}"
            )
        return means


class CheckedAdversary(_Checked):
    """Losses that adapt to the policies."""

    def respond(self, k: int, policy: Any) -> Any:
        """Return the mean losses (H, S, A, R) of episode ``k``; raise an InvalidInputError if they are none."""
        name = f"{self._name}.respond({k})"
        given, xp = self._losses.respond(k, policy), namespace(policy)
        try:
            means = xp.asarray(given, dtype=xp.float64, copy=True)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{name} must return an array of numbers (H, S, A, R): {error}") from None
        if means.shape != policy.shape:
            raise InvalidInputError(f"{name} must have shape (H, S, A, R) = {policy.shape}, got {means.shape}")
        wrong = ~((means >= 0.0) & (means <= 1.0))  # true for NaN as well
        if bool(xp.any(wrong)):
            where = tuple(int(index[0]) for index in xp.nonzero(wrong))
            raise InvalidInputError(
                f"{name} is {float(means[where]):.6g} at (h, s, a, run) = {where}; it must lie in [0, 1]"
            )
        return means
