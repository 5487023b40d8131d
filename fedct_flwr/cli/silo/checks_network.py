"""The way to the coordinator and to the SuperNode: certificate, a real TLS handshake, clocks, proxies."""

import errno
import http.client
import ipaddress
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

from fedct_flwr.cli.coordinator.gateway import VERDICT_HEADER
from fedct_flwr.cli.findings import Mark
from fedct_flwr.cli.silo.agent_file import read_agent
from fedct_flwr.cli.silo.connect import NO_KIT
from fedct_flwr.cli.silo.findings import Finding, Silo, Unread, bad, good, warning
from fedct_flwr.cli.silo.folder import host_and_port
from fedct_flwr.cli.silo.supernode_address import called_elsewhere
from fedct_flwr.hospital import agent_status
from fedct_flwr.hospital.link import EXPIRED, NOT_YET, OTHER_NAME, SILENT_SECONDS, Heard, sentence_of, span
from fedct_flwr.types import ConfigError

_SECONDS: Final = 5.0
_DAYS_LEFT: Final = 30
_MOST_SKEW: Final = 30.0
# How urllib says that a proxy did not put a call through.
_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d{3})")
_NO_WAY: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH)
# Python up to 3.11.3 reads the end of a connection in the handshake as that of a session (SSLZeroReturnError).
_BROKEN_OFF: Final = (
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
    ssl.SSLSyscallError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    http.client.RemoteDisconnected,
)
_ASK_IT: Final = "ask IT to let this machine call that address (one TCP port, out)"
# What containers on a network of their own call each other.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def certificate(silo: Silo) -> Iterator[Finding]:
    """The coordinator's certificate authority."""
    path = silo.config.connection.ca_certificate
    yield _how_long("certificate", silo, path, "ask the coordinator for a new ca.crt")


def client_certificate(silo: Silo) -> Iterator[Finding]:
    """The certificate that opens the coordinator's gateway. Whether the gateway asks for one, only it can tell."""
    connection = silo.config.connection
    if not connection.client_certificate.exists():
        yield good("client certificate: missing, which is right if the gateway asks for no certificate")
        return
    finding = _how_long("client certificate", silo, connection.client_certificate, NO_KIT)
    if finding.mark is Mark.GOOD:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(
                connection.client_certificate, connection.client_key
            )
        except (OSError, ssl.SSLError):
            finding = bad(f"client certificate: {silo.shown(connection.client_key)} is not its key", NO_KIT)
    yield finding


def _how_long(what: str, silo: Silo, path: Path, fix: str) -> Finding:
    """Whether a file has a certificate in PEM, and how long that is valid."""
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except OSError:
        return bad(f"{what}: {silo.shown(path)} is not there", "ask the coordinator for ca.crt, and put it there")
    except ValueError:
        return bad(f"{what}: {silo.shown(path)} is no certificate in PEM", f"ask the coordinator for {path.name} again")
    now = datetime.now(UTC)
    days = (min(one.not_valid_after_utc for one in found) - now).days
    if max(one.not_valid_before_utc for one in found) > now:
        return bad(
            f"{what}: it is not valid yet", f"set this machine's clock, or ask the coordinator for {path.name} again"
        )
    if days < 0:
        return bad(f"{what}: it has expired", fix)
    if days < _DAYS_LEFT:
        return warning(f"{what}: valid for {days} more days", fix)
    return good(f"{what}: valid for {days:,} more days")


def coordinator(silo: Silo) -> Iterator[Finding]:
    """A real TLS connection to the SuperLink with that certificate, the way Flower's client makes it."""
    connection = silo.config.connection
    address = connection.superlink
    try:
        host, port = host_and_port(address, "superlink")
    except ConfigError as error:
        yield bad("coordinator: superlink in silo.toml is no host:port", "write host:port, such as host:8000", error)
        return
    try:
        context = ssl.create_default_context(cafile=str(connection.ca_certificate))
    except (OSError, ssl.SSLError):
        raise Unread("the certificate") from None
    if connection.client_certificate.exists():
        try:
            context.load_cert_chain(connection.client_certificate, connection.client_key)
        except (OSError, ssl.SSLError):
            raise Unread("the client certificate with its key") from None
    try:
        status, date, verdict = _answer_of(host, port, context)
    except (OSError, http.client.HTTPException) as error:
        yield _no_connection(address, error, _proxy_for(host))
        return
    if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        yield bad(f"coordinator: {address} answers with HTTP status {status}", "ask the coordinator whether it runs")
        return
    if verdict:
        said = "asks for a client certificate" if verdict == "missing" else "does not accept the client certificate"
        yield bad(f"coordinator: {address} {said}", NO_KIT)
        return
    if status < http.HTTPStatus.BAD_REQUEST:
        # A SuperLink has no page, and its gateway lets nobody see one.
        yield warning(
            f"coordinator: at {address} something else answers under the right certificate (HTTP status {status})",
            "ask the coordinator what is between the gateway and you",
        )
    else:
        yield good(f"coordinator: {address} answers, and its certificate is the right one")
    if date is None:
        yield warning("clock: the coordinator tells no time", "compare this machine's clock with another one")
        return
    skew = (datetime.now(UTC) - date).total_seconds()
    if abs(skew) > _MOST_SKEW:
        side = "ahead of" if skew > 0 else "behind"
        yield warning(f"clock: {abs(skew):,.0f} s {side} the coordinator's", "set the clocks, best by NTP")
    else:
        yield good("clock: the same as the coordinator's, within a few seconds")


