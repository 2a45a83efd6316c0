"""Figures: what they show is what the numbers say, they can be printed, and they leave no trace."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

import matplotlib
import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from matplotlib.collections import PolyCollection
from matplotlib.patches import FancyArrowPatch

from tabpo import figures
from tabpo.errors import InvalidInputError
from tabpo.figures import Curve
from tabpo.figures.palette import ABLATIONS, LOOKS, SPARE, looks, without_values
from tabpo.figures.sequences import outstanding
from tabpo.mdp import TabularMDP
from tabpo.statistics import interval, simultaneous_band

EPISODES = np.unique(np.geomspace(1, 1000, 25).astype(int))


def curve(learner="dapo", *, exponent=0.5, scale=1.0, n_runs=6, seed=0, **labels):
    factors = np.random.default_rng(seed).lognormal(0, 0.2, n_runs)
    return Curve(learner, EPISODES, scale * EPISODES[:, None] ** exponent * factors, **labels)


def sweep(learners=("dapo", "d_oppo", "uniform"), mdps=("Grid",), delays=(10.0, 100.0), **more):
    """Regret that grows like the root of the delay."""
    found = []
    for mdp, d, (i, name) in itertools.product(mdps, delays, enumerate(learners)):
        labels = {"mdp": mdp, "losses": "bernoulli", "delays": f"fixed ({d:g})", "total_delay": d * 1000}
        found.append(curve(name, seed=i, scale=d**0.5, **labels, **more))
    return found


@dataclass
class Stored:
    """As much of a sweep's results as figures need."""

    points: list = field(default_factory=lambda: sweep())

    @property
    def manifest(self):
        return pd.DataFrame({"learner": [one.learner for one in self.points]})

    def curves(self, metric="regret", **filters):
        for one in self.points:
            if all(getattr(one, name) == value for name, value in filters.items()):
                names = ("mdp", "losses", "delays", "learner", "n_episodes", "total_delay")
                yield {name: getattr(one, name) for name in names}, one.episodes, one.values


# What is drawn


def drawn(figure, learner_colour):
    (axes,) = figure.axes
    return next(line for line in axes.lines if line.get_color() == learner_colour)


@pytest.mark.parametrize("band", ["t", "simultaneous"])
def test_regret_curve_and_band_are_the_statistics(band):
    one = curve()
    figure = figures.regret([one], band=band)
    mean, lower, upper = interval(one.values) if band == "t" else simultaneous_band(one.values)
    np.testing.assert_allclose(drawn(figure, LOOKS["dapo"].colour).get_ydata(), mean)
    (polygon,) = (c for c in figure.axes[0].collections if isinstance(c, PolyCollection))
    corners = polygon.get_paths()[0].vertices
    last = corners[corners[:, 0] == EPISODES[-1], 1]
    assert (last.min(), last.max()) == pytest.approx((lower[-1], upper[-1]))
    assert ("simultaneous" in figure.caption) == (band == "simultaneous")
    assert "95%" in figure.caption
    assert "6 runs" in figure.caption


def test_per_episode_regret_is_divided_by_the_episodes():
    one = curve(exponent=1.0)
    line = drawn(figures.per_episode_regret([one]), LOOKS["dapo"].colour)
    np.testing.assert_allclose(line.get_ydata(), one.values[0].mean())


def test_panels_by_mdp_and_delay_carry_their_labels():
    figure = figures.regret(Stored(sweep(mdps=("Grid", "Chain"))))
    assert len(figure.axes) == 4
    assert [axes.get_title() for axes in figure.axes[:2]] == ["fixed (10)", "fixed (100)"]
    assert {text.get_text() for axes in figure.axes for text in axes.texts} == {"Grid", "Chain"}


def test_filters_choose_curves_and_keep_looks():
    stored = Stored(sweep(learners=("mine_a", "mine_b", "mine_c")))
    everything = figures.regret(stored)
    some = figures.regret(stored, learner="mine_c")
    colours = [line.get_color() for line in everything.axes[0].lines]
    assert [line.get_color() for line in some.axes[0].lines] == colours[2:]


