"""An environment: an MDP, the losses of its episodes and the delays of their feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.environments.delays import DELAYS, ArrayDelays, DelayLaw, FixedDelays, whole_delays
from tabpo.environments.losses import LOSSES, ArrayLosses, EnvironmentLosses
from tabpo.environments.losses_base import Adversary, LossSequence, RealisedLosses
from tabpo.environments.losses_checked import checked
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
    losses : RealisedLosses or Adversary
        Oblivious and shared by all runs; or an adversary that answers each run's policies.
    delays : int64, (K,), at least 0
        Feedback of episode k arrives at the end of episode ``k + delays[k]``; after episode K - 1, never.
    trajectories : "immediate" or "delayed"
    n_episodes : int
    """

    mdp: TabularMDP
    losses: RealisedLosses | Adversary
    delays: NDArray[np.int64]
    trajectories: Trajectories
    n_episodes: int


@dataclass(frozen=True, eq=False)
class Environment:
    """An MDP with a loss sequence and a delay law.

    Parameters
    ----------
    mdp : TabularMDP
    losses : loss sequence or array-like, optional
        An array (H, S, A) holds for every episode, an array (K, H, S, A) has one for each; entries in [0, 1]. The
        MDP's own losses if None.
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
    losses: LossSequence | ArrayLike | None = None
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
        object.__setattr__(self, "losses", _loss_sequence(self.losses, self.mdp))
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
        if not type(losses).__module__.startswith("tabpo."):
            losses = checked(losses, self.mdp.shape, n_episodes)
        delays = self.delays.realise(n_episodes, stream(seed, Purpose.DELAYS), losses.switches)  # type: ignore[union-attr]
        delays = whole_delays(delays, f"the delay that {type(self.delays).__name__} returns")
        if len(delays) != n_episodes:
            raise InvalidInputError(
                f"{type(self.delays).__name__}.realise must return {n_episodes} delays, it returned {len(delays)}"
            )
        return RealisedEnvironment(self.mdp, losses, delays, self.trajectories, n_episodes)


def _loss_sequence(given: LossSequence | ArrayLike | None, mdp: TabularMDP) -> LossSequence:
    if given is None:
        return EnvironmentLosses()
    if _is_recipe("losses", given, tuple(DELAYS.values())):
        return given  # type: ignore[return-value]
    losses = ArrayLosses(given)  # type: ignore[arg-type]
    losses.realise(mdp, 1, np.random.default_rng(0))  # says now what does not fit
    return losses


def _delay_law(given: DelayLaw | int | ArrayLike) -> DelayLaw:
    if _is_recipe("delays", given, tuple(LOSSES.values())):
        return given  # type: ignore[return-value]
    if np.ndim(given) == 0:  # type: ignore[arg-type]
        return FixedDelays(given)  # type: ignore[arg-type]
    return ArrayDelays(given)  # type: ignore[arg-type]


def _is_recipe(name: str, given: object, others: tuple[Any, ...]) -> bool:
    if isinstance(given, others):
        raise InvalidInputError(f"{name} got a {type(given).__name__}; were losses and delays swapped?")
    if isinstance(given, type):
        raise InvalidInputError(
            f"{name} must be an object, got the class {given.__name__}; write {given.__name__}(...)"
        )
    if isinstance(given, str):
        raise InvalidInputError(f"{name} must be an object or an array, got the name {given!r}")
    return callable(getattr(given, "realise", None))
