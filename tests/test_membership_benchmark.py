"""The benchmark of membership inference: its methods and rows. What it measures is not tested here."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import membership, report
from benchmarks.__main__ import PARTS
from benchmarks.federation import Runs
from benchmarks.membership import GIVEN_AWAY, METHODS, Part, config_of, methods_of
from benchmarks.membership_rows import AUC, ERROR, best, row, values_of
from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.audit.audit import About, How, conclude
from fedct_flwr.audit.members import choose, draw
from fedct_flwr.audit.seats import COORDINATOR
from fedct_flwr.audit.seen import Seen
from fedct_flwr.seeding import generator
from tests.audit.test_audit import noisy

NETWORKS = [name for name, part in membership.PARTS.items() if part.network]


def test_some_part_has_every_method_and_each_setting_is_known() -> None:
    every = {method for part in membership.PARTS.values() for method in methods_of(part, fast=False)}
    assert every == {*METHODS, *GIVEN_AWAY}
    assert {"hospitals-linear", "hospitals-trees", "text-linear", "fashion-mnist"} <= set(membership.PARTS)
    for method, given in METHODS.items():
        assert given["algorithm"] in ALGORITHMS
        for name in NETWORKS:
            config = config_of(membership.PARTS[name], given, 0, fast=False)
            assert config.algorithm == given["algorithm"], method
    for name in NETWORKS:
        assert set(methods_of(membership.PARTS[name], fast=False)) == {*METHODS, *GIVEN_AWAY}
    for part in membership.PARTS.values():
        assert set(part.paper) <= set(methods_of(part, fast=False))


def runs(marks: dict[str, list[float]], error: float = 0.03) -> Runs:
    found = Runs()
    for seed in range(max(map(len, marks.values()))):
        there = {name: values[seed] for name, values in marks.items() if seed < len(values)}
        found.add(
            **{f"{COORDINATOR}: {name}: {AUC}": value for name, value in there.items()},
            **{f"{COORDINATOR}: {name}: {ERROR}": error for name in there},
        )
    return found


def test_each_seeds_attack_is_the_one_that_is_strongest_on_the_others() -> None:
    lucky = runs({"gap": [0.60, 0.60, 0.60], "near": [0.90, 0.40, 0.40]})
    found = best(lucky, COORDINATOR)
    assert found is not None
    # On seeds 1 and 2 the first one's luck counts, on seed 0 it does not.
    assert found.value == pytest.approx((0.60 + 0.40 + 0.40) / 3)
    assert found.error == pytest.approx(0.03 / np.sqrt(3))
    assert best(runs({"gap": [0.60], "near": [0.70]}), COORDINATOR).attack == "near"  # type: ignore[union-attr]
    assert best(lucky, "final model") is None
    # One of two runs ended before there was an agreement over rounds.
    assert best(runs({"gap": [0.60, 0.62], "agreement": [0.90]}), COORDINATOR).attack == "gap"  # type: ignore[union-attr]


def test_without_leaks_the_strongest_attack_is_no_better_than_guessing() -> None:
    values = []
    for seed in range(60):
        drawn = 0.5 + np.random.default_rng(seed).normal(scale=0.03, size=(9, 3))
        found = best(runs({f"attack {n}": list(of) for n, of in enumerate(drawn)}), COORDINATOR)
        assert found is not None
        values.append(found.value)
    assert np.mean(values) == pytest.approx(0.5, abs=0.008)


def audited(seed: int) -> Runs:
    dataset, found = noisy(), Runs()
    how = How(4, 60, seed=seed)
    candidates = choose(dataset.silos, how.candidates, seed)
    drawn = [draw(candidates, dataset.silos, generator(seed, "members", n)) for n in range(how.refits)]
    seen = [
        {
            silo.name: Seen(records.y, np.where(members[silo.name], records.y, 1 - records.y)[None])
            for silo in dataset.silos
            for records in [candidates.records(silo)]
        }
        for members in drawn
    ]
    promised = About("fedct", "dp-linear", 1.0, 1e-5)
    found.add(**values_of(conclude(promised, how, dataset.silos, candidates, {COORDINATOR: seen}, drawn, 0.0)))
    return found


def test_a_row_has_all_numbers_of_the_audits() -> None:
    cells = row("FedCT", audited(0), 0.51)
    assert cells[0] == "FedCT"
    assert cells[1].startswith("1.000 (")
    assert cells[3] == "100"
    assert cells[4] == cells[5] == "100.0%"
    assert cells[6] == cells[7] == ""
    assert float(cells[8].split()[0]) > 1
    assert cells[9] == "0.51"


def test_a_part_alone_keeps_the_results_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "membership"])
    parts = {name: Part(name, {"data": "heart-disease"}, refits=2, seeds=1) for name in ("one", "two")}
    monkeypatch.setattr(membership, "PARTS", parts)
    monkeypatch.setattr(membership, "METHODS", {name: METHODS[name] for name in ("FedCT", membership._NOT_PLANTED)})
    monkeypatch.setattr(membership, "GIVEN_AWAY", {})
    area = 0.6

    def values(*_: object, **__: object) -> dict[str, float]:
        return {f"{COORDINATOR}: gap: {AUC}": area, f"{COORDINATOR}: gap: {ERROR}": 0.01, f"{COORDINATOR}: right": 0.5}

    monkeypatch.setattr(membership, "_audited", lambda *_, **__: None)
    monkeypatch.setattr(membership, "values_of", values)
    membership.run(None, False)
    area = 0.7
    membership.run(None, False, part="two")
    found = json.loads((tmp_path / "membership.json").read_text("utf-8"))
    assert list(found["settings"]["parts"]) == ["one", "two"]
    key = f"{COORDINATOR}: gap: {AUC}"
    assert [found["values"][f"{name}: FedCT"][key] for name in parts] == [[0.6], [0.7]]
    text = (tmp_path / "membership.md").read_text("utf-8")
    assert text.count("| FedCT | ") == 2
    assert text.count("does not hold") >= 2


def test_a_part_that_is_none_is_refused() -> None:
    import typer

    from benchmarks.__main__ import main

    app = typer.Typer()
    app.command()(main)
    for arguments in (["membership", "--part", "nothing"], ["trees", "--part", "hospitals-linear"]):
        assert CliRunner().invoke(app, arguments).exit_code == 2
    assert set(PARTS["membership"]) == set(membership.PARTS)
