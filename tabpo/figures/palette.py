"""One look per learner, the same in every figure.

Colours are those of Okabe and Ito (2008) and of Tol's muted scheme (2021), told apart with the common colour
vision deficiencies; line styles and markers tell the learners apart in greyscale.
"""

from __future__ import annotations

import colorsys
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.colors import to_hex, to_rgb

SOLID: Any = "-"
DASHED: Any = (0, (4, 1.5))
DOTTED: Any = (0, (1, 1.2))
DASH_DOT: Any = (0, (5, 1.2, 1, 1.2))
LONG_DASHED: Any = (0, (7, 1.5))
DASH_DOT_DOT: Any = (0, (5, 1.2, 1, 1.2, 1, 1.2))


@dataclass(frozen=True)
class Look:
    """How a learner's curve is drawn.

    Attributes
    ----------
    colour : str
        Hexadecimal.
    line : str or dash pattern
        In matplotlib's terms.
    marker : str
    filled : bool
        Whether the marker is.
    """

    colour: str
    line: Any
    marker: str
    filled: bool = False

    def line_style(self) -> dict[str, Any]:
        """Return keyword arguments of a line."""
        return {
            "color": self.colour,
            "linestyle": self.line,
            "marker": self.marker,
            "markerfacecolor": self.colour if self.filled else "white",
            "markeredgecolor": self.colour,
        }


LOOKS: dict[str, Look] = {
    "dapo": Look("#0072B2", SOLID, "o"),
    "d_oppo": Look("#D55E00", DASHED, "s"),
    "o_reps": Look("#009E73", DASH_DOT, "^"),
    "delayed_hedge": Look("#CC79A7", LONG_DASHED, "D"),
    "uniform": Look("#767676", DOTTED, "x"),
    "optimal": Look("#000000", DASH_DOT_DOT, "*"),
}
"""The built-in learners' looks; they are part of what a reader learns from a paper, and do not change."""

SPARE: tuple[Look, ...] = (
    Look("#E69F00", DASHED, "v"),
    Look("#56B4E9", DASH_DOT, "P"),
    Look("#882255", SOLID, "p"),
    Look("#999933", LONG_DASHED, "<"),
    Look("#332288", DASH_DOT, "h"),
    Look("#44AA99", DASHED, ">"),
    Look("#AA4499", DASH_DOT_DOT, "d"),
    Look("#661100", SOLID, "X"),
    Look("#117733", DOTTED, "8"),
    Look("#7B5FC0", LONG_DASHED, "H"),
)
"""Looks of learners that are not built in: each name has its own first choice."""

_LINES = (SOLID, DASHED, DASH_DOT, LONG_DASHED, DASH_DOT_DOT, DOTTED)


def looks(labels: Iterable[str], kinds: Iterable[str] | None = None) -> dict[str, Look]:
    """Return the look of each learner label.

    A built-in learner (``"dapo"``) always has its own. Points of a grid over one learner (``"dapo
    step_size=0.1"``) share its hue and marker and differ in lightness, line and filling. Another name takes
    the spare look that its hash points to, so that it keeps it from figure to figure unless two such names in
    one figure collide.

    Parameters
    ----------
    labels : iterable of str
        Learner labels; the order does not matter.
    kinds : iterable of str, optional
        The registered name of each label's learner, where labels say something else.
    """
    listed = list(labels)
    kind_of = dict(zip(listed, kinds if kinds is not None else listed, strict=True))
    families: dict[str, list[str]] = {}
    for label in sorted(kind_of):
        families.setdefault(_family(label, kind_of[label]), []).append(label)
    bases = _bases(sorted(families))
    found: dict[str, Look] = {}
    for family, members in families.items():
        for place, label in enumerate(members):
            found[label] = _variant(bases[family], place, len(members))
    return found


def _family(label: str, kind: str) -> str:
    for name in (kind, label.split(" ")[0].split(",")[0].split("(")[0]):
        name = name.lower().replace("-", "_")
        if name in LOOKS:
            return name
    return kind if kind != label else label.split(" ")[0]


def _bases(families: list[str]) -> dict[str, Look]:
    bases = {family: LOOKS[family] for family in families if family in LOOKS}
    free = list(SPARE)
    for family in families:
        if family in bases:
            continue
        free = free or list(SPARE)  # more than ten: repeat, rather than invent colours nobody can tell apart
        first = int.from_bytes(hashlib.sha256(family.encode()).digest()[:8], "big") % len(SPARE)
        wanted = [SPARE[(first + step) % len(SPARE)] for step in range(len(SPARE))]
        bases[family] = next(look for look in wanted if look in free)
        free.remove(bases[family])
    return bases


def _variant(base: Look, place: int, n_members: int) -> Look:
    if n_members == 1:
        return base
    hue, lightness, saturation = colorsys.rgb_to_hls(*to_rgb(base.colour))
    darkest, lightest = min(0.22, lightness), max(0.68, lightness)
    lightness = darkest + (lightest - darkest) * place / (n_members - 1)
    return replace(
        base,
        colour=to_hex(colorsys.hls_to_rgb(hue, lightness, saturation)),
        line=_LINES[place % len(_LINES)],
        filled=place % 2 == 1,
    )
