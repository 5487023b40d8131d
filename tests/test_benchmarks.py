"""The benchmarks' own tools. What they measure is not tested here."""

import json
import math
import re
from itertools import combinations, pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner

from benchmarks import fedkt
from benchmarks.__main__ import NAMES, main
from benchmarks.declared import tables
from benchmarks.harness import Asked, Method, Row, Table, run
from benchmarks.no_harm import Silos
from benchmarks.pfnm import Layer, Prior, costs, match_networks
from benchmarks.variants import VARIANTS, one_subclass_each, shifted
from fedct_flwr.config.run import RunConfig
from fedct_flwr.types import DataError
from tests.blocks import PAGES
from tests.hospitals import dataset
from tests.readme import ROOT

COMMAND = typer.Typer(add_completion=False)
COMMAND.command()(main)


RAW = ROOT.parent / "shared" / "data"
WORDS = re.compile(r"^(–|not measured: no GPU|)$")
"""Cells without a number: not declared for this row, or of a device that is not there."""


@pytest.mark.parametrize("name", [name for name in NAMES if name != "papers"])
def test_every_command_gives_a_number_in_each_cell(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if RAW.exists():
        monkeypatch.setenv("FEDCT_DATA", str(RAW))
    done = CliRunner().invoke(COMMAND, [name, "--smoke", "--out", str(tmp_path)])
    if done.exit_code and re.search("is not on this machine|is not installed|pip install", done.output):
        pytest.skip(done.output.splitlines()[-1])
    assert done.exit_code == 0, done.exception or done.output
    text = (tmp_path / f"{name}-smoke.md").read_text("utf-8")
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("| ")]
    assert tables
    assert f"python -m benchmarks {name} --smoke" in text
    for _, _, *lines in tables:
        assert lines
        for line in lines:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert all(re.search(r"\d", cell) or WORDS.match(cell) for cell in cells[1:]), line
            assert re.search(r"\d", " ".join(cells[1:])), line


