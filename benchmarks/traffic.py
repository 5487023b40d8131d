"""What a silo's link to its coordinator carries: bytes on the socket for each round, at a run's start, and idle.

Real processes on this machine, with TLS and node keys: a SuperLink, four SuperNodes and four agents. A relay before the
SuperLink counts the bytes of each silo's connections, TLS included; headers of TCP and IP are not counted.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import report
from benchmarks.federation import Runs
from tests.processes.deployment import Deployment
from tests.processes.relay import Relay

ROUNDS: Final = 11
"""Of the longer run; the shorter one has one round, and the difference is that of ten rounds."""
SETTLED_SECONDS: Final = 60
"""After the last question: then a call waits for the next one."""
IDLE_SECONDS: Final = 240
"""Six calls of 40 s."""
_LEARNER: Final[dict[str, Any]] = {"name": "logistic-regression"}
_DAY: Final = 86_400


class Carried(NamedTuple):
    """Bytes from the silo to the coordinator, and back."""

    up: int
    down: int

    @classmethod
    def of(cls, relay: Relay) -> "Carried":
        """So far."""
        return cls(relay.up, relay.down)

    def since(self, before: "Carried") -> "Carried":
        """What has been carried after ``before``."""
        return Carried(self.up - before.up, self.down - before.down)


def run(seeds: int | None, fast: bool) -> None:
    """Bytes of each silo for a round, at a run's start and idle for a day; seconds of a round.

    A run of one round and one of eleven, then idle; ``fast``: three rounds, and idle at once.
    """
    del seeds
    start = time.perf_counter()
    rounds, settled, idle = (3, 0, 10) if fast else (ROUNDS, SETTLED_SECONDS, IDLE_SECONDS)
    silos, coordinator = _measured(rounds, settled, idle)
    settings = {"rounds": rounds, "settled": settled, "idle": idle, "learner": _LEARNER}
    runs = {"silos": silos, "coordinator": coordinator}
    report.write("traffic", _text(runs), runs, settings, time.perf_counter() - start)


def _measured(rounds: int, settled: float, idle: float) -> tuple[Runs, Runs]:
    silos, coordinator = Runs(), Runs()
    with (
        tempfile.TemporaryDirectory(prefix="fedct-") as temporary,
        Deployment(Path(temporary), learner=_LEARNER, relayed=True) as deployment,
    ):
        carried = {}
        for name, number in (("short", 1), ("long", rounds)):
            before = {silo: Carried.of(relay) for silo, relay in deployment.relays.items()}
            run_id, folder = deployment.begin(
                name, num_server_rounds=number, min_silos=len(deployment.silos), stop_at_fixed_point=False
            )
            deployment.finish(run_id, folder)
            carried[name] = {silo: Carried.of(relay).since(before[silo]) for silo, relay in deployment.relays.items()}
            seconds = [float(entry["seconds"]) for entry in folder.rounds()]
        for value in seconds[1:]:
            coordinator.add(seconds=value)
        time.sleep(settled)
        before = {silo: Carried.of(relay) for silo, relay in deployment.relays.items()}
        began = time.monotonic()
        time.sleep(idle)
        lasted = time.monotonic() - began
        for silo, relay in deployment.relays.items():
            short, long, waited = carried["short"][silo], carried["long"][silo], Carried.of(relay).since(before[silo])
            each = [(longer - shorter) / (rounds - 1) for longer, shorter in zip(long, short, strict=True)]
            silos.add(
                round_up=each[0],
                round_down=each[1],
                start=sum(short) - sum(each),
                idle_up=waited.up / lasted * _DAY,
                idle_down=waited.down / lasted * _DAY,
            )
    return silos, coordinator


def _text(runs: dict[str, Runs]) -> str:
    found = {name: statistics.median(values) for name, values in runs["silos"].values.items()}
    lines = [
        ["a round", f"{found['round_up'] / 1e3:.1f} kB", f"{found['round_down'] / 1e3:.1f} kB"],
        ["a day without a study", f"{found['idle_up'] / 1e6:.1f} MB", f"{found['idle_down'] / 1e6:.1f} MB"],
    ]
    seconds = runs["coordinator"].values["seconds"]
    return (
        "# Traffic of a silo's link, four hospitals\n\n"
        + report.table(["For", "Up", "Down"], lines)
        + f"\nMedians over {len(runs['silos'].values['start'])} silos. A run's start and end carry "
        f"{found['start'] / 1e3:.0f} kB more, both ways together. A round takes {statistics.median(seconds):.2f} s in "
        f"the median of {len(seconds)} rounds, without the first.\n"
    )
