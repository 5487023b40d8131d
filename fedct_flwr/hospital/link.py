"""How the way to the coordinator is: when its SuperLink last answered, and what is wrong where it does not.

Known in three places, each of which measures for itself: Flower's SuperNode, which notes each call; the process that
supervises it, which hears these notes; and the agent, which reads two headers of the SuperNode's answers. Needs the
standard library alone, as it is also in the image of a SuperNode, which has Flower and a few files of ours.
"""

import email.message
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SILENT_SECONDS: Final = 60.0
"""So long the coordinator may say nothing. A SuperNode hears from it every 40 s at least."""
_STUCK_SECONDS: Final = 300.0
"""So long the calls for work may all fail, or not be made, while others succeed. Large files come over slow lines."""
_UNBEATEN_SECONDS: Final = 150.0
"""The same for heartbeats, one every 27 s at most: without them a coordinator asks a silo nothing after 60 s."""

SILENT_HEADER: Final = "fedct-link-silent"
"""Seconds since the coordinator answered last, or since the SuperNode was started."""
TROUBLE_HEADER: Final = "fedct-link-trouble"
"""What went wrong at the last call, as ``Trouble`` says it; empty if nothing did."""
_TROUBLE: Final = re.compile(r"[a-z-]{0,24}(-[1-5][0-9]{2})?")
_LONGEST_SILENCE: Final = 1e9


NOT_YET: Final = 9
EXPIRED: Final = 10
OTHER_NAME: Final = (62, 64)
"""Why OpenSSL does not take a certificate (``verify_code``): by its dates, or for another host or IP address."""


class Trouble(StrEnum):
    """What is wrong. Two of them end with the HTTP status that came, such as ``status-503``."""

    UNKNOWN_NAME = "unknown-name"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    BROKEN = "broken"
    NO_ANSWER = "no-answer"
    UNTRUSTED = "untrusted"
    OTHER_NAME = "other-name"
    OUT_OF_DATE = "out-of-date"
    STATUS = "status"
    PROXY = "proxy"
    PROXY_STATUS = "proxy-status"
    CERTIFICATE = "client-certificate"
    SIGNATURE = "signature"
    UNREGISTERED = "unregistered"
    OTHER = "other"


UNKNOWN_KEY: Final = "the coordinator has not registered this key yet"
_SENTENCES: Final[Mapping[str, str]] = {
    Trouble.UNKNOWN_NAME: "no name server knows the coordinator's name: correct superlink in silo.toml, or ask IT",
    Trouble.REFUSED: "nobody listens at the coordinator's address: ask the coordinator whether it runs",
    Trouble.UNREACHABLE: "the coordinator's address cannot be reached: ask IT to let this machine call it (one TCP "
    "port, out)",
    Trouble.BROKEN: "the connection is accepted and then broken off: ask the coordinator whether it runs, and IT "
    "whether a proxy or a firewall is in between",
    Trouble.NO_ANSWER: "the call is taken and not answered in time: ask the coordinator whether it runs, and IT "
    "whether a proxy or a firewall is in between",
    Trouble.UNTRUSTED: "the certificate shown there is not the coordinator's: ask the coordinator for the right "
    "ca.crt; if it is right, something in between reads along",
    Trouble.OTHER_NAME: "the certificate shown there is for another name: write the name that the coordinator says as "
    "superlink in silo.toml; if it is that one, ask IT whether something in between answers",
    Trouble.OUT_OF_DATE: "by this machine's clock, the coordinator's certificate has expired or is not valid yet: set "
    "the clock; if it is right, ask the coordinator to renew its server certificate",
    Trouble.STATUS: "HTTP status {} comes in place of an answer: ask the coordinator whether it runs, and IT whether "
    "a proxy is in between",
    Trouble.PROXY: "the proxy that HTTPS_PROXY names cannot be reached: correct HTTPS_PROXY, or ask IT for the proxy",
    Trouble.PROXY_STATUS: "the proxy that HTTPS_PROXY names does not put the call through (HTTP status {}): ask IT to "
    "allow it, and the coordinator whether it runs",
    Trouble.CERTIFICATE: "the gateway does not let this silo's client certificate in: ask the coordinator for a new "
    "invitation, and take it with 'fedct silo renew'",
    Trouble.SIGNATURE: "the coordinator does not accept the node's signature: set this machine's clock, or ask whether "
    "the silo is still registered",
    Trouble.UNREGISTERED: f"{UNKNOWN_KEY}: send it connection/node.key.pub; if it has, another SuperNode with the same "
    "key counts as there: end a second 'fedct silo connect', or wait a minute if one was killed",
    Trouble.OTHER: "the coordinator's answer makes no sense: see what the SuperNode says",
}


