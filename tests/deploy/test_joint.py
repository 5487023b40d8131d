"""Four silos in containers train the joint labeler, while each of them dies at another step of a secure sum."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.federation import COORDINATOR, SILOS, Federation, federation, rounds_in

pytestmark = [pytest.mark.deploy, pytest.mark.slow]

STEPS = 15
RUN = ("--set", "algorithm=fedct-joint", "--set", "round-deadline=30")


@pytest.fixture(scope="module")
def joint() -> Iterator[Federation]:
    with federation("tests/deploy/joint.yaml", health="30s") as made:
        yield made


def run_of(joint: Federation, name: str, *more: str) -> tuple[int, str]:
    """Exit code, and all that was printed."""
    return joint.train(*RUN, "--run-dir", f"{COORDINATOR}/runs/{name}", *more)


def result(joint: Federation, name: str) -> dict[str, Any]:
    return dict(json.loads(joint.execute("superexec", "cat", f"{COORDINATOR}/runs/{name}/result.json").stdout))


def test_a_silo_that_dies_at_any_step_of_a_sum_is_back_and_the_run_completes(joint: Federation) -> None:
    code, printed = run_of(joint, "dying")
    assert code == 0, printed
    for silo in SILOS:
        joint.execute(f"agent-{silo}", "test", "-e", "/app/silo/state/died")
        assert joint.container(f"agent-{silo}")["RestartCount"] == 1
    rounds = rounds_in(printed)
    # Three of four are enough, and their noise is. A busy machine loses a step.
    lost = result(joint, "dying")["joint"].get("lost", 0)
    assert lost <= STEPS // 3
    assert len(rounds) == STEPS + 1 - lost
    assert min(rounds) == 3
    assert rounds[-1] == 4


def test_where_nobody_dies_all_silos_are_in_all_sums(joint: Federation) -> None:
    code, printed = run_of(joint, "whole", "--set", "seed=1")
    assert code == 0, printed
    assert set(rounds_in(printed)) == {4}


# --- when all that is over


@pytest.mark.parametrize("silo", SILOS)
def test_the_log_proves_that_each_question_was_added_once(silo: str, joint: Federation) -> None:
    assert "is intact" in joint.execute(f"agent-{silo}", "fedct", "silo", "verify").stdout
    lines = joint.egress(silo)
    added = Counter(line["request"] for line in lines if line["event"] == "added" and line["request"])
    assert set(added.values()) == {1}
    assert len(added) <= 2 * STEPS
    assert {line["kind"] for line in lines if line["event"] == "released"} == {"joint"}


@pytest.mark.parametrize("silo", SILOS)
def test_no_silo_has_spent_more_than_its_budget(silo: str, joint: Federation) -> None:
    sheet = joint.execute(f"agent-{silo}", "fedct", "privacy-sheet", ".").stdout
    assert "No silo has spent more than its budget." in sheet
