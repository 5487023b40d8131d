"""The registry of protections: what an entry says is so, and another entry changes nothing for those there are."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from pydantic import create_model

from fedct_flwr.config import LearnerSettings, PrivacySettings, RunConfig
from fedct_flwr.config import privacy as privacy_module
from fedct_flwr.config import protections as registry
from fedct_flwr.config.protections import PROTECTIONS, OwnSettings, Protection, whole_learner
from fedct_flwr.labelers.protect import decides_labeler
from fedct_flwr.types import ConfigError

LABELERS = {name: entry for name, entry in PROTECTIONS.items() if entry.labeler}
LEARNER = LearnerSettings(name="svm", params={"C": 2}, device="cpu", packages=("a",), seed=3)
EXTRAS = {"privacy", "dp-sgd"}


@pytest.mark.parametrize("name", LABELERS)
def test_what_an_entry_names_is_there(name: str) -> None:
    entry = LABELERS[name]
    made = resolve_name(entry.labeler)
    assert made.__module__ == entry.labeler.partition(":")[0]
    assert entry.extra in EXTRAS
    assert set(entry.own.model_fields) <= set(OwnSettings.model_fields)


@pytest.mark.parametrize("name", LABELERS)
def test_the_labeler_reads_the_models_labels_only_where_its_entry_says_so(name: str) -> None:
    made = resolve_name(LABELERS[name].labeler)
    labeler = getattr(sys.modules[made.__module__], made.__annotations__["return"].strip("\"'"))
    assert labeler.reads_votes is LABELERS[name].reads_votes


def test_own_settings_are_those_of_single_protections_and_are_explained() -> None:
    owned = [field for entry in PROTECTIONS.values() for field in entry.own.model_fields]
    assert sorted(owned) == sorted(OwnSettings.model_fields)
    assert all(bool(entry.own.model_fields) == bool(entry.own_words) for entry in PROTECTIONS.values())
    for settings in (RunConfig, PrivacySettings):
        assert set(OwnSettings.model_fields) <= set(settings.model_fields)


def test_every_protection_says_in_words_of_its_own_what_leaves_and_what_it_is() -> None:
    for words in ([entry.leaves for entry in PROTECTIONS.values()], [entry.choice for entry in PROTECTIONS.values()]):
        assert all(words)
        assert len(set(words)) == len(PROTECTIONS)


def test_an_unknown_protection_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'dp-linear'"):
        PrivacySettings.read({"protection": "dp-liner"}, "a test")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dp-linear", {}),
        ("dp-sgd", {"name": "svm", "params": {"C": 2}, "preprocessing": "standard"}),
        ("teachers", whole_learner(LEARNER)),
        ("randomized-response", whole_learner(LEARNER)),
    ],
)
def test_what_of_the_learner_makes_a_labeler_another_one(name: str, expected: Mapping[str, Any]) -> None:
    privacy = PrivacySettings.read({"protection": name}, "a test")
    assert decides_labeler(privacy, LEARNER) == {"protection": name, "seed": 3, **expected}


def test_another_protection_with_settings_of_its_own_leaves_approvals_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A digest over settings that came later would take every hospital's approval away."""
    more = create_model("More", __base__=PrivacySettings, coins=(int, 3))
    own = create_model("Own", __base__=OwnSettings, coins=(int, 3))
    of_coins = create_model("OfCoins", __base__=registry.Settings, coins=(int, 3))
    entries: dict[str, Protection] = {**PROTECTIONS, "coins": replace(PROTECTIONS["randomized-response"], own=of_coins)}
    for module in (registry, privacy_module):
        monkeypatch.setattr(module, "PROTECTIONS", entries)
    monkeypatch.setattr(privacy_module, "OwnSettings", own)
    for name in PROTECTIONS:
        before = PrivacySettings(protection=name).model_dump(mode="json")
        assert more(protection=name).decides == before  # type: ignore[attr-defined]
    assert more.model_construct(protection="coins").decides["coins"] == 3  # type: ignore[attr-defined]


def test_settings_are_read_without_what_protections_need(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "import fedct_flwr.config\n"
        "print([name for name in ('dp_accounting', 'torch', 'sklearn', 'opacus') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
