"""What episodes bring: a delay law's delays, a loss sequence's means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError
from tabpo.figures.canvas import PaperFigure, Width, inches, new_figure, style

if TYPE_CHECKING:
    from tabpo.environments.losses_base import Adversary, RealisedLosses

Array = NDArray[np.float64]

COLOUR = "#0072B2"
MOST_ENTRIES, MOST_COLUMNS, MOST_SWITCHES = 60, 400, 60


def delay_law(delays: ArrayLike, *, name: str = "", width: Width | float = "two-column") -> PaperFigure:
    """Return the figure of a sequence of delays: how long they are, and how much feedback is outstanding.

    Parameters
    ----------
    delays : array-like (K,), whole numbers of at least 0
        In episodes.
    name : str
        For the caption.
    width : "one-column" (3.25 in), "two-column" (6.75 in) or inches
    """
    from tabpo.environments.delays import whole_delays

    given = whole_delays(delays)
    n_episodes = len(given)
    arriving = np.arange(n_episodes) + np.minimum(given, n_episodes)
    never = int((arriving >= n_episodes).sum())
    total = int(np.minimum(given, n_episodes).sum())
    with style():
        figure = new_figure(inches(width), inches(width) * 0.36)
        left, right = figure.subplots(1, 2)
        _histogram(left, given)
        waiting = outstanding(given)
        _plot_thinned(right, waiting)
        right.set_xlabel("Episode")
        right.set_ylabel("Feedback outstanding (episodes)")
        right.set_ylim(0, max(1.0, 1.05 * waiting.max()))
    figure.caption = (
        f"{name or 'Delays'} over {n_episodes} episodes: mean {given.mean():.4g}, longest {given.max()}, "
        f"total {total}; feedback of {never} never arrives."
    )
    return figure


def outstanding(delays: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many episodes' feedback has not arrived by the end of each episode, (K,)."""
    n_episodes = len(delays)
    arriving = np.arange(n_episodes) + np.minimum(delays, n_episodes)
    arrived = np.bincount(np.minimum(arriving, n_episodes), minlength=n_episodes + 1)[:n_episodes]
    waiting: NDArray[np.int64] = np.arange(1, n_episodes + 1) - np.cumsum(arrived)
    return waiting


def _histogram(axes: Axes, delays: NDArray[np.int64]) -> None:
    shortest, longest = int(delays.min()), int(delays.max())
    # A long tail is seen on a log axis only; delay 0 has no place there and is drawn at 1/2.
    long_tail = longest > 50 and longest > 20 * max(1.0, float(np.median(delays)))
    if long_tail:
        edges = np.concatenate([[0.35, 0.7], np.geomspace(0.7, longest + 1, 30)[1:]])
        axes.set_xscale("log")
        shown = np.where(delays == 0, 0.5, delays)
        axes.set_xlabel("Delay (episodes; 0 drawn at 1/2)" if shortest == 0 else "Delay (episodes)")
    else:
        step = max(1, -(-(longest - shortest + 1) // 40))
        edges = np.arange(shortest, longest + step + 1, step) - 0.5
        shown = delays.astype(np.float64)
        axes.set_xlabel("Delay (episodes)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.hist(shown, edges.tolist(), weights=np.full(len(delays), 1 / len(delays)), color=COLOUR, rwidth=0.9, zorder=2)
    if longest == shortest:
        axes.set_xlim(longest - 3, longest + 3)
    axes.set_ylabel("Share of episodes")
    axes.grid(False, axis="x")


def _plot_thinned(axes: Axes, values: NDArray[Any]) -> None:
    """Plot a value per episode; of very many, the largest of each stretch."""
    starts = np.unique(np.linspace(0, len(values), 2001).astype(int)[:-1])
    axes.plot(starts, np.maximum.reduceat(values, starts), color=COLOUR, linewidth=0.8)


def loss_sequence(
    losses: RealisedLosses | Adversary, n_episodes: int, *, name: str = "", width: Width | float = "two-column"
) -> PaperFigure:
    """Return the figure of a loss sequence: its mean over (h, s, a), and entries one by one.

    Parameters
    ----------
    losses : RealisedLosses
        Mean losses; what learners see may be Bernoulli draws with these means.
    n_episodes : int
    name : str
        For the caption.
    width : "one-column" (3.25 in), "two-column" (6.75 in) or inches

    Raises
    ------
    InvalidInputError
        If an adversary chooses the losses: they are those of a learner's run.
    """
    from tabpo.environments.losses_base import Adversary

    if isinstance(losses, Adversary):
        which = f" ({name})" if name else ""
        raise InvalidInputError(f"losses that adapt to a learner's policies{which} cannot be drawn without one")
    episodes = np.unique(np.linspace(0, n_episodes - 1, min(n_episodes, MOST_COLUMNS)).astype(int))
    summary, entries = _sampled(losses, n_episodes, episodes)
    with style():
        figure = new_figure(inches(width), inches(width) * 0.36)
        left, right = figure.subplots(1, 2)
        left.plot(episodes, summary[:, 1], color=COLOUR, linewidth=1)
        left.fill_between(episodes, summary[:, 0], summary[:, 2], color=COLOUR, alpha=0.2, linewidth=0)
        left.set_ylim(-0.02, 1.02)
        left.set_ylabel("Loss: mean and 10–90% of entries")
        edges = (-0.5, n_episodes - 0.5, len(entries[0]) - 0.5, -0.5)
        image = right.imshow(
            entries.T, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest", extent=edges
        )
        right.grid(False)
        right.set_ylabel("Entry $(h, s, a)$" + (", a sample" if _is_sampled(losses) else ""))
        right.set_yticks([])
        bar = figure.colorbar(image, ax=right, pad=0.01, aspect=25)
        bar.outline.set_linewidth(0.4)
        bar.set_label("Mean loss")
        for axes in (left, right):
            axes.set_xlabel("Episode")
        if len(losses.switches) <= MOST_SWITCHES:
            for switch in losses.switches:
                left.axvline(switch, color="0.5", linewidth=0.6, linestyle=(0, (3, 2)))
    seen = "Bernoulli draws with these means" if losses.noise == "bernoulli" else "the means themselves"
    figure.caption = (
        f"{name or 'Losses'} over {n_episodes} episodes: learners see {seen}; {len(losses.switches)} switches."
    )
    return figure


def _is_sampled(losses: RealisedLosses) -> bool:
    return losses.mean(0).size > MOST_ENTRIES


def _sampled(losses: RealisedLosses, n_episodes: int, episodes: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return (10 %, mean, 90 %) over entries, and some entries, at the given episodes; asked for in order."""
    wanted = set(episodes.tolist())
    summary, entries = [], []
    for k in range(n_episodes):
        flat = losses.mean(k).ravel()
        if k in wanted:
            low, high = np.quantile(flat, [0.1, 0.9])
            summary.append((low, flat.mean(), high))
            some = np.unique(np.linspace(0, flat.size - 1, min(flat.size, MOST_ENTRIES)).astype(int))
            entries.append(flat[some])
    return np.array(summary), np.array(entries)