def _answer_of(host: str, port: int, context: ssl.SSLContext) -> tuple[int, datetime | None, str]:
    """The status, the server's time, and what it has against this silo's client certificate, in whatever it answers.

    Raises OSError or HTTPException.
    """
    name = f"[{host}]" if ":" in host else host
    # Like Flower's client it goes through a proxy where the environment names one.
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Stays)
    request = urllib.request.Request(f"https://{name}:{port}/", method="HEAD")
    try:
        with opener.open(request, timeout=_SECONDS) as answer:
            status, headers = answer.status, answer.headers
    except urllib.error.HTTPError as answer:
        # It answers, if only that there is nothing to be had here.
        with answer:
            status, headers = answer.code, answer.headers
    said, verdict = headers.get("Date"), headers.get(VERDICT_HEADER, "")
    try:
        date = parsedate_to_datetime(said) if said else None
    except ValueError:
        date = None
    # A time of no known zone (-0000) is one of UTC.
    return status, date.replace(tzinfo=date.tzinfo or UTC) if date else None, verdict


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: it could lead to any address in the house that this machine can call."""

    def redirect_request(self, *_: object) -> None:
        """Nobody is asked in place of the coordinator, who has answered."""


def _proxy_for(host: str) -> str:
    """The address of the proxy that the environment names for the coordinator; empty if it names none."""
    if urllib.request.proxy_bypass(host):
        return ""
    named = urlsplit(urllib.request.getproxies().get("https", ""))
    # Without a name and a password that may stand in it.
    return f"{named.hostname}:{named.port}" if named.hostname and named.port else named.hostname or ""


_CERTIFICATES: Final = {
    EXPIRED: ("its certificate has expired", "ask the coordinator for a new one, or set this machine's clock"),
    NOT_YET: ("its certificate is not valid yet by this machine's clock", "set this machine's clock"),
    **dict.fromkeys(
        OTHER_NAME,
        ("its certificate is for another name", "use the name that the coordinator says, under superlink in silo.toml"),
    ),
}
_UNKNOWN: Final = (
    "its certificate is not signed by the one in ca.crt",
    "ask the coordinator for the right ca.crt; if it is right, somebody listens in (or a proxy does)",
)
_ENDS: Final[Sequence[tuple[tuple[type[BaseException], ...], str, str]]] = (
    (
        _BROKEN_OFF,
        "the connection is accepted and then broken off",
        "ask the coordinator whether it runs, and IT whether a proxy or a firewall is in between",
    ),
    ((ssl.SSLError,), "it does not speak the coordinator's TLS", "ask the coordinator for the right address"),
    ((socket.gaierror,), "nobody knows that name", "correct superlink in silo.toml, or ask IT for the name server"),
    (
        (ConnectionRefusedError,),
        "nobody listens there",
        "ask the coordinator whether the SuperLink runs, and for the right port",
    ),
    ((TimeoutError,), f"no answer in {_SECONDS:.0f} s", _ASK_IT),
)
"""By the first kind of error that fits: what is wrong, and what to do."""


def _no_connection(address: str, error: Exception, proxy: str) -> Finding:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if proxy and (tunnel := _TUNNEL.match(str(reason))):
        said = f"the proxy {proxy}, which HTTPS_PROXY names, does not put the call through (HTTP status {tunnel[1]})"
        fix = "ask IT to let the proxy call that address, or add the coordinator to NO_PROXY"
    elif proxy and _unreached(reason):
        said = f"the proxy {proxy}, which HTTPS_PROXY names, cannot be reached"
        fix = "correct HTTPS_PROXY, ask IT for the proxy, or add the coordinator to NO_PROXY"
    elif isinstance(reason, ssl.SSLCertVerificationError):
        said, fix = _CERTIFICATES.get(reason.verify_code, _UNKNOWN)
    else:
        said, fix = next(
            ((said, fix) for kinds, said, fix in _ENDS if isinstance(reason, kinds)), ("no connection", _ASK_IT)
        )
    return bad(f"coordinator: {address}: {said}", fix, reason)


def _unreached(reason: object) -> bool:
    """Whether an address could not be called at all."""
    return isinstance(reason, socket.gaierror | ConnectionRefusedError | TimeoutError) or (
        isinstance(reason, OSError) and reason.errno in _NO_WAY
    )


def proxies(silo: Silo) -> Iterator[Finding]:
    """Whether the environment names a proxy, which Flower's client would use."""
    named = urllib.request.getproxies()
    used = sorted({kind for kind in named if kind in ("http", "https", "all")})
    if not used:
        yield good("proxy: none is set")
        return
    host, _ = _address(silo)
    names = " and ".join(f"{kind.upper()}_PROXY" for kind in used)
    if urllib.request.proxy_bypass(host):
        yield good(f"proxy: {names} is set, but NO_PROXY says not for the coordinator")
    else:
        yield warning(
            f"proxy: {names} is set, and the SuperNode will go through it",
            "if that is not meant, add the coordinator to NO_PROXY, or take the variable out",
        )


