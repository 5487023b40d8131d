"""A silo that announces its answers and sends none keeps nobody else's from counting."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import liar
from tests.processes.deployment import Deployment

pytestmark = pytest.mark.processes

HONEST = ("cleveland", "budapest")
LIAR = "zurich"
DEADLINE = 30


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("half"), (*HONEST, LIAR), learner={"name": "decision-tree"}) as running:
        yield running


def test_rounds_go_on_with_those_who_answer(deployment: Deployment) -> None:
    silo = deployment.silos[LIAR]
    deployment.stop(f"agent {LIAR}")
    deployment.stop(f"supernode {LIAR}")
    command = [sys.executable, "-P", str(Path(liar.__file__)), deployment.address, str(deployment.coordinator.ca)]
    deployment.start(LIAR, [*command, str(silo.node_key).removesuffix(".pub")])
    run, folder = deployment.begin("half", round_deadline=DEADLINE, min_silos=2)
    assert deployment.finish(run, folder)["status"] == "completed", deployment.logs()
    assert "announced" in deployment.log(LIAR), deployment.logs()
    for record in folder.rounds():
        assert sorted(record["silos"]) == sorted(HONEST), deployment.logs()
        # Flower alone waits three minutes for the rest of an answer, and a round whose time is over has none.
        assert record["seconds"] < 2 * DEADLINE
