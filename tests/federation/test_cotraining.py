"""Whole runs of the two apps on the loopback."""

import csv
from itertools import pairwise

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp

from client_app.main import app as client_app
from fedct_flwr import Plurality, datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.asking import no_targets
from fedct_flwr.coordinator.cotraining import CoTraining, arrays_to_targets, targets_to_arrays
from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.learners.sklearn import load_model
from fedct_flwr.silo.site import simulated_site
from fedct_flwr.types import RunError
from fedct_flwr.wire.codec import decode_instruction
from fedct_flwr.wire.content import Instruction, Terms
from fedct_flwr.wire.messages import from_record
from tests.federation.conftest import Federation
from tests.patience import PATIENCE


def test_a_run_leaves_config_rounds_labels_models_and_result(federation: Federation) -> None:
    folder = federation.run(save_models=True)
    assert sorted(path.name for path in folder.path.iterdir()) == [
        ".lock", "checkpoint.npz", "config.json", "judgments", "labels.csv", "models", "result.json", "rounds.jsonl",
    ]  # fmt: skip
    assert sorted(path.stem for path in folder.models.iterdir()) == ["budapest", "cleveland", "long-beach", "zurich"]
    assert folder.read_json("result.json")["status"] == "completed"
    rounds = folder.rounds()
    assert [entry["round"] for entry in rounds] == list(range(1, len(rounds) + 1))
    with (folder.path / "labels.csv").open() as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    classes = folder.read_json("config.json")["classes"]
    assert [classes.index(label) for label in labels] == folder.load_checkpoint().targets.tolist()


def test_the_same_seed_gives_the_same_run_whatever_the_order_of_replies(federation: Federation) -> None:
    first = federation.run(run_dir=str(federation.path / "a"), workers=1)
    second = federation.run(run_dir=str(federation.path / "b"), workers=4)
    np.testing.assert_array_equal(first.load_checkpoint().targets, second.load_checkpoint().targets)
    other = federation.run(run_dir=str(federation.path / "c"), seed=1)
    assert (first.load_checkpoint().targets[:100] != other.load_checkpoint().targets[:100]).any()


def test_every_silo_may_use_another_learner(federation: Federation) -> None:
    folder = federation.run(
        learner="decision-tree,random-forest,logistic-regression,tests.federation.learners:pipeline",
        learner_params="[{}, {}, {}, {}]",
    )
    assert all(not entry["absent"] for entry in folder.rounds())


def test_a_silo_that_knows_one_class_votes_in_the_whole_label_space(federation: Federation) -> None:
    # In this split the first silo holds a single class.
    settings = {"data": "breast-cancer", "partition": "dirichlet", "dirichlet_concentration": 0.3, "seed": 6}
    config = RunConfig.from_flower({"study": "x", **{k.replace("_", "-"): v for k, v in settings.items()}})
    assert [len(np.unique(silo.private.y)) for silo in datasets.load(config).silos] == [1, 2, 2, 2, 2]
    folder = federation.run(silos=5, learner_params="{}", **settings)
    assert all(not entry["absent"] for entry in folder.rounds())
    assert min(folder.rounds()[-1]["class_counts"].values()) > 0


def test_silos_train_on_the_labels_of_the_round_before_and_on_no_older_ones(federation: Federation) -> None:
    asked: list[Instruction] = []

    def listen(message: Message, context: Context) -> Message:
        site = simulated_site(RunConfig.from_flower(context.run_config), 0)
        asked.append(decode_instruction(from_record(message.content), site.terms))
        return client_app(message, context)

    federation.behave[0] = listen
    federation.run(query_size=50, num_server_rounds=3)
    assert (asked[0].targets == -1).all()
    for before, now in pairwise(asked):
        np.testing.assert_array_equal(np.flatnonzero(now.targets != -1), before.query.positions(228))


def test_scores_travel_only_if_the_run_asks_for_them(federation: Federation) -> None:
    silent = federation.run(num_server_rounds=1)
    open_run = federation.run(num_server_rounds=1, report_scores=True, run_dir=str(federation.path / "open"))
    assert {silo["scores"] for silo in silent.rounds()[0]["silos"].values()} == {None}
    for silo in open_run.rounds()[0]["silos"].values():
        assert list(silo["scores"]) == [
            "own_accuracy", "own_balanced_accuracy", "pooled_accuracy", "pooled_balanced_accuracy",
        ]  # fmt: skip
        assert all(0 <= score <= 1 for score in silo["scores"].values())


def test_resume_goes_on_where_the_run_ended(federation: Federation) -> None:
    settings = {"learner": "logistic-regression", "learner_params": "{}"}
    whole = federation.run(num_server_rounds=4, run_dir=str(federation.path / "whole"), **settings)
    federation.run(num_server_rounds=2, **settings)
    resumed = federation.run(num_server_rounds=4, resume=True, **settings)
    assert len(resumed.rounds()) == len(whole.rounds()) == 4
    np.testing.assert_array_equal(resumed.load_checkpoint().targets, whole.load_checkpoint().targets)
    assert [entry["changed"] for entry in resumed.rounds()] == [entry["changed"] for entry in whole.rounds()]


def test_resume_with_other_settings_is_refused(federation: Federation) -> None:
    federation.run(num_server_rounds=1)
    with pytest.raises(RunError, match="learner"):
        federation.run(num_server_rounds=2, resume=True, learner="random-forest")


def test_a_run_folder_is_never_overwritten(federation: Federation) -> None:
    folder = federation.run(num_server_rounds=1)
    before = (folder.path / "rounds.jsonl").read_bytes()
    with pytest.raises(RunError, match="exists"):
        federation.run(num_server_rounds=1)
    assert (folder.path / "rounds.jsonl").read_bytes() == before


def test_a_saved_model_predicts_like_the_silo_did(federation: Federation) -> None:
    folder = federation.run(save_models=True, report_scores=True, num_server_rounds=2)
    dataset = datasets.load(RunConfig.from_flower(folder.read_json("config.json")["settings"]))
    model = load_model(folder.models / "cleveland.skops")
    predicted = model.predict(dataset.silos[0].test.X)
    recalls = [np.mean(predicted[dataset.silos[0].test.y == c] == c) for c in (0, 1)]
    assert np.mean(recalls) == pytest.approx(
        folder.rounds()[-1]["silos"]["cleveland"]["scores"]["own_balanced_accuracy"]
    )


def test_the_strategy_means_what_every_flower_strategy_means(federation: Federation) -> None:
    seen: list[int] = []
    results = []

    def main(grid: Grid, context: Context) -> None:
        config = RunConfig.from_flower(context.run_config)
        dataset = datasets.load(config)
        terms = Terms(config.study, dataset.public.fingerprint, len(dataset.public), dataset.schema.classes)
        roster = Roster([silo.name for silo in dataset.silos], 2, 1.0)
        strategy = CoTraining(terms, Plurality().consensus(2), roster)

        def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
            seen.append(number)
            return MetricRecord({"labeled": int((arrays_to_targets(arrays) != -1).sum())})

        empty = targets_to_arrays(no_targets(terms.num_public))
        results.append(strategy.start(grid, empty, num_rounds=2, timeout=PATIENCE, evaluate_fn=evaluate))

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
