"""What co-training asks of a learner, asked of every learner that has a short name."""

import pickle
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset, SiloData
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners import Learner, Resumable, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.catalog import CLASSIFIERS, NETWORKS, SHORT_NAMES, TFIDF, package
from fedct_flwr.learners.trained_model import load_model
from fedct_flwr.silo.numbers import learn_numbers
from fedct_flwr.silo.personal import cotrain
from fedct_flwr.types import ABSTAIN, Examples, Features, HardLabels, TrainingError
from fedct_flwr.wire.content import Query
from fedct_flwr.wire.numbers import VALUES

CLASSES = ("a", "b", "c")
SHAPES = dict.fromkeys(NETWORKS, (3, 32, 32)) | {"mlp": (784,)}
SMALL: dict[str, dict[str, Any]] = {
    "random-forest": {"n_estimators": 5},
    "extra-trees": {"n_estimators": 5},
    "gradient-boosting": {"n_estimators": 5},
    "hist-gradient-boosting": {"max_iter": 5, "min_samples_leaf": 1},
    "xgboost": {"n_estimators": 5},
    "rulefit": {"max_rules": 20, "alpha": 0.1},
    "torchvision": {"model": "shufflenet_v2_x0_5"},
}


def examples(shape: tuple[int, ...], count: int, classes: int, seed: int) -> Examples:
    """Classes that a level of brightness tells apart."""
    rng = np.random.default_rng(seed)
    y = (np.arange(count) % classes).astype(np.int16)
    X = rng.normal(size=(count, *shape), scale=0.3) + y.reshape(-1, *[1] * len(shape))
    return Examples(X.astype(np.float32), y)


def with_text(records: Examples) -> Examples:
    """The same with a column of text, which says what the numbers do."""
    notes = np.array([f"level{round(level)} today" for level in records.X.mean(axis=1)], dtype=np.object_)
    return Examples(np.c_[records.X.astype(np.float64).astype(np.object_), notes], records.y)


def federation(name: str, known: int = 3) -> FederatedDataset:
    """Two silos; the first has seen the first ``known`` classes only."""
    shape = SHAPES.get(name, (4,))
    nothing = Examples(np.empty((0, *shape), np.float32), np.empty(0, np.int16))
    public, *silos = (examples(shape, 30, classes, seed) for seed, classes in enumerate((3, known, 3), start=1))
    columns = tuple(Column(f"f{i}") for i in range(shape[0] if len(shape) == 1 else 0))
    if name == TFIDF:
        columns += (Column("note", text=True),)
        public, *silos = map(with_text, (public, *silos))
    one, two = silos
    return FederatedDataset(
        name="conformance",
        schema=Schema(CLASSES, columns),
        public=PublicSet(public.X),
        silos=(SiloData("one", one, nothing), SiloData("two", two, nothing)),
        test=nothing,
    )


def learner_for(name: str, dataset: FederatedDataset, seed: int = 0, **settings: Any) -> Learner:
    import json

    config = RunConfig.from_flower(
        {
            "study": "t",
            "data": "t",
            "learner": name,
            "learner-params": json.dumps(SMALL.get(name, {})),
            "preprocessing": "none" if name in NETWORKS else "standard",
            "local-steps": 10,
            "batch-size": 8,
            "device": "cpu",
            "seed": seed,
            **settings,
        }
    )
    return build_learner(config, dataset, 0, dataset.silos[0].private.X)


def answer(learner: Learner, dataset: FederatedDataset, targets: np.ndarray[Any, Any], **more: Any) -> Any:
    query = Query(5, 20)
    return cotrain(learner, dataset.silos[0].private, dataset.public, targets, query, **more)


def nothing_labeled(dataset: FederatedDataset) -> np.ndarray[Any, Any]:
    return np.full(len(dataset.public), ABSTAIN, dtype=np.int16)


@pytest.mark.parametrize("known", [1, 2])
@pytest.mark.parametrize("name", SHORT_NAMES)
def test_a_class_that_the_silo_has_never_seen_is_learned_from_the_consensus(name: str, known: int) -> None:
    dataset = federation(name, known)
    learner = learner_for(name, dataset, **{"local-steps": 25})
    votes = answer(learner, dataset, nothing_labeled(dataset))
    assert votes.shape == (20,)
    assert votes.dtype == np.int16
    # A network has an output for every class, and may guess one that nobody has shown it.
    assert name in NETWORKS or set(np.unique(votes)) <= set(range(known))
    targets = (np.arange(30) % 3).astype(np.int16)
    # It takes some networks longer than others to unlearn that there are no other classes.
    assert any(2 in answer(learner, dataset, targets) for _ in range(40))


