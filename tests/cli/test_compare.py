"""``fedct compare``: what is run, what is left out, and what is said."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.cli import documents
from fedct_flwr.types import ConfigError, RunError
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
    assert document.keys() == documents.Comparison.__annotations__.keys()
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


def test_files_are_described_as_to_simulate(fedct: Fedct, here: Path) -> None:
    wards(here / "wards")
    for name in ("public", "essen", "bonn"):
        lines = (here / "wards" / f"{name}.csv").read_text().splitlines()
        numbered = [f"{line},{'patient' if number == 0 else number // 2}" for number, line in enumerate(lines)]
        (here / "wards" / f"{name}.csv").write_text("\n".join(numbered) + "\n")
    compare(
        fedct, "--group", "patient", "--accept", "unknown-values", "--learners", "naive-bayes,svm", "--run-dir", "r"
    )
    settings = json.loads((here / "r" / "compare.json").read_text("utf-8"))["settings"]
    assert (settings["group-column"], settings["accept"]) == ("patient", ["unknown-values"])


def test_what_does_not_go_together_is_left_out_with_the_reason(fedct: Fedct, here: Path) -> None:
    wards(here / "wards")
    found = compare(fedct, "--algorithms", "fedct,fedavg,pate,fedkt,nonsense", "--learners", "decision-tree")
    assert {out["name"].partition(",")[0] for out in found["left_out"]} == {"fedavg", "fedkt", "nonsense"}
    assert "network" in next(out["reason"] for out in found["left_out"] if out["name"].startswith("fedavg"))
    # An algorithm that asks once has one round, whatever the others have.
    assert {method["name"] for method in found["methods"]} == {
        "fedct, decision-tree", "pate, decision-tree", "alone, decision-tree"
    }  # fmt: skip


def test_a_method_that_fails_is_left_out_and_the_others_are_ranked(fedct: Fedct, here: Path) -> None:
    wards(here / "wards")
    found = compare(fedct, "--learners", "naive-bayes,tests.federation.learners.Raising")
    assert [out["name"].rpartition(".")[2] for out in found["left_out"]] == ["Raising"]
    assert len(found["methods"]) == 2


def test_it_goes_on_where_it_was_stopped(fedct: Fedct, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wards(here / "wards")
    options = ("--learners", "naive-bayes,decision-tree", "--run-dir", "r")
    from fedct_flwr.cli import compare as command

    run, calls = command.run_one, []

    def stopping(*arguments: Any) -> None:
        calls.append(arguments[1])
        if len(calls) == 5:
            raise KeyboardInterrupt
        run(*arguments)

    monkeypatch.setattr(command, "run_one", stopping)
    outcome = fedct(*ASKED, *options)
    assert outcome.code == 130
    assert "fedct compare --resume r" in outcome.out
    outcome = fedct("compare", "--resume", "r", "--json")
    assert outcome.code == 0, outcome
    assert len(calls) == 7
    assert len(json.loads(outcome.out)["methods"]) == 4
    more = json.loads(fedct("compare", "--resume", "r", "--repeats", "4", "--json").out)
    assert (len(calls), more["seeds"]) == (9, [0, 1, 2, 3])


def test_one_run_each_says_nothing_of_chance(fedct: Fedct, here: Path) -> None:
    for learner in ("naive-bayes", "decision-tree"):
        asked = ("simulate", "--in-process", "--no-watch", "--rounds", "1", "--learner", learner, "--no-baselines")
        assert fedct(*asked, "--run-dir", learner).code == 0
    outcome = fedct("compare", "naive-bayes", "decision-tree", "--test", "pooled")
    assert outcome.code == 0, outcome
    assert "single seed" in outcome.out
    assert "learner=naive-bayes" in outcome.out


def test_runs_about_other_records_are_not_compared(fedct: Fedct, here: Path) -> None:
    quick = ("simulate", "--in-process", "--no-watch", "--rounds", "1", "--learner", "naive-bayes", "--no-baselines")
    assert fedct(*quick, "--run-dir", "a").code == 0
    assert fedct(*quick, "--run-dir", "b", "--set", "test-fraction=0.3").code == 0
    outcome = fedct("compare", "a", "b")
    assert (outcome.code, "test-fraction" in outcome.sentence) == (ConfigError.exit_code, True)
    assert fedct("compare", "a", "nothing").code == RunError.exit_code


@pytest.mark.parametrize(
    "options",
    [
        ("--learners", "naive-bayes"),
        ("--learners", "naive-bayes,naive-bayes"),
        ("--learners", "naive-bayes,svm", "--repeats", "1"),
        ("--learners", "naive-bayes,svm", "--set", "baselines=all"),
        ("--learners", "naive-bayes,svm", "--set", "seed=3"),
        ("--learners", "naive-bayes,svm", "--label", "x"),
        ("--learners", "naive-bayes,svm", "--test", "mine"),
        ("--algorithms", "fedavg,feddf"),
    ],
)
def test_what_cannot_be_compared_leaves_nothing(fedct: Fedct, here: Path, options: tuple[str, ...]) -> None:
    outcome = fedct("compare", *options, "--run-dir", "r")
    assert outcome.code == ConfigError.exit_code
    assert outcome.sentence
    assert not (here / "r").exists()


def scans(folder: Path) -> Path:
    """A folder per silo with one per class, four images of each patient, bright on the left or on the right."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for silo in ("public", "essen", "bonn"):
        for number in range(24):
            ill = number // 4 % 2 == 0
            place = folder / silo if silo == "public" else folder / silo / ("ill" if ill else "well")
            place.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 80, (16, 20))
            pixels[:, :10] += 120 * ill
            pixels[:, 10:] += 120 * (not ill)
            image.fromarray(pixels.astype(np.uint8)).save(place / f"p{number // 4:02}_{number}.png")
    (folder / "data.toml").write_text("[images]\ngroup-pattern = '^(p[0-9]+)_'\n")
    return folder


