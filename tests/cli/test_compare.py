"""``fedct compare`` and ``fedct simulate --repeats``: what is run, what is left out, and what is said."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.types import ConfigError
from tests.cli.documents import check
from tests.cli.silos import Fedct


def wards(folder: Path, seed: int = 0) -> Path:
    """Silos whose classes a tree can learn and a line cannot."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for name, size in (("public", 80), ("essen", 120), ("bonn", 120)):
        X = rng.integers(0, 2, (size, 2))
        y = np.where(X[:, 0] ^ X[:, 1], "ill", "well")
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", *(["label"] if name != "public" else [])])
            writer.writerows([*x, *([label] if name != "public" else [])] for x, label in zip(X, y, strict=True))
    return folder


ASKED = ("compare", "--data-dir", "wards", "--label", "label", "--rounds", "2", "--repeats", "3")


def compare(fedct: Fedct, *options: str) -> dict[str, Any]:
    outcome = fedct(*ASKED, *options, "--json")
    assert outcome.code == 0, outcome
    document: dict[str, Any] = json.loads(outcome.out)
    check(document, "Comparison")
    return document


def test_methods_are_ranked_and_chance_is_named(fedct: Fedct, here: Path) -> None:
    wards(here / "wards")
    found = compare(fedct, "--learners", "decision-tree,logistic-regression", "--run-dir", "r")
    names = [method["name"] for method in found["methods"]]
    assert set(names[:2]) == {"fedct-dawid-skene, decision-tree", "alone, decision-tree"}
    assert [method["mean"] for method in found["methods"][:2]] == [1.0, 1.0]
    by_name = {method["name"]: method for method in found["methods"]}
    assert by_name["fedct-dawid-skene, logistic-regression"]["differs"]
    assert (found["seeds"], found["test"], found["left_out"]) == ([0, 1, 2], "own", [])
    # All see the same splits: folders of repeats, which can be compared again.
    again = fedct("compare", *sorted(map(str, (here / "r").glob("fedct*"))), "--json")
    assert again.code == 0, again
    means = sorted(method["mean"] for method in json.loads(again.out)["methods"])
    assert means == pytest.approx(sorted(method["mean"] for method in found["methods"]))


def test_what_does_not_go_together_is_left_out_with_the_reason(fedct: Fedct, here: Path) -> None:
    wards(here / "wards")
    found = compare(fedct, "--algorithms", "fedct,fedavg,pate,fedkt,nonsense", "--learners", "decision-tree")
    assert {out["name"].partition(",")[0] for out in found["left_out"]} == {"fedavg", "nonsense"}
    assert "network" in next(out["reason"] for out in found["left_out"] if out["name"].startswith("fedavg"))
    alone = fedct(*ASKED, "--algorithms", "fedavg,feddf")
    assert (alone.code, bool(alone.sentence)) == (ConfigError.exit_code, True)
    # An algorithm that asks once has one round, whatever the others have.
    assert {method["name"] for method in found["methods"]} == {
        "fedct, decision-tree", "pate, decision-tree", "fedkt, decision-tree", "alone, decision-tree"
    }  # fmt: skip
    # FedKT leaves all silos the student.
    rounds = {method["name"].partition(",")[0]: method["rounds"] for method in found["methods"]}
    assert (rounds["fedkt"], rounds["pate"], rounds["alone"]) == (1, 1, None)
    assert rounds["fedct"] > 1


def test_it_goes_on_where_it_was_stopped(fedct: Fedct, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wards(here / "wards")
    options = ("--learners", "naive-bayes,decision-tree", "--run-dir", "r")
    from fedct_flwr.cli import compare as command

    run, calls = command.run_one, []

    def stopping(*arguments: Any) -> None:
        calls.append(arguments[-2])
        if len(calls) == 5:
            raise KeyboardInterrupt
        run(*arguments)

    monkeypatch.setattr(command, "run_one", stopping)
    outcome = fedct(*ASKED, *options)
    assert outcome.code == 130
    assert "the same command with --run-dir r" in outcome.out
    outcome = fedct(*ASKED, *options, "--json")
    assert outcome.code == 0, outcome
    assert len(calls) == 7
    assert len(json.loads(outcome.out)["methods"]) == 4
    more = json.loads(fedct(*ASKED, *options, "--repeats", "4", "--json").out)
    assert (len(calls), more["seeds"]) == (9, [0, 1, 2, 3])
    other = fedct(*ASKED, *options, "--set", "pseudo-weight=0.5")
    assert other.code == ConfigError.exit_code
    assert "holds runs with other settings: choose another --run-dir" in other.sentence


def test_records_are_compared_and_not_where_they_lie(fedct: Fedct, here: Path) -> None:
    wards(here / "wards")
    for name in ("elsewhere", "changed"):
        shutil.copytree(here / "wards", here / name)
    essen = (here / "changed" / "essen.csv").read_text()
    (here / "changed" / "essen.csv").write_text(essen.replace("well", "ill", 9))
    learners = {"wards": "naive-bayes", "elsewhere": "decision-tree", "changed": "logistic-regression"}
    for name, learner in learners.items():
        run = ("--label", "label", "--learner", learner, "--rounds", "2", "--in-process", "--run-dir", f"run-{name}")
        assert fedct("simulate", "--data-dir", name, *run).code == 0
    assert fedct("compare", "run-wards", "run-elsewhere").code == 0
    refused = fedct("compare", "run-wards", "run-changed")
    assert (refused.code, "are about other data (records)" in refused.sentence) == (ConfigError.exit_code, True)
    shutil.copy(here / "changed" / "essen.csv", here / "wards" / "essen.csv")
    resumed = fedct("simulate", "--resume", "run-wards", "--rounds", "4", "--in-process")
    assert resumed.code != 0
    assert "with other data: records changed" in resumed.sentence


# --- repeats


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
