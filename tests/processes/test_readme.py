"""The commands of the tutorials for platform engineers and hospitals, done as they stand there."""

import contextlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedct_flwr.cli.main import app
from fedct_flwr.runs.run_folder import RunFolder
from tests.hospitals import write_silo_folder
from tests.patience import PATIENCE
from tests.processes.deployment import Deployment, free_port
from tests.readme import ROOT, shown

pytestmark = pytest.mark.processes

PLATFORM, HOSPITAL = (
    (ROOT / "docs" / "tutorials" / f"{name}.md").read_text("utf-8") for name in ("platform", "hospital")
)


def commands(marker: str, page: str) -> list[str]:
    """Those of the block after the marker, without what is said of them."""
    return [line.partition(" #")[0].strip() for line in shown(marker, "sh", page).splitlines()]


def test_a_hospital_takes_part_with_the_four_commands(tmp_path: Path) -> None:
    """And its coordinator by those of the platform tutorial: admits it, runs, stops, goes on."""
    join, check, approve, start = commands("<!-- the four commands -->", HOSPITAL)
    connect, start_too = commands("<!-- the two processes -->", HOSPITAL)
    assert start == start_too
    assert f"`{connect}`" in HOSPITAL
    assert all(f"`{command}`" in HOSPITAL for command in ("fedct silo status", "fedct silo verify"))
    register, run = commands("<!-- the first run -->", PLATFORM)
    stop, resume = commands("<!-- stopped and gone on with -->", PLATFORM)
    work = tmp_path / "work"
    work.mkdir()
    learner = {"name": "logistic-regression"}
    with Deployment(tmp_path / "federation", ["budapest"], learner=learner) as deployment:

        def do(command: str, answer: str = "") -> str:
            done = subprocess.run(
                ["bash", "-c", command], cwd=work, env={**deployment.environment, "COLUMNS": "80"}, input=answer,
                capture_output=True, text=True, timeout=PATIENCE, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stdout, done.stderr, deployment.logs())
            return done.stdout

        def coordinate(command: str) -> str:
            """In the folder in which the coordinator's own is, and in this process: none has to be started."""
            program, *arguments = shlex.split(command)
            assert program == "fedct"
            with contextlib.chdir(deployment.folder):
                done = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
            assert done.exit_code == 0, (command, done.output, done.exception, deployment.logs())
            return done.output

        # What comes from the coordinator, and the hospital's own records.
        coordinate("fedct coordinator invite coordinator cleveland")
        shutil.copy(deployment.coordinator.invitations / "cleveland.zip", work)
        shutil.copyfile(write_silo_folder(tmp_path / "records").with_name("data.csv"), work / "records.csv")

        made = do(join, "y\n")
        key = re.search(r"Send to the coordinator: (\S+)", made)
        assert key
        shutil.copyfile(work / key[1], deployment.folder / "node.key.pub")
        assert coordinate(register) == "cleveland is registered\n"
        settings = work / "silo" / "silo.toml"
        # The SuperNode's port may be taken here.
        settings.write_text(settings.read_text("utf-8").replace(":9094", f":{free_port()}"), encoding="utf-8")

        assert "nothing to be put right" in do(check)
        assert "Approved, and written into the egress log" in do(approve, "y\n")
        for name, command in (("supernode", connect), ("agent", start)):
            deployment.start(f"{name} cleveland", ["bash", "-c", f"cd '{work}' && exec {command}"])
        ran = coordinate(run)
        assert "round  1   2 silos sent" in ran
        folder = re.search(r"run folder: (coordinator/runs/\S+)", ran)
        assert folder
        assert coordinate(stop) == "no run is under way\n"
        # It is at its fixed point, and stays there.
        again = coordinate(re.sub(r"coordinator/runs/\S+", folder[1], resume))
        ended = [re.search(r"fixed point in round \d+", printed) for printed in (ran, again)]
        assert ended[0]
        assert ended[1]
        assert ended[0][0] == ended[1][0]

        rounds = len(RunFolder(deployment.folder / folder[1]).rounds())
        assert f"{22_800 - 228 * rounds:,} left" in do("fedct silo status silo")
        verified = do("fedct silo verify silo")
        assert "The egress log of cleveland is intact" in verified
        assert f"Left: {rounds} messages with labels, {228 * rounds:,} labels" in verified
        assert "nothing to be put right, nothing to be looked at" in do(check)