def test_log_axis_leaves_out_what_is_not_positive_and_says_so():
    negative = Curve("d_oppo", EPISODES, np.where(EPISODES > 50, EPISODES, -1.0)[:, None] * np.ones(3))
    nothing = Curve("optimal", EPISODES, np.zeros((len(EPISODES), 3)))
    figure = figures.regret([curve(), negative, nothing], scale="log")
    line = drawn(figure, LOOKS["d_oppo"].colour)
    assert np.isnan(line.get_ydata()[EPISODES <= 50]).all()
    assert LOOKS["optimal"].colour not in [one.get_color() for one in figure.axes[0].lines]
    assert "d_oppo: not drawn where at or below 0" in figure.caption
    assert "optimal: not drawn" in figure.caption
    symmetric = figures.regret([curve(), negative], scale="symlog")
    np.testing.assert_array_equal(drawn(symmetric, LOOKS["d_oppo"].colour).get_ydata()[:3], -1)


def test_a_band_below_zero_is_cut_at_the_log_axis():
    values = np.array([[1.0, 1.0, 1.0], [9.0, -4.0, 1.0], [9.0, 9.0, 10.0]])
    figure = figures.regret([Curve("dapo", [1, 10, 100], values)], scale="log")
    (axes,) = figure.axes
    (polygon,) = axes.collections
    corners = polygon.get_paths()[0].vertices
    assert np.isfinite(corners).all()
    assert (corners[:, 1] > 0).all()
    assert corners[:, 1].min() < axes.get_ylim()[0]


def test_reference_slopes_have_their_slopes():
    (axes,) = figures.regret([curve()], scale="log").axes
    dashed = [line for line in axes.lines if line.get_color() == "0.45"]
    slopes = [np.diff(np.log(line.get_ydata()))[0] / np.diff(np.log(line.get_xdata()))[0] for line in dashed]
    assert slopes == pytest.approx([1 / 2, 2 / 3, 1])
    assert [text.get_text() for text in axes.texts] == ["1/2", "2/3", "1"]


def test_a_single_run_and_a_single_checkpoint_are_drawn_without_a_band():
    figure = figures.regret([curve(n_runs=1)])
    assert "single run, no interval" in figure.caption
    assert not figure.axes[0].collections
    point = figures.regret([Curve("dapo", [10], [[1.0, 2.0]])])
    assert len(point.axes[0].lines) == 1


# Regret against the delay


def test_delay_slopes_are_the_exponents():
    table = figures.delay_slopes(sweep(delays=(0.0, 10.0, 100.0, 1000.0)))
    assert table["slope"].to_numpy() == pytest.approx([0.5, 0.5, 0.5])  # regret is made to grow like the root
    assert (table["lower"] <= table["upper"]).all()


def test_delay_figure_shows_final_regret_with_intervals():
    curves = sweep(learners=("dapo",), delays=(10.0, 100.0, 1000.0))
    figure = figures.regret_against_delay(curves)
    line = drawn(figure, LOOKS["dapo"].colour)
    np.testing.assert_allclose(line.get_xdata(), [1e4, 1e5, 1e6])
    np.testing.assert_allclose(line.get_ydata(), [one.values[-1].mean() for one in curves])
    (bars,) = figure.axes[0].collections
    _, lower, upper = interval(curves[0].values[-1])
    assert bars.get_segments()[0][:, 1] == pytest.approx([float(lower), float(upper)])
    assert "slope 0.50" in figure.legends[-1].get_texts()[0].get_text()


def test_delay_zero_is_told_of_or_shown_on_the_other_abscissa():
    curves = sweep(delays=(0.0, 10.0, 100.0), learners=("dapo",))
    curves[0] = curve("dapo", mdp="Grid", losses="bernoulli", delays="none", total_delay=0.0)
    assert "total delay 0" in figures.regret_against_delay(curves).caption
    figure = figures.regret_against_delay(curves, abscissa="episodes_plus_delay")
    np.testing.assert_allclose(drawn(figure, LOOKS["dapo"].colour).get_xdata(), [1000, 11_000, 101_000])


def test_delay_laws_make_panels_and_slopes_of_their_own():
    curves = []
    for law, power in (("fixed", 0.5), ("geometric", 1.0)):
        for d in (10.0, 100.0):
            told = {"delays": f"{law} (mean={d:g})", "total_delay": d * 1000}
            curves.append(curve(scale=d**power, **told))
    figure = figures.regret_against_delay(curves, across=["law"])
    assert [axes.get_title() for axes in figure.axes] == ["fixed", "geometric"]
    table = figures.delay_slopes(curves, across=["law"])
    assert table["law"].tolist() == ["fixed", "geometric"]
    assert table["slope"].to_numpy() == pytest.approx([0.5, 1.0])


