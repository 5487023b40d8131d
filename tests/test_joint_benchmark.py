"""The benchmark of joint labelers: labels are those of the labeler, and tables say what is simulated."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import joint, joint_additive, report
from benchmarks.federation import Runs
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import Examples

SCHEMA = Schema.numeric(("a", "b"), ("x", "y"))


def silos() -> tuple[list[Examples], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 2))
    y = (np.abs(X[:, 0]) > 0.7).astype(np.int16)
    return [Examples(X[i:3_000:3], y[i:3_000:3]) for i in range(3)], X[3_000:], y[3_000:]


def test_labels_are_those_of_one_labeler_and_additive_ones_know_ranges() -> None:
    private, public, truth = silos()
    found = {
        kind: joint.joint_labels(private, public, SCHEMA, epsilon=3.0, may_collude=1, seed=0, kind=kind)
        for kind in joint_additive.KINDS
    }
    again = joint.joint_labels(private, public, SCHEMA, epsilon=3.0, may_collude=1, seed=0, kind="additive")
    np.testing.assert_array_equal(found["additive"], again)
    assert min((found[kind] == truth).mean() for kind in ("additive", "auto")) > 0.9


def filled(names: list[str]) -> Runs:
    runs = Runs()
    for seed in range(2):
        runs.add(**{name: (place + seed) / 100 for place, name in enumerate(names)})
    return runs


@pytest.mark.parametrize("parts", [[], [joint.PARTS[0]], list(joint.PARTS)])
def test_tables_have_a_row_for_each_part_that_was_measured(parts: list[joint.Part]) -> None:
    own = [
        "alone",
        "pooled data",
        *(f"guarded {e:g}" for e in joint.GUARDED_AT),
        *(f"{what} {e:g}" for what in ("own", "labels") for e in joint.EPSILONS),
    ]
    runs = {f"{joint.HOSPITALS}, {learner}": filled(own) for learner in joint.LEARNERS}
    scores = ("accuracy", "balanced")
    names = [f"{score} alone" for score in scores]
    names += [f"{score} {what} {e:g}" for score in scores for what in ("labels", "gain") for e in joint.EPSILONS]
    runs |= {part.setting.title: filled(names) for part in parts}
    text = joint.text(runs, {part.name: f"measured: {part.name}\n" for part in joint.PARTS})
    assert text.count("measured: ") == len(parts)
    assert "Simulated" in text
    assert "## Four hospitals, 510 records, 2 seeds" in text
    assert [part.setting.title in text for part in joint.PARTS] == [part in parts for part in joint.PARTS]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 5 + 6 * len(parts)


def test_both_kinds_stand_next_to_each_other() -> None:
    names = ["alone", "pooled data", *(f"guarded {epsilon:g}" for epsilon in joint_additive.GUARDED_AT)]
    names += [f"own {epsilon:g}" for epsilon in joint.EPSILONS]
    text = joint_additive.text({f"sites, {kind}": filled(names) for kind in joint_additive.KINDS}, {})
    assert "Simulated" in text
    assert "| sites | linear | 0.005 ± 0.005 |" in text
    assert "| sites | additive | 0.005 ± 0.005 |" in text


def test_a_row_that_is_measured_leaves_the_others_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)

    def text(runs: dict[str, Runs], measured: dict[str, str]) -> str:
        return f"{sorted(runs)} {sorted(measured)}\n"

    for row, value in (("a", 1.0), ("b", 2.0), ("a", 3.0)):
        report.write_row("rows", row, text, {f"setting {row}": Runs({"x": [value, value]})}, {}, 5.0)
    assert "['setting a', 'setting b'] ['a', 'b']" in (tmp_path / "rows.md").read_text("utf-8")
    content = json.loads((tmp_path / "rows.json").read_text("utf-8"))
    assert content["values"] == {"setting a": {"x": [3.0, 3.0]}, "setting b": {"x": [2.0, 2.0]}}
    assert set(content["settings"]["rows"]) == {"a", "b"}
