"""Four hospitals in containers train together, and print what a simulation of them prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.federation import COORDINATOR, ROOT, SILOS, Federation
from tests.readme import shown

pytestmark = pytest.mark.deploy

PLATFORM = (ROOT / "docs" / "tutorials" / "platform.md").read_text("utf-8")


BIN = Path(sys.executable).parent
_WIDTH = 4
"""Name, a score on each of two test sets, and what was sent."""


def table(text: str) -> list[str]:
    """The rows of the table, sorted, without what a silo sent: other scores travel here, and scores are bytes."""
    rows = re.findall(r"^ *(cleveland|budapest|zurich|long-beach|mean) ([ \d.]+?)\s*$", text, re.MULTILINE)
    cells = [[name, *numbers.split()] for name, numbers in rows]
    # Below these are areas under curves.
    return sorted([" ".join(row[:-1]) for row in cells if len(row) == _WIDTH][: len(SILOS) + 1])


def test_the_three_commands_print_the_table_of_a_simulation(deployed: Federation, tmp_path: Path) -> None:
    images, *commands = shown("<!-- the three commands -->", "sh", PLATFORM).splitlines()
    # Whoever makes these tests has made the images.
    assert images == "make images"
    assert re.search(r"^test-deploy:.* images ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    printed = [deployed.do(command) for command in commands][-1]
    assert "fixed point in round" in printed
    simulate = [BIN / "fedct", "simulate", "--seed", "0", "--in-process", "--no-baselines"]
    expected = table(subprocess.run(simulate, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
    assert len(expected) == len(SILOS) + 1
    # The same algorithm on the same records: the same numbers, whatever carries the messages.
    assert table(printed) == expected


def test_plain_flwr_run_trains_them_as_well(deployed: Federation) -> None:
    checkout = ("--volume", f"{ROOT}:/app/fedct-flwr:ro", "--workdir", "/app/fedct-flwr")
    inside = ("--env", f"FLWR_HOME={COORDINATOR}/flwr", "--entrypoint", "flwr", "superexec")
    command = ("run", ".", "deployment", "--stream", "--run-config", "num-server-rounds=2")
    before = answered(deployed)
    done = deployed.compose("run", "--rm", "--no-deps", "--no-TTY", *checkout, *inside, *command)
    assert "Run folder:" in done.stdout + done.stderr, done.stdout
    assert answered(deployed) == {silo: runs + 1 for silo, runs in before.items()}


def answered(deployed: Federation) -> dict[str, int]:
    """How many runs each silo has sent labels to."""
    released = {silo: [entry for entry in deployed.egress(silo) if entry["event"] == "released"] for silo in SILOS}
    return {silo: len({entry["run"] for entry in entries}) for silo, entries in released.items()}