# Regret against a setting


def tuned(step_sizes=(0.01, 0.1, 1.0), learners=("DAPO", "no ratio"), delays=("fixed",)):
    """Final regret (1 + log10(10 step size)^2) 100, least at 0.1; and a level of 500."""
    found = []
    for delay in delays:
        for name, step in itertools.product(learners, step_sizes):
            settings = {"learner.step_size": step, "learner.adapt": name == "DAPO", "mdp.horizon": 5}
            label = f"{name} (step_size={step:g})"
            height = 100 * (1 + np.log10(10 * step) ** 2) * np.array([0.9, 1.0, 1.1])
            found.append(Curve(label, [1, 50], [height / 50, height], delays=delay, kind="dapo", settings=settings))
        found.append(Curve("uniform", [1, 50], [[10.0] * 3, [500.0] * 3], delays=delay, settings={"mdp.horizon": 5}))
    return found


def test_setting_figure_has_a_line_per_entry_and_a_level_for_what_has_no_such_setting():
    figure = figures.regret_against_setting(tuned(), setting="step_size")
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == r"Step size $\eta$"
    line = drawn(figure, LOOKS["dapo"].colour)
    np.testing.assert_allclose(line.get_xdata(), [0.01, 0.1, 1.0])
    np.testing.assert_allclose(line.get_ydata(), [200, 100, 200])
    ablation = drawn(figure, ABLATIONS["dapo", "adapt", False].colour)
    np.testing.assert_allclose(ablation.get_ydata(), [200, 100, 200])
    np.testing.assert_allclose(drawn(figure, LOOKS["uniform"].colour).get_ydata(), 500)
    filled = [one for one in axes.lines if one.get_markerfacecolor() == LOOKS["dapo"].colour]
    lowest = [one for one in filled if one.get_marker() == "o"]
    assert [(*one.get_xdata(), *one.get_ydata()) for one in lowest] == [(0.1, pytest.approx(100))]
    assert [text.get_text() for text in figure.legends[-1].get_texts()] == ["DAPO", "no ratio", "uniform"]


def test_setting_bars_are_the_intervals():
    curves = tuned()
    figure = figures.regret_against_setting(
        curves, setting="learner.step_size", learner="DAPO (step_size=1)", level=0.9
    )
    _, lower, upper = interval(np.array([180.0, 200.0, 220.0]), 0.9)
    (bars,) = figure.axes[0].collections
    assert bars.get_segments()[0][:, 1] == pytest.approx([float(lower), float(upper)])


def test_settings_of_delays_and_lengths_make_an_axis_and_no_panels():
    curves = [
        curve(delays=f"geometric (mean={mean})", n_episodes=1000, settings={"delays.mean": mean}, scale=mean**0.5)
        for mean in (10, 100)
    ]
    (axes,) = figures.regret_against_setting(curves, setting="mean").axes
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [10, 100])
    lengths = [Curve("dapo", [10, K], [[1.0, 2.0], [K**0.5, 2 * K**0.5]], kind="dapo") for K in (100, 400, 1600)]
    figure = figures.regret_against_setting(lengths, setting="n_episodes", scale="log")
    assert "slope 0.50" in figure.legends[-1].get_texts()[0].get_text()
    table = figures.setting_slopes(lengths, setting="n_episodes")
    assert table[["points", "runs"]].to_numpy().tolist() == [[3, 2]]
    assert table["slope"].to_numpy() == pytest.approx([0.5])


def test_regret_over_the_root_is_divided_by_the_root():
    one = curve()
    figure = figures.regret([one], metric="regret_per_root")
    expected = (one.values / EPISODES[:, None] ** 0.5).mean(1)
    np.testing.assert_allclose(drawn(figure, LOOKS["dapo"].colour).get_ydata(), expected)
    table = figures.final_table(Stored([one]), metric="regret_per_root")
    assert table["mean"][0] == pytest.approx(expected[-1])
    assert r"$\surd$t" in figures.render(table, "latex", metric="regret_per_root")


