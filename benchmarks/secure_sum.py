"""What a secure sum costs: seconds of all silos and the coordinator together, and bytes of each silo."""

import time
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr.secure_sum.coordinator import Replies, Requests, SumCoordinator, begin_session, sum_securely
from fedct_flwr.secure_sum.messages import Header, Step
from fedct_flwr.secure_sum.silo import SumClient
from fedct_flwr.secure_sum.terms import Shape, Terms, sum_modulo

_PLAIN_BYTES: Final = 8
_MOST_OF_PLAIN: Final = 1.3
_PEER_BYTES: Final = 200


class Setting(NamedTuple):
    """A federation, the vectors that it adds, and the seconds to reach; None where there is no such figure."""

    silos: int
    may_collude: int
    length: int
    bits: int
    dropouts: int = 0
    seconds: float | None = None

    @property
    def name(self) -> str:
        """As the table says it."""
        gone = f", {self.dropouts} of them gone" if self.dropouts else ""
        return f"{self.silos} silos, {self.length:,} numbers of {self.bits} bits, {self.may_collude} may collude{gone}"


SETTINGS: Final = (
    Setting(4, 1, 500, 64, seconds=0.05),
    Setting(4, 1, 500, 64, dropouts=1),
    Setting(20, 3, 10_000, 32),
    Setting(100, 10, 100_000, 32),
    Setting(100, 10, 100_000, 64, seconds=3.0),
    Setting(100, 33, 100_000, 64, seconds=3.0),
    Setting(100, 10, 100_000, 64, dropouts=33),
)


def run(seeds: int | None, fast: bool) -> None:
    """Secure sums of 4 to 100 silos: seconds, exchanges and bytes, without and with dropouts."""
    runs = {setting.name: _measured(setting, 2 if fast else seeds or 5) for setting in SETTINGS}
    report.write("secure-sum", _text(runs), runs, {"silos": [s.silos for s in SETTINGS]})


@dataclass
class _Adds:
    """A silo that adds always the same vector."""

    numbers: NDArray[np.uint64]

    def vector(self, shape: Shape) -> NDArray[np.uint64]:
        """Its numbers."""
        return self.numbers

    def charge(self, shape: Shape) -> None:
        """Costs nothing here."""


def _measured(setting: Setting, repeats: int) -> Runs:
    rng, runs = np.random.default_rng(0), Runs()
    keys = {f"silo-{number:03d}": Ed25519PrivateKey.generate() for number in range(setting.silos)}
    public = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
    terms = Terms("benchmark", public, max(3, setting.may_collude + 2), setting.may_collude)
    silos = {name: SumClient(name, key, terms) for name, key in keys.items()}
    largest = (1 << setting.bits) - 1
    adds = {name: _Adds(rng.integers(0, largest, setting.length, np.uint64, endpoint=True)) for name in keys}
    carried = dict.fromkeys(keys, 0)
    exchanges = 0
    gone = list(keys)[: setting.dropouts]

    def send(requests: Requests) -> Replies:
        return {name: silos[name].answer(request, adds[name]) for name, request in requests.items()}

    def exchange(requests: Requests) -> Replies:
        nonlocal exchanges
        exchanges += 1
        asked = {name: text for name, text in requests.items() if name not in gone or Header.of(text).step < Step.ASK}
        replies = send(asked)
        for name, request in asked.items():
            carried[name] += len(request) + len(replies[name])
        return replies

    for number in range(repeats):
        coordinator = SumCoordinator(terms)
        begun = time.process_time()
        begin_session(coordinator, exchange)
        carried.update(dict.fromkeys(keys, 0))
        exchanges, session = 0, time.process_time() - begun
        shape = Shape(setting.length, setting.bits, number.to_bytes(32, "big"))
        begun, processor = time.perf_counter(), time.process_time()
        found = sum_securely(coordinator, exchange, shape)
        wall, processor = time.perf_counter() - begun, time.process_time() - processor
        expected = sum_modulo([adds[name].numbers for name in found.summands], setting.bits)
        if len(found.summands) != setting.silos - setting.dropouts or not np.array_equal(found.total, expected):
            raise AssertionError(f"the secure sum of {setting.name} is not the plain one")
        bytes_ = max(carried.values())
        allowed = _MOST_OF_PLAIN * _PLAIN_BYTES * setting.length + _PEER_BYTES * (setting.silos - 1)
        runs.add(wall=wall, processor=processor, session=session, exchanges=exchanges, bytes=bytes_)
        runs.add(share=bytes_ / allowed, peer=(bytes_ - setting.length * setting.bits / 8) / (setting.silos - 1))
    return runs


def _text(runs: dict[str, Runs]) -> str:
    rows = []
    for setting in SETTINGS:
        median = {name: float(np.median(values)) for name, values in runs[setting.name].values.items()}
        to_reach = "–" if setting.seconds is None else f"{setting.seconds:g}"
        rows.append(
            [
                setting.name,
                f"{median['processor']:.3f}",
                f"{min(runs[setting.name].values['wall']):.3f}",
                to_reach,
                f"{median['session']:.3f}",
                f"{median['exchanges']:.0f}",
                f"{median['bytes'] / 1e3:,.1f}",
                f"{median['peer']:.0f}",
                f"{median['share']:.2f}",
            ]
        )
    header = ["sum", "processor (s)", "clock (s)", "to reach (s)", "session (s)", "exchanges"]
    header += ["kB of a silo", "bytes a peer", "share of the bytes to reach"]
    return (
        "# Secure sums\n\n"
        "All silos and the coordinator run one after the other in one process, on one core. Each sum is compared with "
        "the plain one. *Processor*: its time for the whole sum, median. *Clock*: the fastest of the repeats, as the "
        "machine had other work. *Session*: processor time to agree on the keys, once for all sums. *kB of a silo*: of "
        "the busiest one, sent and received. *Bytes a peer*: those beyond its vector, by the number of other silos. "
        "*Bytes to reach*: 1.3 times the plain vector at 64 bits, and 200 bytes a peer.\n\n"
        + report.table(header, rows)
    )