def address(silo: Silo) -> Iterator[Finding]:
    """Whether the SuperNode calls the address that is approved; nothing where silo.toml alone says it."""
    approved = silo.config.connection.superlink
    if called := called_elsewhere(silo.folder, approved):
        yield bad(
            f"address: the SuperNode's container calls {called}, and superlink in silo.toml is {approved}",
            "write the coordinator's address in both places: SUPERLINK in .env (or the chart's values), and silo.toml",
        )


def link(silo: Silo) -> Iterator[Finding]:
    """Whether agent and SuperNode may be apart: between them is plain HTTP. Makes no connection."""
    address = silo.config.connection.supernode
    try:
        host, _ = host_and_port(address, "supernode")
    except ConfigError as error:
        yield bad("link: supernode in silo.toml is no host:port", "write host:port, such as 127.0.0.1:9094", error)
        return
    if _is_near(host):
        yield good(f"link: the SuperNode at {address} is on this machine, or a container beside the agent")
    else:
        yield warning(
            f"link: the way to the SuperNode at {address} is not encrypted, and the SuperNode is not authenticated",
            "run both on one machine, or on a network that they share with nobody",
        )


def _is_near(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return _PLAIN_NAME.fullmatch(host) is not None


def supernode(silo: Silo) -> Iterator[Finding]:
    """Whether the SuperNode listens for its agent, and when the coordinator last answered it."""
    address = silo.config.connection.supernode
    try:
        host, port = host_and_port(address, "supernode")
    except ConfigError:
        raise Unread("the SuperNode's address") from None
    try:
        socket.create_connection((host, port), timeout=_SECONDS).close()
    except OSError:
        yield warning(f"SuperNode: nobody listens at {address}", "fedct silo connect")
        return
    heard = _what_it_heard(host, port)
    if heard is None:
        yield good(f"SuperNode: it listens at {address}")
    elif heard.silent >= SILENT_SECONDS or heard.trouble:
        yield _silent("SuperNode", heard.silent, heard.trouble)
    else:
        yield good(f"SuperNode: it listens at {address}, and the coordinator answered it {span(heard.silent)} ago")


def _what_it_heard(host: str, port: int) -> Heard | None:
    """What the SuperNode says of its link; None if it does not say. One that hangs is found by its agent."""
    asked = http.client.HTTPConnection(host, port, timeout=_SECONDS / 2)
    try:
        asked.request("GET", "/health")
        return Heard.read(asked.getresponse().headers)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        asked.close()


def contact(silo: Silo) -> Iterator[Finding]:
    """Whether an agent that is at work can be asked anything. Reads a file, makes no connection."""
    agent = read_agent(silo.config.state)
    status = agent.status
    if not agent.alive:
        # One that was stopped has said so.
        if status.pid:
            yield bad("agent: it has ended without a word, and nothing is answered", "fedct silo start")
        return
    if status.stale:
        said, _, fix = agent_status.STALE.partition(": ")
        yield warning(f"agent: {said}", fix)
    if not status.connected:
        yield warning("agent: it is at work, and waits for its SuperNode", "fedct silo connect")
    elif agent.hangs:
        said, _, fix = agent_status.STILL.partition(": ")
        yield bad(f"agent: its process is there and {said}", fix)
    elif status.shut:
        said, _, fix = agent_status.sentence_of(status.shut).partition(": ")
        yield bad(f"agent: {said}", fix)
    elif agent.silence >= SILENT_SECONDS:
        yield _silent("agent", agent.silence, status.trouble)
    elif status.heard is None:
        yield good("agent: it is at work, and in contact with its SuperNode")
    else:
        yield good("agent: it is at work, and its SuperNode in contact with the coordinator")


def _silent(what: str, seconds: float, trouble: str) -> Finding:
    said, _, fix = sentence_of(trouble).partition(": ") if trouble else ("the SuperNode no longer calls it", "", "")
    sentence = f"{what}: no word from the coordinator for {span(seconds)}, {said}"
    fix = fix or "restart fedct silo connect"
    return bad(sentence, fix) if seconds >= SILENT_SECONDS else warning(sentence, fix)


def _address(silo: Silo) -> tuple[str, int]:
    try:
        return host_and_port(silo.config.connection.superlink, "superlink")
    except ConfigError:
        raise Unread("the coordinator's address") from None
