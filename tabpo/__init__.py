"""tabpo: provable policy optimization in tabular and linear MDPs, with exact regret.

Public names are imported at their first use, so that ``import tabpo`` is quick and needs no optional part.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tabpo import (
        confidence,
        environments,
        estimators,
        figures,
        kernels,
        learners,
        planning,
        posteriors,
        regularizers,
        statistics,
        sweep,
        theory,
    )
    from tabpo.environments import Environment
    from tabpo.errors import InvalidInputError, MissingPartError, TabpoError
    from tabpo.mdp import LossMap, TabularMDP
    from tabpo.simulation import SimulationResult, simulate
    from tabpo.sweep import open_results, run_experiment

_MODULES = (
    "confidence",
    "environments",
    "estimators",
    "figures",
    "kernels",
    "learners",
    "planning",
    "posteriors",
    "regularizers",
    "statistics",
    "sweep",
    "theory",
)
_NAMES = {
    "Environment": "tabpo.environments",
    "InvalidInputError": "tabpo.errors",
    "LossMap": "tabpo.mdp",
    "MissingPartError": "tabpo.errors",
    "SimulationResult": "tabpo.simulation",
    "TabpoError": "tabpo.errors",
    "TabularMDP": "tabpo.mdp",
    "open_results": "tabpo.sweep",
    "run_experiment": "tabpo.sweep",
    "simulate": "tabpo.simulation",
}

__all__ = [
    "Environment",
    "InvalidInputError",
    "LossMap",
    "MissingPartError",
    "SimulationResult",
    "TabpoError",
    "TabularMDP",
    "__version__",
    "confidence",
    "environments",
    "estimators",
    "figures",
    "kernels",
    "learners",
    "open_results",
    "planning",
    "posteriors",
    "regularizers",
    "run_experiment",
    "simulate",
    "statistics",
    "sweep",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tabpo.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'tabpo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