def test_the_papers_figures_stand_next_to_ours(tmp_path: Path) -> None:
    done = CliRunner().invoke(COMMAND, ["papers", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.exception
    found = (tmp_path / "papers.md").read_text("utf-8")
    assert "not measured" not in found
    assert found == (ROOT / "benchmarks" / "results" / "papers.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "no experiment 'nothing'"),
        (["heart-disease", "--row", "nothing"], "no row 'nothing'"),
        (["no-harm", "--row", "nothing"], "no row 'nothing'"),
        (["fedct-trees", "--smoke"], "is not on this machine"),
    ],
)
def test_wrong_names_and_missing_data_are_a_sentence(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDCT_DATA", str(tmp_path))
    done = CliRunner().invoke(COMMAND, [*arguments, "--out", str(tmp_path)])
    assert done.exit_code
    assert isinstance(done.exception, SystemExit)
    assert says in " ".join(done.output.replace("│", " ").split())


def test_measurements_of_another_commit_are_not_continued(tmp_path: Path) -> None:
    partial = tmp_path / "papers-smoke.partial.jsonl"
    line = {"command": "python -m benchmarks papers --smoke", "commit": "0000000", "key": "a", "values": {}}
    for text, says in ((json.dumps(line), "commit 0000000"), ("{", "is damaged")):
        partial.write_text(text, "utf-8")
        done = CliRunner().invoke(COMMAND, ["papers", "--smoke", "--out", str(tmp_path)])
        assert done.exit_code == 3
        assert says in done.output


def test_two_processes_measure_what_one_does(tmp_path: Path) -> None:
    values = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        done = CliRunner().invoke(COMMAND, ["no-harm", "--smoke", "--jobs", str(jobs), "--out", str(out)])
        assert done.exit_code == 0, done.exception or done.output
        values.append(json.loads((out / "no-harm-smoke.json").read_text("utf-8"))["values"])
    assert values[0] == values[1]


def test_a_declared_table_replaces_what_all_say_setting_by_setting(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        '[all]\nseeds = 2\nsmoke = { a = 1, b = 1 }\ngrids = [{ measure = "m" }]\n[settings]\nnear = { c = 1, d = 1 }\n'
        '[one]\ntitle = ""\nabout = ""\nuse = ["far", "near"]\nsmoke = { b = 2 }\nsettings = { d = 2 }\n'
        'methods = { ours = "known" }\nrows = [{ name = "r", use = ["near"], settings = { c = 3 } }]\n',
        "utf-8",
    )
    known: Method = lambda settings: {"m": 1.0}  # noqa: E731
    one = tables(str(tmp_path / "own.py"), {"known": known}, {"far": {"c": 0, "e": 0}})["one"]
    assert (one.seeds, one.smoke, one.settings) == (2, {"a": 1, "b": 2}, {"c": 1, "d": 2, "e": 0})
    assert (one.rows[0].settings, one.methods) == ({"c": 3, "d": 1}, {"ours": known})
    assert one.grids[0].columns[0][:2] == ("ours", "ours: m")


def test_a_row_across_values_is_one_for_each_combination(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        "[settings]\nfar = { c = 1 }\nnear = { c = 2, d = 2 }\nall = { e = 5 }\n"
        '[one]\ntitle = ""\nabout = ""\nseeds = 1\ngrids = []\n[[one.rows]]\nname = "{use}, {b:g}"\nuse = ["all"]\n'
        'settings = { d = 9 }\nacross = { use = ["far", "near"], b = [0.5, 3.0] }\n',
        "utf-8",
    )
    rows = tables(str(tmp_path / "own.py"), {"m": lambda settings: {}})["one"].rows
    assert [row.name for row in rows] == ["far, 0.5", "far, 3", "near, 0.5", "near, 3"]
    assert [rows[n].settings for n in (1, 2)] == [{"c": 1, "e": 5, "d": 9, "b": 3}, {"c": 2, "e": 5, "d": 9, "b": 0.5}]


def test_rows_that_measure_nothing_are_a_sentence() -> None:
    with pytest.raises(DataError, match="nothing to measure in a; b: name other rows"):
        run(Table("", "", [Row("a"), Row("b")], {"": lambda settings: {}}, [], 1), Asked("few"))


def test_tables_of_results_in_pages_are_those_committed() -> None:
    tables = [
        found
        for page in PAGES
        for found in re.findall(r"<!-- (benchmarks/results/\S+) -->\n(.*?)\n\n", page.read_text("utf-8"), re.DOTALL)
    ]
    assert tables
    for path, shown in tables:
        assert shown in (ROOT / path).read_text("utf-8")


@pytest.mark.parametrize("guarded", [True, False])
def test_the_default_is_judged_on_silos_of_their_own(guarded: bool) -> None:
    found = Silos("heart-disease", "naive-bayes", "{}", seed=0).cotrained(guarded=guarded, rounds=2)
    assert all(0 < found[f"{who}_{test}"] < 1 for who in ("alone", "together") for test in ("own", "pooled"))
    assert found["lost"] <= found["silos"] == 4


@pytest.mark.parametrize(
    ("gamma", "queries", "orders", "published"),
    [(0.04, 74, 8, 3.54), (0.05, 148, 8, 6.58), (0.06, 81, 8, 5.79), (0.04, 40, 32, 2.56)],
)
def test_fedkts_own_accountant_gives_the_papers_table_9(
    gamma: float, queries: int, orders: int, published: float
) -> None:
    assert fedkt.moments_epsilon(gamma, queries, orders=orders) == pytest.approx(published, abs=0.0051)


# --- matching of neurons


Array = NDArray[Any]

ANYWHERE = Prior(silo_variance=0.01, global_variance=math.inf)
"""Global neurons are plain means of their copies, which are close to each other."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def network(seed: int, *widths: int) -> list[Layer]:
    draw = rng(seed)
    return [Layer(draw.normal(size=(out, into)), draw.normal(size=out)) for into, out in pairwise(widths)]


def permuted(layers: list[Layer], seed: int) -> list[Layer]:
    """The same function of its input, its hidden neurons in another order."""
    draw, found, before = rng(seed), [], np.arange(layers[0].weights.shape[1])
    for number, (weights, biases) in enumerate(layers):
        last = number == len(layers) - 1
        order = np.arange(len(biases)) if last else draw.permutation(len(biases))
        found.append(Layer(weights[order][:, before], biases[order]))
        before = order
    return found


def outputs(layers: list[Layer], X: Array) -> Array:
    for weights, biases in layers[:-1]:
        X = np.maximum(X @ weights.T + biases, 0)
    return X @ layers[-1].weights.T + layers[-1].biases


EXAMPLES = rng(99).normal(size=(50, 6))
SHAPES = pytest.mark.parametrize("widths", [(6, 8, 3), (6, 8, 5, 3), (6, 4, 7, 5, 3)])


def test_costs_are_the_fall_of_the_posterior_up_to_what_all_assignments_share() -> None:
    """Over all assignments of a silo with two neurons to what two others have, by the model's densities themselves."""
    prior, num_silos = Prior(0.4, 1.5, 0.7), 3
    draw = rng(5)
    neurons, others = draw.normal(size=(2, 3)), [[draw.normal(size=3) for _ in range(n)] for n in (2, 1)]
    sums, counts = np.array([np.sum(copies, axis=0) for copies in others]), np.array([2.0, 1.0])
    cost = costs(neurons, sums, counts, num_silos, prior)

    def density(copies: list[Array]) -> float:
        """Of a global neuron at its most probable value and its copies, without what normalizes."""
        mean = np.sum(copies, axis=0) / prior.silo_variance / (len(copies) / prior.silo_variance + 1 / 1.5)
        apart = sum(float(((copy - mean) ** 2).sum()) for copy in copies)
        return -apart / 2 / prior.silo_variance - float((mean**2).sum()) / 2 / 1.5

    def posterior(chosen: tuple[int, ...]) -> float:
        total = 0.0
        for place, copies in enumerate(others):
            mine = [neurons[n] for n, where in enumerate(chosen) if where == place]
            # The share of the other silos that have it, as a new silo in an Indian buffet sees it.
            total += math.log(counts[place] / num_silos if mine else 1 - counts[place] / num_silos)
            total += density([*copies, *mine])
        new = [neurons[n] for n, where in enumerate(chosen) if where >= len(others)]
        rate = prior.gamma / num_silos
        return (
            total + sum(density([one]) for one in new) + len(new) * math.log(rate) - math.log(math.factorial(len(new)))
        )

    # Of the columns of new neurons the first are taken first.
    choices = [c for c in permutations(range(4), 2) if 3 not in c or 2 in c]
    falls = [-2 * posterior(choice) for choice in choices]
    found = [cost[[0, 1], list(choice)].sum() for choice in choices]
    assert len(choices) == 8
    for one, other in combinations(range(8), 2):
        assert found[one] - found[other] == pytest.approx(falls[one] - falls[other])


@SHAPES
def test_networks_that_differ_in_the_order_of_their_neurons_give_back_that_network(widths: tuple[int, ...]) -> None:
    one = network(1, *widths)
    silos = [permuted(one, seed) for seed in (2, 3, 4)]
    assert not np.allclose(silos[0][0].weights, silos[1][0].weights)
    found = match_networks(silos, ANYWHERE, rng())
    assert [layer.weights.shape for layer in found] == [layer.weights.shape for layer in one]
    np.testing.assert_allclose(outputs(found, EXAMPLES), outputs(one, EXAMPLES), atol=1e-9)
    # As a plain mean does not.
    plain = [
        Layer(*(np.mean(values, axis=0) for values in zip(*layers, strict=True))) for layers in zip(*silos, strict=True)
    ]
    assert np.abs(outputs(plain, EXAMPLES) - outputs(one, EXAMPLES)).max() > 1


def test_silos_may_differ_in_width() -> None:
    one = network(1, 6, 8, 3)
    narrow = [Layer(one[0].weights[5:], one[0].biases[5:]), Layer(one[1].weights[:, 5:], one[1].biases)]
    found = match_networks([narrow, permuted(one, 2)], ANYWHERE, rng())
    np.testing.assert_allclose(outputs(found, EXAMPLES), outputs(one, EXAMPLES), atol=1e-9)


# --- data sets


@pytest.mark.skipif(not RAW.exists(), reason="the data sets are not here")
@pytest.mark.parametrize(
    ("name", "private", "public", "test"),
    [("adult", 31_073, 10_000, 7_769), ("mushroom", 2_499, 4_000, 1_625), ("wine-quality", 136, 4_100, 1_084)],
)
def test_the_papers_sizes(name: str, private: int, public: int, test: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCT_DATA", str(RAW))
    dataset = VARIANTS[name](RunConfig.from_flower({"study": "s", "data": name}))
    assert sum(silo.private.size for silo in dataset.silos) == private
    assert (len(dataset.silos), len(dataset.public), dataset.test.size) == (5, public, test)


def test_a_silo_has_one_subclass_of_every_class_and_neighbors_have_another() -> None:
    # Class 0 has the subclasses 0, 1 and 2, class 1 has 3 alone.
    y, subclasses = np.int16([0, 0, 0, 1] * 12), np.int16([0, 1, 2, 3] * 12)
    parts = one_subclass_each(y, subclasses, 6, np.random.default_rng(0))
    assert np.sort(np.concatenate(parts)).tolist() == list(range(48))
    assert [len(part) for part in parts] == [6 + 2] * 6
    seen = [set(subclasses[part].tolist()) for part in parts]
    assert seen[:3] == seen[3:]
    assert sorted(map(sorted, seen[:3])) == [[0, 3], [1, 3], [2, 3]]


def test_only_the_private_labels_of_bad_silos_change() -> None:
    clean = dataset()
    bad = shifted(clean, ["zurich"])
    for before, after in zip(clean.silos, bad.silos, strict=True):
        assert (after.test, after.private.X is before.private.X) == (before.test, True)
        moved = 1 if before.name == "zurich" else 0
        np.testing.assert_array_equal(after.private.y, (before.private.y + moved) % 2)
