"""``fedct doctor``: what it finds on a machine, and what it says to do."""

import json
from collections.abc import Callable, Iterator

import pytest

from fedct_flwr.cli import doctor
from fedct_flwr.cli.findings import Check, Finding, Mark
from tests.cli.documents import check
from tests.cli.runner import Outcome

Run = Callable[..., Outcome]
Probe = Callable[[None], Iterator[Finding]]


def said(probe: Probe) -> str:
    return " | ".join(f"{finding.message}; {finding.fix}" for finding in probe(None))


def test_this_machine_is_fit(fedct: Run) -> None:
    outcome = fedct("doctor")
    assert outcome.code == 0, outcome.out
    assert "flwr 1." in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_the_document_and_the_exit_code(fedct: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", [Check("disk", doctor.disk), Check("broken", lambda _: 1 / 0)])
    outcome = fedct("doctor", "--json")
    document = json.loads(outcome.out)
    check(document, "Findings")
    assert (outcome.code, document["bad"]) == (3, 1)
    assert document["findings"][-1]["said"] == "broken: could not be looked at (ZeroDivisionError)"


def test_packages_that_are_missing_or_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"numpy": "1.25.0", "flwr": "1.43.1"}
    monkeypatch.setattr(doctor, "version_of", lambda name: there.get(name, "99.0"))
    found = said(doctor.packages)
    assert "numpy 1.25.0, and numpy>=1.26 is needed" in found
    assert "flwr 1.43.1, and flwr" in found
    assert "scikit-learn" not in found
    assert Mark.BAD in {finding.mark for finding in doctor.packages(None)}
    there["numpy"] = ""
    monkeypatch.setattr(doctor, "version_of", lambda name: there.get(name) or None)
    assert "scikit-learn is not installed" in said(doctor.packages)
    assert "extras not installed:" in said(doctor.packages)
