"""Settings of silo.toml that do nothing are refused at check and approve."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import SiloConfig
from fedct_flwr.types import ConfigError
from tests.config.probes import ANOTHER
from tests.config.test_settings_without_effect import TRAINED


@pytest.mark.parametrize(
    "tables",
    [
        {"privacy": {"epsilon": 0.1}},
        {"privacy": {"rounds": 3}},
        {"privacy": {"protection": "dp-linear", "teachers": 3}},
        {"privacy": {"protection": "teachers", "clipping-norm": 3}},
        {"privacy": {"protection": "teachers", "noise": "gaussian"}, "policy": {"kinds": ["counts"]}},
        {"transfer": {"partitions": 3}},
        {"transfer": {"gamma": 0.1}, "policy": {"kinds": ["counts"]}},
        {"policy": {"max-local-rounds": 3}},
        {"learner": {"pseudo-weight": 0.5}, "policy": {"kinds": ["soft"]}},
        *({"learner": {key: ANOTHER[key]}} for key in sorted(TRAINED)),
        {"learner": {"epochs": 3}},
    ],
)
def test_what_does_nothing_in_silo_toml_is_not_approved(tables: dict[str, Any], wording: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as refused:
        silo_config(**tables).check_effects(network=False)
    assert str(refused.value) == wording
    assert "\n" not in str(refused.value)


def silo_config(**tables: dict[str, Any]) -> SiloConfig:
    least: dict[str, Any] = {"data": {"file": "f.csv"}, "learner": {"name": "svm"}, "connection": {"superlink": "s:1"}}
    changed = {name: {**least.get(name, {}), **table} for name, table in tables.items()}
    return SiloConfig.read({"silo": "north", **least, **changed}, "silo.toml")


def test_what_does_something_in_silo_toml_is_approved(wording: SnapshotAssertion) -> None:
    counts = {"kinds": ["hard", "counts", "soft"], "max-local-rounds": 3, "max-consensus-weight": 0.5}
    silo_config(policy=counts, transfer={"partitions": 3, "teachers": 4}).check_effects()
    silo_config(learner={key: ANOTHER[key] for key in TRAINED}).check_effects(network=True)
    with pytest.raises(ConfigError) as caught:
        silo_config(learner={"epochs": 3}).check_effects(network=True)
    assert str(caught.value) == wording
    own = {"protection": "teachers", "epsilon": 2.0, "rounds": 3, "queries": 9, "teachers": 5, "noise": "gaussian"}
    silo_config(privacy=own, learner={"epochs": 3}).check_effects(network=True)


def test_an_agent_that_was_approved_starts_but_not_with_an_epsilon_that_protects_nothing(
    wording: SnapshotAssertion,
) -> None:
    silo_config(learner={"batch-size": 7}, privacy={"rounds": 3}).check_promised()
    with pytest.raises(ConfigError) as caught:
        silo_config(privacy={"epsilon": 0.1}).check_promised()
    assert str(caught.value) == wording
