"""Two plain Flower apps at three real silos, unmodified, each through the gate that ``[app.replies]`` describes."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from flwr.app import RecordDict

from fedct_flwr.flower.superlink import MOST_PARTS_VARIABLE
from fedct_flwr.hospital.log_entry import Event
from tests.hospital.apps import APPS, SKLEARN, TORCH, AppOnDisk
from tests.processes.deployment import Deployment, free_port

pytestmark = pytest.mark.processes
SILOS = ("oslo", "bergen", "trondheim")


class Apps(Deployment):
    """Three silos with apps in place of a study."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SILOS)
        self.environment |= {"PYTHONPATH": f"{APPS}:{self.environment['PYTHONPATH']}", MOST_PARTS_VARIABLE: "64"}

    def _silo(self, name: str, hospital: str) -> Any:
        silo = AppOnDisk(
            self.folder / "silos" / name, name,
            {"superlink": self.address, "supernode": f"127.0.0.1:{free_port()}"},
        )  # fmt: skip
        shutil.copyfile(self.coordinator.ca, silo.config.connection.ca_certificate)
        silo.approve()
        return silo

    def run(self, package: str, rounds: int) -> tuple[int, dict[str, Any]]:
        """Run an app as ``flwr run`` does. Returns Flower's id, and what its ServerApp wrote."""
        app, out = self.folder / package, self.folder / f"{package}.npz"
        app.mkdir()
        shutil.copytree(APPS / package, app / package)
        flwr = {
            "app": {
                "publisher": "a-partner",
                "components": {f"{part}app": f"{package}.{part}_app:app" for part in ("server", "client")},
                "config": {"rounds": rounds, "local-steps": 5, "out": str(out)},
            }
        }
        project = {"name": package.replace("_", "-"), "version": "1.0.0", "description": "", "license": "Apache-2.0"}
        described = {"project": project, "tool": {"flwr": flwr}}
        (app / "pyproject.toml").write_text(tomli_w.dumps(described), "utf-8")
        run = int(self.superlink._ask("run", str(app), "superlink")["run-id"])
        self.wait(lambda: out.exists() or self._is_over(run), package)
        assert out.exists(), (self.superlink.log(run), self.logs())
        return run, dict(np.load(out))

    def change(self, app: dict[str, Any]) -> None:
        """Give all silos another app, and approve it."""
        for silo in self.silos.values():
            self.stop(f"agent {silo.name}")
            silo.write(app)  # type: ignore[attr-defined]
            silo.approve()  # type: ignore[attr-defined]
            self.start_agent(silo)
        self._wait_for_agents()


def averaged(replies: list[RecordDict]) -> dict[str, Any]:
    """Federated averaging, from what the silos have kept."""
    weights = np.array([reply["metrics"]["num-examples"] for reply in replies])
    return {
        name: np.tensordot(weights / weights.sum(), np.stack([reply["arrays"][name].numpy() for reply in replies]), 1)
        for name in replies[0]["arrays"]
    }


def check(deployment: Apps, package: str, app: dict[str, Any], rounds: int) -> None:
    run, result = deployment.run(package, rounds)
    silos: list[Any] = [*deployment.silos.values()]
    for silo in silos:
        lines = [line for line in silo.entries() if line.run == run]
        assert [line.event for line in lines] == [Event.ADMITTED, Event.RELEASED] * 2 * rounds, deployment.logs()
        assert [line.kind for line, _ in silo.released(run)] == ["train", "evaluate"] * rounds
        assert len({line.code for line in lines}) == 1
    last = averaged([silo.released(run)[-2][1] for silo in silos])
    assert set(last) == set(app["replies"]["train"]["arrays"]["arrays"])
    for name, array in last.items():
        np.testing.assert_allclose(result[name], array, rtol=1e-5, atol=1e-6)
    assert 0.5 < result["accuracy"] <= 1


def test_two_plain_apps_pass_unmodified_and_give_the_aggregate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(APPS)
    with Apps(tmp_path) as deployment:
        check(deployment, "plain_sklearn", SKLEARN, 1)
        deployment.change(TORCH)
        check(deployment, "plain_torch", TORCH, 2)
