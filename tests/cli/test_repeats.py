"""``fedct simulate --repeats``."""

import json
from pathlib import Path

import pytest

from tests.cli.documents import check
from tests.cli.silos import Fedct

QUICK = ("simulate", "--learner", "naive-bayes", "--rounds", "1", "--repeats", "2", "--run-dir", "r")


def test_seeds_run_in_this_process_and_end_in_means(fedct: Fedct, here: Path) -> None:
    outcome = fedct(*QUICK, "--json", "--seed", "3")
    assert outcome.code == 0, outcome
    document = json.loads(outcome.out)
    check(document, "Repeats")
    assert document["seeds"] == [3, 4]
    scores = [json.loads((here / "r" / f"seed-{seed}" / "scores.json").read_text()) for seed in (3, 4)]
    first = [rows[0]["own"]["federated"] for rows in scores]
    found = document["silos"][0]["own"]["federated"]
    assert (found["mean"], found["n"]) == (pytest.approx(sum(first) / 2), 2)
    assert found["error"] == pytest.approx(abs(first[0] - first[1]) / 2)
    assert document["mean"]["own"]["gain"]["n"] == 2


def test_it_goes_on_with_more_seeds(fedct: Fedct, here: Path) -> None:
    assert fedct(*QUICK, "--no-baselines").code == 0
    outcome = fedct("simulate", "--resume", "r", "--repeats", "3")
    assert outcome.code == 0, outcome
    assert sorted(path.name for path in (here / "r").glob("seed-*")) == ["seed-0", "seed-1", "seed-2"]
    assert "±" in outcome.out
    assert "alone" not in outcome.out
    # Nothing is left to do.
    assert fedct("simulate", "--resume", "r").code == 0


def test_what_names_no_single_run_is_repeated_and_drawn(fedct: Fedct, here: Path) -> None:
    outcome = fedct("simulate", "--learner", "naive-bayes")
    assert outcome.code == 0, outcome
    assert "silos with FedCT (Dawid-Skene): on all silos' test records " in outcome.out
    (folder,) = (here / "runs").iterdir()
    assert sorted(path.name for path in folder.glob("seed-*")) == [f"seed-{seed}" for seed in range(8)]
    page = (folder / "report.html").read_text("utf-8")
    # Means over all splits open the page, with those that are printed; one split follows.
    before = page[page.index("<main") : page.index("One of the splits: seed 0")]
    printed = next(line.split() for line in outcome.out.splitlines() if "worst silo" in line)[2:6]
    assert all(cell in before for cell in [*printed[:3], " ".join(printed[3:])])


def test_seeds_that_did_not_begin_in_time_are_named(fedct: Fedct, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedct_flwr.cli.simulate._SECONDS", 0)
    outcome = fedct("simulate", "--learner", "naive-bayes")
    (folder,) = (here / "runs").iterdir()
    again = f"fedct simulate --resume runs/{folder.name} --repeats 8"
    assert f"1 of 8 seeds began within 0 s; to run the others: {again}" in outcome.out
