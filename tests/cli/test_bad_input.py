"""Whatever is wrong with the input: one sentence, the right exit code, at once, and nothing left on disk."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fedct_flwr.types import ConfigError, DataError, RunError
from tests.cli.runner import files_below
from tests.cli.silos import Fedct

SETTINGS, DATA, RUN = ConfigError.exit_code, DataError.exit_code, RunError.exit_code

MISTAKES: dict[str, tuple[list[str], int, str]] = {
    # What is typed after `fedct simulate`, the exit code, and what the sentence must say.
    "unknown learner": (["--learner", "randm-forest"], SETTINGS, "did you mean 'random-forest'?"),
    "unknown key": (["--set", "quorun=0.8"], SETTINGS, "did you mean 'quorum'?"),
    "a run folder by setting the key": (["--set", "run-dir=x"], SETTINGS, "use --run-dir"),
    "a class that is no learner's": (
        ["--learner", "subprocess.Popen", "--learner-params", '{"args": "touch popen-was-called", "shell": true}'],
        SETTINGS,
        "subprocess.Popen",
    ),
    "an option that went": (["--watch"], SETTINGS, "open that file"),
    "resuming what is not there": (["--resume", "nowhere"], RUN, "is no complete run folder"),
    "no such folder": (["--data-dir", "/nowhere", "--label", "y"], DATA, "/nowhere"),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_one_sentence_with_its_exit_code_and_leaves_nothing(
    fedct: Fedct, here: Path, mistake: str
) -> None:
    arguments, code, said = MISTAKES[mistake]
    outcome = fedct("simulate", *arguments)
    assert said in outcome.sentence
    assert (outcome.code, outcome.out) == (code, "")
    assert files_below(here.parent) == ["here", "home"]


def test_an_interrupt_is_no_traceback(fedct: Fedct, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(config: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedct_flwr.datasets.load", interrupted)
    outcome = fedct("simulate")
    assert outcome.code == 130
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "--model", "odd", "records.csv"),
        ("silo", "join", "odd", "silo", "--fingerprint", "aa"),
        ("report", "odd"),
        ("audit", "odd"),
    ],
    ids=lambda arguments: " ".join(part for part in arguments if part[0] not in "-o"),
)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_path_without_a_file_is_one_sentence_and_leaves_nothing(
    fedct: Fedct, here: Path, make: Callable[[Path], object], arguments: tuple[str, ...]
) -> None:
    (here / "records.csv").write_text("age,crp\n1,2\n", "utf-8")
    make(here / "odd")
    outcome = fedct(*arguments)
    assert outcome.code in (SETTINGS, DATA, RUN)
    assert outcome.sentence
    assert {path.name for path in here.iterdir()} == {"odd", "records.csv"}


def test_a_run_that_fails_says_why_and_keeps_its_log(fedct: Fedct, here: Path) -> None:
    before = logging.getLogger("flwr").handlers[:]
    outcome = fedct("simulate", "--in-process", "--run-dir", "run", "--learner", "tests.federation.learners.Raising")
    assert outcome.code == 4
    assert outcome.sentence
    assert (here / "run" / "flower.log").exists()
    assert logging.getLogger("flwr").handlers == before
