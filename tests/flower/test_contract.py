"""What each patch needs of Flower's insides is where it was: a failure says in one sentence what a new Flower moved."""

import importlib
import inspect
from importlib.metadata import entry_points, version
from typing import Any

import pytest

from fedct_flwr.flower import runtime_client
from fedct_flwr.flower.grid import ErrorCode

FLOWER = f"flwr {version('flwr')}"


def found(module: str, path: str, needed_by: str) -> Any:
    """What lies there; fails with one sentence if this Flower has moved it."""
    try:
        thing: Any = importlib.import_module(module)
        for name in path.split("."):
            thing = getattr(thing, name)
    except (ImportError, AttributeError):
        pytest.fail(f"{FLOWER} has moved {module}.{path}, which {needed_by} needs", pytrace=False)
    return thing


def takes(function: Any, *names: str, needed_by: str) -> None:
    missing = {*names} - {*inspect.signature(function).parameters}
    if missing:
        pytest.fail(f"in {FLOWER} {function.__qualname__} no longer takes {missing}: see {needed_by}", pytrace=False)


def calls(function: Any, *names: str, needed_by: str) -> None:
    missing = {*names} - {*function.__code__.co_names}
    if missing:
        pytest.fail(f"in {FLOWER} {function.__qualname__} no longer calls {missing}: see {needed_by}", pytrace=False)


@pytest.mark.parametrize("patch", ["object_isolation", "sender_check"])
def test_the_superlink_calls_the_handlers_that_are_replaced(patch: str) -> None:
    router = "flwr.superlink.routers.fleet.router"
    for name, others in {
        "pull_messages": ("store",),
        "push_messages": (),
        "push_object": (),
        "pull_object": (),
    }.items():
        handler = found("flwr.superlink.servicer.fleet.fleet_handlers", name, patch)
        takes(handler, "request", "state", *others, needed_by=patch)
        calls(found(router, f"fleet_{name}", patch), "fleet_handlers", name, needed_by=patch)


def test_the_supernodes_loop_takes_the_step_that_is_replaced() -> None:
    loop = found("flwr.supernode.start_client_internal", "start_client_internal", "stale_replies")
    calls(loop, "_pull_and_store_message", "_push_messages", needed_by="stale_replies")
    step = found("flwr.supernode.start_client_internal", "_pull_and_store_message", "stale_replies")
    takes(step, "state", needed_by="stale_replies")


def test_the_agent_speaks_flowers_runtime_api() -> None:
    constants, by = "flwr.supercore.constant", "runtime_client"
    assert found(constants, "TASK_TOKEN_HEADER", by) == runtime_client.TOKEN_HEADER
    assert found(constants, "TaskType.CLIENT_APP", by) == runtime_client.CLIENT_APP
    assert found("flwr.common.constant", "SubStatus.COMPLETED", by) == runtime_client.COMPLETED
    assert found("flwr.supercore.protobuf.constants", "PROTOBUF_MEDIA_TYPE", by) == runtime_client.MEDIA_TYPE


def test_the_grid_of_a_superlink_has_its_client_and_node() -> None:
    grid: Any = found("flwr.superlink.grid", "HttpGrid", "grid")(token="token")
    assert isinstance(found("flwr.superlink.grid", "HttpGrid._runtime_client", "grid"), property)
    assert grid.node.node_id
    codes = found("flwr.common.constant", "ErrorCode", "grid")
    assert all(getattr(codes, code.name) == code for code in ErrorCode if code is not ErrorCode.UNREADABLE)


@pytest.mark.parametrize("program", ["flower-superlink", "flower-supernode", "flower-superexec", "flwr-simulation"])
def test_flowers_programs_have_their_names(program: str) -> None:
    assert entry_points(group="console_scripts", name=program), f"{FLOWER} has no program {program}"
