"""The benchmarks' own tools. What they measure is not tested here."""

import re
from pathlib import Path

import pytest

from benchmarks import fedkt, report
from benchmarks.__main__ import EXPERIMENTS as COMMANDS
from benchmarks.__main__ import function
from benchmarks.experiments import EXPERIMENTS
from benchmarks.no_harm import Silos
from tests.blocks import PAGES
from tests.readme import ROOT


def test_every_experiment_is_a_command_that_is_there() -> None:
    assert set(EXPERIMENTS) < set(COMMANDS)
    assert all(callable(function(name)) for name in COMMANDS)


def test_tables_of_results_in_pages_are_those_committed() -> None:
    tables = [
        found
        for page in PAGES
        for found in re.findall(r"<!-- (benchmarks/results/\S+) -->\n(.*?)\n\n", page.read_text("utf-8"), re.DOTALL)
    ]
    assert tables
    for path, table in tables:
        assert table in (ROOT / path).read_text("utf-8")


def test_networks_beside_bare_pytorch_and_silos_as_one_are_measured_and_labels_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "stacked", "--fast"])
    report.place(tmp_path)
    function("stacked")(2, True)
    lines = (tmp_path / "stacked-fast.md").read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith(("| MLP", "| small CNN", "| 5 silos"))]
    assert len(rows) == 5
    assert [row.split("|")[-2].strip() for row in rows] == ["-"] * 3 + ["100.0%"] * 2


def test_one_gpu_is_measured_as_far_as_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "gpu", "--fast"])
    monkeypatch.setattr("benchmarks.gpu._DEVICES", ("cpu",))
    report.place(tmp_path)
    function("gpu")(1, True)
    lines = (tmp_path / "gpu-fast.md").read_text("utf-8").splitlines()
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[2:-1]] for line in lines if (cells := line.split("|"))[1:]
    }
    nothing = "not measured: no GPU"
    assert float(rows["MLP 784-512-512-10, batch 16"][0]) > 0 < float(rows["MLP 784-512-512-10, batch 16"][2])
    assert float(rows["2 silos"][1]) > 0
    for name in ("networks", "DP-SGD, epsilon 8", "images", "XGBoost"):
        assert rows[name][1:4] == [nothing] * 3
        assert float(rows[name][0]) > 0
        assert 0 <= float(rows[name][4]) <= 1


@pytest.mark.parametrize("guarded", [True, False])
def test_the_default_is_judged_on_silos_of_their_own(guarded: bool) -> None:
    scores = Silos("heart-disease", "naive-bayes", {}, seed=0).cotrained(guarded=guarded, rounds=2)
    assert {name: len(values) for name, values in scores.items() if name != "verdicts"} == dict.fromkeys(
        ("alone_own", "together_own", "alone_pooled", "together_pooled"), 4
    )
    assert all(0 < value < 1 for value in scores["together_pooled"])


@pytest.mark.parametrize(
    ("gamma", "queries", "orders", "published"),
    [(0.04, 74, 8, 3.54), (0.05, 148, 8, 6.58), (0.06, 81, 8, 5.79), (0.04, 40, 32, 2.56)],
)
def test_fedkts_own_accountant_gives_the_papers_table_9(
    gamma: float, queries: int, orders: int, published: float
) -> None:
    assert fedkt.moments_epsilon(gamma, queries, orders=orders) == pytest.approx(published, abs=0.0051)
