"""Whatever is wrong with the input: one sentence, the right exit code, at once, and nothing left on disk."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.types import ConfigError, DataError, FedctError, RunError, TrainingError
from tests.cli.runner import Outcome, files_below

ERRORS: list[type[FedctError]] = [ConfigError, DataError, RunError, TrainingError]
SETTINGS, DATA, RUN = ConfigError.exit_code, DataError.exit_code, RunError.exit_code


FIVE_TREES = ",".join(["decision-tree"] * 5)

MISTAKES: dict[str, tuple[list[str], int, str]] = {
    # What is typed after `fedct simulate`, the exit code, and what the sentence must say.
    "unknown data set": (["--data", "hart-disease"], SETTINGS, "did you mean 'heart-disease'?"),
    "unknown learner": (["--learner", "randm-forest"], SETTINGS, "did you mean 'random-forest'?"),
    "learner of an unknown package": (["--learner", "nowhere.Forest"], SETTINGS, "'nowhere.Forest'"),
    "learner that a package lacks": (["--learner", "sklearn.tree.Forest"], SETTINGS, "'sklearn.tree.Forest'"),
    "learner that is no class": (["--learner", "math.inf"], SETTINGS, "'math.inf'"),
    "learner that cannot predict": (["--learner", "sklearn.cluster.DBSCAN"], SETTINGS, "is no classifier"),
    "learner without a signature": (["--learner", "builtins.dict"], SETTINGS, "'builtins.dict'"),
    "learner that is a regressor": (
        ["--learner", "sklearn.linear_model.LinearRegression"],
        SETTINGS,
        "is no classifier",
    ),
    "no learner": (["--learner", ""], SETTINGS, "learner"),
    "too few learners": (["--learner", "svm,decision-tree"], SETTINGS, "one for each silo"),
    "too many learners": (["--learner", FIVE_TREES], SETTINGS, "learner"),
    "unknown parameter": (
        ["--learner", "decision-tree", "--learner-params", '{"max_deph": 3}'],
        SETTINGS,
        "did you mean 'max_depth'?",
    ),
    "parameters that are no JSON": (["--learner-params", "{max_depth: 3}"], SETTINGS, "is not JSON"),
    "parameters that are no object": (["--learner-params", "3"], SETTINGS, "needs a JSON object"),
    "parameters for too many learners": (["--learner-params", "[{}, {}]"], SETTINGS, "learner-params"),
    "weights for a learner that takes none": (
        ["--data", "breast-cancer", "--learner", "nearest-neighbors", "--set", "pseudo-weight=2"],
        SETTINGS,
        "pseudo-weight",
    ),
    "unknown algorithm": (["--algorithm", "fedct-qualifed"], SETTINGS, "did you mean 'fedct-qualified'?"),
    "unknown key": (["--set", "quorun=0.8"], SETTINGS, "did you mean 'quorum'?"),
    "key in underscores": (["--set", "query_size=3"], SETTINGS, "did you mean 'query-size'?"),
    "no key": (["--set", "=0.8"], SETTINGS, "unknown key ''"),
    "no equals sign": (["--set", "quorum"], SETTINGS, "--set 'quorum': write KEY=VALUE"),
    "key whose option is given": (
        ["--rounds", "2", "--set", "num-server-rounds=5"],
        SETTINGS,
        "--rounds and --set num-s",
    ),
    "table for a number": (["--set", "test-fraction={a = 1}"], SETTINGS, "test-fraction = '{a = 1}'"),
    "file whose name is a number": (["--set", "initial-model=3"], SETTINGS, "initial-model has no effect"),
    "value out of range": (["--set", "test-fraction=1.5"], SETTINGS, "test-fraction = 1.5"),
    "value of another kind": (["--set", "test-fraction=most"], SETTINGS, "test-fraction = 'most'"),
    "no rounds": (["--rounds", "0"], SETTINGS, "num-server-rounds = 0"),
    "negative seed": (["--seed", "-1"], SETTINGS, "seed = -1"),
    "files without a label column": (["--data-dir", "/nowhere"], SETTINGS, "label"),
    "silos that are not in the data set": (["--set", "roster=cleveland,budapst"], SETTINGS, "'budapst'"),
    "more silos than there are": (["--set", "min-silos=9"], SETTINGS, "min-silos"),
    "more queries than public examples": (["--set", "query-size=9999"], SETTINGS, "query-size"),
    "a group without files": (["--group", "y"], SETTINGS, "--group is for the files in --data-dir"),
    "a label without files": (["--label", "y"], SETTINGS, "--label is for the files in --data-dir"),
    "data with files of one's own": (
        ["--data-dir", "/nowhere", "--label", "y", "--data", "heart-disease"],
        SETTINGS,
        "--data-dir",
    ),
    "a promise that nobody keeps": (
        ["--set", "epsilon=1.0"],
        SETTINGS,
        "epsilon",
    ),
    "how to split hospitals": (
        ["--set", "num-silos=3"],
        SETTINGS,
        "num-silos",
    ),
    "a seed for a run that has one": (
        ["--resume", "nowhere", "--seed", "1"],
        SETTINGS,
        "--seed",
    ),
    "settings for a run that has its own": (
        ["--resume", "nowhere", "--set", "quorum=1"],
        SETTINGS,
        "--set",
    ),
    "a run folder by setting the key": (["--set", "run-dir=x"], SETTINGS, "use --run-dir"),
    "a function that makes no learner": (["--learner", "os.getcwd"], SETTINGS, "is no classifier"),
    "a class that is no learner's": (
        ["--learner", "subprocess.Popen", "--learner-params", '{"args": "touch popen-was-called", "shell": true}'],
        SETTINGS,
        "subprocess.Popen",
    ),
    "resuming by setting the key": (["--set", "resume=true"], SETTINGS, "--resume"),
    "no such folder": (["--data-dir", "/nowhere", "--label", "y"], DATA, "/nowhere"),
    "a split of one": (["--data", "breast-cancer", "--set", "num-silos=1"], DATA, "at least two silos"),
    "a split too fine": (["--data", "breast-cancer", "--set", "num-silos=86"], DATA, "use fewer silos"),
    "resuming what is not there": (["--resume", "nowhere"], RUN, "is no complete run folder"),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_one_sentence_with_its_exit_code(
    fedct: Callable[..., Outcome], mistake: str, wording: SnapshotAssertion
) -> None:
    arguments, code, said = MISTAKES[mistake]
    outcome = fedct("simulate", *arguments)
    assert said in outcome.sentence
    assert outcome.sentence == wording
    assert outcome.code == code
    assert outcome.out == ""


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_leaves_nothing_on_disk(fedct: Callable[..., Outcome], here: Path, mistake: str) -> None:
    fedct("simulate", *MISTAKES[mistake][0])
    assert files_below(here.parent) == ["here", "home"]


# --- data folders


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of tables that is as it should be."""
    folder = tmp_path / "wards"
    folder.mkdir()
    (folder / "public.csv").write_text("age\n1\n2\n3\n")
    for silo in ("north", "south"):
        (folder / f"{silo}.csv").write_text("age,ill\n" + "1,no\n2,yes\n" * 5)
    return folder


