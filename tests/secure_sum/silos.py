"""Silos with keys of their own, a network that loses messages, and a coordinator that keeps all it sees."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fedct_flwr.secure_sum.coordinator import Replies, Requests, SumCoordinator, begin_session
from fedct_flwr.secure_sum.messages import Header, Step
from fedct_flwr.secure_sum.silo import SumClient
from fedct_flwr.secure_sum.terms import Fault, Shape, SumTerms

BITS, LENGTH = 13, 3
_subjects = count(1)


@dataclass
class Numbers:
    """What a silo adds, and how often it paid."""

    vector_: NDArray[np.uint64]
    paid: int = 0

    def vector(self, shape: Shape) -> NDArray[np.uint64]:
        return self.vector_

    def charge(self, shape: Shape) -> None:
        self.paid += 1


@cache
def key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def terms(names: Sequence[str], may_collude: int = 1, run: str = "run", min_summands: int | None = None) -> SumTerms:
    keys = {name: key(name).public_key().public_bytes_raw() for name in names}
    return SumTerms(run, keys, max(3, may_collude + 2) if min_summands is None else min_summands, may_collude)


def names(silos: int) -> list[str]:
    return [f"silo-{number:02d}" for number in range(silos)]


def shape(length: int = LENGTH, bits: int = BITS, largest: int | None = None, subject: int | None = None) -> Shape:
    """A sum of another subject each time."""
    return Shape(length, bits, (next(_subjects) if subject is None else subject).to_bytes(32, "big"), largest)


@dataclass
class Federation:
    """Silos, their numbers and a coordinator in one session; ``lost`` decides which messages get lost."""

    silos: dict[str, SumClient]
    numbers: dict[str, Numbers]
    coordinator: SumCoordinator
    lost: Callable[[str, Step], bool] = lambda name, step: False
    replies_lost: bool = False
    seen: dict[tuple[Step, str], tuple[bytes, bytes]] = field(default_factory=dict)
    changed: Callable[[str, Step, bytes], bytes] = lambda name, step, reply: reply
    exchanges: int = 0
    carried: int = 0
    """Bytes of all messages: benchmarks/scale.py tells them."""

    def exchange(self, requests: Requests) -> Replies:
        replies = {}
        self.exchanges += 1
        for name, request in requests.items():
            step = Header.of(request).step
            if self.lost(name, step) and not self.replies_lost:
                continue
            reply = self.silos[name].answer(request, self.numbers[name])
            self.seen[step, name] = request, reply
            self.carried += len(request) + len(reply)
            if not self.lost(name, step):
                replies[name] = self.changed(name, step, reply)
        return replies

    def say(self, name: str, request: bytes) -> bytes:
        return self.silos[name].answer(request, self.numbers[name])


def federation(
    vectors: Mapping[str, NDArray[np.uint64]] | int, may_collude: int = 1, begun: bool = True, **about: int
) -> Federation:
    if isinstance(vectors, int):
        rng = np.random.default_rng(vectors)
        vectors = {name: rng.integers(0, 1 << BITS, LENGTH, dtype=np.uint64) for name in names(vectors)}
    agreed = terms(list(vectors), may_collude, **about)
    silos = {name: SumClient(name, key(name), agreed) for name in vectors}
    made = Federation(silos, {name: Numbers(vector) for name, vector in vectors.items()}, SumCoordinator(agreed))
    if begun:
        begin_session(made.coordinator, made.exchange)
    return made


def fault_of(reply: bytes) -> Fault | None:
    """What a silo refused, or None where it answered."""
    return Fault.from_number(reply[-2]) if Header.of(reply).step is Step.REFUSED else None
