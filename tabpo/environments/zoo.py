"""The MDP zoo: every MDP that comes with the package, under the name that configs use.

Each function returns a validated :class:`~tabpo.mdp.TabularMDP` with its own expected losses (H, S, A) in [0,
1]; what is random about an MDP is drawn from its ``seed``.
"""

from __future__ import annotations

from collections.abc import Callable

from tabpo.environments.gymnasium_bridge import gymnasium_mdp
from tabpo.environments.zoo_chains import combination_lock, exploration_chain, n_chain, river_swim
from tabpo.environments.zoo_grids import deep_sea, grid_world
from tabpo.environments.zoo_random import layered, random_mdp, two_state
from tabpo.mdp import TabularMDP

MDPS: dict[str, Callable[..., TabularMDP]] = {
    "combination_lock": combination_lock,
    "deep_sea": deep_sea,
    "exploration_chain": exploration_chain,
    "grid_world": grid_world,
    "gymnasium": gymnasium_mdp,
    "layered": layered,
    "n_chain": n_chain,
    "random": random_mdp,
    "river_swim": river_swim,
    "two_state": two_state,
}

__all__ = [
    "MDPS",
    "combination_lock",
    "deep_sea",
    "exploration_chain",
    "grid_world",
    "gymnasium_mdp",
    "layered",
    "n_chain",
    "random_mdp",
    "river_swim",
    "two_state",
]
