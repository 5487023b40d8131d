"""Four hospitals in containers train together, and print what `make run` prints."""

import re
import subprocess

import pytest

from tests.deploy.federation import COORDINATOR, ROOT, SILOS, Federation

pytestmark = pytest.mark.deploy

README = (ROOT / "README.md").read_text("utf-8")


def table(text: str) -> list[str]:
    """The rows of the table without what a silo sent: other scores travel here, and scores are bytes."""
    rows = re.findall(r"^ *(cleveland|budapest|zurich|long-beach|mean) ([ \d.]+?)\s*$", text, re.MULTILINE)
    return [" ".join([name, *numbers.split()[:-1]]) for name, numbers in rows]


def test_make_run_deployed_prints_the_table_of_make_run(deployed: Federation) -> None:
    code, printed = deployed.train("--baselines", "heart-disease")
    assert code == 0, printed
    assert "fixed point in round" in printed
    shown = table(README)
    assert len(shown) == len(SILOS) + 1
    # The same algorithm on the same records: the same numbers, whatever carries the messages.
    assert table(printed) == shown


def test_plain_flwr_run_trains_them_as_well(deployed: Federation) -> None:
    checkout = ("--volume", f"{ROOT}:/app/fedct-flwr:ro", "--workdir", "/app/fedct-flwr")
    inside = ("--env", f"FLWR_HOME={COORDINATOR}/flwr", "--entrypoint", "flwr", "superexec")
    command = ("run", ".", "deployment", "--stream", "--run-config", "num-server-rounds=2")
    done = deployed.compose("run", "--rm", "--no-deps", "--no-TTY", *checkout, *inside, *command)
    assert "Run folder:" in done.stdout + done.stderr, done.stdout
    for silo in SILOS:
        assert len({entry["run"] for entry in deployed.egress(silo) if entry["event"] == "released"}) == 2


def test_the_makefile_runs_what_is_tested_here() -> None:
    done = subprocess.run(["make", "--dry-run", "run-deployed"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"superexec fedct coordinator run {COORDINATOR} --baselines heart-disease" in done.stdout
