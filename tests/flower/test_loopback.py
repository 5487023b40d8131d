"""The in-process federation behaves as Flower's engine does where it matters."""

import threading
import time

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity
from threadpoolctl import threadpool_info, threadpool_limits

from fedct_flwr.flower.loopback import LoopbackGrid, run_loopback, simulated_nodes
from fedct_flwr.types import RunError
from tests.patience import PATIENCE


def instruct(grid: Grid, number: int = 0) -> list[Message]:
    content = RecordDict({"c": ConfigRecord({"n": number})})
    return [Message(content, dst_node_id=node, message_type="train") for node in grid.get_node_ids()]


def run(  # type: ignore[no-untyped-def]
    main, train, nodes: int = 3, workers: int | None = None, stopped: threading.Event | None = None
) -> None:
    server_app, client_app = ServerApp(), ClientApp()
    server_app.main()(main)
    client_app.train()(train)
    run_loopback(server_app, client_app, {"key": "value"}, simulated_nodes(nodes), workers, stopped)


def echo(message: Message, context: Context) -> Message:
    return Message(message.content, reply_to=message)


def test_state_lasts_from_round_to_round_and_is_separate_for_each_node() -> None:
    counts = []

    def train(message: Message, context: Context) -> Message:
        before = context.state["c"]["n"] if "c" in context.state else 0
        context.state["c"] = ConfigRecord({"n": before + 1})
        return Message(RecordDict({"c": context.state["c"]}), reply_to=message)

    def main(grid: Grid, context: Context) -> None:
        counts.extend([reply.content["c"]["n"] for reply in grid.send_and_receive(instruct(grid))] for _ in range(3))

    run(main, train)
    assert counts == [[1, 1, 1], [2, 2, 2], [3, 3, 3]]


def test_a_node_that_hangs_delays_nobody_beyond_the_timeout_and_its_late_reply_is_dropped() -> None:
    release = threading.Event()
    received = []

    def train(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 0 and message.content["c"]["n"] == 1:
            release.wait(PATIENCE)
        return echo(message, context)

    def main(grid: Grid, context: Context) -> None:
        received.append(len(list(grid.send_and_receive(instruct(grid, 1), timeout=5))))
        release.set()
        received.append(len(list(grid.send_and_receive(instruct(grid, 2), timeout=PATIENCE))))

    run(main, train, workers=2)
    assert received == [2, 3]


def test_silos_train_in_one_thread_each_whatever_a_new_thread_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    found, original = set(), LoopbackGrid._work

    def work(grid: LoopbackGrid) -> None:
        with threadpool_limits(3, user_api="openmp"):
            original(grid)

    def train(message: Message, context: Context) -> Message:
        found.update(library["num_threads"] for library in threadpool_info())
        return echo(message, context)

    def main(grid: Grid, context: Context) -> None:
        list(grid.send_and_receive(instruct(grid)))

    monkeypatch.setattr(LoopbackGrid, "_work", work)
    run(main, train)
    assert found == {1}


def test_what_the_server_app_raises_is_raised_here_and_leaves_no_identity_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Agents in this process may have left one.
    monkeypatch.setattr(TaskIdentity, "_run_id", None)

    def main(grid: Grid, context: Context) -> None:
        raise RuntimeError("the server's own mistake")

    with pytest.raises(RuntimeError, match="own mistake"):
        run(main, echo)
    assert TaskIdentity._run_id is None


def test_a_run_that_is_stopped_ends_after_the_silos_at_work_and_before_those_in_line() -> None:
    stopped, begun, ended = threading.Event(), [], []

    def train(message: Message, context: Context) -> Message:
        begun.append(message)
        stopped.set()
        time.sleep(1.0)
        ended.append(message)
        return Message(message.content, reply_to=message)

    def main(grid: Grid, context: Context) -> None:
        grid.send_and_receive(instruct(grid))

    with pytest.raises(RunError, match="was stopped"):
        run(main, train, nodes=5, workers=2, stopped=stopped)
    assert 1 <= len(begun) == len(ended) <= 2