@pytest.mark.parametrize("name", SHORT_NAMES)
def test_the_saved_model_is_no_pickle(name: str, tmp_path: Path) -> None:
    dataset = federation(name)
    learner = learner_for(name, dataset)
    votes = answer(learner, dataset, nothing_labeled(dataset))
    assert isinstance(learner, Saveable)
    if name == "rulefit":
        # Rules are kept in dictionaries that skops cannot write; the silo goes on without a file.
        with pytest.raises(TrainingError, match="cannot be saved"):
            learner.save(tmp_path / "model")
        return
    learner.save(tmp_path / "model")
    no_pickle = (pickle.UnpicklingError, ValueError, LookupError, EOFError, AttributeError, ImportError)
    with pytest.raises(no_pickle), (tmp_path / "model").open("rb") as file:
        pickle.load(file)
    if name in CLASSIFIERS:
        model = load_model(tmp_path / "model", [package(name)])
        np.testing.assert_array_equal(model.predict(dataset.public.X[Query(5, 20).positions(30)]), votes)


@pytest.mark.parametrize("name", NETWORKS)
def test_state_round_trip_trains_on_exactly_where_it_stopped(name: str) -> None:
    dataset = federation(name)
    targets = (np.arange(30) % 3).astype(np.int16)
    whole, first, second = (learner_for(name, dataset) for _ in range(3))
    assert isinstance(first, Resumable)
    assert isinstance(second, Resumable)
    import torch

    # Dropout draws from torch's global generator.
    torch.manual_seed(0)
    answer(whole, dataset, targets)
    expected = answer(whole, dataset, targets)
    torch.manual_seed(0)
    answer(first, dataset, targets)
    second.restore(first.dump())
    np.testing.assert_array_equal(answer(second, dataset, targets), expected)
    assert second.dump() == whole.dump()  # type: ignore[attr-defined]


# --- one round at a silo


PRIVATE = Examples(np.float64([[100.0], [101.0]]), np.int16([1, 0]))
PUBLIC = PublicSet(np.float64([[0.0], [1.0], [2.0], [3.0], [4.0]]))
EVERYTHING = Query(seed=0, size=5)
NO_TARGETS = np.full(5, ABSTAIN, dtype=np.int16)


class Recorder:
    """Remembers what it was trained on and labels an example by its first feature."""

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        self.X, self.y, self.weights = X, y, sample_weight
        return self

    def predict(self, X: Features) -> HardLabels:
        self.queried = X
        return X[:, 0].astype(np.int16)


@pytest.fixture
def learner() -> Recorder:
    return Recorder()


def test_drops_public_examples_without_a_label(learner: Recorder):
    cotrain(learner, PRIVATE, PUBLIC, np.int16([ABSTAIN, 1, ABSTAIN, ABSTAIN, 0]), EVERYTHING)
    assert learner.X.ravel().tolist() == [100, 101, 1, 4]
    assert learner.y.tolist() == [1, 0, 1, 0]


def test_pseudo_labeled_examples_have_the_weight_asked_for(learner: Recorder):
    cotrain(learner, PRIVATE, PUBLIC, np.int16([ABSTAIN, 1, 2, ABSTAIN, 0]), EVERYTHING, pseudo_weight=0.25)
    assert learner.weights.tolist() == [1, 1, 0.25, 0.25, 0.25]


@pytest.mark.parametrize("seed", range(5))
def test_votes_on_the_query_alone_and_in_public_order(seed: int, learner: Recorder):
    query = Query(seed, size=3)
    votes = cotrain(learner, PRIVATE, PUBLIC, NO_TARGETS, query)
    assert votes.tolist() == query.positions(5).tolist()
    assert learner.queried.ravel().tolist() == votes.tolist()


def test_values_of_others_weigh_as_much_in_all_as_is_asked_for(learner: Recorder):
    own = Examples(PRIVATE.X, np.float64([7.5, 8.5]))
    targets, query = np.float32([[1.5], [2.5], [3.5]]), Query(seed=3, size=2)
    votes = learn_numbers(VALUES, learner, own, PUBLIC, PUBLIC.X[:3], targets, query, weight=0.5)
    assert learner.X.ravel().tolist() == [100, 101, 0, 1, 2]
    assert learner.y.tolist() == [7.5, 8.5, 1.5, 2.5, 3.5]
    # Two private examples: their mean loss and half the mean loss on three others.
    assert learner.weights is not None
    np.testing.assert_allclose(learner.weights, [1, 1, 1 / 3, 1 / 3, 1 / 3])
    assert votes.tolist() == PUBLIC.X[query.positions(5)].tolist()
    assert votes.dtype == np.float32
