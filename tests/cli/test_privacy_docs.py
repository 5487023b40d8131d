"""What docs/privacy.md shows is what the commands print."""

import re
import shlex

import pytest

from fedct_flwr.config import PrivacySettings
from fedct_flwr.privacy.sheet import Account, sheet
from tests.cli.silos import Fedct
from tests.readme import ROOT, numbers_masked

DOCS = (ROOT / "docs" / "privacy.md").read_text("utf-8")
HOSPITALS = ("cleveland", "budapest", "zurich", "long-beach")


def block(kind: str, fence: str = "```") -> str:
    found = re.search(rf"^{fence}{kind}\n(.*?)^{fence}$", DOCS, re.DOTALL | re.MULTILINE)
    assert found, kind
    return found[1]


def test_the_budget_is_as_shown(fedct: Fedct, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, *arguments = shlex.split(block("sh"))
    printed = fedct(*arguments[: arguments.index("--plot")])
    assert printed.code == 0
    assert numbers_masked(printed.out) == numbers_masked(block("text"))


def test_the_sheet_is_as_shown() -> None:
    privacy = PrivacySettings.read({"protection": "dp-linear", "queries": 2280}, "here")
    accounts = [Account(silo, 1.0, 1e-5, 1, 0.99985, 0.99983, "pld") for silo in HOSPITALS]
    page = sheet("heart-disease", privacy, 228, accounts, simulated=True, metrics=False)
    assert numbers_masked(page) == numbers_masked(block("markdown", "````"))
