"""How the way to the coordinator is measured, and which of a SuperNode's errors may pass."""

import ast
import errno
import socket
import ssl
import sys
from pathlib import Path

import httpx
import pytest

from fedct_flwr import version
from fedct_flwr.hospital import (
    certified_supernode,
    held_tasks,
    late_answers,
    link,
    log_line,
    noted_calls,
    pace,
    short_calls,
    short_form,
    supervised_supernode,
)
from fedct_flwr.hospital.link import SILENT_HEADER, SILENT_SECONDS, TROUBLE_HEADER, Heard, Link, Trouble, sentence_of
from fedct_flwr.hospital.noted_calls import may_pass, trouble_of

REQUEST = httpx.Request("POST", "https://coordinator:8443/v1/fleet/pull-messages")
OWN_401 = '{"detail": "Invalid SuperNode authentication"}'
OWN_403 = '{"code": 3001, "detail": "The run is not running."}'
NOT_ACTIVATED = '{"code": 2004, "detail": "Failed to activate SuperNode."}'


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_silence_is_since_the_last_answer_and_over_restarts(clock: Clock) -> None:
    first = Link(clock=clock)
    clock.now += 30
    assert first.heard() == Heard(30)
    first.note("ActivateNode", Trouble.REFUSED)
    assert first.heard() == Heard(30, "refused")
    second = Link(first.heard().silent, clock=clock)
    clock.now += 5
    assert (second.heard(), second.own_silence()) == (Heard(35), 5)
    second.note("ActivateNode")
    clock.now += 2
    assert second.heard() == Heard(2)
    assert second.answers
    assert not first.answers


def test_one_that_only_says_that_it_lives_is_stuck(clock: Clock) -> None:
    beating, working, both = (Link(clock=clock) for _ in range(3))
    for one in (beating, working, both):
        one.note("ActivateNode")
    for _ in range(20):
        clock.now += 20
        for one in (beating, both):
            one.note("SendNodeHeartbeat")
        for one in (working, both):
            one.note("PullMessages")
    assert (beating.stuck(), working.stuck(), both.stuck()) == (True, True, False)
    assert beating.heard().silent < SILENT_SECONDS


def test_one_that_waits_to_be_registered_is_not_stuck_and_one_that_calls_no_more_is_idle(clock: Clock) -> None:
    waiting = Link(clock=clock)
    for _ in range(100):
        clock.now += 20
        waiting.note("ActivateNode", Trouble.UNREGISTERED)
    assert not waiting.stuck()
    assert not waiting.idle()
    clock.now += 1000
    assert waiting.idle()


@pytest.mark.parametrize(
    ("silent", "trouble", "found"),
    [
        ("3.0", "", Heard(3)),
        ("61", "status-503", Heard(61, "status-503")),
        ("", "", None),
        ("soon", "", None),
        ("nan", "", None),
        ("-1", "", None),
        ("inf", "", None),
        ("1e12", "", None),
        ("3", "<b>bold</b>", None),
        ("3", "a" * 99, None),
    ],
)
def test_what_a_supernode_says_is_read_with_care(silent: str, trouble: str, found: Heard | None) -> None:
    assert Heard.read({SILENT_HEADER: silent, TROUBLE_HEADER: trouble}) == found


def test_every_trouble_has_a_sentence_that_says_what_to_do() -> None:
    said = {sentence_of(trouble) for trouble in Trouble}
    assert len(said) == len(Trouble)
    assert all(": " in sentence and "\n" not in sentence for sentence in said)
    assert sentence_of("status-502") != sentence_of("status-503")
    assert sentence_of("nothing-known") == sentence_of(Trouble.OTHER)


def caused(error: httpx.TransportError, cause: BaseException) -> httpx.TransportError:
    error.__cause__ = cause
    return error


def unverified(code: int) -> ssl.SSLCertVerificationError:
    """What OpenSSL says of a certificate, by number."""
    error = ssl.SSLCertVerificationError()
    error.verify_code = code
    return error


def answered(status: int, text: str = "<html>", **headers: str) -> httpx.HTTPStatusError:
    response = httpx.Response(status, text=text, headers=headers, request=REQUEST)
    return httpx.HTTPStatusError("an error", request=REQUEST, response=response)


