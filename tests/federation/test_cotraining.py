"""Whole runs of the two apps on the loopback."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Result, Strategy

from fedct_flwr import DawidSkene, FedCT, Plurality, datasets, simulate
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.cotraining import CoTraining, arrays_to_targets, targets_to_arrays
from fedct_flwr.coordinator.questions import Asking, no_targets
from fedct_flwr.coordinator.study import Roster
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.wire.content import Terms
from tests.federation.conftest import Federation
from tests.patience import PATIENCE


@pytest.mark.parametrize("start", [CoTraining.start, Strategy.start], ids=["its own loop", "Flower's loop"])
def test_the_strategy_means_what_every_flower_strategy_means(
    federation: Federation, start: Callable[..., Result]
) -> None:
    seen: list[int] = []
    results = []

    def main(grid: Grid, context: Context) -> None:
        config = RunConfig.from_flower(context.run_config)
        dataset = datasets.load(config)
        terms = Terms(config.study, dataset.public.fingerprint, len(dataset.public), dataset.schema.classes)
        roster = Roster([silo.name for silo in dataset.silos], 2, 1.0)
        strategy = CoTraining(Asking(terms, Plurality().consensus(2), terms.num_public), roster, Plurality().rounds)

        def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
            seen.append(number)
            return MetricRecord({"labeled": int((arrays_to_targets(arrays) != -1).sum())})

        empty = targets_to_arrays(no_targets(terms.num_public))
        results.append(start(strategy, grid, empty, num_rounds=2, timeout=PATIENCE, evaluate_fn=evaluate))

    server_app = ServerApp()
    server_app.main()(main)
    settings = {"study": "test", "data": "heart-disease", "learner": "decision-tree", "save-models": False}
    run_loopback(server_app, federation.app, settings, simulated_nodes(4))
    (result,) = results
    assert seen == [0, 1, 2]
    assert [record["labeled"] for record in result.evaluate_metrics_serverapp.values()] == [0, 228, 228]
    assert list(result.train_metrics_clientapp) == [1, 2]
    assert result.train_metrics_clientapp[1]["changed"] == 228
    assert set(np.unique(arrays_to_targets(result.arrays))) == {0, 1}


def opposed() -> tuple[dict[str, pd.DataFrame], pd.DataFrame, pd.DataFrame]:
    """Three silos' tables, one of a silo whose labels are exchanged, and the public table."""

    def table(seed: int, size: int) -> pd.DataFrame:
        numbers = np.random.default_rng(seed).normal(size=(size, 3))
        return pd.DataFrame(numbers, columns=["a", "b", "c"]).assign(ill=np.where(numbers[:, 0] > 0, "yes", "no"))

    silos = {name: table(seed, 60) for seed, name in enumerate(("east", "north", "south"))}
    turned = table(9, 60).replace({"ill": {"yes": "no", "no": "yes"}})
    return silos, turned, table(10, 200).drop(columns="ill")


@pytest.mark.parametrize("rule", [Plurality(), DawidSkene()], ids=lambda rule: type(rule).__name__)
def test_a_silo_whose_labels_are_the_opposite_of_all_others_counts_nothing(rule: Plurality | DawidSkene) -> None:
    silos, turned, public = opposed()
    how = {"label": "ill", "learner": "logistic-regression", "algorithm": FedCT(rule), "rounds": 1, "progress": False}
    without = simulate(silos, public, **how)
    with pytest.warns(UserWarning, match="west"):
        run = simulate({**silos, "west": turned}, public, **how)
    assert [*run.records[0]["opposed"]] == ["west"]
    assert run.consensus.tolist() == without.consensus.tolist()


def test_under_the_coordinators_noise_no_silo_is_left_out_for_its_labels() -> None:
    silos, turned, public = opposed()
    with pytest.warns(UserWarning, match="west"):
        run = simulate(
            {**silos, "west": turned}, public, label="ill", learner="logistic-regression", algorithm="dp-pate",
            epsilon=50.0, query_size=60, progress=False,
        )  # fmt: skip
    assert "opposed" not in run.records[0]
    assert [*run.records[0]["silos"]] == ["east", "north", "south", "west"]


# --- learners of one's own


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


def test_a_run_leaves_files_models_and_a_card_of_the_global_one_that_tells_what_is_known(
    federation: Federation,
) -> None:
    settings = {"student": "random-forest", "student_params": '{"n_estimators": 10}', "save_models": True}
    folder = federation.run(algorithm="fedct-qualified", quorum=0.9, **settings)
    assert sorted(path.name for path in folder.path.iterdir()) == [
        ".lock", "checkpoint.npz", "config.json", "judgments", "labels.csv", "models", "result.json", "rounds.jsonl",
    ]  # fmt: skip
    models = {path.stem for path in folder.models.iterdir()}
    assert models == {"budapest", "cleveland", "global", "long-beach", "zurich"}
    assert folder.read_json("result.json")["status"] == "completed"
    path = folder.path / folder.read_json("result.json")["global_model"]["file"]
    card = json.loads(path.with_suffix(".json").read_text())
    assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert card["public-set"] == {"fingerprint": folder.read_json("config.json")["public_fingerprint"], "examples": 228}
    assert card["labels"]["used"] + card["labels"]["without"] == 228
    assert card["labels"]["without"] > 0
    assert (card["labels"]["rounds"], card["labels"]["quorum"]) == (len(folder.rounds()), 0.9)
    assert card["learner"]["name"] == "random-forest"
    assert card["privacy"]["words"].startswith("Nothing is promised")
