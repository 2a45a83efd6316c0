"""Figures and tables for papers, from stored results or plain arrays."""

from tabpo.figures.canvas import PaperFigure, save, style
from tabpo.figures.curves import Curve
from tabpo.figures.delay import delay_slopes, regret_against_delay
from tabpo.figures.regret import per_episode_regret, regret

__all__ = [
    "Curve",
    "PaperFigure",
    "delay_slopes",
    "per_episode_regret",
    "regret",
    "regret_against_delay",
    "save",
    "style",
]
