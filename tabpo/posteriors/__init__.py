"""Conjugate posteriors of tabular models: Dirichlet for transitions, Normal-Gamma for rewards.

Each holds one distribution per *cell* (a pair (s, a), or a triple (s, a, s')) and per run; R runs advance in lockstep,
the run axis is last. Without ``n_runs`` there is one run, and no run axis. A run's numbers depend on its own
observations and its own generator only, bit for bit: not on the runs beside it.

They are what posterior sampling (Osband, Russo, Van Roy 2013) and conservative dual policy optimization (Zhang 2022)
draw their models from. NumPy only, as random numbers are.
"""

from tabpo.posteriors.dirichlet import Dirichlet
from tabpo.posteriors.normal_gamma import NormalGamma, NormalGammaParameters, StudentT

__all__ = ["Dirichlet", "NormalGamma", "NormalGammaParameters", "StudentT"]