def test_an_axis_can_end_below_the_highest_curve_and_the_legend_says_so():
    curves = [curve(), curve("uniform", exponent=1)]
    figure = figures.regret(curves, highest=100)
    bottom, top = figure.axes[0].get_ylim()
    assert top == 100
    assert -10 < bottom < curve().values[0].mean()  # a small margin, of the axis and not of what leaves it
    highest = curves[1].values[-1].mean()
    assert f"uniform: leaves the axis, up to {highest:.4g}." in figure.caption
    assert "dapo: leaves" not in figure.caption


# Mosaics


def tiles():
    """One panel over the episodes, and one against a setting."""
    dapo = curve("DAPO", kind="dapo")
    steps = [one for one in tuned() if one.learner.startswith("DAPO")]
    return [
        figures.Panel("Growth", [dapo, curve("d_oppo", exponent=0.9)], log_x=True, highest=50),
        figures.Panel("Root", [dapo, curve("d_oppo")], metric="regret_per_root", first_episode=100),
        figures.Panel("Step size", steps, "step_size", log_x=True),
    ]


def test_panels_of_a_mosaic_have_axes_of_their_own_and_one_legend():
    figure = figures.mosaic(tiles(), columns=2)
    growth, root, step_size = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["(a) Growth", "(b) Root", "(c) Step size"]
    assert (growth.get_xscale(), root.get_xscale(), step_size.get_xscale()) == ("log", "linear", "log")
    assert growth.get_ylim()[1] == 50
    assert root.lines[0].get_xdata().min() >= 100
    np.testing.assert_allclose(root.lines[0].get_ydata(), (curve().values / EPISODES[:, None] ** 0.5).mean(1)[-9:])
    assert ["DAPO", "d_oppo"] in [[text.get_text() for text in one.get_texts()] for one in figure.legends]
    for axes in figure.axes:  # a learner's look is the same everywhere
        assert LOOKS["dapo"].colour in [line.get_color() for line in axes.lines]
    assert "(a) d_oppo: leaves the axis" in figure.caption
    assert "bands and bars: 95% pointwise t interval" in figure.caption


def test_early_checkpoints_can_be_left_out():
    figure = figures.regret([curve()], scale="log", first_episode=100)
    assert drawn(figure, LOOKS["dapo"].colour).get_xdata().min() >= 100


# Looks


def test_built_in_learners_differ_in_colour_and_without_it():
    looks = list(LOOKS.values())
    assert len({look.colour for look in looks}) == len(looks)
    assert len({(str(look.line), look.marker, look.filled) for look in looks}) == len(looks)
    every = (*looks, *ABLATIONS.values(), *SPARE)
    assert len({look.colour for look in every}) == len(every)
    dapo = [LOOKS["dapo"], *(look for (learner, _, _), look in ABLATIONS.items() if learner == "dapo")]
    assert len({str(look.line) for look in dapo}) == len({look.marker for look in dapo}) == len(dapo)


def as_seen(colour, matrix):
    """CIELAB coordinates of a colour as a viewer sees it (Machado, Oliveira, Fernandes 2009, severity 1)."""
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(matrix @ linear, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


VIEWERS = {
    "trichromat": np.eye(3),
    "deuteranope": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9690]],
    "protanope": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
}


@pytest.mark.parametrize("viewer", VIEWERS)
def test_dapo_and_its_ablations_are_told_apart_with_colour_vision_deficiencies(viewer):
    colours = [LOOKS[name].colour for name in ("dapo", "d_oppo", "uniform", "optimal")]
    colours += [look.colour for look in ABLATIONS.values()]
    seen = [as_seen(colour, np.array(VIEWERS[viewer])) for colour in colours]
    # A difference of 2.3 is just noticeable side by side; 12 is plain on thin lines.
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)) > 12


def test_entries_of_one_learner_have_hues_of_their_own():
    labels = ["DAPO", "no ratio", "my words", "dapo (dilation=true)", "theorem's", "no ratio (step_size=1)"]
    settings = [{}, {"learner.adapt": False}, {"learner.bonus": np.False_}, {"learner.dilation": True}]
    settings += [{"learner.adapt": True, "learner.dilation": False}, {"learner.adapt": False}]
    found = looks(labels, ["dapo"] * 6, settings)
    assert found["DAPO"] == LOOKS["dapo"]
    assert found["my words"] == ABLATIONS["dapo", "bonus", False]
    assert found["dapo (dilation=true)"] == ABLATIONS["dapo", "dilation", True]
    assert found["theorem's"].colour in {look.colour for look in SPARE}
    assert {found[name].marker for name in labels if "ratio" in name} == {ABLATIONS["dapo", "adapt", False].marker}


