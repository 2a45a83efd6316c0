"""The sheet that every figure is drawn on: its sizes, its style, and how it is saved."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import matplotlib
import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from tabpo.errors import InvalidInputError, unknown

Width = Literal["one-column", "two-column"]

WIDTHS: dict[str, float] = {"one-column": 3.25, "two-column": 6.75}
"""Widths in inches of a column and of the page in two-column papers."""

FORMATS = ("pdf", "png", "svg", "eps")


class PaperFigure(Figure):
    """A matplotlib figure that remembers its style and carries the sentences for its caption.

    It is drawn without pyplot: no window, no global list of figures, and no backend to choose. Notebooks show
    it.

    Attributes
    ----------
    caption : str
        What is shown, over how many runs, and which interval.
    """

    caption: str = ""

    def _repr_png_(self) -> bytes:
        with style():
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=150)
            return buffer.getvalue()


def style() -> AbstractContextManager[None]:
    """Return the context in which tabpo's figures are drawn and saved; outside it matplotlib is as it was."""
    sheet = files("tabpo.figures").joinpath("tabpo.mplstyle")
    context: AbstractContextManager[None] = matplotlib.style.context(["default", str(sheet)])
    return context


def inches(width: Width | float) -> float:
    """Return a width in inches; ``"one-column"`` is 3.25, ``"two-column"`` 6.75."""
    if isinstance(width, str):
        if width not in WIDTHS:
            raise unknown("figure width", width, WIDTHS)
        return WIDTHS[width]
    if not math.isfinite(width) or not 1 <= width <= 40:
        raise InvalidInputError(f"a figure's width must lie between 1 and 40 inches, got {width!r}")
    return float(width)


def new_figure(width: float, height: float) -> PaperFigure:
    """Return an empty figure of a size in inches; call it inside :func:`style`."""
    figure = PaperFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def legends_below(figure: Figure, *groups: Sequence[Artist]) -> float:
    """Put legends for all panels under them, one below the other, each in as many columns as fit.

    The figure grows by their height, so that the panels keep theirs. Returns the middle of the panels' part,
    as a share of the figure's height.
    """
    taken = 0.03
    height = figure.get_figheight()
    for handles in reversed([list(group) for group in groups if group]):
        legend = _widest_legend(figure, handles)
        box = legend.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        legend.set_bbox_to_anchor((0, taken, figure.get_figwidth(), box.height), figure.dpi_scale_trans)
        taken += box.height
    figure.set_figheight(height + taken)
    share = taken / figure.get_figheight()
    figure.set_layout_engine("constrained", rect=(0, share, 1, 1 - share))
    return (1 + share) / 2


def _widest_legend(figure: Figure, handles: list[Artist]) -> Legend:
    for n_rows in range(1, len(handles) + 1):
        columns = math.ceil(len(handles) / n_rows)
        legend = figure.legend(handles=handles, ncols=columns, loc="center", borderaxespad=0)
        if columns == 1 or legend.get_window_extent().width <= 0.98 * figure.bbox.width:
            return legend
        legend.remove()
    raise AssertionError("a single column is always taken")


def save(figure: Figure, path: str | os.PathLike[str]) -> list[Path]:
    """Write a figure: PDF (vector, embedded TrueType fonts) and PNG (300 dots per inch).

    Parameters
    ----------
    figure : Figure
    path : path
        With a suffix (``.pdf``, ``.png``, ``.svg``, ``.eps``) that file is written, without one both the PDF
        and the PNG of that name. Each appears whole or not at all.

    Returns
    -------
    list of Path
        The files written. Their bytes are the same for the same figure: no dates inside.

    Raises
    ------
    InvalidInputError
        If the suffix is another or the folder does not exist.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InvalidInputError(f"the folder {path.parent} for the figure does not exist; create it first")
    suffix = path.suffix.lower()
    if suffix.lstrip(".") in FORMATS:
        targets = [path]
    elif suffix and not suffix[1:].isdigit():
        raise InvalidInputError(f"a figure cannot be written as {suffix!r} (known: {', '.join(FORMATS)})")
    else:  # "regret" and "gap0.2" have no suffix
        targets = [path.with_name(path.name + ".pdf"), path.with_name(path.name + ".png")]
    for target in targets:
        _write(figure, target)
    return targets


def _write(figure: Figure, target: Path) -> None:
    kind = target.suffix.lower().lstrip(".")
    all_metadata: dict[str, dict[str, Any]] = {
        "pdf": {"CreationDate": None, "Producer": None, "Creator": "tabpo"},
        "svg": {"Date": None, "Creator": "tabpo"},
        "png": {"Software": "tabpo"},
        "eps": {"Creator": "tabpo"},
    }
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with style(), matplotlib.rc_context({"svg.hashsalt": "tabpo"}):
            figure.savefig(temporary, format=kind, metadata=all_metadata[kind])
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
