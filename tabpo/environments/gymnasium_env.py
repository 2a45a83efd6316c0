"""The Gymnasium environment of a tabular MDP; imported only where Gymnasium is installed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from tabpo.errors import InvalidInputError
from tabpo.mdp import Array, TabularMDP


class TabularEnv(gymnasium.Env):
    """Plays a tabular MDP; made by :func:`tabpo.environments.gymnasium_bridge.to_gymnasium`.

    Parameters
    ----------
    mdp : TabularMDP
    losses : array, (H, S, A), in [0, 1]
    time_in_observation : bool
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, mdp: TabularMDP, losses: Array, time_in_observation: bool = False) -> None:
        self.mdp = mdp
        self.losses = losses
        self.time_in_observation = time_in_observation
        self.action_space = spaces.Discrete(mdp.n_actions)
        self.observation_space = (
            spaces.MultiDiscrete([mdp.horizon, mdp.n_states]) if time_in_observation else spaces.Discrete(mdp.n_states)
        )
        # With a specification, Gymnasium's tools can make further copies of the environment.
        self.spec = EnvSpec(
            "tabpo/Tabular-v0",
            entry_point=f"{__name__}:{TabularEnv.__name__}",
            kwargs={"mdp": mdp, "losses": losses, "time_in_observation": time_in_observation},
        )
        self._step = mdp.horizon
        self._state = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in a state drawn from the initial distribution."""
        super().reset(seed=seed)
        self._step = 0
        self._state = self._draw(self.mdp.initial)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play an action: ``(observation, -loss, terminated, False, {})``."""
        if self._step == self.mdp.horizon:
            raise InvalidInputError("the episode is over (or has not begun); call reset() first")
        if not self.action_space.contains(action):
            raise InvalidInputError(f"action must be an integer in 0..{self.mdp.n_actions - 1}, got {action!r}")
        here = (self._step, self._state, int(action))
        self._step += 1
        terminated = self._step == self.mdp.horizon
        if not terminated:
            self._state = self._draw(self.mdp.transitions[here])
        return self._observation(), -float(self.losses[here]), terminated, False, {}

    def _observation(self) -> Any:
        if self.time_in_observation:
            return np.array([min(self._step, self.mdp.horizon - 1), self._state], dtype=np.int64)
        return self._state

    def _draw(self, probabilities: Array) -> int:
        cumulative = np.cumsum(probabilities)
        # The last possible state's entry is exactly 1, so that no impossible state behind it is ever drawn.
        cumulative[cumulative >= cumulative[-1]] = 1
        return int(np.searchsorted(cumulative, self.np_random.random(), side="right"))
