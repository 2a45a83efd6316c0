"""Environments: the MDP zoo, loss sequences, delay laws, and the Gymnasium bridge."""

from tabpo.environments.delays import (
    DELAYS,
    AdversarialDelays,
    ArrayDelays,
    BurstDelays,
    DelayLaw,
    FixedDelays,
    GeometricDelays,
    NoDelays,
    ParetoDelays,
    PoissonDelays,
    UniformDelays,
)
from tabpo.environments.delays_file import FileDelays
from tabpo.environments.environment import Environment, RealisedEnvironment
from tabpo.environments.gymnasium_bridge import gymnasium_mdp, to_gymnasium
from tabpo.environments.losses import (
    LOSSES,
    ArrayLosses,
    BernoulliLosses,
    CorruptedLosses,
    EnvironmentLosses,
    FileLosses,
    HardLosses,
    LossSequence,
    RandomWalkLosses,
    RealisedLosses,
    SinusoidalLosses,
    SwitchingLosses,
)
from tabpo.environments.zoo import MDPS

__all__ = [
    "DELAYS",
    "LOSSES",
    "MDPS",
    "AdversarialDelays",
    "ArrayDelays",
    "ArrayLosses",
    "BernoulliLosses",
    "BurstDelays",
    "CorruptedLosses",
    "DelayLaw",
    "Environment",
    "EnvironmentLosses",
    "FileDelays",
    "FileLosses",
    "FixedDelays",
    "GeometricDelays",
    "HardLosses",
    "LossSequence",
    "NoDelays",
    "ParetoDelays",
    "PoissonDelays",
    "RandomWalkLosses",
    "RealisedEnvironment",
    "RealisedLosses",
    "SinusoidalLosses",
    "SwitchingLosses",
    "UniformDelays",
    "gymnasium_mdp",
    "to_gymnasium",
]
