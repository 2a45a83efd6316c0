"""Bandits: learners for problems of one step and one state (H = S = 1), whose actions are the arms."""

from tabpo.learners.bandits.exp3 import EXP3, EXP3Parameters
from tabpo.learners.bandits.exp3_p import EXP3P, EXP3PParameters
from tabpo.learners.bandits.tsallis_inf import TsallisINF, TsallisINFParameters
from tabpo.learners.bandits.ucb1 import UCB1, UCB1Parameters

__all__ = [
    "EXP3",
    "EXP3P",
    "UCB1",
    "EXP3PParameters",
    "EXP3Parameters",
    "TsallisINF",
    "TsallisINFParameters",
    "UCB1Parameters",
]
