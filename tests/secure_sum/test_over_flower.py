"""Secure sums as Flower's messages, each serialized and parsed as between processes."""

from collections.abc import Callable

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedct_flwr.coordinator.secure_exchange import over_flower
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.secure_sum.coordinator import SecureSum, SumCoordinator
from fedct_flwr.secure_sum.exchange import begin_session, sum_securely
from fedct_flwr.secure_sum.faults import Fault
from fedct_flwr.secure_sum.messages import Step
from fedct_flwr.secure_sum.terms import sum_modulo
from fedct_flwr.silo.summing import ACTION, answer_sum
from fedct_flwr.wire.messages import from_record
from tests.secure_sum.silos import BITS, Federation, fault_of, federation, names, shape

SILOS = names(4)
SECONDS = 30.0
Broken = Callable[[str, Step, Message], Message | None]


def whole(name: str, step: Step, message: Message) -> Message | None:
    """Nothing breaks."""
    return None


def raises(name: str, step: Step, message: Message) -> Message | None:
    if name == "silo-02" and step is Step.ASK:
        raise RuntimeError("out of memory")
    return None


def says_something_else(name: str, step: Step, message: Message) -> Message | None:
    if name == "silo-02" and step is Step.ASK:
        return Message(RecordDict({"other": ConfigRecord({"payload": b""})}), reply_to=message)
    return None


def summed(made: Federation, broken: Broken, sums: int = 2) -> list[SecureSum]:
    """What a ServerApp gets of ClientApps over the loopback."""
    client_app, server_app, found = ClientApp(), ServerApp(), []

    @client_app.query(ACTION)
    def query(message: Message, context: Context) -> Message:
        name = SILOS[int(context.node_config["partition-id"])]
        instead = broken(name, Step(from_record(message.content)[4]), message)
        return instead or answer_sum(message, made.silos[name], made.numbers[name])

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        exchange = over_flower(grid, dict(zip(SILOS, grid.get_node_ids(), strict=True)), "sums", SECONDS)
        coordinator = SumCoordinator(made.coordinator._terms)
        begin_session(coordinator, exchange)
        found.extend(sum_securely(coordinator, exchange, shape()) for _ in range(sums))

    run_loopback(server_app, client_app, {}, simulated_nodes(len(SILOS)))
    return found


@pytest.mark.parametrize("broken", [whole, raises, says_something_else])
def test_sums_over_flower_are_plain_ones(broken: Broken) -> None:
    made = federation(len(SILOS), begun=False)
    found = summed(made, broken)
    for summands, total in ((secure.summands, secure.total) for secure in found):
        expected = sum_modulo([made.numbers[name].vector_ for name in summands], BITS)
        np.testing.assert_array_equal(total, expected)
    assert [len(secure.summands) for secure in found] == ([4, 4] if broken is whole else [3, 3])


def test_a_message_that_is_none_is_refused_by_number() -> None:
    made, faults = federation(len(SILOS), begun=False), []
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.query(ACTION)
    def query(message: Message, context: Context) -> Message:
        return answer_sum(message, made.silos["silo-00"], made.numbers["silo-00"])

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        (node,) = grid.get_node_ids()
        other = RecordDict({"other": ConfigRecord({"payload": b""})})
        (reply,) = grid.send_and_receive([Message(other, node, f"query.{ACTION}", group_id="1")])
        faults.append(fault_of(from_record(reply.content)))

    run_loopback(server_app, client_app, {}, simulated_nodes(1))
    assert faults == [Fault.MALFORMED]