# --- run folders


# --- exit codes


def test_every_kind_of_error_has_an_exit_code_of_its_own() -> None:
    codes = [kind.exit_code for kind in ERRORS]
    assert len(set(codes)) == len(codes)
    assert set(codes).isdisjoint({0, 1, 130})


def test_an_interrupt_is_no_traceback(fedct: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(config: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedct_flwr.datasets.load", interrupted)
    outcome = fedct("simulate")
    assert outcome.code == 130
    assert "Traceback" not in outcome.err


# --- what is no mistake


# --- the installed command, in a process of its own


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "--model", "odd", "records.csv"),
        ("export", "--model", "odd", "--output", "model.onnx"),
        ("predict", "--model", "records.csv", "odd"),
        ("silo", "join", "odd", "silo", "--fingerprint", "aa"),
        ("report", "odd"),
        ("audit", "odd"),
        ("simulate", "--resume", "odd"),
        ("privacy-sheet", "odd"),
    ],
    ids=lambda arguments: " ".join(part for part in arguments if part[0] not in "-o"),
)
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("odd")]
)
def test_a_path_without_a_file_is_one_sentence_and_leaves_nothing(
    fedct: Callable[..., Outcome], here: Path, make: Callable[[Path], object], arguments: tuple[str, ...]
) -> None:
    (here / "records.csv").write_text("age,crp\n1,2\n", "utf-8")
    make(here / "odd")
    outcome = fedct(*arguments)
    assert outcome.code in (SETTINGS, DATA, RUN)
    assert outcome.sentence
    assert {path.name for path in here.iterdir()} == {"odd", "records.csv"}
