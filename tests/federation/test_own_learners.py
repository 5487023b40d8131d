"""The examples of learners of one's own co-train, and are as short as they should be."""

from pathlib import Path

import pytest

from tests.federation.conftest import Federation

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("learner", "params", "suffix"),
    [
        ("own_network.make", '{"width": 16}', "safetensors"),
        ("own_classifier.NearestMean", '{"shrinkage": 0.2}', "skops"),
    ],
)
def test_an_example_cotrains(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, learner: str, params: str, suffix: str
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    folder = federation.run(
        learner=learner, learner_params=params, preprocessing="standard", save_models=True, report_scores=True,
        num_server_rounds=3,
    )  # fmt: skip
    assert all(not entry["absent"] for entry in folder.rounds())
    assert {path.name for path in folder.models.iterdir()} >= {f"cleveland.{suffix}", f"zurich.{suffix}"}
    scores = [silo["scores"]["pooled_balanced_accuracy"] for silo in folder.rounds()[-1]["silos"].values()]
    assert sum(scores) / 4 > 0.6
