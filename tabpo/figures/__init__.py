"""Figures and tables for papers, from stored results or plain arrays."""

from tabpo.figures.canvas import PaperFigure, save, style
from tabpo.figures.curves import Curve
from tabpo.figures.delay import delay_slopes, regret_against_delay
from tabpo.figures.kinds import KINDS, draw
from tabpo.figures.mosaic import Panel, mosaic
from tabpo.figures.regret import per_episode_regret, regret
from tabpo.figures.sequences import delay_law, loss_sequence
from tabpo.figures.setting import regret_against_setting, setting_slopes
from tabpo.figures.structure import structure
from tabpo.figures.tables import final_table, render

__all__ = [
    "KINDS",
    "Curve",
    "Panel",
    "PaperFigure",
    "delay_law",
    "delay_slopes",
    "draw",
    "final_table",
    "loss_sequence",
    "mosaic",
    "per_episode_regret",
    "regret",
    "regret_against_delay",
    "regret_against_setting",
    "render",
    "save",
    "setting_slopes",
    "structure",
    "style",
]
