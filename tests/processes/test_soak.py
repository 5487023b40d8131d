"""Runs over links that fail at random, for as long as it takes: `make soak`.

``FEDCT_SOAK`` faults (100), one after the other, each at one or more silos; ``FEDCT_SOAK_SEED`` repeats a sequence.
"""

import os
import random
import secrets
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from fedct_flwr.hospital.agent_status import status_file
from fedct_flwr.hospital.link import LinkStatus
from tests.hospitals import HOSPITALS
from tests.processes.deployment import Deployment
from tests.processes.relay import FAULTS

pytestmark = pytest.mark.soak

KILL = "kill"
"""A SuperNode without its supervisor, as the kernel does where memory is short."""
ROUNDS = 6


class Weather(threading.Thread):
    """Makes the faults, and ends each after some seconds. ``failure`` is what went wrong with the making."""

    def __init__(self, deployment: Deployment, number: int, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._deployment, self._number, self._chance = deployment, number, chance
        self.made: Counter[str] = Counter()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            for _ in range(self._number):
                self._fail()
        except Exception as error:
            self.failure = error

    def _fail(self) -> None:
        chance = self._chance
        fault = chance.choice((*FAULTS, KILL))
        silos = chance.sample(HOSPITALS, chance.choice((1, 1, 2, 4)))
        seconds = chance.choice((0.5, 3.0, 10.0, 40.0))
        print(f"{sum(self.made.values()) + 1}: {fault} at {', '.join(silos)} for {seconds:g} s", flush=True)
        for silo in silos:
            if fault == KILL:
                for process in self._deployment.process(f"supernode {silo}").children():
                    process.kill()
            else:
                self._deployment.relays[silo].fail(fault)
        time.sleep(seconds)
        for relay in self._deployment.relays.values():
            relay.heal()
        self.made[fault] += 1
        time.sleep(chance.uniform(1, 10))


def test_runs_complete_or_say_why_and_nobody_contradicts_himself(tmp_path: Path) -> None:
    number = int(os.environ.get("FEDCT_SOAK", "100"))
    seed = int(os.environ.get("FEDCT_SOAK_SEED", secrets.randbelow(1_000_000)))
    print(f"FEDCT_SOAK={number} FEDCT_SOAK_SEED={seed}")
    ended: Counter[str] = Counter()
    policy = {"max-rounds": 100_000, "max-queries": 100_000_000, "max-bytes": 1_000_000_000}
    learner = {"name": "logistic-regression"}
    with Deployment(tmp_path, learner=learner, policy=policy, relayed=True) as deployment:
        weather = Weather(deployment, number, random.Random(seed))
        weather.start()
        runs = []
        while weather.is_alive():
            run, folder = deployment.begin(
                f"run-{len(runs)}", num_server_rounds=ROUNDS, round_deadline=60.0, roster_deadline=120.0
            )
            result = deployment.finish(run, folder)
            runs.append(run)
            ended[result["status"]] += 1
            print(f"run {len(runs)}: {result['status']} {result.get('reason') or ''}", flush=True)
            if result["status"] == "completed":
                assert all(len(record["silos"]) >= 2 for record in folder.rounds())
            else:
                assert "\n" not in result["reason"].strip()
                assert result["reason"], result
        assert weather.failure is None, weather.failure
        # Whatever happened: all links are up again, and all four take part.
        began = time.monotonic()
        for silo in deployment.silos.values():
            deployment.wait(
                lambda silo=silo: (link := LinkStatus.read(status_file(silo.config))) and link.silence < 10,  # type: ignore[misc]
                f"the link of {silo.name}",
            )
        back = time.monotonic() - began
        run, folder = deployment.begin("afterwards", num_server_rounds=2, round_deadline=120.0)
        assert deployment.finish(run, folder)["status"] == "completed", deployment.logs()
        assert len(folder.rounds()[-1]["silos"]) == 4, deployment.logs()
        for silo in deployment.silos.values():
            for each in (*runs, run):
                silo.released(each)
    print(f"runs {dict(ended)}, faults {dict(weather.made)}, all links up {back:.0f} s after the last one")
    assert sum(weather.made.values()) == number
