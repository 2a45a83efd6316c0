"""One look per learner, the same in every figure.

Colours are mostly those of Okabe and Ito (2008) and of Tol's muted scheme (2021), told apart with the common colour
vision deficiencies; line styles and markers tell the learners apart in greyscale.
"""

from __future__ import annotations

import colorsys
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
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
    "bobw_tsallis": Look("#CC3311", SOLID, "o", filled=True),
    "bobw_shannon": Look("#33BBEE", DASHED, "s", filled=True),
    "bobw_log_barrier": Look("#228833", DASH_DOT, "^", filled=True),
    "dilated_bonus_po": Look("#AA3377", LONG_DASHED, "D", filled=True),
    "d_oppo": Look("#D55E00", DASHED, "s"),
    "o_reps": Look("#009E73", DASH_DOT, "^"),
    "uob_reps": Look("#66CCAA", LONG_DASHED, "v", filled=True),
    "uob_ftrl": Look("#225555", DASH_DOT_DOT, ">", filled=True),
    "delayed_hedge": Look("#CC79A7", LONG_DASHED, "D"),
    "pomd": Look("#DDAA33", DASHED, "p", filled=True),
    "oppo": Look("#775500", DASH_DOT, "h", filled=True),
    "ucbvi": Look("#555555", SOLID, "d", filled=True),
    "ucrl2": Look("#AAAAAA", DASHED, "P", filled=True),
    "uniform": Look("#767676", DOTTED, "x"),
    "optimal": Look("#000000", DASH_DOT_DOT, "*"),
}
"""The built-in learners' looks; they are part of what a reader learns from a paper, and do not change."""

ABLATIONS: dict[tuple[str, str, bool], Look] = {
    ("dapo", "adapt", False): Look("#E69F00", DASHED, "v"),
    ("dapo", "bonus", False): Look("#882255", DASH_DOT, "P"),
    ("dapo", "implicit_exploration", False): Look("#117733", LONG_DASHED, "d"),
    ("dapo", "dilation", True): Look("#44AA99", DASH_DOT_DOT, ">"),
    ("bobw_tsallis", "adapt", False): Look("#EF8A62", DASHED, "v", filled=True),
}
"""The looks of a learner with one part switched off or on: (learner, parameter, value)."""

_SAID: dict[str, tuple[str, str, bool]] = {
    "no ratio": ("dapo", "adapt", False),
    "no delay-adapted ratio": ("dapo", "adapt", False),
    "no bonus": ("dapo", "bonus", False),
    "no ix": ("dapo", "implicit_exploration", False),
    "no implicit exploration": ("dapo", "implicit_exploration", False),
    "dilated": ("dapo", "dilation", True),
    "dilated bonus": ("dapo", "dilation", True),
}
"""What labels call the ablations, where nothing but the label is known."""

SPARE: tuple[Look, ...] = (
    Look("#56B4E9", DASH_DOT, "<"),
    Look("#999933", LONG_DASHED, "p"),
    Look("#332288", DASH_DOT_DOT, "h"),
    Look("#AA4499", DASHED, "H"),
    Look("#661100", DASH_DOT, "X"),
    Look("#7B5FC0", SOLID, "8"),
    Look("#CC6677", LONG_DASHED, "^"),
    Look("#A6761D", DASH_DOT_DOT, "D"),
    Look("#BBCC33", DASHED, "s"),
    Look("#EE3377", SOLID, "v"),
)
"""Looks of all other learners and settings: each name has its own first choice."""

_LINES = (SOLID, DASHED, DASH_DOT, LONG_DASHED, DASH_DOT_DOT, DOTTED)


@dataclass(frozen=True)
class _Entry:
    """A learner but for the numbers that a grid runs over: what has a hue of its own."""

    kind: str
    name: str
    switched: frozenset[tuple[str, bool]]


