"""Reading results: tidy tables, curves with their run blocks merged, filters, and what is not there."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tabpo.errors import InvalidInputError
from tabpo.simulation import simulate
from tabpo.sweep import StoreError, open_results, plan, run_experiment
from tabpo.sweep.config import load_config
from tabpo.sweep.worker import build
from tests.sweep_pieces import CONFIG, write_config


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("results")
    run_experiment(write_config(base, CONFIG + '[figure]\nkind = "regret"\n'), base / "out")
    return base


@pytest.fixture
def results(folder):
    return open_results(folder / "out")


def test_the_manifest_joins_cells_to_their_settings(results):
    manifest = results.manifest
    assert len(manifest) == 12
    assert manifest["hash"].is_unique
    assert set(manifest["learner.step_size"]) == {0.05, 0.2}
    assert set(manifest["delays.mean"]) == {1, 4}
    assert results.missing.empty
    assert results.figure == {"kind": "regret"}
    assert repr(results).endswith("12 of 12 cells)")


def test_curves_are_those_of_one_simulation_of_all_runs(folder, results):
    from tabpo.environments import Environment

    cell = plan(load_config(folder / "sweep.toml"))[0]
    mdp, losses, delays, learner = (build(part, cell.base_folder) for part in cell.parts.values())
    result = simulate(Environment(mdp, losses, delays), learner, 300, 5, 7, checkpoints=8)
    ((point, episodes, values),) = results.curves(step_size=0.05, mean=1)
    assert (episodes == result.episodes).all()
    assert (values == result.regret).all()  # bit for bit, though the runs lay in three blocks
    assert point["learner"] == "dapo (step_size=0.05)"
    assert point["learner.step_size"] == 0.05
    assert point["total_delay"] == result.total_delay
    assert point["n_episodes"] == 300
    with pytest.raises(InvalidInputError, match=r"unknown column 'learner\.step_sise'; did you mean"):
        point["learner.step_sise"]


def test_the_frame_is_tidy(results):
    frame = results.frame()
    n_checkpoints = frame["episode"].nunique()
    assert len(frame) == 2 * 2 * 5 * n_checkpoints
    keys = ["mdp", "losses", "delays", "learner", "n_episodes", "run", "episode"]
    assert not frame.duplicated(keys).any()
    assert "hash" not in frame
    for point, episodes, values in results.curves("sampled_loss"):
        rows = frame[(frame["learner"] == point.learner) & (frame["delays"] == point.delays)]
        table = rows.pivot(index="episode", columns="run", values="sampled_loss")
        assert (table.index == episodes).all()
        assert (table.to_numpy() == values).all()


def test_final_values(results):
    final = results.final("expected_loss", learner="dapo (step_size=0.2)", delays="geometric (mean=4)")
    ((_, _, values),) = results.curves("expected_loss", step_size=0.2, mean=4)
    assert list(final["run"]) == [0, 1, 2, 3, 4]
    assert np.array_equal(final["expected_loss"], values[-1])
    assert "regret" not in final


def test_filters(results):
    assert len(results.select()) == 12
    assert len(results.select(step_size=[0.05, 0.2])) == 12
    assert len(results.select(**{"learner.step_size": 0.05, "delays.mean": 4.0})) == 3
    assert len(results.select(bonus=True)) == 12
    assert len(results.select(first_run=[0, 2])) == 8
    assert len(results.select(exploration=None)) == 12


@pytest.mark.parametrize(
    ("filters", "sentence"),
    [
        ({"step_sise": 0.1}, r"unknown filter 'step_sise'; did you mean '(learner\.)?step_size'\?"),
        ({"learner": "dapo (step_size=0.21)"}, r"no cell in .* has learner = .*; did you mean 'dapo \(step_size=0.2"),
        ({"step_size": 0.3}, r"has learner\.step_size = 0\.3.* \(there are: 0\.05, 0\.2\)"),
        ({"step_size": "0.2"}, r"has learner\.step_size = '0\.2'"),
        ({"kind": "dapo"}, r"could be 'mdp\.kind' or 'losses\.kind' or 'delays\.kind' or 'learner\.kind'"),
        ({"bonus": False}, r"has learner\.bonus = False"),
        ({"first_run": 4, "n_runs": 2}, r"no cell in .* has first_run=4, n_runs=2 together"),
    ],
)
def test_a_filter_that_does_not_fit(results, filters, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        results.frame(**filters)


def test_an_unknown_metric(results):
    with pytest.raises(InvalidInputError, match=r"unknown metric 'regrets'; did you mean 'regret'\?"):
        next(results.curves("regrets"))
    with pytest.raises(InvalidInputError, match=r"unknown metric"):
        results.final("loss")


def test_provenance(results):
    origin = results.provenance(results.manifest["hash"][0])
    assert origin["settings"]["seed"] == 7
    assert origin["learner"]["step_size"] == 0.05
    assert {"python", "numpy", "pyarrow", "tabpo"} <= set(origin["versions"])
    assert origin["machine"]["cores"] >= 1
    assert origin["wall_time_seconds"] > 0
    with pytest.raises(StoreError, match=r"there is no file"):
        results.provenance("0123456789abcdef")


def test_missing_cells_are_said_and_may_be_left_out(folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    results = open_results(tmp_path / "out")
    for cell_hash in results.select(first_run=4)["hash"]:
        (tmp_path / "out" / "cells" / f"{cell_hash}.parquet").unlink()
    assert len(results.missing) == 4
    with pytest.raises(StoreError, match=r"4 of the 12 cells .* are not there yet .* pass partial=True"):
        results.frame()
    assert {values.shape[1] for _, _, values in results.curves(partial=True)} == {4}
    with pytest.raises(StoreError, match=r"4 of the 4 cells .*; run the sweep to its end$"):
        results.frame(partial=True, first_run=4)


def test_folders_that_hold_no_results(tmp_path):
    with pytest.raises(StoreError, match=r"there is no folder"):
        open_results(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"holds no results: it has no manifest.parquet"):
        open_results(tmp_path)


def test_damaged_files_are_named(folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    results = open_results(tmp_path / "out")
    cell = tmp_path / "out" / "cells" / f"{results.manifest['hash'][0]}.parquet"
    cell.write_bytes(cell.read_bytes()[:100])
    with pytest.raises(StoreError, match=rf"{cell.name}' cannot be read .*; delete it and run the sweep again"):
        results.frame()
    (tmp_path / "out" / "manifest.parquet").write_bytes(b"")
    with pytest.raises(StoreError, match=r"manifest.parquet' cannot be read"):
        _ = open_results(tmp_path / "out").manifest
