"""The SuperExec does not end where a SuperLink takes its call and stands still, and ends where Flower's own does."""

import importlib
from typing import Any

import httpx
import pytest

from fedct_flwr.engine import superexec


@pytest.fixture
def retries(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What Flower's SuperExec asks whether to try again, once ours has started it."""
    cli: Any = importlib.import_module("flwr.supercore.cli.flower_superexec")
    loop: Any = importlib.import_module("flwr.supercore.superexec.run_superexec")
    monkeypatch.setattr(loop, "make_simple_http_retry_invoker", loop.make_simple_http_retry_invoker)
    made: list[Any] = []
    monkeypatch.setattr(cli, "flower_superexec", lambda: made.append(loop.make_simple_http_retry_invoker()))
    superexec.main()
    return made[0]


@pytest.mark.parametrize(
    ("error", "gives_up"),
    [
        (httpx.ConnectTimeout("_ssl.c:989: The handshake operation timed out"), False),
        (httpx.ConnectError("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred"), False),
        (httpx.ConnectError("[Errno 111] Connection refused"), False),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), True),
    ],
)
def test_what_may_pass_is_waited_for(retries: Any, error: Exception, gives_up: bool) -> None:
    assert retries.should_giveup(error) == gives_up