@pytest.mark.parametrize(
    ("error", "proxied", "trouble"),
    [
        (caused(httpx.ConnectError(""), ConnectionRefusedError()), False, "refused"),
        (caused(httpx.ConnectError(""), ConnectionRefusedError()), True, "proxy"),
        (caused(httpx.ConnectError(""), socket.gaierror()), False, "unknown-name"),
        (caused(httpx.ConnectError(""), socket.gaierror()), True, "proxy"),
        (caused(httpx.ConnectError(""), OSError(errno.EHOSTUNREACH, "")), False, "unreachable"),
        (caused(httpx.ConnectError(""), ConnectionResetError()), False, "broken"),
        (caused(httpx.ConnectError(""), ssl.SSLEOFError()), True, "broken"),
        (caused(httpx.ConnectError(""), ssl.SSLCertVerificationError()), False, "untrusted"),
        (caused(httpx.ConnectError(""), unverified(9)), False, "out-of-date"),
        (caused(httpx.ConnectError(""), unverified(10)), False, "out-of-date"),
        (caused(httpx.ConnectError(""), unverified(20)), True, "untrusted"),
        (caused(httpx.ConnectError(""), unverified(62)), False, "other-name"),
        (caused(httpx.ConnectError(""), unverified(64)), False, "other-name"),
        (noted_calls._Page(httpx.Response(200, text="<html>", request=REQUEST)), False, "status-200"),
        (httpx.ConnectTimeout(""), False, "unreachable"),
        (httpx.ReadTimeout(""), False, "no-answer"),
        (httpx.RemoteProtocolError(""), False, "broken"),
        (httpx.ReadError(""), False, "broken"),
        (httpx.ProxyError("503 Service Unavailable"), True, "proxy-status-503"),
        (httpx.ProxyError("407 Proxy Authentication Required"), True, "proxy-status-407"),
        (answered(502), False, "status-502"),
        (answered(412, NOT_ACTIVATED), False, "unregistered"),
        (answered(401, OWN_401), False, "signature"),
        (answered(401), False, "status-401"),
        (answered(403, OWN_403), False, ""),
        (answered(403), False, "status-403"),
        (answered(403, '{"code": 3001}'), False, "status-403"),
        (answered(400, "{}", **{"fedct-client-certificate": "missing"}), False, "client-certificate"),
        (ValueError("Invalid protobuf response payload"), False, "other"),
    ],
)
def test_what_is_wrong_is_named(error: Exception, proxied: bool, trouble: str) -> None:
    assert trouble_of(error, proxied) == trouble
    assert Heard.read(Heard(1, trouble).headers()) == Heard(1, trouble)


@pytest.mark.parametrize(
    ("call", "error", "passes"),
    [
        ("PullMessages", httpx.ProxyError("503 Service Unavailable"), True),
        ("PushObject", httpx.ConnectError("certificate, ssl, tls"), True),
        ("PushObject", httpx.TooManyRedirects(""), True),
        ("PullMessages", answered(500, '{"detail": "Internal Server Error"}'), True),
        ("PushMessages", answered(500, '{"detail": "Internal Server Error"}'), False),
        ("PushMessages", answered(500), True),
        ("PushMessages", answered(413), False),
        ("PullMessages", answered(403), True),
        ("PushMessages", answered(407), True),
        # What the coordinator itself decides.
        ("PullMessages", answered(403, OWN_403), False),
        ("PullMessages", answered(401, OWN_401), False),
        ("ActivateNode", answered(412, NOT_ACTIVATED), False),
        ("ActivateNode", answered(400, "{}", **{"fedct-client-certificate": "refused"}), False),
        ("PullMessages", ValueError("Invalid protobuf response payload"), True),
        ("GetFab", ValueError("Invalid protobuf response payload"), False),
    ],
)
def test_what_may_pass_is_asked_again(call: str, error: Exception, passes: bool) -> None:
    assert may_pass(call, error) is passes


IN_IMAGE = (
    certified_supernode, held_tasks, late_answers, link, log_line, noted_calls, pace, short_calls, short_form,
    supervised_supernode, version,
)  # fmt: skip


@pytest.mark.parametrize("module", IN_IMAGE)
def test_the_image_of_a_supernode_has_all_that_they_import(module: object) -> None:
    """Flower, and these files in folders without any other of ours."""
    names = {one.__name__.removeprefix("fedct_flwr.hospital.").removeprefix("fedct_flwr.") for one in IN_IMAGE}
    dockerfile = (Path(__file__).parents[2] / "docker" / "Dockerfile").read_text("utf-8")
    touching = (certified_supernode, noted_calls, short_calls, short_form)
    flowers = {"flwr", "httpx", "cryptography", "google"} if module in touching else set()
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8"))):  # type: ignore[attr-defined]
        if isinstance(node, ast.Import):
            imported = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [str(node.module)]
        else:
            continue
        for name in imported:
            if name.startswith("fedct_flwr"):
                assert name.removeprefix("fedct_flwr.hospital.").removeprefix("fedct_flwr.") in names
            else:
                assert name.partition(".")[0] in sys.stdlib_module_names | flowers
    assert all(f"{name}.py" in dockerfile for name in names)
