"""The way to the coordinator: one call over TLS, and what is wrong where nothing answers, in words.

Needs the standard library alone, as the image of a SuperNode has only Flower and a few files of ours.
"""

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

SILENT_SECONDS: Final = 60.0
"""After this time without an answer the coordinator counts as silent."""
VERDICT_HEADER: Final = "Fedct-Client-Certificate"
"""The gateway's verdict on a client certificate that it refuses."""
STATUS_FILE: Final = "link.json"
NOT_ADMITTED: Final = (
    "the coordinator answers, but not this silo's SuperNode: if that lasts, ask whether connection/node.key.pub is "
    "registered, or was removed"
)
REMOVED: Final = (
    "the coordinator answers, but no longer this silo's SuperNode, so it has removed the silo: ask it for a new "
    "invitation, or end another 'fedct silo connect' of this silo"
)
_FRESH_SECONDS: Final = 60.0
"""The supervisor writes its status more often than that."""
_CALL: Final = "/v1/fleet/pull-messages"
_CALL_SECONDS: Final = 5.0
# Names that OpenSSL's ``verify_code`` has no constants for: dates, and another host or IP address.
_DATES: Final = (9, 10)
_NAMES: Final = (62, 64)
# Python up to 3.11.3 reads the end of a connection in the handshake as that of a session (SSLZeroReturnError).
_BROKEN_OFF: Final = (
    ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError, ConnectionError, http.client.RemoteDisconnected
)  # fmt: skip
_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d{3})")
_ERROR: Final = re.compile(r"[a-z-]{0,24}(-[1-5][0-9]{2})?")


class LinkError(StrEnum):
    """Errors of a link. ``STATUS`` and ``PROXY_STATUS`` end with the HTTP status that came, such as ``status-503``."""

    UNKNOWN_NAME = "unknown-name"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    BROKEN = "broken"
    NO_TLS = "no-tls"
    UNTRUSTED = "untrusted"
    OTHER_NAME = "other-name"
    OUT_OF_DATE = "out-of-date"
    STATUS = "status"
    PROXY = "proxy"
    PROXY_STATUS = "proxy-status"
    CERTIFICATE = "client-certificate"


_SENTENCES: Final[Mapping[str, str]] = {
    LinkError.UNKNOWN_NAME: "no name server knows the coordinator's name: correct superlink in silo.toml, or ask IT",
    LinkError.REFUSED: "nothing listens at the coordinator's address: ask the coordinator whether it runs",
    LinkError.UNREACHABLE: "the coordinator's address cannot be reached: ask IT to let this machine call it (one TCP "
    "port, out)",
    LinkError.BROKEN: "the connection is accepted and then broken off: ask the coordinator whether it runs, and IT "
    "whether a proxy or a firewall is in between",
    LinkError.NO_TLS: "TLS fails there: ask the coordinator for the right address, and IT whether something in between "
    "takes the call",
    LinkError.UNTRUSTED: "the certificate shown there is not the coordinator's: ask the coordinator for the right "
    "ca.crt; if it is right, a proxy reads along",
    LinkError.OTHER_NAME: "the certificate shown there is for another name: use the coordinator's name as superlink in "
    "silo.toml",
    LinkError.OUT_OF_DATE: "by this machine's clock, the coordinator's certificate has expired or is not valid yet: "
    "set the clock, or ask the coordinator to renew its server certificate",
    LinkError.STATUS: "HTTP status {} comes instead of an answer: ask the coordinator whether it runs, and IT whether "
    "a proxy is in between",
    LinkError.PROXY: "the proxy that HTTPS_PROXY names cannot be reached: correct HTTPS_PROXY, or ask IT for the proxy",
    LinkError.PROXY_STATUS: "the proxy that HTTPS_PROXY names refuses the call (HTTP status {}): ask IT to allow it, "
    "and the coordinator whether it runs",
    LinkError.CERTIFICATE: "the gateway refuses this silo's client certificate: ask the coordinator for a new "
    "invitation, and take it with 'fedct silo join'",
}


def sentence_of(error: str) -> str:
    """The error in words, and the remedy after a colon.

    >>> sentence_of("status-503")[:36]
    'HTTP status 503 comes instead of an '
    """
    name, _, status = error.rpartition("-")
    return _SENTENCES[name].format(status) if status.isdecimal() else _SENTENCES[error]


def span(seconds: float) -> str:
    """A span of time for people.

    >>> span(59), span(90), span(7200)
    ('59 s', '1 min', '2 h')
    """
    for least, unit in ((2 * 3600, "h"), (60, "min")):
        if seconds >= least:
            return f"{seconds // (3600 if unit == 'h' else 60):,.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