def test_folders_of_images_are_compared(fedct: Fedct, here: Path) -> None:
    scans(here / "scans")
    options = ("--learners", "small-cnn,naive-bayes", "--rounds", "1", "--repeats", "2", "--json")
    outcome = fedct("compare", "--data-dir", "scans", *options, "--run-dir", "r")
    assert outcome.code == 0, outcome
    found = json.loads(outcome.out)
    assert [method["name"].rpartition(", ")[2] for method in found["methods"]] == ["small-cnn", "small-cnn"]
    assert all(0 <= method["mean"] <= 1 for method in found["methods"])
    # A learner of tables is left out, with one that reads images.
    (left_out,) = found["left_out"]
    assert left_out["name"].endswith("naive-bayes")
    assert "small-cnn" in left_out["reason"]
    refused = fedct("compare", "--data-dir", "scans", *options, "--group", "patient", "--run-dir", "again")
    assert (refused.code, "group-pattern" in refused.sentence) == (ConfigError.exit_code, True)


def notes(folder: Path) -> Path:
    """Records whose text tells the class, two of each patient, and an accidental copy of the label."""
    rng = np.random.default_rng(0)
    words = {"ill": ["fever and cough", "severe cough"], "well": ["no complaints", "routine check"]}
    folder.mkdir()
    for name in ("public", "essen", "bonn"):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["note", "age", "code", "patient", *(["label"] if name != "public" else [])])
            for number in range(60):
                label = str(rng.choice([*words]))
                note = f"{rng.choice(words[label])} on day {rng.integers(99)}, room {number}"
                code = 2 + (label == "ill" if name != "public" else rng.integers(2))
                writer.writerow(
                    [
                        note,
                        rng.integers(20, 90),
                        int(code),
                        f"{name}{number // 2}",
                        *([label] if name != "public" else []),
                    ]
                )
    return folder


def test_columns_of_text_are_compared(fedct: Fedct, here: Path) -> None:
    notes(here / "notes")
    options = ("--group", "patient", "--accept", "tells-the-label:code", "--set", "text-columns=note")
    outcome = fedct(
        *("compare", "--data-dir", "notes", "--label", "label", *options, "--run-dir", "r", "--json"),
        *("--learners", "tfidf-linear,naive-bayes", "--rounds", "1", "--repeats", "2"),
    )
    assert outcome.code == 0, outcome
    found = json.loads(outcome.out)
    means = {method["name"]: method["mean"] for method in found["methods"]}
    assert means["fedct-dawid-skene, tfidf-linear"] > 0.9
    assert found["left_out"] == []
    assert "tells-the-label" not in outcome.err
    settings = json.loads((here / "r" / "compare.json").read_text("utf-8"))["settings"]
    assert (settings["group-column"], settings["accept"]) == ("patient", ["tells-the-label:code"])
