"""The notebooks run from top to bottom."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path

import matplotlib
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def run(notebook: dict) -> tuple[dict, list, str]:
    """Execute the code cells in one namespace; return it, what each cell ends in, and what was printed."""
    namespace: dict = {"__name__": "__main__"}
    shown = []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for cell in (one for one in notebook["cells"] if one["cell_type"] == "code"):
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, cell["id"], "exec"), namespace)
            if last is not None:
                shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), namespace))
    return namespace, shown, printed.getvalue()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_valid_and_stores_no_outputs(path):
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


def test_quickstart_runs_and_shows_what_it_says(monkeypatch, tmp_path):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace, shown, printed = run(read(NOTEBOOKS[0].with_name("quickstart.ipynb")))
    assert namespace["best_value"] < namespace["values"][0, 0]
    assert namespace["best_policy"][-1, 0, 1] == 0  # nobody services a machine for the last step
    final = {name: one.regret[-1].mean() for name, one in namespace["simulated"].items()}
    assert max(final["DAPO"], final["greedy (ours)"]) < 0.8 * final["uniform"]
    assert "5 of 5 cells" in printed
    assert sum(hasattr(one, "_repr_png_") for one in shown) == 2  # the figures
    assert list(tmp_path.iterdir()) == []  # nothing is written where nobody said so
