"""The scripts of paper_figures and the experiments that they run."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import tabpo
from tabpo.figures import kinds
from tabpo.statistics import interval
from tabpo.sweep import load_config
from tabpo.sweep.cells import plan

ROOT = Path(__file__).parents[1]
EXPERIMENTS = sorted((ROOT / "experiments").glob("*.toml"))


@pytest.fixture(scope="module")
def dapo():
    """Return paper_figures/dapo.py as a module."""
    matplotlib.use("Agg")
    spec = importlib.util.spec_from_file_location("dapo_figures", ROOT / "paper_figures" / "dapo.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_experiments_fit_and_so_do_their_figures(path):
    experiment = load_config(path)
    assert experiment.name == path.stem
    assert plan(experiment)
    options = dict(experiment.figure)
    kinds.check(options.pop("kind"), options)
    assert f"tabpo run experiments/{path.name}" in path.read_text(encoding="utf-8")


def test_a_quick_run_draws_its_figure_and_prints_its_slopes(dapo, tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--quick", "--only", "dapo_rates"]
    assert dapo.main(arguments) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "dapo_rates.pdf", "dapo_rates.png", "dapo_rates.txt", "results",
    }  # fmt: skip
    said = capsys.readouterr().out
    assert "slope" in said
    results = tabpo.open_results(tmp_path / "results" / "dapo_rates_quick")
    assert sorted(results.manifest["n_episodes"].unique()) == [20, 80, 320, 1280]
    last = results.final(learner="DAPO", delays="fixed 20").set_index(["n_episodes", "run"])["regret"].unstack()
    slope = np.polyfit(np.log(last.index.to_numpy()), np.log(last.mean(axis=1)), 1)[0]
    told = next(line for line in said.splitlines() if line.split()[:3] == ["fixed", "20", "DAPO"])
    assert float(told.split()[4]) == pytest.approx(slope, abs=0.02)  # of the mean, there: the mean of the runs' slopes


def test_differences_are_paired_by_run(dapo, tmp_path):
    learner = {"kind": "dapo", "tuning": "practical", "grid": {"step_size": [0.01, 0.1]}}
    experiment = {
        "n_episodes": 60,
        "n_runs": 5,
        "mdps": [{"kind": "random", "n_states": 2, "n_actions": 2, "horizon": 2}],
        "losses": [{"kind": "environment"}],
        "delays": [{"kind": "fixed", "delay": 9}],
        "learners": [{"label": "DAPO"} | learner, {"label": "no ratio", "adapt": False} | learner],
    }
    results = tabpo.run_experiment(experiment, tmp_path / "results")
    table = dapo.paired_differences(results).set_index("step_size")
    finals = {
        adapt: next(iter(results.curves(adapt=adapt, step_size=0.1)))[2][-1]  # (R,)
        for adapt in (True, False)
    }
    expected = interval(finals[True] - finals[False])
    np.testing.assert_allclose(table.loc[0.1, ["mean", "lower", "upper"]].to_numpy(float), expected)


def test_shortening_cuts_episodes_and_nothing_else(dapo):
    tables = tomllib.loads((ROOT / "experiments" / "dapo_delays.toml").read_text(encoding="utf-8"))
    short = dapo.shortened(tables)
    assert short["n_episodes"] == 200
    assert short["delays"][0]["grid"]["delay"] == [0, 1, 3, 13, 51]
    assert short["learners"] == tables["learners"]
    assert short["mdps"] == tables["mdps"]


def test_a_folder_that_cannot_be_is_a_sentence(dapo, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert dapo.main(["--output", str(tmp_path / "file"), "--quick"]) == 2
    assert "dapo.py: " in capsys.readouterr().err


@pytest.mark.slow
def test_all_quick_figures_are_drawn(dapo, tmp_path):
    assert dapo.main(["--output", str(tmp_path), "--quick"]) == 0
    names = {path.name for path in tmp_path.glob("*.p*")}
    titles = ("ablations", "delays", "rates", "adversarial", "adversarial_episodes", "step_sizes")
    assert names == {f"dapo_{title}.{form}" for title in titles for form in ("pdf", "png")}
