"""What a silo makes of the consensus."""

import json
from pathlib import Path

import pytest

import fedct_flwr
from fedct_flwr import Run
from fedct_flwr.silo.judgment import FOREIGN_ONLY, KEPT_OWN, Judgment, facts_of
from fedct_flwr.simulation.who_gained import distrusts
from fedct_flwr.types import DataError
from fedct_flwr.verdict import Verdict
from tests.hospitals import in_collusion

LOST = Verdict(-0.2, 1, 12, 0.003)


def judgments(run: Run) -> dict[str, Judgment]:
    found = {path.stem: Judgment.read(path) for path in (run.path / "judgments").glob("*.json")}
    return {silo: judgment for silo, judgment in found.items() if judgment}


def test_each_silo_says_what_it_uses_and_why():
    run = fedct_flwr.simulate("heart-disease", learner="naive-bayes", pseudo_weight="auto", rounds=3, progress=False)
    found = judgments(run)
    assert sorted(found) == sorted(run.silos)
    for judgment in found.values():
        assert judgment.weight is not None
        assert judgment.words
        assert judgment.records > 0
        assert judgment.round == len(run.records)
        assert set(judgment.tests) == {"2", str(len(run.records))}


def test_a_wrong_consensus_is_not_taken():
    """All silos but one vote for one class together: that one's records speak against it."""
    run = in_collusion()
    found = judgments(run)["cleveland"]
    assert found.weight is not None
    assert found.weight < 1
    assert found.gain is not None
    assert found.error is not None
    assert found.gain < -found.error
    row = next(row for row in run.rows if row.silo == "cleveland")
    assert row.own["federated"] > row.own["local"] - 0.02


def test_named_settings_are_only_tested():
    run = fedct_flwr.simulate("heart-disease", learner="naive-bayes", pseudo_weight=1.0, rounds=2, progress=False)
    for judgment in judgments(run).values():
        assert (judgment.weight, judgment.learner, judgment.words) == (None, "", "")
        assert judgment.last_test is not None


def test_it_goes_through_a_file(tmp_path: Path):
    path = tmp_path / "judgments" / "essen.json"
    assert Judgment.read(path) is None
    judgment = Judgment(3, "random forest", 0.3, -0.01, 0.02, 80, {"2": LOST, "3": LOST})
    judgment.write(path)
    assert Judgment.read(path) == judgment
    assert judgment.last_test == LOST


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tests": {}}', '{"round": 1, "tests": {"x": {}}}'])
def test_a_damaged_file_is_said(tmp_path: Path, text: str):
    path = tmp_path / "essen.json"
    path.write_text(text)
    with pytest.raises(DataError, match="damaged"):
        Judgment.read(path)


@pytest.mark.parametrize(
    ("judgment", "model", "words"),
    [
        (Judgment(2), None, ""),
        (Judgment(2, weight=0.0, gain=-0.1, error=0.02), "own", KEPT_OWN),
        (Judgment(2, weight=0.3, gain=-0.1, error=0.02), "co-trained", "against the full weight"),
        (Judgment(2, weight=1.0, gain=-0.1, error=0.02, foreign_only=True), "co-trained", FOREIGN_ONLY),
        (Judgment(2, weight=1.0, gain=0.1, error=0.02), "co-trained", "records support"),
        (Judgment(2, weight=1.0, gain=-0.01, error=0.02), "co-trained", "do not speak against"),
        (Judgment(2, weight=1.0), "co-trained", "cannot tell"),
    ],
)
def test_words(judgment: Judgment, model: str | None, words: str):
    assert words in judgment.words
    assert facts_of(judgment)["model"] == model
    json.dumps(facts_of(judgment))


def test_the_table_says_who_counts_foreign_examples_alone():
    facts = {silo: facts_of(Judgment(2, weight=1.0, foreign_only=silo == "essen")) for silo in ("essen", "ulm")}
    assert list(distrusts({"judgments": facts})) == [f"essen: {FOREIGN_ONLY}"]


def test_programs_read_the_verdict():
    assert facts_of(Judgment(2, tests={"2": LOST}))["own_test"]["verdict"] == "lost"


def test_probabilities_are_weighed_too():
    run = fedct_flwr.simulate(
        "heart-disease", algorithm="prediction-consensus", learner="naive-bayes", rounds=2, progress=False
    )
    found = judgments(run)
    assert sorted(found) == sorted(run.silos)
    for judgment in found.values():
        assert judgment.weight is not None
        assert judgment.records > 0
        assert judgment.last_test is not None
