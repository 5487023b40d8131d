"""Each call of Flower's SuperNode to its SuperLink is noted, and none that fails for now makes it give up.

Flower 1.41 asks again when a connection is refused, and gives up for good, in a process that stays, when something in
between takes the call and drops it or answers in the coordinator's place. Here whatever may pass is one kind of error,
the one after which Flower asks again. Needs Flower alone; all of Flower's insides that it touches are in ``note_calls``
and ``tell_agents``.
"""

import contextlib
import importlib
import json
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from fedct_flwr.hospital.link import EXPIRED, NOT_YET, OTHER_NAME, Link, Trouble
from fedct_flwr.hospital.supervised_supernode import NODE

Note = Callable[[str, str], None]
"""Takes what Flower calls the call, and what went wrong, if anything."""

_VERDICT_HEADER: Final = "fedct-client-certificate"
"""What the coordinator's gateway tells of a client certificate that it does not let in."""
_MEDIA_TYPE: Final = "application/protobuf"
_NOT_ACTIVATED: Final = 2004
_RUN_OVER: Final = 3001
QUESTION: Final = "ConfirmMessageReceived"
"""The call that follows on a question."""
_GOODBYE: Final = "DeactivateNode"
"""Whoever ends does not wait for an answer, and it says nothing of the link."""
_RECURRENT: Final = frozenset({"ActivateNode", "PullMessages", "SendNodeHeartbeat"})
"""Calls that are about no message: whatever is wrong with them, they can be made again."""
_PASSING: Final = frozenset({401, 403, 404, 405, 407, 408, 425, 429})
"""What proxies answer in the coordinator's place; so is all that is no 2xx or 4xx."""
_OWN_DECISIONS: Final = (401, 403)
KEPT_SECONDS: Final = 60.0
"""So long a connection may be idle. The coordinator's gateway closes it after 65 s."""
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 20.0


class _Page(httpx.RemoteProtocolError):
    """An answer that is no SuperLink's, though it says that all is well."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__("no answer of a SuperLink", request=answer.request)
        self.status = answer.status_code


def note_calls(note: Note, former: str = "") -> None:
    """From now on ``note`` hears of each call of this process's SuperNode, and by which number it is let in.

    ``former`` is the number of the SuperNode whose place this one takes. For a minute the coordinator counts one that
    was killed as there, and lets no other with its key in, unless that says goodbye for it.
    """
    goodbyes = [int(former)] if former else []
    module: Any = importlib.import_module("flwr.supernode.fleet_http_connection")
    original = module.FleetHttpClient

    class Noted(original):  # type: ignore[misc, valid-type]
        _client: httpx.Client

        def __init__(self, base_url: str, *, verify: Any = True, timeout: float = 30.0, **others: Any) -> None:
            super().__init__(base_url, verify=verify, timeout=timeout, **others)
            self._client.close()
            # As Flower makes it, but that a connection outlasts the pause between two calls, as a new one costs more
            # bytes than the call; and that no redirection is followed, as a SuperLink has none, and the call is signed.
            limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEPT_SECONDS)
            self._client = httpx.Client(verify=verify, timeout=timeout, follow_redirects=False, limits=limits)

        def _send(self, context: Any, **others: Any) -> httpx.Response:
            answer: httpx.Response = super()._send(context, **others)
            if answer.is_success and _media_type(answer) != _MEDIA_TYPE:
                # A page of somebody in between, and an empty one would be read as a message without anything in it.
                raise _Page(answer)
            return answer

        def _unary_unary(self, *, rpc_method: str, **others: Any) -> Any:
            call = rpc_method.rpartition("/")[2]
            if call == _GOODBYE:
                return super()._unary_unary(rpc_method=rpc_method, **others)
            try:
                answer = super()._unary_unary(rpc_method=rpc_method, **others)
            except (httpx.RequestError, httpx.HTTPStatusError, ValueError) as error:
                note(call, trouble_of(error, _is_proxied(self._base_url)))
                if may_pass(call, error):
                    # Without a word of what went wrong: Flower gives up where it reads "certificate" or "TLS".
                    raise httpx.ConnectError("no answer from the coordinator") from error
                raise
            note(call, "")
            return answer

        def ActivateNode(self, request: Any) -> Any:  # noqa: N802 - Flower's name
            pause = _FIRST_PAUSE
            while True:
                try:
                    answer = super().ActivateNode(request)
                    note(NODE, str(answer.node_id))
                    return answer
                except httpx.HTTPStatusError as error:
                    if trouble_of(error) not in (Trouble.UNREGISTERED, Trouble.SIGNATURE):
                        raise
                if goodbyes:
                    with contextlib.suppress(httpx.HTTPError, ValueError):
                        self.DeactivateNode(_goodbye(goodbyes.pop()))
                        continue
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    module.FleetHttpClient = Noted


def _goodbye(node: int) -> Any:
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest

    return DeactivateNodeRequest(node_id=node)


def tell_agents(link: Link) -> None:
    """From now on all answers of this process's SuperNode to its agent say how the link is."""
    module: Any = importlib.import_module("flwr.supernode.main")
    original = module.create_app

    def create_app(*arguments: Any, **others: Any) -> Any:
        app = original(*arguments, **others)

        @app.middleware("http")  # type: ignore[untyped-decorator]
        async def _told(request: Any, call_next: Any) -> Any:
            answer = await call_next(request)
            answer.headers.update(link.heard().headers())
            return answer

        return app

    module.create_app = create_app


