"""``fedct silo notify``: a message to an address of the hospital's own when a person should look. Never with data."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final

import httpx
import typer

from fedct_flwr.cli.output import Log, Output
from fedct_flwr.cli.silo.agent_file import read_agent
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital import agent_status
from fedct_flwr.hospital.keys import load_public_key, public_key_path
from fedct_flwr.hospital.link import SILENT_SECONDS, sentence_of, span
from fedct_flwr.hospital.log_entry import Event, LogEntry, read_entries
from fedct_flwr.hospital.log_line import about, log_line
from fedct_flwr.hospital.log_proof import verify_log
from fedct_flwr.hospital.revocation import is_revoked
from fedct_flwr.types import ConfigError, FedctError
from fedct_flwr.wire.refusal import Refusal

_TRIES: Final = 3
_SECONDS: Final = 10.0


def notify(
    url: Annotated[str, typer.Option(envvar="FEDCT_WEBHOOK", help="Where to post to, https://... or http://...")],
    folder: Folder = None,
    folder_option: FolderOption = None,
    every: Annotated[int, typer.Option(min=1, help="Seconds between two looks.")] = 60,
    log: Log = "text",
) -> None:
    """Post a JSON object to a webhook on refusal, revocation, silence of agent or coordinator, or a broken log.

    It holds event, silo, time and a sentence, and never data. It runs until it is ended, in a process of its
    own: the agent has no way out. What cannot be posted is posted at the next look.
    """
    config = SiloConfig.read_toml(silo_file(folder, folder_option))
    _check_address(url)
    out = Output()
    watcher, waiting = Watcher(config), list[dict[str, str]]()
    with (
        about(part="notify", silo=config.silo),
        httpx.Client(transport=httpx.HTTPTransport(retries=_TRIES), timeout=_SECONDS) as client,
    ):
        out.say(log_line("watching"))
        while True:
            for event in watcher.look():
                out.say(log_line(event["sentence"]))
                waiting.append(event)
            try:
                while waiting:
                    client.post(url, json=waiting[0]).raise_for_status()
                    waiting.pop(0)
            except httpx.HTTPError as error:
                # The address may hold a password.
                out.say(log_line(f"the webhook does not take the message ({type(error).__name__}); trying again"))
            time.sleep(every)


def _check_address(url: str) -> None:
    """Raise ConfigError for what is no address, without quoting it: it may hold a password."""
    if not url.startswith(("https://", "http://")):
        raise ConfigError("--url begins with neither https:// nor http://: give the webhook's whole address")
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL:
        host = ""
    if not host:
        raise ConfigError("--url is no address: write https://host/path, and signs like @ in a password as %40")


@dataclass
class Watcher:
    """What is new at a silo since the last look; what was there before the first one is not."""

    config: SiloConfig
    _seen: int = -1
    _size: int = -1
    _now: dict[str, bool] = field(default_factory=dict)

    def look(self) -> Iterator[dict[str, str]]:
        """The events since the last look."""
        yield from self._of_log()
        agent = read_agent(self.config.state)
        why = sentence_of(agent.status.trouble) if agent.status.trouble else "the SuperNode no longer calls it"
        yield from self._of_state(
            "revocation", is_revoked(self.config.state), "the approval is withdrawn, and nothing leaves"
        )
        yield from self._of_state("agent-down", not agent.alive, "the agent is not at work: fedct silo start")
        yield from self._of_state("agent-hangs", agent.hangs, f"the agent {agent_status.STILL}")
        yield from self._of_state("stale-records", agent.alive and agent.status.stale, agent_status.STALE)
        shut = agent_status.sentence_of(agent.status.shut)
        yield from self._of_state("shut", agent.alive and bool(agent.status.shut), shut)
        silent = agent.alive and agent.silence >= SILENT_SECONDS
        yield from self._of_state("silence", silent, f"no word from the coordinator for {span(agent.silence)}: {why}")

    def _of_log(self) -> Iterator[dict[str, str]]:
        state, path = self.config.state, self.config.state / "egress.jsonl"
        try:
            entries = list(read_entries(state))
        except FedctError as error:
            yield from self._of_state("broken-log", True, str(error))
            return
        size = path.stat().st_size if path.exists() else 0
        if size != self._size:
            self._size = size
            verdict = verify_log(
                state, load_public_key(public_key_path(self.config.egress_key)), self.config.silo, lambda _: None
            )
            said = f"the egress log is not intact: {verdict.sentence}"
            yield from self._of_state("broken-log", not verdict.intact, said)
        if self._seen >= 0:
            for entry in entries[self._seen :]:
                yield from self._of_entry(entry)
        self._seen = len(entries)

    def _of_entry(self, entry: LogEntry) -> Iterator[dict[str, str]]:
        if entry.event is Event.REFUSED:
            known = entry.reason in Refusal.__members__
            reason = Refusal[entry.reason].sentence if known else entry.reason
            yield self._event("refusal", f"a question was refused: {reason}")
        elif entry.event is Event.REVOKED:
            yield self._event("revocation", "the approval is withdrawn, and nothing leaves")

    def _of_state(self, name: str, is_so: bool, sentence: str) -> Iterator[dict[str, str]]:
        """Once when it begins; what is so at the first look is told as well."""
        if is_so and not self._now.get(name):
            yield self._event(name, sentence)
        self._now[name] = is_so

    def _event(self, name: str, sentence: str) -> dict[str, str]:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return {"event": name, "silo": self.config.silo, "time": now, "sentence": sentence}
