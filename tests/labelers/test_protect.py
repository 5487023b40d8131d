"""From settings to a labeler: what each protection needs, and that none of it is a record."""

from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.privacy import PROTECTIONS, PrivacySettings
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers import labeler as labelers
from fedct_flwr.labelers.labeler import Labeler, Start, check_installed, labeler_for
from fedct_flwr.types import ConfigError
from tests.sentences import sentence

DATA = datasets.load(RunConfig.from_flower({"study": "heart-disease", "data": "heart-disease"}))
LEARNER = LearnerSettings(name="logistic-regression")
NETWORK = LearnerSettings(name="tests.federation.learners.network")
LABELERS = [name for name, entry in PROTECTIONS.items() if entry.labeler]


def privacy(protection: str, **values: Any) -> PrivacySettings:
    return PrivacySettings.read({"protection": protection, **values}, "a test")


def labeler(settings: PrivacySettings, learner: LearnerSettings = LEARNER, num_records: int = 168) -> Labeler:
    return labeler_for(Start(settings, learner, "cleveland", DATA.schema, DATA.public, num_records))


@pytest.mark.parametrize("protection", LABELERS)
def test_each_protection_has_its_labeler(protection: str) -> None:
    made = labeler(privacy(protection), NETWORK if protection == "dp-sgd" else LEARNER)
    made.restore(made.dump())


@pytest.mark.parametrize(
    ("protection", "missing", "extras"),
    [
        ("dp-linear", {"dp_accounting"}, "dp_accounting: pip install -c constraints.txt -e '.[privacy]'"),
        ("dp-sgd", {"torch"}, "torch: pip install -c constraints.txt -e '.[dp-sgd]'"),
        ("dp-sgd", {"torch", "opendp"}, "opendp, torch: pip install -c constraints.txt -e '.[dp-sgd]'"),
    ],
)
def test_a_missing_extra_is_named(
    protection: str, missing: set[str], extras: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelers, "find_spec", lambda name: None if name in missing else object())
    said = sentence(ConfigError, lambda: check_installed(privacy(protection)))
    assert said == f"protection = '{protection}' needs {extras}"


@pytest.mark.parametrize("protection", ["none", "fedkt-l2"])
def test_what_covers_no_labels_has_no_labeler(protection: str) -> None:
    with pytest.raises(ConfigError, match=f"labels are asked for, which protection = '{protection}' does not cover"):
        labeler(privacy(protection))


def test_dp_sgd_needs_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelers, "check_installed", lambda settings: None)
    with pytest.raises(ConfigError, match="'dp-sgd' trains networks, and learner 'logistic-regression' is not one"):
        labeler(privacy("dp-sgd"), LEARNER)
    labeler(privacy("dp-sgd"), NETWORK)


def normalized(num_features: int, num_classes: int) -> Any:
    """A network that learns from batches without noise."""
    from torch import nn

    return nn.Sequential(nn.BatchNorm1d(num_features), nn.Linear(num_features, num_classes))


@pytest.mark.parametrize(
    ("settings", "learner", "records"),
    [
        (privacy("dp-sgd"), LearnerSettings(name=f"{__name__}.normalized"), 168),
        (privacy("dp-linear", epsilon=1e-9), LEARNER, 168),
    ],
)
def test_what_cannot_be_kept_is_said_before_anything_runs(
    settings: PrivacySettings, learner: LearnerSettings, records: int, wording: SnapshotAssertion
) -> None:
    assert sentence(ConfigError, labeler, settings, learner, records).partition(": ")[0] == wording


PUBLIC = PublicSet(np.random.default_rng(0).normal(size=(40, 3)))
SCHEMA = Schema.numeric(("ill", "well"), ("a", "b", "c"))


@pytest.mark.parametrize("name", LABELERS)
def test_a_protection_says_how_the_choice_is_covered_or_refuses_it(name: str):
    privacy = PrivacySettings(protection=name, epsilon=5.0)
    try:
        labeler_for(Start(privacy, LearnerSettings(name="auto"), "essen", SCHEMA, PUBLIC, 100))
    except ConfigError:
        assert not PROTECTIONS[name].of_auto
    else:
        assert PROTECTIONS[name].of_auto
