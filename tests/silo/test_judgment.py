"""What a silo makes of the consensus."""

import fedct_flwr
from fedct_flwr import Run
from fedct_flwr.silo.personal import Judgment
from tests.hospitals import in_collusion


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
