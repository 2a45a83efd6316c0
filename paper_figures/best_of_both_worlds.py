"""The figures on best of both worlds: runs what is missing of its experiments, writes each figure as PDF and PNG.

python paper_figures/best_of_both_worlds.py --output results/best_of_both_worlds_paper [--workers N] [--quick]

The full set takes about an hour with one worker; run it again to go on where it stopped. ``--quick`` runs every
experiment at a hundredth of its length with four runs: it shows that everything works, and no result. Captions and the
numbers that a text would quote are printed, and kept in a text file per part beside the figures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from common import Drawn, Part, paired_differences, run_script

from tabpo import figures
from tabpo.figures import Curve, Panel
from tabpo.figures.curves import curves_of
from tabpo.statistics import interval
from tabpo.sweep import Results

REGIMES = ("stochastic", "constrained adversary", "adaptive adversary")
HOW_TO_READ = (
    "A straight line in (a) and (b) is logarithmic growth, a level one in (c) growth like the root. "
    "C is the sum over episodes of the largest change of a mean loss, L* the best policy's cumulative loss. "
    "Regret is below 0 in (d) where a learner that follows the reversed losses does better than every fixed policy. "
    "Fixed rate: exponential weights with dilated bonuses and a rate tuned to the number of episodes."
)
NO_THEOREM = "No theorem covers best-of-both-worlds policy optimization with delays: this is an experiment only."


def regimes(results: Results, growth: Results, chain: Results) -> Iterator[Drawn]:
    """Yield the figure of all regimes without delays and the one with delays, and their numbers."""
    figure = figures.mosaic(
        [
            *growth_panels(growth),
            *point_panels(results, "no delay"),
            Panel("Bonus, on the chain", chain, "learner.bonus_scale"),
        ]
    )
    figure.caption += f" {HOW_TO_READ}"
    yield "regimes", figure
    figure = figures.mosaic(
        [*growth_panels(results, roots=20.0, delays="delay 100"), *point_panels(results, "delay 100")]
    )
    figure.caption += f" {HOW_TO_READ} {NO_THEOREM}"
    yield "regimes_delayed", figure
    if not (table := growth_table(growth)).empty:
        yield table
    yield figures.final_table(results)[["losses", "delays", "learner", "mean", "lower", "upper"]]
    yield best_losses(results).rename("best_loss").reset_index()
    yield figures.final_table(chain)[["learner", "mean", "lower", "upper"]]


def growth_panels(results: Results, roots: float = 5.0, **filters: str) -> list[Panel]:
    """Return the panels over the episodes: regret where it may grow like a logarithm, else over the root.

    The first two axes end at so many roots of the number of episodes.
    """
    length = int(results.manifest["n_episodes"].max())
    highest = roots * length**0.5
    panels = [
        Panel("Stochastic", results, highest=highest),
        Panel("Constrained adversary", results, highest=highest),
        Panel("Adaptive adversary", results, metric="regret_per_root"),
    ]
    return [
        replace(one, log_x=True, first_episode=min(64, length // 10), filters={"losses": losses} | filters)
        for one, losses in zip(panels, REGIMES, strict=True)
    ]


def point_panels(results: Results, delays: str) -> list[Panel]:
    """Return the panels against the corruption and against the best policy's loss."""
    return [
        Panel("Reversed losses", by_corruption(results, delays), "losses.budget"),
        Panel("First order", by_best_loss(results, delays), "losses.best_loss"),
    ]


def by_corruption(results: Results, delays: str) -> list[Curve]:
    """Return the curves under reversed losses, and under the same losses without corruption, a budget of 0."""
    found = curves_of(results, delays=delays)
    clean = [replace(one, settings={**one.settings, "losses.budget": 0.0}) for one in found if one.losses == REGIMES[0]]
    return clean + [one for one in found if one.losses.startswith("reversed")]


def best_losses(results: Results) -> pd.Series:
    """Return L*/K, the best policy's expected loss an episode, by the label of the losses, where they are small."""
    final = results.final("final_comparator_loss")
    small = final[final["losses"].str.startswith("first order")]
    return (small["final_comparator_loss"] / small["n_episodes"]).groupby(small["losses"]).mean()


def by_best_loss(results: Results, delays: str) -> list[Curve]:
    """Return the curves under small losses, with L*/K as a setting of the losses."""
    best = best_losses(results)
    return [
        replace(one, losses="first order", settings={**one.settings, "losses.best_loss": float(best[one.losses])})
        for one in curves_of(results, losses=best.index.tolist(), delays=delays)
    ]


def growth_table(results: Results) -> pd.DataFrame:
    """Return regret after 512, 1024, ... episodes, and how far it rose while they doubled: equally, like a log."""
    rows = []
    for one in curves_of(results):
        regret = {int(episode): values for episode, values in zip(one.episodes, one.values, strict=True)}
        for episode in (2**n for n in range(9, 31) if 2**n in regret and 2 ** (n - 1) in regret):
            row: dict[str, Any] = {"losses": one.losses, "learner": one.learner, "episode": episode}
            row["regret"], row["lower"], row["upper"] = interval(regret[episode])
            row["per_root"] = row["regret"] / episode**0.5
            row["step"], row["step_lower"], row["step_upper"] = interval(regret[episode] - regret[episode // 2])
            rows.append(row)
    return pd.DataFrame(rows)


def delayed(results: Results) -> Iterator[Drawn]:
    """Yield the figure of regret against the delay, and what the ratio changes."""
    figure = figures.regret_against_delay(results, abscissa="episodes_plus_delay", across=["law"], down=["losses"])
    figure.caption += f" {NO_THEOREM}"
    yield "delayed", figure
    yield figures.final_table(results)[["losses", "delays", "learner", "mean", "lower", "upper"]]
    final = results.final()
    yield paired_differences(final[final["learner.kind"] == "bobw_tsallis"], "learner.adapt", ["losses", "delays"])


def unknown(results: Results) -> Iterator[Drawn]:
    """Yield the figure of regret with and without the transitions, a panel per regularizer."""
    first = min(16, int(results.manifest["n_episodes"].max()) // 10)
    panels = by_regularizer(results).items()
    yield "unknown", figures.mosaic([Panel(name, curves, log_x=True, first_episode=first) for name, curves in panels])
    yield figures.final_table(results)[["learner", "mean", "lower", "upper"]]


def by_regularizer(results: Results) -> dict[str, list[Curve]]:
    """Return the curves by the regularizer that their labels begin with, with the rest of the labels."""
    found: dict[str, list[Curve]] = {}
    for one in curves_of(results):
        name, _, rest = one.learner.partition(", ")
        found.setdefault(name, []).append(replace(one, learner=rest, kind=rest))
    return found


PARTS = {
    "best_of_both_worlds_regimes": Part(
        ("best_of_both_worlds", "best_of_both_worlds_growth", "best_of_both_worlds_chain"), regimes
    ),
    "best_of_both_worlds_delayed": Part(("best_of_both_worlds_delayed",), delayed),
    "best_of_both_worlds_unknown": Part(("best_of_both_worlds_unknown",), unknown),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script and return the exit code."""
    return run_script(__file__, str(__doc__), PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
