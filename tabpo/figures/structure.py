"""Drawings of a tabular MDP: its graph, or, where that has too many arrows, its matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError
from tabpo.figures.arrows import bend_around, draw_arrow, draw_loop, free_direction
from tabpo.figures.canvas import PaperFigure, Width, inches, legends_below, new_figure, style
from tabpo.figures.curves import note_handles
from tabpo.mdp import TabularMDP

Array = NDArray[np.float64]

ACTION_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933")
EVERY_ACTION = "#555555"
MOST_STATES, MOST_ARROWS, MOST_PER_STATE = 60, 700, 14
LONGEST_GAP = 0.75
RADIUS = 0.27
LOSSES = LinearSegmentedColormap.from_list("losses", ["#FFFFFF", "#B0B0B0"])
PROBABILITIES = LinearSegmentedColormap.from_list("probability", ["#C6DDF0", "#4F9BD0", "#0B4F83", "#03192E"])
"""Readable in greyscale: dark for likely. What is impossible stays white."""


@dataclass(frozen=True, eq=False)
class _Seen:
    """An MDP without its time steps, as the uniformly random policy meets it.

    Parameters
    ----------
    transitions : (S, A, S)
        Mean over the steps, weighted by how often the policy is in the state; 0 in states that it never
        leaves from.
    occupancy : (H, S)
    losses : (S,) or None
        Mean over actions and steps, weighted likewise; NaN in states that are never met.
    varies : bool
        Whether transitions or losses depend on the step.
    """

    transitions: Array
    occupancy: Array
    losses: Array | None
    varies: bool


def structure(
    mdp: TabularMDP, *, kind: Literal["auto", "graph", "matrix"] = "auto", width: Width | float | None = None
) -> PaperFigure:
    """Return a drawing of an MDP.

    A graph has a node per state, grey by its mean loss, a ring around initial states, and an arrow per
    (state, action, next state), coloured by the action and as wide as it is probable; where every action does
    the same, one grey arrow stands for all. Nodes lie at ``mdp.positions``, or where a deterministic layout
    puts them. With more than 60 states (more if they have positions and few arrows), or more than 14 arrows per state,
    the figure shows the transition matrix and the occupancy over the steps instead, both of the uniformly random
    policy.

    What depends on the step is averaged, weighted by how often the uniformly random policy is in the state.

    Parameters
    ----------
    mdp : TabularMDP
    kind : "auto", "graph" or "matrix"
    width : "one-column" (3.25 in), "two-column" (6.75 in) or inches

    Raises
    ------
    InvalidInputError
        If the kind or the width is unknown.
    """
    if kind not in ("auto", "graph", "matrix"):
        raise InvalidInputError(f"kind must be 'auto', 'graph' or 'matrix', got {kind!r}")
    seen = _seen(mdp)
    n_arrows = int((seen.transitions > 0).sum())
    few = mdp.n_states <= MOST_STATES or (mdp.positions is not None and mdp.n_states <= 2 * MOST_STATES)
    few &= n_arrows <= min(MOST_ARROWS, MOST_PER_STATE * mdp.n_states)
    graph = few if kind == "auto" else kind == "graph"
    with style():
        figure = _graph(mdp, seen, width) if graph else _matrices(mdp, seen, width)
    steps = (
        "mean over the steps, weighted by the uniform policy's occupancy" if seen.varies else "the same at each step"
    )
    figure.caption = f"{mdp.name}: {mdp.n_states} states, {mdp.n_actions} actions, horizon {mdp.horizon}; {steps}."
    return figure


def _seen(mdp: TabularMDP) -> _Seen:
    p, n_steps = mdp.transitions, mdp.horizon
    occupancy = np.empty((n_steps, mdp.n_states))
    occupancy[0] = mdp.initial
    for h in range(n_steps - 1):
        occupancy[h + 1] = occupancy[h] @ p[h].mean(1)
    leaving = occupancy[: max(n_steps - 1, 1)]  # the last step's transitions are never used
    total = leaving.sum(0)
    mean = np.einsum("hs,hsat->sat", leaving, p[: len(leaving)])
    mean = np.divide(mean, total[:, None, None], out=np.zeros_like(mean), where=total[:, None, None] > 0)
    varies = bool((p[: len(leaving)] != p[0]).any())
    losses = None
    if mdp.losses is not None:
        sums, met = np.einsum("hs,hsa->s", occupancy, mdp.losses) / mdp.n_actions, occupancy.sum(0)
        losses = np.divide(sums, met, out=np.full(mdp.n_states, np.nan), where=met > 0)
        varies |= bool((mdp.losses != mdp.losses[0]).any())
    return _Seen(mean, occupancy, losses, varies)


def _graph(mdp: TabularMDP, seen: _Seen, width: Width | float | None) -> PaperFigure:
    where = _positions(mdp, seen)
    total = inches(width if width is not None else "one-column" if mdp.n_states <= 16 else "two-column")
    drawing = total - (0.6 if seen.losses is not None else 0.1)
    scale = min(LONGEST_GAP, drawing / (np.ptp(where[:, 0]) + 1.2))  # inches between neighbours
    figure = new_figure(total, total)
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.set_axis_off()
    handles = _draw_arrows(axes, mdp, seen, where, scale)
    norm = Normalize(0, max(1e-12, float(np.nanmax(seen.losses))) if seen.losses is not None else 1)
    _draw_nodes(axes, mdp, seen, where, norm, scale)
    _fit(figure, axes, drawing)
    if seen.losses is not None:
        _colour_bar(figure, ScalarMappable(norm, LOSSES), axes, "Mean loss")
    ring = Line2D(
        [], [], marker="o", linestyle="", markerfacecolor="white", markeredgecolor="black", markeredgewidth=1.6
    )
    ring.set_label("initial state")
    notes = ["arrow width: probability" + ("; mean over steps (uniform policy)" if seen.varies else "")]
    legends_below(figure, [*handles, ring], note_handles(notes, False))
    return figure


def _fit(figure: PaperFigure, axes: Axes, drawing: float) -> None:
    """Set the limits to what is drawn, and the figure's height to the drawing's."""
    box = axes.dataLim.padded(0.06)
    across = max(box.width, drawing / LONGEST_GAP)
    middle = (box.x0 + box.x1) / 2
    axes.set_xlim(middle - across / 2, middle + across / 2)
    axes.set_ylim(box.y0, box.y1)
    figure.set_figheight(float(np.clip(drawing * box.height / across, 0.7, 8)))


def _colour_bar(figure: PaperFigure, shades: ScalarMappable, axes: Axes, label: str) -> None:
    bar = figure.colorbar(shades, ax=axes, pad=0.01, aspect=25)
    bar.outline.set_linewidth(0.4)
    bar.set_label(label)


def _positions(mdp: TabularMDP, seen: _Seen) -> Array:
    """Return where the states are drawn, scaled so that the closest two are 1 apart."""
    where = np.array(mdp.positions) if mdp.positions is not None else _layout(seen.transitions.sum(1) > 0)
    if len(where) == 1:
        return np.zeros((1, 2))
    gaps = np.linalg.norm(where[:, None] - where[None], axis=-1)[np.triu_indices(len(where), 1)]
    closest = gaps[gaps > 0].min() if (gaps > 0).any() else 1.0
    scaled: Array = where / closest
    return scaled


def _layout(joined: NDArray[np.bool_]) -> Array:
    import networkx

    graph = networkx.from_numpy_array(joined | joined.T)
    graph.remove_edges_from(list(networkx.selfloop_edges(graph)))
    # States that nothing leads to still need a place: tie every component to the first.
    anchors = [min(component) for component in networkx.connected_components(graph)]
    graph.add_edges_from((anchors[0], anchor) for anchor in anchors[1:])
    placed = networkx.kamada_kawai_layout(graph, pos=networkx.circular_layout(graph), weight=None)
    where = np.array([placed[state] for state in range(len(joined))])
    # The longer side lies down, as the page does.
    turned = np.linalg.svd(where - where.mean(0), full_matrices=False)[2]
    turned *= np.sign(turned[np.arange(2), np.abs(turned).argmax(1)])[:, None]
    placed_array: Array = (where - where.mean(0)) @ turned.T
    return placed_array


def _draw_arrows(axes: Axes, mdp: TabularMDP, seen: _Seen, where: Array, scale: float) -> list[Artist]:
    """Draw all transitions and return their legend entries."""
    names = mdp.action_labels or tuple(f"action {a}" for a in range(mdp.n_actions))
    colours = [ACTION_COLOURS[a % len(ACTION_COLOURS)] for a in range(mdp.n_actions)]
    p = seen.transitions
    same: NDArray[np.bool_] = np.all(np.abs(p - p[:, :1]) < 1e-12, axis=(1, 2)) & (mdp.n_actions > 1)
    thin = min(1.0, scale / 0.5)  # small drawings have thin arrows
    loops = (np.diagonal(p, axis1=0, axis2=2) > 0).any(0)
    mass: Array = p.sum(1)
    joined = mass > 0
    headings = {s: free_direction(where, s, joined[s] | joined[:, s]) for s in np.flatnonzero(loops).tolist()}
    drawn: set[str] = set()
    for state, following in np.argwhere(joined).tolist():
        actions = [0] if same[state] else np.flatnonzero(p[state, :, following] > 0).tolist()
        if state != following:
            bend = bend_around(where, state, following, RADIUS, bool(joined[following, state]))
        for rank, action in enumerate(actions):
            colour = EVERY_ACTION if same[state] else colours[action]
            drawn.add(colour)
            line = thin * (0.3 + 1.1 * float(p[state, action, following]))
            if state == following:
                draw_loop(axes, where[state], RADIUS, headings[state], rank, colour, line)
            else:
                more = 0.09 * rank * np.sign(bend) / max(1.0, float(np.hypot(*(where[following] - where[state])) / 1.6))
                draw_arrow(axes, where[state], where[following], RADIUS, bend + more, colour, line)
    entries = [*zip(colours, names, strict=True), (EVERY_ACTION, "every action")]
    return [Line2D([], [], color=colour, label=name) for colour, name in entries if colour in drawn]


def _draw_nodes(axes: Axes, mdp: TabularMDP, seen: _Seen, where: Array, norm: Normalize, scale: float) -> None:
    met = seen.occupancy.sum(0) > 0
    labels = mdp.state_labels or tuple(map(str, range(mdp.n_states)))
    # The longest label fills the node: a character is some 0.55 of its size wide, and 72 points are an inch.
    size = min(7.0, 72 * scale * 1.7 * RADIUS / (0.55 * max(2, *(len(label) for label in labels))))
    for state, place in enumerate(where):
        grey = LOSSES(norm(seen.losses[state])) if seen.losses is not None and met[state] else "white"
        start = float(mdp.initial[state])
        edge: dict[str, Any] = {"edgecolor": "0.4", "linewidth": 0.5}
        if start > 0:
            edge = {"edgecolor": "black", "linewidth": 0.8 + 1.0 * start}
        elif not met[state]:
            edge = {"edgecolor": "0.75", "linewidth": 0.5, "linestyle": (0, (2, 1.5))}
        axes.add_patch(Circle(tuple(place), RADIUS, facecolor=grey, zorder=4, **edge))
        if size >= 3:
            ink = "black" if met[state] else "0.6"
            axes.text(
                place[0], place[1], labels[state], ha="center", va="center_baseline", fontsize=size, color=ink, zorder=5
            )


def _matrices(mdp: TabularMDP, seen: _Seen, width: Width | float | None) -> PaperFigure:
    total = inches(width if width is not None else "two-column")
    figure = new_figure(total, total * 0.47)
    left, right = figure.subplots(1, 2)
    images = [
        (left, seen.transitions.mean(1), "Next state", "State", "Transition probability"),
        (right, seen.occupancy, "State", "Step", "Occupancy"),
    ]
    for axes, table, x, y, what in images:
        axes.grid(False)
        shown = np.where(table > 0, table, np.nan)
        image = axes.imshow(shown, cmap=PROBABILITIES, vmin=0, aspect="auto", interpolation="nearest")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        _colour_bar(figure, image, axes, f"{what}, uniform policy")
    return figure
