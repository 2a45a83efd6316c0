"""An environment: an MDP, the losses of its episodes and the delays of their feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.environments.delays import ArrayDelays, DelayLaw, FixedDelays, NoDelays
from tabpo.environments.losses import ArrayLosses, LossSequence, RealisedLosses
from tabpo.errors import InvalidInputError, unknown
from tabpo.mdp import TabularMDP, positive_integer
from tabpo.streams import Purpose, stream

Trajectories = Literal["immediate", "delayed"]


@dataclass(frozen=True, eq=False)
class RealisedEnvironment:
    """What all runs of a simulation meet: K episodes of losses and delays, drawn once.

    Attributes
    ----------
    mdp : TabularMDP
    losses : RealisedLosses
    delays : int64, (K,), at least 0
        Feedback of episode k arrives at the end of episode ``k + delays[k]``; after episode K - 1, never.
    trajectories : "immediate" or "delayed"
    n_episodes : int
    """

    mdp: TabularMDP
    losses: RealisedLosses
    delays: NDArray[np.int64]
    trajectories: Trajectories
    n_episodes: int


@dataclass(frozen=True, eq=False)
class Environment:
    """An MDP with a loss sequence and a delay law.

    Parameters
    ----------
    mdp : TabularMDP
    losses : loss sequence or array-like
        An array (H, S, A) holds for every episode, an array (K, H, S, A) has one for each; entries in [0, 1].
    delays : delay law, int or array-like
        An int is the delay of every episode, an array (K,) has one for each; in episodes.
    trajectories : "immediate" or "delayed"
        Is a trajectory seen at the end of its episode, or only with its losses.
    seed : int, optional
        Of the losses and delays; the simulation's seed if None.

    Raises
    ------
    InvalidInputError
        If an argument does not fit the others; the sentence names it.
    """

    mdp: TabularMDP
    losses: LossSequence | ArrayLike
    delays: DelayLaw | int | ArrayLike = 0
    trajectories: Trajectories = "immediate"
    seed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mdp, TabularMDP):
            raise InvalidInputError(f"mdp must be a TabularMDP, got a {type(self.mdp).__name__}")
        if self.trajectories not in get_args(Trajectories):
            raise unknown("trajectories", self.trajectories, get_args(Trajectories))
        if self.seed is not None:
            positive_integer("seed", self.seed, at_least=0)
        object.__setattr__(self, "losses", _loss_sequence(self.losses))
        object.__setattr__(self, "delays", _delay_law(self.delays))

    def realise(self, n_episodes: int, seed: int) -> RealisedEnvironment:
        """Return the losses and delays of ``n_episodes`` episodes.

        Parameters
        ----------
        n_episodes : int, at least 1
        seed : int, at least 0
            Used where the environment has no seed of its own.
        """
        n_episodes = positive_integer("n_episodes", n_episodes)
        seed = seed if self.seed is None else self.seed
        losses = self.losses.realise(self.mdp, n_episodes, stream(seed, Purpose.LOSSES))  # type: ignore[union-attr]
        delays = self.delays.realise(n_episodes, stream(seed, Purpose.DELAYS), losses.switches)  # type: ignore[union-attr]
        return RealisedEnvironment(self.mdp, losses, delays, self.trajectories, n_episodes)


def _loss_sequence(given: LossSequence | ArrayLike) -> LossSequence:
    return given if hasattr(given, "realise") else ArrayLosses(given)  # type: ignore[return-value]


def _delay_law(given: DelayLaw | int | ArrayLike) -> DelayLaw:
    if hasattr(given, "realise"):
        return given  # type: ignore[return-value]
    if np.ndim(given) == 0:
        return NoDelays() if given is None else FixedDelays(given)  # type: ignore[arg-type]
    return ArrayDelays(given)