def test_ablations_keep_their_looks_whatever_is_known_of_them():
    ratio = ABLATIONS["dapo", "adapt", False]
    assert looks(["dapo", "no ratio"])["no ratio"] == ratio
    assert looks(["anything"], ["dapo"], [{"learner.adapt": False}])["anything"] == ratio
    assert looks(["dapo (adapt=false)", "dapo (adapt=true)"], ["dapo"] * 2)["dapo (adapt=false)"] == ratio
    both = looks(["neither"], ["dapo"], [{"learner.adapt": False, "learner.bonus": False}])["neither"]
    assert both.colour in {look.colour for look in SPARE}
    mine = {"learner.source": "sha256:1", "learner.adapt": False}
    assert looks(["mine"], ["dapo"], [mine])["mine"].colour in {look.colour for look in SPARE}


def test_more_learners_than_spare_colours_still_differ():
    found = looks([f"learner_{i}" for i in range(16)])
    assert len({(look.colour, str(look.line)) for look in found.values()}) == 16


@pytest.mark.parametrize(
    ("label", "keys", "expected"),
    [
        ("dapo (step_size=0.1)", (), "dapo"),
        ("dapo (adapt=false, step_size=1e-05)", (), "dapo (adapt=false)"),
        ("dapo (adapt=false, step_size=1e-05)", ("step_size",), "dapo (adapt=false)"),
        ("dapo (step_size=0.1, bonus_scale=1)", ("step_size",), "dapo (bonus_scale=1)"),
        ("ours (new)", (), "ours (new)"),
        ("fixed (10)", (), "fixed (10)"),
        ("dapo", ("step_size",), "dapo"),
    ],
)
def test_labels_without_grid_values(label, keys, expected):
    assert without_values(label, *keys) == expected


def test_looks_do_not_depend_on_company_or_order():
    alone = looks(["dapo"])["dapo"]
    assert looks(["uniform", "my_learner", "dapo"])["dapo"] == alone == LOOKS["dapo"]
    assert looks(["my_learner"]) == {"my_learner": looks(["dapo", "my_learner"])["my_learner"]}
    names = [f"learner_{i}" for i in range(10)]
    assert looks(names) == looks(names[::-1])
    assert len({look.colour for look in looks(names).values()}) == 10


def test_a_grid_over_a_learner_has_shades_of_its_colour():
    found = looks(["DAPO (step_size=0.01)", "DAPO (step_size=0.1)", "DAPO (step_size=1)"], ["dapo", "dapo", "dapo"])
    hues = [matplotlib.colors.rgb_to_hsv(matplotlib.colors.to_rgb(look.colour))[0] for look in found.values()]
    assert np.ptp(hues) < 0.02
    assert len({(look.colour, str(look.line)) for look in found.values()}) == 3


# On paper


ALL_FIGURES = {
    "regret": lambda: figures.regret(sweep(delays=(10.0,))),
    "log": lambda: figures.regret(sweep(mdps=("Grid", "Chain"), delays=(10.0, 100.0)), scale="log"),
    "wrapped": lambda: figures.regret(sweep(delays=(1.0, 2.0, 4.0, 8.0, 16.0, 32.0))),
    "symlog": lambda: figures.regret(sweep(delays=(10.0,)), scale="symlog", width="two-column"),
    "per-episode": lambda: figures.per_episode_regret(sweep(), scale="log"),
    "delay": lambda: figures.regret_against_delay(sweep(mdps=("Grid", "Chain"))),
    "mosaic": lambda: figures.mosaic(tiles()),
    "delay in one panel": lambda: figures.regret_against_delay(sweep()),
    "setting": lambda: figures.regret_against_setting(tuned(), setting="step_size"),
    "setting by delays": lambda: figures.regret_against_setting(
        tuned(delays=("fixed", "bursts")), setting="step_size", scale="log"
    ),
}


@pytest.mark.parametrize("name", ALL_FIGURES)
def test_layout_has_its_width_and_nothing_overlaps_or_is_cut(name):
    with figures.style():
        figure = ALL_FIGURES[name]()
        figure.canvas.draw()
        page = figure.bbox
        assert figure.get_figwidth() in (3.25, 6.75)
        legends = [legend.get_window_extent() for legend in figure.legends]
        panels = [axes.get_tightbbox() for axes in figure.axes]
        for box in (*legends, *panels):
            assert page.x0 - 1 <= box.x0
            assert box.x1 <= page.x1 + 1
            assert page.y0 - 1 <= box.y0
            assert box.y1 <= page.y1 + 1
        boxes = [*legends, *panels]
        pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.padded(-1).overlaps(b.padded(-1))]
        assert not pairs


