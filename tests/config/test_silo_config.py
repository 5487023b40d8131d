"""``silo.toml`` and the node config: a silo's own settings, in which nobody else has a say."""

from typing import Any

import pytest

from fedct_flwr.config.run import NodeConfig
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.types import ConfigError
from tests.sentences import sentence

REQUIRED: dict[str, Any] = {
    "silo": "north",
    "data": {"file": "data.csv"},
    "learner": {"name": "svm"},
    "connection": {"superlink": "example.org:8000"},
}


def changed(**tables: Any) -> dict[str, Any]:
    """The required settings with changes: a table's are merged, anything else is replaced."""
    settings = dict(REQUIRED)
    for name, change in tables.items():
        settings[name] = {**settings.get(name, {}), **change} if isinstance(change, dict) else change
    return settings


def read(**tables: Any) -> SiloConfig:
    return SiloConfig.read(changed(**tables), "silo.toml")


def message(**tables: Any) -> str:
    return sentence(ConfigError, read, **tables)


# --- silo.toml


def test_what_is_not_said_is_careful() -> None:
    policy = read().policy
    assert policy.kinds == ("hard",)
    assert policy.metrics is False
    assert (policy.max_rounds, policy.max_queries, policy.max_bytes) == (100, 1_000_000, 10_000_000)
    assert policy.max_consensus_weight == 1.0
    assert read().learner.packages == ()
    assert read().connection.supernode.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("data", "test-fraction", 1.0),
        ("learner", "pseudo-weight", float("inf")),
        ("policy", "max-bytes", 2**63),
        ("policy", "max-consensus-weight", float("nan")),
        ("transfer", "partitions", 101),
        ("privacy", "delta", 1.0),
        ("privacy", "protection", "teachers"),
    ],
)
def test_a_value_out_of_range_is_one_sentence_with_key_and_value(table: str, key: str, value: object) -> None:
    assert message(**{table: {key: value}}).startswith(f"{table}.{key} = {value!r} in silo.toml: ")


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"privacy": {"protection": "dp-sgd", "delta": 0}}, "dp-sgd promises nothing at delta = 0"),
        (
            {"privacy": {"protection": "fedkt-l2"}, "policy": {"kinds": ["hard", "counts"]}},
            "covers votes of students alone: set kinds = ['counts'] under [policy]",
        ),
        (
            {"privacy": {"protection": "dp-linear"}, "data": {"test-fraction": 0.2}},
            "set test-fraction = 0 under [data], or name a test-file there",
        ),
        (
            {"privacy": {"protection": "dp-linear"}, "policy": {"metrics": True}},
            "scores are computed from private records without noise",
        ),
    ],
)
def test_what_breaks_a_promise_is_refused(tables: dict[str, Any], said: str) -> None:
    assert said in message(**tables)
    assert read(**{**tables, "privacy": {}}).privacy.protection == "none"


def test_sums_of_probabilities_went_and_what_serves_is_named() -> None:
    said = message(policy={"kinds": ["soft-sum"]})
    assert said.endswith("write sum for sums of labels, or soft, of which the coordinator sees each silo's")


def test_a_kind_that_is_named_twice_counts_once() -> None:
    assert read(policy={"kinds": ["hard", "counts", "hard"]}).policy.kinds == ("hard", "counts")
    assert "policy" in message(policy={"kinds": [["hard"]]})


def test_what_decides_the_model_has_a_promise_only_where_there_is_one() -> None:
    assert "privacy" not in read(privacy={"epsilon": 3.0}).decides_model
    assert "optimizer" not in str(read().decides_model)
    one, other = (read(privacy={"protection": "dp-linear", "epsilon": epsilon}) for epsilon in (1.0, 3.0))
    assert one.decides_model != other.decides_model


def test_the_form_of_the_records_is_approved_where_there_is_one() -> None:
    assert "tables" not in read().decides_model
    assert read(data={"tables": {"decimal": ",", "leave-out": ["id"]}}).decides_model["tables"] == {
        "decimal": ",",
        "leave-out": ["id"],
    }


@pytest.mark.parametrize("name", ["", "two words", "../north", ".north", "north/", "n" * 65])
def test_a_silos_name_can_be_a_files_name(name: str) -> None:
    assert message(silo=name).startswith(f"silo = {name!r} in silo.toml: ")


# --- node config


@pytest.mark.parametrize(
    "raw",
    [{}, {"silo-file": ""}, {"num-partitions": 4}, {"silo-file": "/silo.toml", "partition-id": 0}],
    ids=["nothing", "an empty path", "no position", "both"],
)
def test_a_node_without_one_identity_is_told_what_it_needs(raw: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a node needs a silo-file"):
        NodeConfig.from_flower(raw)
