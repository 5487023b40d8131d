"""The way to the coordinator and to the SuperNode: certificates, a real TLS handshake, clocks."""

import http.client
import ipaddress
import re
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from fedct_flwr.cli.certificates import days_left
from fedct_flwr.cli.findings import Finding, bad, good, or_bad, warning
from fedct_flwr.cli.silo.checks import Silo
from fedct_flwr.cli.silo.connect import NO_KIT
from fedct_flwr.config.names import split_address
from fedct_flwr.hospital.link import Answer, call, sentence_of

_SECONDS: Final = 5.0
_DAYS_LEFT: Final = 30
_MOST_SKEW: Final = 30.0
# What containers on a network of their own call each other.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def certificates(silo: Silo) -> Iterator[Finding]:
    """The coordinator's certificate authority, and what opens its gateway. Only the gateway knows whether it asks."""
    connection = silo.config.connection
    yield _how_long("certificate", silo, connection.ca_certificate, "ask the coordinator for a new ca.crt")
    if connection.client_certificate.exists():
        yield _how_long("client certificate", silo, connection.client_certificate, NO_KIT)


def _how_long(what: str, silo: Silo, path: Path, fix: str) -> Finding:
    """Whether a file has a certificate in PEM, and how long that is valid."""
    missing = f"{what}: {silo.shown(path)} is not there, or no certificate in PEM"
    with or_bad(missing, f"ask the coordinator for {path.name}, and put it there"):
        days = days_left(path)
    if days < 0:
        return bad(f"{what}: it has expired", fix)
    if days < _DAYS_LEFT:
        return warning(f"{what}: valid for {days} more days", fix)
    return good(f"{what}: valid for {days:,} more days")


def coordinator(silo: Silo) -> Iterator[Finding]:
    """A real TLS connection to the SuperLink with that certificate, the way Flower's client makes it."""
    connection = silo.config.connection
    address = connection.superlink
    with or_bad("coordinator: ca.crt, or the client certificate with its key, cannot be used", NO_KIT):
        context = ssl.create_default_context(cafile=str(connection.ca_certificate))
        if connection.client_certificate.exists():
            context.load_cert_chain(connection.client_certificate, connection.client_key)
    answer = call(address, context)
    if answer.error:
        said, _, fix = sentence_of(answer.error).partition(": ")
        yield bad(f"coordinator: {address}: {said}", fix)
        return
    if answer.status < http.HTTPStatus.BAD_REQUEST:
        # A SuperLink has no page, and its gateway does not show one.
        yield warning(
            f"coordinator: at {address} something else has the right certificate (HTTP status {answer.status})",
            "ask the coordinator what is between the gateway and you",
        )
    else:
        yield good(f"coordinator: {address} answers, and its certificate is the right one")
    date = _date_of(answer)
    if date is None:
        yield warning("clock: the coordinator tells no time", "compare this machine's clock with another one")
        return
    skew = (datetime.now(UTC) - date).total_seconds()
    if abs(skew) > _MOST_SKEW:
        side = "ahead of" if skew > 0 else "behind"
        yield warning(f"clock: {abs(skew):,.0f} s {side} the coordinator's", "set the clocks, best by NTP")
    else:
        yield good("clock: the same as the coordinator's, within a few seconds")


def _date_of(answer: Answer) -> datetime | None:
    """The coordinator's time of day, if it says one."""
    try:
        date = parsedate_to_datetime(answer.headers["Date"])
    except (KeyError, TypeError, ValueError):
        return None
    # A time of no known zone (-0000) is one of UTC.
    return date.replace(tzinfo=date.tzinfo or UTC)


def link(silo: Silo) -> Iterator[Finding]:
    """Whether agent and SuperNode may be apart: between them is plain HTTP. Makes no connection."""
    address = silo.config.connection.supernode
    if _is_near(split_address(address)[0]):
        yield good(f"link: the SuperNode at {address} is on this machine, or a container next to the agent")
    else:
        yield warning(
            f"link: the way to the SuperNode at {address} is not encrypted, and the SuperNode is not authenticated",
            "run both on one machine, or on a network of their own",
        )


def _is_near(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return _PLAIN_NAME.fullmatch(host) is not None


def supernode(silo: Silo) -> Iterator[Finding]:
    """Whether the SuperNode listens for its agent. What both do then is for ``fedct silo status``."""
    address = silo.config.connection.supernode
    try:
        socket.create_connection(split_address(address), timeout=_SECONDS).close()
        yield good(f"SuperNode: it listens at {address}")
    except OSError:
        yield warning(f"SuperNode: nothing listens at {address}", "fedct silo connect")
