"""A coordinator that colludes with silos: what it can compute from all that it has seen and all that they know."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.secure_sum import messages as m
from fedct_flwr.secure_sum.masks import Masked, derive, opened_shares, pair_seed, restore, seed_check, tag, unwrapped
from fedct_flwr.secure_sum.messages import Header, Reader, Step
from fedct_flwr.secure_sum.terms import SHARE_SIZE, Shape, SumRefused, listed
from tests.secure_sum.silos import Federation, key


class Adversary:
    """Collects the shares that silos give, adds those that colluders hold, and takes off every mask it can."""

    def __init__(self, made: Federation, colluders: Iterable[str] = ()) -> None:
        self.made = made
        self.coordinator = made.coordinator
        self.places = {name: place for place, name in enumerate(made.coordinator.names)}
        self.colluders = [self.places[name] for name in colluders]
        self.shares: dict[tuple[int, bool], dict[int, bytes]] = {}
        """By silo and whether it is of the key that wraps its pairwise seeds: shares by the silo that gave them."""

    @property
    def session(self) -> bytes:
        return self.coordinator._session

    def roots(self, place: int) -> dict[int, bytes]:
        """The secrets that a colluder has with each other silo."""
        session = self.made.silos[self.coordinator.names[place]].session
        assert session is not None
        return session.roots

    def asks(self, shape: Shape, views: dict[str, tuple[int, ...]]) -> dict[str, m.MaskedAnswer]:
        """Ask each silo for a sum, told that these are its summands."""
        coordinator, number = self.coordinator, self.coordinator._number
        self.deals, self.number, self.shape = coordinator._deals, number, shape
        answers = {}
        for name, summands in views.items():
            place = self.places[name]
            sealed = {dealer: self.deals[dealer].sealed[place] for dealer in summands if dealer != place}
            request = Header(Step.ASK, self.session, number).encode() + m.Ask(shape, summands, sealed).encode()
            reply = self.made.say(name, request)
            own = shape if place in summands else None
            answers[name] = m.MaskedAnswer.decode(
                reply, [other for other in self.places.values() if other != place], own
            )
        return answers

    def name_of_sum(self, summands: tuple[int, ...]) -> bytes:
        return m.sum_digest(self.coordinator._roster, self.number, self.shape, summands)

    def sign(self, survivors: tuple[int, ...], by: Iterable[str]) -> dict[int, bytes]:
        """What silos sign of a list of survivors."""
        request = Header(Step.SURVIVORS, self.session, self.number).encode() + listed(survivors)
        signed = {}
        for name in by:
            reply = self.made.say(name, request)
            if Header.of(reply).step is Step.SIGNED:
                reader = Reader(reply)
                signed[self.places[name]] = reader.take(m.SIGNATURE_SIZE)
        return signed

    def collude_sign(self, summands: tuple[int, ...], survivors: tuple[int, ...]) -> dict[int, bytes]:
        """Colluders sign whatever is wanted."""
        content = m.survivor_list(self.coordinator._roster, self.number, self.name_of_sum(summands), survivors)
        return {place: key(self.coordinator.names[place]).sign(content) for place in self.colluders}

    def open(
        self,
        name: str,
        summands: tuple[int, ...],
        survivors: tuple[int, ...],
        answers: dict[str, m.MaskedAnswer],
        signatures: dict[int, bytes] | None = None,
    ) -> bytes:
        """Ask a silo to open a sum, and keep the shares that it gives. A colluder's tags are whatever is wanted."""
        place, tags = self.places[name], {}
        for other in survivors:
            if other == place:
                continue
            if other in self.colluders:
                tags[other] = tag(self.roots(other)[place], other, place, self.name_of_sum(summands))
            else:
                told = answers[self.coordinator.names[other]].tags
                assert told is not None
                tags[other] = told[place]
        request = Header(Step.OPEN, self.session, self.number).encode()
        reply = self.made.say(name, request + m.Open(survivors, tags, signatures or {}).encode())
        if Header.of(reply).step is Step.OPENED:
            reader = Reader(reply)
            for member, share in reader.parts(SHARE_SIZE, summands).items():
                self.shares.setdefault((member, member not in survivors), {})[place] = share
        return reply

    def add_colluders_shares(self) -> None:
        """Colluders give all shares that they hold."""
        for dealer, dealt in self.deals.items():
            for place in self.colluders:
                if dealer != place:
                    root = self.roots(place)[dealer]
                    both = opened_shares(root, dealer, place, self.number, dealt.sealed[place])
                    for wraps, share in enumerate(both):
                        self.shares.setdefault((dealer, bool(wraps)), {})[place] = share

    def secret(self, place: int, wraps: bool) -> bytes | None:
        """The secret of a silo, if there are shares enough."""
        quorum = self.coordinator._terms.quorum(len(self.places))
        given = self.shares.get((place, wraps), {})
        if len(given) < quorum:
            return None
        try:
            secret = restore(dict(sorted(given.items())[:quorum]))
        except SumRefused:
            return None
        return secret if wraps or seed_check(secret) == self.deals[place].check else None

    def knows_pair(self, place: int, other: int) -> bytes | None:
        """The seed of the mask between two silos, if it can be known."""
        for one, two in ((place, other), (other, place)):
            if one in self.colluders:
                return pair_seed(self.roots(one)[two], self.number)
            if (wrapping := self.secret(one, wraps=True)) is not None:
                others = [member for member in self.places.values() if member != one]
                return unwrapped(wrapping, one, others, self.deals[one].wrapped)[two]
        return None

    def stripped(self, place: int, view: tuple[int, ...], masked: bytes) -> tuple[NDArray[np.uint64], set[int], bool]:
        """A vector without the masks that can be known; the silos whose mask with it is not, and so its own."""
        vector = Masked(np.zeros(self.shape.length, dtype=np.uint64), self.shape.bits)
        vector.absorb(masked)
        sum_name, unknown = self.name_of_sum(view), set()
        for other in self.coordinator._terms.neighbours(place, view, len(self.places)):
            seed = self.knows_pair(place, other)
            if seed is None:
                unknown.add(other)
                continue
            take_off: Callable[[bytes], None] = vector.subtract if place < other else vector.add
            take_off(derive(seed, b"pair mask", sum_name))
        own = self.secret(place, wraps=False)
        if own is not None:
            vector.subtract(derive(own, b"self mask", sum_name))
        return vector.residues, unknown, own is None


def all_places(made: Federation) -> tuple[int, ...]:
    return tuple(range(len(made.coordinator.names)))
