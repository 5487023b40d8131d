"""One more hospital joins the coordinator, in containers, by the commands that the tutorial and its files give it."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.federation import COORDINATOR, PREFIX, ROOT, Federation
from tests.hospitals import write_silo_folder
from tests.readme import shown
from tests.terminal import run_on_a_terminal

pytestmark = [pytest.mark.deploy, pytest.mark.slow]

TUTORIAL: Final = (ROOT / "docs" / "tutorials" / "hospital.md").read_text("utf-8")
FILES: Final = ROOT / "docker" / "silo"
COMPOSE: Final = (FILES / "compose.yaml").read_text("utf-8")
NAME: Final = "hospital-1"

# A machine of its own would find the coordinator by name; and nobody here has half a minute for a look at its health.
HERE: Final = """
services:
  supernode: { extra_hosts: ["gateway:host-gateway"], healthcheck: { interval: 4s }, environment: { HTTPS_PROXY: "" } }
  agent: { healthcheck: { interval: 4s } }
"""


class Hospital:
    """A folder with what has come, the silo's folder in it, and a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.silo = folder / "silo"
        folder.mkdir()
        self._project = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"

    def do(self, command: str, answer: str = "") -> str:
        """What is on the screen after this command of a person who sits there."""
        environment = {**os.environ, "COMPOSE_PROJECT_NAME": self._project}
        here = self.silo if self.silo.exists() else self.folder
        code, text = run_on_a_terminal(["bash", "-c", command], here, environment, answer=answer)
        if code:
            logs = ["docker", "compose", "logs", "--no-color", "--tail", "40"]
            raise AssertionError(f"{command}: {text}\n{run_on_a_terminal(logs, here, environment)[1]}")
        return text

    def leave(self) -> None:
        """Without the silo's folder nothing has been started."""
        if self.silo.exists():
            self.do("docker compose down --volumes --remove-orphans --timeout 3")


@pytest.fixture
def hospital(deployed: Federation, tmp_path: Path) -> Iterator[Hospital]:
    """With what has come from the coordinator, and with records; nobody remembers it afterwards."""
    made = Hospital(tmp_path / "hospital")
    in_demo = ("run", "--rm", "--no-deps", "--no-TTY", "--entrypoint", "fedct", "demo")
    deployed.compose(*in_demo, "coordinator", "invite", COORDINATOR, NAME)
    deployed.compose("cp", f"demo:{COORDINATOR}/invitations/{NAME}.zip", str(made.folder / "NAME.zip"))
    (made.folder / "data").mkdir()
    records = write_silo_folder(tmp_path / "records").with_name("data.csv")
    shutil.copyfile(records, made.folder / "data" / "records.csv")
    yield made
    deployed.execute("superexec", "rm", "--force", f"{COORDINATOR}/silos/{NAME}.pub")
    made.leave()


def in_comment(pattern: str, **replaced: str) -> str:
    """A command of the compose file's first comment, with words replaced that stand for something."""
    text = re.sub(r"^# ?", "", COMPOSE.partition("\nname:")[0], flags=re.MULTILINE)
    found = re.search(pattern, text, re.DOTALL)
    assert found, f"no {pattern} in the comment of docker/silo/compose.yaml"
    command = found[0]
    for word, value in replaced.items():
        assert word in command
        command = command.replace(word, value)
    return command


def test_a_hospital_takes_part_by_the_commands_of_the_tutorial(hospital: Hospital, deployed: Federation) -> None:
    commands = [line.split("#")[0].strip() for line in shown("<!-- in containers -->", "sh", TUTORIAL).splitlines()]
    # Whoever reads the file instead of the tutorial is told the same.
    assert all(command in COMPOSE for command in commands)
    check, approve, up, status = commands

    made = hospital.do(in_comment(r"docker run .*?--label LABEL", LABEL="class"), "y\n")
    key = re.search(r"Send to the coordinator: (\S+)", made)
    assert key
    assert (hospital.silo / "compose.yaml").read_text("utf-8") == COMPOSE
    (hospital.silo / "compose.override.yaml").write_text(HERE, "utf-8")
    # The port that the demonstration has here.
    for path in (hospital.silo / "silo.toml", hospital.silo / ".env"):
        text = path.read_text("utf-8")
        assert "gateway:8443" in text
        path.write_text(text.replace("gateway:8443", f"gateway:{deployed.port}"), "utf-8")
    register(deployed, (hospital.folder / key[1]).read_text("utf-8"))

    checked = hospital.do(check)
    assert "✓ records: all 13 columns of the study are there" in checked
    assert "nothing is approved, so nothing leaves" in checked
    assert "nothing to be put right" in checked
    assert "Approved, and written into the egress log" in hospital.do(approve, "y\n")
    hospital.do(up)
    assert "waits for questions" in hospital.do(status)
    # As after a reboot: once the temporary file systems belonged to root then, and no run could start any more.
    hospital.do("docker compose restart")
    hospital.do(up)

    code, printed = deployed.train("--rounds", "1", "--set", f"roster={NAME},budapest")
    assert code == 0, printed
    assert "2 silos sent" in printed
    assert re.search(r"labels +228 of 22,800 used", hospital.do(status))


def register(deployed: Federation, key: str) -> None:
    """As the coordinator does with a key that has come by e-mail."""
    deployed.execute("superexec", "sh", "-c", 'printf %s "$1" > /tmp/node.key.pub', "sh", key)
    done = deployed.execute("superexec", "fedct", "coordinator", "register", COORDINATOR, f"{NAME}=/tmp/node.key.pub")
    assert done.stdout == f"{NAME} is registered\n"
