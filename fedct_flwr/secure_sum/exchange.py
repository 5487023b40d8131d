"""Whole sessions and sums over any transport: the order of the exchanges, in one place."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from fedct_flwr.secure_sum.coordinator import Replies, Requests, SecureSum, SumCoordinator
from fedct_flwr.secure_sum.silo import Contribution, Summand
from fedct_flwr.secure_sum.terms import Shape
from fedct_flwr.types import SiloName

Exchange: TypeAlias = Callable[[Requests], Replies]
"""Sends each silo its request and returns the replies that came in time."""


def begin_session(coordinator: SumCoordinator, exchange: Exchange) -> None:
    """Set up a session with every silo that answers: two exchanges. Raises SumRefused (TOO_FEW)."""
    coordinator.dealt(exchange(coordinator.roster(exchange(coordinator.invite()))))


def sum_securely(coordinator: SumCoordinator, exchange: Exchange, shape: Shape) -> SecureSum:
    """One sum: two exchanges, three where a summand drops out, one more after a sum that too few answered.

    Raises SumRefused; then the session can go on with another sum.
    """
    if not coordinator.ready:
        coordinator.answered(exchange(coordinator.refresh()))
    requests = coordinator.answered(exchange(coordinator.ask(shape)))
    if coordinator.to_sign:
        requests = coordinator.signed(exchange(requests))
    return coordinator.opened(exchange(requests))


def in_memory(silos: Mapping[SiloName, Summand], contributions: Mapping[SiloName, Contribution]) -> Exchange:
    """An exchange with silos in this process."""

    def exchange(requests: Requests) -> Replies:
        return {name: silos[name].answer(request, contributions[name]) for name, request in requests.items()}

    return exchange
