"""Environments: the MDP zoo, loss sequences, delay laws, and the Gymnasium bridge."""

from tabpo.environments.delays import DELAYS
from tabpo.environments.environment import Environment, RealisedEnvironment
from tabpo.environments.gymnasium_bridge import gymnasium_mdp, to_gymnasium
from tabpo.environments.losses import LOSSES
from tabpo.environments.zoo import MDPS

__all__ = [
    "DELAYS",
    "LOSSES",
    "MDPS",
    "Environment",
    "RealisedEnvironment",
    "gymnasium_mdp",
    "to_gymnasium",
]
