"""The registry of protections: what an entry says is so."""

from pkgutil import resolve_name

import pytest

from fedct_flwr.config.privacy import PROTECTIONS, OwnSettings

LABELERS = {name: entry for name, entry in PROTECTIONS.items() if entry.labeler}
EXTRAS = {"privacy", "dp-sgd"}


@pytest.mark.parametrize("name", LABELERS)
def test_what_an_entry_names_is_there(name: str) -> None:
    entry = LABELERS[name]
    made = resolve_name(entry.labeler)
    assert made.__module__ == entry.labeler.partition(":")[0]
    assert entry.extra in EXTRAS
    assert set(entry.own) <= set(OwnSettings.model_fields)