def trouble_of(error: Exception, proxied: bool = False) -> str:
    """What is wrong, as ``Trouble`` says it, empty if nothing is. ``proxied``: the call goes through a proxy."""
    if isinstance(error, httpx.HTTPStatusError):
        return _trouble_of_answer(error.response)
    if isinstance(error, _Page):
        return f"{Trouble.STATUS}-{error.status}"
    if isinstance(error, httpx.ProxyError):
        status = str(error)[:3]
        return f"{Trouble.PROXY_STATUS}-{status}" if status.isdecimal() else Trouble.PROXY
    causes = list(_causes(error))

    def caused_by(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _of_certificate(getattr(cause, "verify_code", 0))
    if caused_by(ssl.SSLError):
        return Trouble.BROKEN
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        if proxied:
            return Trouble.PROXY
        if caused_by(socket.gaierror):
            return Trouble.UNKNOWN_NAME
        if caused_by(ConnectionRefusedError):
            return Trouble.REFUSED
        # Accepted, and broken off before the handshake of TLS was over.
        return Trouble.BROKEN if caused_by(ConnectionError, EOFError) else Trouble.UNREACHABLE
    if isinstance(error, httpx.TimeoutException):
        return Trouble.NO_ANSWER
    return Trouble.BROKEN if isinstance(error, httpx.TransportError) else Trouble.OTHER


def may_pass(call: str, error: Exception) -> bool:
    """Whether the same call may succeed later. What the coordinator itself decides is what it is."""
    if not isinstance(error, httpx.HTTPStatusError):
        return isinstance(error, httpx.RequestError) or call in _RECURRENT
    answer = error.response
    if _VERDICT_HEADER in answer.headers or _code_of(answer) == _NOT_ACTIVATED:
        return False
    if _is_own(answer) and answer.status_code in _OWN_DECISIONS:
        return False
    if call in _RECURRENT:
        return True
    passing = answer.status_code in _PASSING or not 400 <= answer.status_code < 500
    return passing and not _is_own(answer)


def _of_certificate(code: int) -> Trouble:
    """Why OpenSSL does not take it."""
    if code in OTHER_NAME:
        return Trouble.OTHER_NAME
    return Trouble.OUT_OF_DATE if code in (NOT_YET, EXPIRED) else Trouble.UNTRUSTED


def _trouble_of_answer(answer: httpx.Response) -> str:
    if _VERDICT_HEADER in answer.headers:
        return Trouble.CERTIFICATE
    if _code_of(answer) == _NOT_ACTIVATED:
        return Trouble.UNREGISTERED
    if _code_of(answer) == _RUN_OVER and _is_own(answer):
        # An answer of the coordinator's like any other: it comes for whatever is sent after the end of a run.
        return ""
    if answer.status_code == httpx.codes.UNAUTHORIZED and _is_own(answer):
        return Trouble.SIGNATURE
    return f"{Trouble.STATUS}-{answer.status_code}"


def _is_own(answer: httpx.Response) -> bool:
    """Whether the SuperLink wrote this answer, and not a proxy."""
    return "detail" in _document(answer)


def _media_type(answer: httpx.Response) -> str:
    return str(answer.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _code_of(answer: httpx.Response) -> object:
    return _document(answer).get("code")


def _document(answer: httpx.Response) -> dict[str, object]:
    try:
        found = json.loads(answer.text)
    except (ValueError, RecursionError, httpx.StreamError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_proxied(base_url: str) -> bool:
    """Whether the environment names a proxy for this address; ``httpx`` asks the same."""
    host, named = urlsplit(base_url).hostname or "", urllib.request.getproxies()
    return bool(named.get("https") or named.get("all")) and not urllib.request.proxy_bypass(host)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
