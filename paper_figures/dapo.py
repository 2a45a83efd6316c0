"""The figures on DAPO: runs what is missing of its experiments and writes each figure as PDF and PNG.

python paper_figures/dapo.py --output results/dapo_paper [--workers N] [--quick]

The full set takes about ten minutes with one worker; run it again to go on where it stopped. ``--quick`` runs every
experiment at a hundredth of its length with four runs: it shows that everything works, and no result. Captions and the
numbers that a text would quote are printed, and kept in a text file per experiment beside the figures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import pandas as pd
from common import Drawn, Part, paired_differences, run_script

from tabpo import figures
from tabpo.sweep import Results


def ablations(results: Results) -> Iterator[Drawn]:
    """Yield the figure of regret over the episodes, for DAPO and without each of its parts."""
    options = {name: value for name, value in results.figure.items() if name != "kind"}
    first = min(options.pop("first_episode"), int(results.manifest["n_episodes"].min()) // 10)
    yield "ablations", figures.regret(results, first_episode=first, **options)
    yield figures.final_table(results)[["mdp", "learner", "mean", "lower", "upper"]]


def delays(results: Results) -> Iterator[Drawn]:
    """Yield the figure of regret against the total delay, and the slopes where D is neither small nor ruinous."""
    yield "delays", figures.regret_against_delay(results, across=["law"])
    manifest = results.manifest.drop_duplicates("delays")
    means = manifest[["delays.delay", "delays.mean"]].astype("float64").max(axis=1)
    means = means.fillna((manifest["delays.length"].astype("float64") - 1) / 2)
    largest = means.max()
    told = manifest["delays"][(means > 0) & (means < largest / 10)].tolist()
    for chosen in (sorted(set(manifest["delays"])), told):
        table = figures.delay_slopes(results, across=["law"], delays=chosen)
        if not table.empty:
            yield table[table["learner"] != "uniform"][["law", "learner", "delays", "slope", "lower", "upper"]]


def rates(results: Results) -> Iterator[Drawn]:
    """Yield the figure of regret against the number of episodes, each with its own tuning, and the slopes."""
    yield "rates", figures.regret_against_setting(results, setting="n_episodes", scale="log")
    longest = sorted(results.manifest["n_episodes"].unique())[-2:]
    for lengths in (None, [int(one) for one in longest]):
        chosen = {} if lengths is None else {"n_episodes": lengths}
        table = figures.setting_slopes(results, setting="n_episodes", **chosen)
        yield table[["delays", "learner", "points", "slope", "lower", "upper"]]


def adversarial(results: Results) -> Iterator[Drawn]:
    """Yield the figures of losses that switch, and where DAPO's regret lies below that without its ratio."""
    yield "adversarial", figures.regret_against_setting(results, setting="learner.step_size")
    step_size = sorted(results.manifest["learner.step_size"].dropna().unique())[-2]
    mdp = results.manifest["mdp"].iloc[0]
    curves = [
        figures.Curve(one["learner"].partition(" (")[0], *numbers, delays=one["delays"], kind=one["learner.kind"])
        for one, *numbers in results.curves(mdp=mdp, step_size=step_size)
    ]
    yield "adversarial_episodes", figures.regret(curves, share_y=False, band="simultaneous")
    differences = differences_of_the_ratio(results)
    yield differences
    counts = differences.assign(
        lower_regret=differences["upper"] < 0,
        higher_regret=differences["lower"] > 0,
        equal=(differences["mean"] == 0),
    )
    yield counts.groupby("delays", sort=False)[["lower_regret", "higher_regret", "equal"]].sum().reset_index()


def differences_of_the_ratio(results: Results) -> pd.DataFrame:
    """Return the regret of DAPO less that without the ratio, run by run, with a t interval over the runs."""
    table = paired_differences(results.final(), "learner.adapt", ["mdp", "delays", "learner.step_size"])
    return table.rename(columns={"learner.step_size": "step_size"})


def step_sizes(results: Results) -> Iterator[Drawn]:
    """Yield the figure of regret against the step size."""
    yield "step_sizes", figures.regret_against_setting(results, setting="learner.step_size")


PARTS = {
    "dapo_ablations": Part(("dapo_ablations",), ablations),
    "dapo_delays": Part(("dapo_delays",), delays),
    "dapo_rates": Part(("dapo_rates",), rates),
    "dapo_adversarial": Part(("dapo_adversarial",), adversarial),
    "dapo_step_sizes": Part(("dapo_step_sizes",), step_sizes),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script and return the exit code."""
    return run_script(__file__, str(__doc__), PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
