"""A run folder from somebody else, whose settings name commands as learners.

Before this was mended, ``fedct audit RUN``, ``read_run(RUN).models`` and ``simulate --resume RUN`` ran them.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedct_flwr.cli.main import app
from fedct_flwr.learners.catalog import check_from_file
from fedct_flwr.simulation.repeats import repeat
from fedct_flwr.simulation.run import read_run
from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.types import LearnerError

COMMAND = "os.mkdir"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder of two runs whose settings make the folder ``run-it`` in place of a learner."""
    folder = tmp_path / "repeats"
    repeat(2, "heart-disease", learner="naive-bayes", rounds=1, run_dir=folder, progress=False)
    changed = {"learner": COMMAND, "learner-params": json.dumps({"path": str(tmp_path / "run-it")})}
    for path in folder.rglob("*.json"):
        found = json.loads(path.read_text())
        if "settings" in found:
            found["settings"].update(changed)
            path.write_text(json.dumps(found))
    (folder / "seed-1" / "result.json").unlink()
    return folder


def command(*arguments: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        result = CliRunner().invoke(app, [argument.format(folder=folder) for argument in arguments])
        if result.exception:
            raise result.exception

    return run


@pytest.mark.parametrize(
    "read",
    [
        command("audit", "{folder}/seed-0"),
        command("simulate", "--resume", "{folder}/seed-1", "--in-process"),
        command("simulate", "--resume", "{folder}"),
        lambda folder: read_run(folder / "seed-0").models,
        lambda folder: simulate(resume=folder / "seed-1", rounds=2),
        lambda folder: repeat(2, resume=folder),
    ],
)
def test_no_command_that_a_run_folder_names_is_run(planted: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(LearnerError, match=r"names a learner whose code would run, of the package 'os'.*--package os"):
        read(planted)
    assert not (planted.parent / "run-it").exists()


def test_what_the_caller_trusts_is_run(planted: Path) -> None:
    with pytest.raises(LearnerError):
        simulate(resume=planted / "seed-1", rounds=2, packages=["os"])
    assert (planted.parent / "run-it").exists()


def test_estimators_of_scikit_learn_need_no_trust_and_what_its_modules_borrow_does() -> None:
    check_from_file(["sklearn.svm.SVC", "random-forest", "auto"], (), Path("run"))
    for name in ("sklearn.datasets._base.urlretrieve", "sklearn.svm.SVC@1f", "sklearn.base.clone", "torchvision"):
        with pytest.raises(LearnerError, match="code would run"):
            check_from_file(["auto", name], (), Path("run"))