def test_pdf_embeds_truetype_fonts_and_is_the_same_each_time(tmp_path):
    first, second = (figures.save(figures.regret([curve()]), tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == ["a.pdf", "a.png"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    pdf = first[0].read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert re.findall(rb"/BaseFont /[A-Z]+\+(\w+)", pdf)[0] == b"STIXGeneral"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pdf", "a.png", "b.pdf", "b.png"]


def test_png_has_the_column_width_in_dots(tmp_path):
    (path,) = figures.save(figures.regret([curve()]), tmp_path / "one.png")
    header = path.read_bytes()[16:24]
    assert int.from_bytes(header[:4], "big") == 3.25 * 300
    assert figures.regret([curve()])._repr_png_()[1:4] == b"PNG"


def test_drawing_leaves_matplotlib_as_it_was(tmp_path):
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    figures.save(figures.regret([curve()]), tmp_path / "x.pdf")
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []


# Structure, losses, delays


def lazy_walk():
    """Three states in a row: action 0 stays, action 1 moves on with probability 0.7; the last state absorbs."""
    transitions = np.zeros((3, 2, 3))
    for state in (0, 1):
        transitions[state, 0, state] = 1
        transitions[state, 1, [state, state + 1]] = 0.3, 0.7
    transitions[2, :, 2] = 1
    losses = np.broadcast_to(np.array([[1.0], [0.5], [0.0]]), (3, 2))
    return TabularMDP.stationary(transitions, [1, 0, 0], 5, losses, name="walk")


def test_structure_has_an_arrow_per_transition_and_one_where_actions_agree():
    figure = figures.structure(lazy_walk())
    arrows = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == 2 * 3 + 1  # stay, try and fail, move: twice; and the end, for every action
    widths = sorted({round(float(arrow.get_linewidth()), 6) for arrow in arrows})
    assert len(widths) == 3  # 0.3, 0.7, 1
    assert "5" in figure.caption


def test_structure_of_a_big_mdp_is_its_matrices():
    n_states = 70
    transitions = np.roll(np.eye(n_states), 1, axis=1)[:, None].repeat(2, 1)
    mdp = TabularMDP.stationary(transitions, np.eye(n_states)[0], 4)
    figure = figures.structure(mdp)
    occupancy = figure.axes[1].images[0].get_array()
    assert [int(np.argmax(np.nan_to_num(row))) for row in occupancy] == [0, 1, 2, 3]
    assert len(figures.structure(lazy_walk(), kind="matrix").axes) == 4


def test_structure_without_positions_or_losses_is_deterministic(tmp_path):
    rng = np.random.default_rng(0)
    mdp = TabularMDP(rng.dirichlet(np.ones(5), (3, 5, 2)), np.full(5, 0.2))
    first, second = (figures.save(figures.structure(mdp, kind="graph"), tmp_path / name) for name in ("a.pdf", "b.pdf"))
    assert first[0].read_bytes() == second[0].read_bytes()


def test_outstanding_feedback_is_counted_episode_by_episode():
    delays = np.random.default_rng(1).integers(0, 9, 40)
    delays[[3, 30]] = 1000
    brute = [sum(j + delays[j] > k for j in range(k + 1)) for k in range(40)]
    np.testing.assert_array_equal(outstanding(delays), brute)


@pytest.mark.parametrize("delays", [np.zeros(20, int), np.arange(300) % 7, np.r_[np.ones(99, int), 10**6]])
def test_delays_are_drawn_and_summed_up(delays, tmp_path):
    figure = figures.delay_law(delays)
    figures.save(figure, tmp_path / "delays.png")
    assert f"longest {delays.max()}" in figure.caption
    shares = sum(bar.get_height() for bar in figure.axes[0].patches)
    assert shares == pytest.approx(1)


def test_losses_are_drawn():
    from tabpo.environments.losses_base import ListedMeans

    means = np.random.default_rng(2).random((30, 2, 3, 2))
    figure = figures.loss_sequence(ListedMeans(means, switches=np.array([10])), 30)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), means.mean((1, 2, 3)))
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), means.reshape(30, 12).T)


