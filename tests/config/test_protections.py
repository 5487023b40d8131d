"""The registry of protections: what an entry says is so, and another entry changes nothing for those there are."""

from dataclasses import replace
from pkgutil import resolve_name

import pytest
from pydantic import create_model

from fedct_flwr.config import PrivacySettings
from fedct_flwr.config import privacy as privacy_module
from fedct_flwr.config import protections as registry
from fedct_flwr.config.protections import PROTECTIONS, OwnSettings, Protection

LABELERS = {name: entry for name, entry in PROTECTIONS.items() if entry.labeler}
EXTRAS = {"privacy", "dp-sgd"}


@pytest.mark.parametrize("name", LABELERS)
def test_what_an_entry_names_is_there(name: str) -> None:
    entry = LABELERS[name]
    made = resolve_name(entry.labeler)
    assert made.__module__ == entry.labeler.partition(":")[0]
    assert entry.extra in EXTRAS
    assert set(entry.own.model_fields) <= set(OwnSettings.model_fields)


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