def looks(
    labels: Iterable[str],
    kinds: Iterable[str] | None = None,
    settings: Iterable[Mapping[str, Any]] | None = None,
) -> dict[str, Look]:
    """Return the look of each learner label.

    A built-in learner (``"dapo"``) always has its own, and so has each of its ablations. Points of a grid of numbers
    over one learner (``"dapo (step_size=0.1)"``) share its hue and marker and differ in lightness, line and filling.
    Any other learner, and a second setting of a built-in one, takes the spare look that its name's hash points to, so
    that it keeps it from figure to figure unless two such names in one figure collide.

    Parameters
    ----------
    labels : iterable of str
        Learner labels; the order does not matter.
    kinds : iterable of str, optional
        The registered name of each label's learner, where labels say something else.
    settings : iterable of mappings, optional
        Each label's parameters, such as ``{"learner.adapt": False}``; they, and not labels, then tell the ablations.
    """
    listed = list(labels)
    all_kinds = list(kinds) if kinds is not None else listed
    all_settings = list(settings) if settings is not None else [{} for _ in listed]
    entries = {
        label: _entry(label, kind, told) for label, kind, told in zip(listed, all_kinds, all_settings, strict=True)
    }
    members: dict[_Entry, list[str]] = {}
    for label in sorted(entries, key=_in_order):
        members.setdefault(entries[label], []).append(label)
    bases = _bases(list(members))
    return {
        label: _variant(bases[entry], place, len(inside))
        for entry, inside in members.items()
        for place, label in enumerate(inside)
    }


def without_values(label: str, *keys: str) -> str:
    """Return a label without the grid values that it ends in: all the numbers, or those of the keys.

    ``"dapo (adapt=false, step_size=0.1)"`` becomes ``"dapo (adapt=false)"``.
    """
    found = _VALUES.fullmatch(label)
    if not found:
        return label
    pairs = [one.split("=", 1) for one in found["values"].split(", ")]
    kept = [f"{key}={value}" for key, value in pairs if (key not in keys if keys else not _is_number(value))]
    return f"{found['name']} ({', '.join(kept)})" if kept else found["name"]


_VALUES = re.compile(r"(?P<name>.*\S) \((?P<values>\w+=[^,()]*(, \w+=[^,()]*)*)\)")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _in_order(label: str) -> tuple[Any, ...]:
    """Return a sorting key under which ``step_size=2`` precedes ``step_size=10``."""
    parts = re.split(r"(?<==)([^,()]*)", label)
    return tuple((0, float(part), "") if _is_number(part) else (1, 0.0, part) for part in parts)


def _entry(label: str, kind: str, settings: Mapping[str, Any]) -> _Entry:
    name = without_values(label)
    if _is_text(settings.get("learner.source")):  # a user's class, whatever it is called
        return _Entry("", name, frozenset())
    built_in = kind if kind in LOOKS else ""
    if kind == label:
        built_in = next((one for one in (_plain(name), _plain(re.split("[ ,(]", name)[0])) if one in LOOKS), "")
    switched = set()
    for learner, parameter, value in ABLATIONS:
        told = settings.get(f"learner.{parameter}")
        given = isinstance(told, (bool, np.bool_)) and bool(told) == value
        if built_in in (learner, "") and (given or f"{parameter}={str(value).lower()}" in label):
            switched.add((parameter, value))
    said = _SAID.get(name.lower())
    if said and not settings and kind in (label, said[0]):
        built_in, switched = said[0], {said[1:]}
    return _Entry(built_in or ("" if kind == label else kind), name, frozenset(switched if built_in else ()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def _bases(entries: list[_Entry]) -> dict[_Entry, Look]:
    bases: dict[_Entry, Look] = {}
    for kind in LOOKS:
        for entry in _plainest(one for one in entries if one.kind == kind and not one.switched):
            bases[entry] = LOOKS[kind]
    for key, look in ABLATIONS.items():
        for entry in _plainest(one for one in entries if one.kind == key[0] and one.switched == {key[1:]}):
            bases[entry] = look
    taken: dict[int, int] = {}
    for entry in sorted(entries, key=lambda one: one.name):
        if entry in bases:
            continue
        first = int.from_bytes(hashlib.sha256(entry.name.encode()).digest()[:8], "big")
        wanted = [(first + step) % len(SPARE) for step in range(len(SPARE))]
        place = min(wanted, key=lambda one: taken.get(one, 0))
        turn = taken[place] = taken.get(place, 0) + 1
        # More than ten: another line of the same colour, rather than colours that nobody can tell apart.
        line = _LINES[(_LINES.index(SPARE[place].line) + 2 * (turn - 1)) % len(_LINES)]
        bases[entry] = replace(SPARE[place], line=line, filled=turn % 2 == 0)
    return bases


def _plainest(entries: Iterable[_Entry]) -> list[_Entry]:
    """Return the entry that has the learner's own look, if any: the one named as the learner, else the shortest."""
    ranked = sorted(entries, key=lambda one: (_plain(one.name) != one.kind, len(one.name), one.name))
    return ranked[:1]


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