# Tables


def test_table_holds_the_t_interval_of_the_last_checkpoint():
    curves = sweep(delays=(10.0,))
    table = figures.final_table(Stored(curves), level=0.9)
    for row, one in zip(table.itertuples(), curves, strict=True):
        expected = scipy.stats.ttest_1samp(one.values[-1], 0).confidence_interval(0.9)
        assert (row.learner, row.runs) == (one.learner, 6)
        assert (row.lower, row.upper) == pytest.approx((expected.low, expected.high))


def test_table_formats():
    table = figures.final_table(sweep(learners=("d_oppo", "a|b"), delays=(10.0,)))
    latex = figures.render(table, "latex")
    assert r"d\_oppo" in latex
    assert latex.count(r"\\") == 3
    assert r"a\|b" in figures.render(table, "markdown")
    text = figures.render(table, "text")
    assert max(map(len, text.splitlines())) <= 80
    assert "95% t interval" in text.replace("\n", " ")
    assert "6 runs" in text
    lines = figures.render(table, "csv").splitlines()
    assert len(lines) == 3
    assert float(lines[1].split(",")[-3]) == table["mean"][0]


def test_table_of_single_runs_has_no_interval():
    assert "none" in figures.render(figures.final_table([curve(n_runs=1)]))


# Errors


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: figures.regret([]), "no finished curve"),
        (lambda: figures.regret([curve()], metric="regrets"), "unknown metric 'regrets'; did you mean 'regret'"),
        (lambda: figures.regret([curve()], scale="loglog"), "unknown scale 'loglog'"),
        (lambda: figures.regret([curve()], band="gauss"), "unknown band 'gauss'"),
        (lambda: figures.regret([curve()], width="narrow"), "unknown figure width 'narrow'"),
        (lambda: figures.regret([curve()], width=0.1), "between 1 and 40 inches"),
        (lambda: figures.regret([curve(exponent=0, scale=-1)], scale="log"), "nothing is above 0"),
        (lambda: figures.regret([curve(f"l{i}") for i in range(21)]), "21 learners are more"),
        (lambda: figures.regret([curve()], colour="red"), "unknown filter 'colour'"),
        (lambda: figures.regret_against_delay([curve()]), "no total_delay"),
        (lambda: figures.regret_against_delay(sweep(), abscissa="d"), "unknown abscissa 'd'"),
        (lambda: figures.regret([curve()], first_episode=5000), "beyond the last checkpoint, 1000"),
        (
            lambda: figures.regret_against_setting(tuned(), setting="step_sise"),
            "unknown numeric setting 'step_sise'; did you mean 'learner.step_size'",
        ),
        (lambda: figures.regret_against_setting(tuned() + tuned(), setting="step_size"), "two points at .* = 0.01"),
        (lambda: figures.draw(tuned(), "setting"), "needs the option 'setting', such as"),
        (lambda: figures.structure(lazy_walk(), kind="tree"), "kind must be"),
        (lambda: figures.render(figures.final_table([curve()]), "html"), "unknown table format 'html'"),
        (lambda: figures.regret([curve()], highest=10, scale="log"), "highest ends a linear axis"),
        (lambda: figures.mosaic([]), "needs a panel"),
        (lambda: figures.mosaic([figures.Panel("Both", sweep())]), "panel 'Both' has 2 curves of 'dapo'"),
        (lambda: figures.draw([curve()], "bars"), "unknown kind of figure 'bars'"),
        (lambda: figures.draw([curve()], "regret", scales="log"), "did you mean 'scale'"),
        (lambda: Curve("dapo", [1, 2], [[1.0]]), r"episodes \(C,\)"),
        (lambda: Curve("dapo", [2, 1], [[1.0], [2.0]]), "must increase"),
    ],
)
def test_bad_input_is_named(call, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        call()


def test_save_names_what_it_cannot_write(tmp_path):
    figure = figures.regret([curve()])
    with pytest.raises(InvalidInputError, match="does not exist"):
        figures.save(figure, tmp_path / "no" / "x.pdf")
    with pytest.raises(InvalidInputError, match="known: pdf, png"):
        figures.save(figure, tmp_path / "x.docx")
    assert [path.name for path in figures.save(figure, tmp_path / "gap0.2")] == ["gap0.2.pdf", "gap0.2.png"]