_ANSWERS: Final = (Trouble.CERTIFICATE, Trouble.SIGNATURE, Trouble.UNREGISTERED)
"""Troubles of which the coordinator itself tells."""


def no_word(trouble: str) -> str:
    """Why there is no word from the coordinator, as a sentence of its own."""
    return sentence_of(trouble) if trouble in _ANSWERS else f"no answer from the coordinator: {sentence_of(trouble)}"


def sentence_of(trouble: str) -> str:
    """What is wrong, in words, and what to do.

    >>> sentence_of("status-503")[:46]
    'HTTP status 503 comes in place of an answer: a'
    """
    name, _, status = trouble.rpartition("-")
    if status.isdecimal():
        return _SENTENCES.get(name, _SENTENCES[Trouble.OTHER]).format(status)
    return _SENTENCES.get(trouble, _SENTENCES[Trouble.OTHER])


def span(seconds: float) -> str:
    """A span of time for people.

    >>> span(59), span(90), span(7200)
    ('59 s', '1 min', '2 h')
    """
    for least, unit in ((2 * 3600, "h"), (60, "min")):
        if seconds >= least:
            return f"{seconds // (3600 if unit == 'h' else 60):,.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


@dataclass(frozen=True)
class Heard:
    """What a SuperNode says of its link: seconds of silence, and what is wrong."""

    silent: float
    trouble: str = ""

    @classmethod
    def read(cls, headers: "Mapping[str, str] | email.message.Message") -> "Heard | None":
        """From an answer's headers; None where there are none that make sense, as those of Flower's own SuperNode."""
        try:
            silent = float(headers.get(SILENT_HEADER, ""))
        except ValueError:
            return None
        trouble = headers.get(TROUBLE_HEADER, "")
        if not math.isfinite(silent) or not 0 <= silent < _LONGEST_SILENCE or not _TROUBLE.fullmatch(trouble):
            return None
        return cls(silent, trouble)

    def headers(self) -> dict[str, str]:
        """The headers that say so."""
        return {SILENT_HEADER: f"{self.silent:.1f}", TROUBLE_HEADER: self.trouble}


class Link:
    """What has been noted of the calls of one SuperNode. Times are those of the ``clock``, in seconds.

    ``before``: how long the coordinator had been silent when this SuperNode took another one's place.
    """

    def __init__(self, before: float = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before = before
        self._answered = self._worked = self._noted = clock()
        self._beat: float | None = None
        self.called = False
        """Whether any call was made."""
        self.answers = False
        """Whether the coordinator has let this SuperNode in."""
        self.trouble = ""

    def note(self, call: str, trouble: str = "") -> None:
        """Note how a call ended, which Flower knows as ``call``."""
        now, self.called, self.trouble = self._clock(), True, trouble
        self._noted = now
        if trouble:
            return
        self.answers, self._answered, self._before = True, now, 0.0
        if call == "SendNodeHeartbeat":
            self._beat = now
            return
        self._worked = now
        if call == "ActivateNode":
            # From here on they are sent.
            self._beat = now

    def heard(self) -> Heard:
        """How long the coordinator has been silent, and why."""
        return Heard(self._before + self.own_silence(), self.trouble)

    def own_silence(self) -> float:
        """How long the coordinator has been silent to this SuperNode."""
        return self._clock() - self._answered

    def idle(self) -> bool:
        """Whether the SuperNode makes no calls, not even such as fail. One may take as long as its timeouts."""
        return self._clock() - self._noted > 2 * SILENT_SECONDS

    def stuck(self) -> bool:
        """Whether some calls succeed while those fail, or are not made, without which nothing is asked of the silo."""
        if self._beat is None:
            return False
        now = self._clock()
        return now - self._worked > _STUCK_SECONDS or now - self._beat > _UNBEATEN_SECONDS
