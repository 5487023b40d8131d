"""The benchmarks measure what a run without scores sends, and say by what command."""

import math
from statistics import fmean

import numpy as np
import pytest

from benchmarks import (
    duplicates,
    privacy,
)
from benchmarks.federation import measure
from benchmarks.privacy_data import Setting, Sizes, load
from fedct_flwr import datasets
from fedct_flwr.baselines.references import centralized, local_only
from fedct_flwr.config import RunConfig
from fedct_flwr.scoring import balanced_accuracy

pytestmark = pytest.mark.slow


def test_bytes_are_those_of_replies_without_scores() -> None:
    runs = measure({"data": "heart-disease", "learner": "naive-bayes", "num-server-rounds": 2}, range(1))
    # 29 of labels, 72 of what was agreed upon, and round, the silo's name and framing.
    assert 29 + 72 + 8 <= runs.mean("bytes_per_silo_and_round") <= 29 + 72 + 21


def test_local_vote_and_centralized_are_those_of_the_baselines() -> None:
    settings = {"data": "heart-disease", "learner": "naive-bayes,decision-tree,naive-bayes,svm"}
    runs = measure({**settings, "num-server-rounds": 2}, [5])
    config = RunConfig.from_flower({"study": "s", "seed": 5, **settings})
    dataset = datasets.load(config)
    alone, together = ([train(config, dataset, i) for i in range(4)] for train in (local_only, centralized))
    for method, models in {"local": alone, "central": together}.items():
        expected = fmean(balanced_accuracy(model, dataset.test) for model in models)
        assert runs.values[f"{method}_balanced_pooled"] == [pytest.approx(expected)]
    votes = sum(model.predict(dataset.test.X) for model in alone)
    decided = votes != 2
    # Ties of two to two are broken at random.
    sure = ((votes > 2) == dataset.test.y)[decided].sum() / dataset.test.size
    assert sure <= runs.values["vote_accuracy_pooled"][0] <= sure + (~decided).mean()


TABLE = Setting(
    "a table",
    "breast-cancer",
    3,
    300,
    150,
    0,
    privacy.WITHOUT_NETWORKS,
    {"dp-linear": {8.0: ".91"}, "local only": {math.inf: ".92"}},
)


def test_private_records_public_examples_and_test_set_share_no_record() -> None:
    federation = load(TABLE, Sizes(public=120, paid=60, models=1), 0)
    assert [silo.size for silo in federation.raw_silos] == [100, 100, 100]
    rows = [tuple(row) for part in (*federation.raw_silos, federation.raw_public) for row in part.X]
    assert len(set(rows)) == len(rows) == 420


def test_own_patients_are_looked_for_in_every_disguise() -> None:
    split = next(duplicates.hospitals(0))
    measured = dict(duplicates.alarms(split, np.random.default_rng(0)))
    assert set(duplicates.ATTACKS) < set(measured)
    assert measured["exact copies"]
    assert measured["exact, and an outlier of 10,000 sd"]
    assert not measured["honest, the same people: near ones alone"]
