"""Runs ``fedct`` in this process."""

import io
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.cli import main
from fedct_flwr.hospital.approval import approve
from tests.cli.runner import Outcome, plain
from tests.cli.silos import Kit, make_kit


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an empty home beside it."""
    for name in ("here", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "here"


@pytest.fixture
def fedct(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Outcome]]:
    """Runs ``fedct`` in this process; the test fails if the engine is started."""

    def never(settings: Any, num_silos: int, log: Path, watch: Any) -> None:
        log.touch()
        pytest.fail("Flower's engine was started")

    monkeypatch.setattr("fedct_flwr.flower.run_on_engine", never)

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["fedct", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            # Other tests leave learners behind that hang, with which a process of its own would end.
            main.dispatch()
        output = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), plain(output.out), plain(output.err))

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield run
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def kit(fedct: Callable[..., Outcome], tmp_path: Path) -> Kit:
    """A hospital's folder, fresh from ``fedct silo init``."""
    return make_kit(fedct, tmp_path)


@pytest.fixture
def approved_kit(kit: Kit) -> Kit:
    """A hospital that has approved the study."""
    with kit.log() as log:
        approve(log, kit.config, kit.study)
    return kit


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What somebody types at the questions to come."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))
