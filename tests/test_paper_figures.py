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


def script(name):
    """Return a script of paper_figures as a module."""
    matplotlib.use("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "paper_figures"))  # as if it were run
        spec = importlib.util.spec_from_file_location(f"figures_of_{name}", ROOT / "paper_figures" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dapo():
    return script("dapo")


@pytest.fixture(scope="module")
def bobw():
    return script("best_of_both_worlds")


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
    table = dapo.differences_of_the_ratio(results).set_index("step_size")
    finals = {
        adapt: next(iter(results.curves(adapt=adapt, step_size=0.1)))[2][-1]  # (R,)
        for adapt in (True, False)
    }
    expected = interval(finals[True] - finals[False])
    np.testing.assert_allclose(table.loc[0.1, ["mean", "lower", "upper"]].to_numpy(float), expected)


def test_shortening_cuts_episodes_and_nothing_else():
    tables = tomllib.loads((ROOT / "experiments" / "dapo_delays.toml").read_text(encoding="utf-8"))
    short = script("common").shortened(tables)
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


@pytest.fixture(scope="module")
def regimes(tmp_path_factory):
    """Results of few episodes of the regimes, with learners that are quick."""
    tables = tomllib.loads((ROOT / "experiments" / "best_of_both_worlds.toml").read_text(encoding="utf-8"))
    tables |= {"n_episodes": 1024, "n_runs": 3, "checkpoints": [256, 512, 1024], "delays": tables["delays"][:1]}
    tables["losses"][3]["grid"]["budget"] = [30, 60]
    tables["learners"] = [{"label": "uniform", "kind": "uniform"}]
    return tabpo.run_experiment(tables, tmp_path_factory.mktemp("regimes"))


def test_corruption_and_small_losses_make_abscissas(bobw, regimes):
    corrupted = bobw.by_corruption(regimes, "no delay")
    assert [one.settings["losses.budget"] for one in corrupted] == [0, 30, 60]
    uniform = [one.values[-1].mean() for one in corrupted]
    # A reversed episode costs the uniform policy -2/3 of the gap a step instead of 2/3.
    np.testing.assert_allclose(np.diff(uniform), [-3 * 4 / 3 * 30, -3 * 4 / 3 * 30], rtol=1e-9)
    found = [one.settings["losses.best_loss"] for one in bobw.by_best_loss(regimes, "no delay")]
    np.testing.assert_allclose(found, 3 * (np.array([0.1, 0.15, 0.3, 0.6]) - 0.1), atol=1e-12)


def test_growth_is_told_by_doublings(bobw, regimes):
    table = bobw.growth_table(regimes).set_index(["losses", "episode"])
    assert set(table["learner"]) == {"uniform"}
    row = table.loc["stochastic", 1024]
    assert row["regret"] == pytest.approx(2 * row["step"])  # a policy that never changes
    assert row["per_root"] == pytest.approx(row["regret"] / 32)


def test_a_quick_run_of_unknown_transitions_is_drawn(bobw, tmp_path):
    part = "best_of_both_worlds_unknown"
    assert bobw.main(["--output", str(tmp_path), "--quick", "--only", part]) == 0
    assert {path.name for path in tmp_path.glob("*.*")} == {f"{part}.{form}" for form in ("pdf", "png", "txt")}
    assert "(c) log-barrier" in (tmp_path / f"{part}.txt").read_text()


@pytest.mark.slow
def test_all_quick_figures_of_best_of_both_worlds_are_drawn(bobw, tmp_path):
    assert bobw.main(["--output", str(tmp_path), "--quick"]) == 0
    titles = ("regimes", "regimes_delayed", "delayed", "unknown")
    names = {path.name for path in tmp_path.glob("*.p*")}
    assert names == {f"best_of_both_worlds_{title}.{form}" for title in titles for form in ("pdf", "png")}
    for part in ("regimes", "delayed"):  # whoever quotes a figure with delays is told
        assert "No theorem covers" in (tmp_path / f"best_of_both_worlds_{part}.txt").read_text()
