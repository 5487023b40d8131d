"""``fedct doctor``: what it finds on a machine, and what it says to do."""

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli import doctor, documents, installed
from fedct_flwr.cli.findings import Finding, Mark
from tests.cli.runner import Outcome
from tests.cli.test_json import check

Run = Callable[..., Outcome]
Probe = Callable[[None], Iterator[Finding]]


def marks(probe: Probe) -> set[Mark]:
    return {finding.mark for finding in probe(None)}


def said(probe: Probe) -> str:
    return " | ".join(f"{finding.said}; {finding.fix}" for finding in probe(None))


def test_this_machine_is_fit(fedct: Run, wording: SnapshotAssertion) -> None:
    outcome = fedct("doctor")
    assert outcome.code == 0, outcome.out
    assert "with flwr 1." in outcome.out
    assert outcome.out.splitlines()[-1].partition(",")[0] == wording
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_the_document_and_the_exit_code(
    fedct: Run, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    monkeypatch.setattr(doctor, "PROBES", {"disk": doctor.disk, "broken": lambda _: 1 / 0})
    outcome = fedct("doctor", "--json")
    document = json.loads(outcome.out)
    check(document, documents.Findings)
    assert (outcome.code, document["bad"]) == (3, 1)
    assert document["findings"][-1]["said"] == wording


def test_packages_that_are_missing_or_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"numpy": "1.25.0", "flwr": "1.43.1"}
    monkeypatch.setattr(installed, "version_of", lambda name: there.get(name, "99.0"))
    found = installed.wrong()
    assert found["numpy"] == ("numpy>=1.26", "1.25.0")
    assert found["flwr"][1] == "1.43.1"
    assert "scikit-learn" not in found
    assert Mark.BAD in marks(doctor.packages)
    there["numpy"] = ""
    monkeypatch.setattr(installed, "version_of", lambda name: there.get(name) or None)
    assert "scikit-learn is not installed" in said(doctor.packages)
    assert "extras not installed:" in said(doctor.packages)


def test_versions_that_were_not_tested_are_told_with_those_that_were(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed.untested() == {}, "the tests run with the pins"
    tested = installed._tested() | {"numpy": "9.9.9"}
    monkeypatch.setattr(installed, "_tested", lambda: tested)
    assert "(tested 9.9.9)" in said(doctor.packages)


@pytest.mark.parametrize(("free", "mark"), [(0.5, Mark.BAD), (2, Mark.WARNING), (64, Mark.GOOD)])
def test_memory(monkeypatch: pytest.MonkeyPatch, free: float, mark: Mark) -> None:
    amount = int(free * 10**9)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=amount, total=amount))
    monkeypatch.setattr(doctor, "_MEMORY_LIMITS", ())
    assert marks(doctor.memory) == {mark}


def test_a_containers_limit_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "max").write_text("500000000\n")
    monkeypatch.setattr(doctor, "_MEMORY_LIMITS", (tmp_path / "max", tmp_path / "none"))
    assert said(doctor.memory).startswith("memory: 0.5 GB")


@pytest.mark.parametrize(("free", "mark"), [(0.1, Mark.BAD), (2, Mark.WARNING), (64, Mark.GOOD)])
def test_disk(monkeypatch: pytest.MonkeyPatch, free: float, mark: Mark) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=int(free * 10**9)))
    assert marks(doctor.disk) == {mark}


def test_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert "unset OMP_NUM_THREADS" in said(doctor.cores)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert marks(doctor.cores) == {Mark.GOOD}


def test_an_engine_that_could_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert marks(doctor.engine) == {Mark.GOOD}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/home/my work/bin/python")
        patch.setattr(doctor, "_PARTS_OF_FLOWER", ())
        assert "there is a space in" in said(doctor.engine)
    with monkeypatch.context() as patch:
        patch.setattr(doctor, "_PARTS_OF_FLOWER", ("flwr", "no-such-program"))
        assert "no-such-program not in" in said(doctor.engine)
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", _refused)
        assert "no port of 127.0.0.1" in said(doctor.engine)
    monkeypatch.setattr(installed, "version_of", lambda name: None)
    assert "pip install 'fedct-flwr[simulation]'" in said(doctor.engine)


def _refused(*_: Any) -> None:
    raise OSError


def test_data_sets_that_are_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDCT_DATA", str(tmp_path))
    (tmp_path / "adult").mkdir()
    assert "heart-disease, breast-cancer, diabetes, adult; others" in said(doctor.data)
    monkeypatch.setenv("FEDCT_DATA", str(tmp_path / "nowhere"))
    assert marks(doctor.data) == {Mark.BAD}


def test_a_gpu_that_this_torch_cannot_use(monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    monkeypatch.setattr("fedct_flwr.learners.trained_network.choose_device", lambda name: SimpleNamespace(type="cpu"))
    monkeypatch.setattr(shutil, "which", lambda name, **_: "/usr/bin/nvidia-smi")
    assert said(doctor.gpu) == wording
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    assert marks(doctor.gpu) == {Mark.GOOD}
    monkeypatch.setattr("fedct_flwr.learners.trained_network.choose_device", lambda name: SimpleNamespace(type="cuda"))
    assert said(doctor.gpu) == wording
    assert marks(doctor.docker) == {Mark.WARNING}


def test_it_looks_at_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "PYTHON", (99, 0))
    assert marks(doctor.python) == {Mark.BAD}
    monkeypatch.setattr(installed, "PYTHON", (3, 11))
    monkeypatch.setattr(sys, "platform", "win32")
    assert marks(doctor.python) == {Mark.WARNING}
