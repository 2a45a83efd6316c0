"""tabpo: provable policy optimization in tabular and linear MDPs."""

__version__ = "0.1.0"