class CallOutcome(NamedTuple):
    """Outcome of a call: an ``error`` as ``LinkError`` writes it, or none."""

    error: str = ""
    status: int = 0
    headers: Mapping[str, str] = {}


def call(address: str, context: ssl.SSLContext) -> CallOutcome:
    """Call the coordinator once, as its SuperNode does, through a proxy where the environment names one."""
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Stays)
    request = urllib.request.Request(
        f"https://{address}{_CALL}", b"", {"Content-Type": "application/protobuf"}, method="POST"
    )
    try:
        with opener.open(request, timeout=_CALL_SECONDS) as answer:
            status, headers = answer.status, answer.headers
    except urllib.error.HTTPError as answer:
        # It answers, if only that it does not know the caller.
        with answer:
            status, headers = answer.code, answer.headers
    except (OSError, http.client.HTTPException) as error:
        host = urlsplit(f"//{address}").hostname or ""
        proxied = bool(urllib.request.getproxies().get("https")) and not urllib.request.proxy_bypass(host)
        return CallOutcome(_error_of(error, proxied=proxied))
    if VERDICT_HEADER in headers:
        return CallOutcome(LinkError.CERTIFICATE, status, headers)
    return CallOutcome(f"{LinkError.STATUS}-{status}" if status >= 500 else "", status, headers)


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: it could lead to any address in the house that this machine can call."""

    def redirect_request(self, *_: object) -> None:
        """Take the redirection as the answer."""


def _error_of(error: Exception, *, proxied: bool) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if proxied and (tunnel := _TUNNEL.match(str(reason))):
        return f"{LinkError.PROXY_STATUS}-{tunnel[1]}"
    if isinstance(reason, ssl.SSLCertVerificationError):
        if reason.verify_code in _NAMES:
            return LinkError.OTHER_NAME
        return LinkError.OUT_OF_DATE if reason.verify_code in _DATES else LinkError.UNTRUSTED
    unreached = isinstance(reason, socket.gaierror | ConnectionRefusedError)
    if proxied and (unreached or not isinstance(reason, (ssl.SSLError, *_BROKEN_OFF))):
        return LinkError.PROXY
    if isinstance(reason, socket.gaierror):
        return LinkError.UNKNOWN_NAME
    if isinstance(reason, ConnectionRefusedError):
        return LinkError.REFUSED
    if isinstance(reason, _BROKEN_OFF):
        return LinkError.BROKEN
    return LinkError.NO_TLS if isinstance(reason, ssl.SSLError) else LinkError.UNREACHABLE


@dataclass(frozen=True)
class LinkStatus:
    """A supervisor's status of its link, written next to the silo's keys; times are seconds since 1970.

    ``heard``: when the coordinator last answered the SuperNode, or the supervisor started; ``error``: what is wrong, as
    ``LinkError`` writes it; ``connected``: whether it has ever answered the SuperNode.
    """

    written: float
    heard: float
    error: str = ""
    connected: bool = True

    @classmethod
    def read(cls, path: Path) -> "LinkStatus | None":
        """None where no supervisor is at work, or this process cannot see its file, as in an agent's container."""
        try:
            found = cls(**json.loads(path.read_text("utf-8")))
            fresh = abs(time.time() - found.written) < _FRESH_SECONDS and found.heard <= found.written
            return found if fresh and _ERROR.fullmatch(found.error) else None
        except (OSError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Replace the file; a disk that is full or read-only is no reason to end."""
        scratch = path.with_name(f".{path.name}")
        with contextlib.suppress(OSError):
            scratch.write_text(json.dumps(asdict(self)), "utf-8")
            scratch.replace(path)

    @property
    def silence(self) -> float:
        """Seconds since the coordinator last answered, or since the start if it never has."""
        return max(0.0, time.time() - self.heard)

    @property
    def silent(self) -> bool:
        """Whether the silo is without its coordinator: it never answered, or has not for a minute."""
        return not self.connected or self.silence >= SILENT_SECONDS

    @property
    def sentence(self) -> str:
        """A clause on the silo's silence: for how long it has lacked its coordinator, and why."""
        since = span(self.silence)
        lost = f"lost contact with the coordinator {since} ago"
        why = sentence_of(self.error) if self.error else REMOVED if self.connected else NOT_ADMITTED
        return f"{lost if self.connected else f'not connected in {since}'}; {why}"
