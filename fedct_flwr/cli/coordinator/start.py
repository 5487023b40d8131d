"""``fedct coordinator start``: all of a coordinator on one machine, without containers."""

import contextlib
import ipaddress
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.certificates import is_good_for, lasts
from fedct_flwr.cli.coordinator.backup import DATABASE
from fedct_flwr.cli.coordinator.confined import TEMPORARY, Program, Running, check_confined
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.gateway import Gateway
from fedct_flwr.cli.coordinator.init import GATEWAY_PORT, LOOPBACK, in_brackets
from fedct_flwr.cli.coordinator.retention import forget
from fedct_flwr.cli.output import Log, Output
from fedct_flwr.cli.silo.folder import host_and_port
from fedct_flwr.datasets.study_folder import STUDY_FILE
from fedct_flwr.engine import superexec as flowers_superexec
from fedct_flwr.engine import superlink as flowers_superlink
from fedct_flwr.hospital.log_line import VARIABLE, about, log_line
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError, RunError

_FIRST_USER: Final = 49_997
"""Three from here on, of which the last is that of Flower's images. Nobody else should have them."""
_NAME: Final = LOOPBACK[0]
"""What the gateway calls the SuperLink: nginx knows no IP addresses in certificates."""
_POLL_SECONDS: Final = 0.2
_FOR_ALL: Final = 0o755
_FOR_ALL_TO_READ: Final = 0o644


def start(
    folder: Folder,
    host: Annotated[
        str,
        typer.Option(
            help="Address of this machine at which the gateway listens.", show_default="all, by IPv4 and IPv6"
        ),
    ] = "",
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Port at which the gateway listens.")] = GATEWAY_PORT,
    users: Annotated[
        int,
        typer.Option(
            min=1,
            max=2**31,
            help="Started by root: the first of three user ids that gateway, SuperExec and SuperLink have.",
        ),
    ] = _FIRST_USER,
    log: Log = "text",
) -> None:
    """Run all of the coordinator: SuperLink, gateway and SuperExec, each without rights to the others' files.

    The SuperLink listens on a loopback address. From outside only the gateway can be reached, and only by silos that
    show a certificate of this coordinator. It needs nginx and bubblewrap. Stops cleanly on SIGTERM, SIGINT and SIGHUP.
    """
    out = Output()
    coordinator = CoordinatorFolder.open(folder)
    superlink = _check(coordinator, folder)
    hosts = (host,) if host else _all_addresses()
    for address in (*((one, port) for one in hosts), superlink):
        _check_free(*address)
    if not shutil.which("nginx"):
        raise ConfigError("there is no nginx, which is the gateway: install it (apt install nginx-light)")
    gateway, superexec, link = _programs(coordinator, superlink, hosts, port, users)
    keys = [path for path in coordinator.path.rglob("*.key") if path.is_file()]
    check_confined(superexec, coordinator.path, [*keys, coordinator.server_key, coordinator.clients_key])
    if coordinator.ca_key.exists():
        out.say(f"{coordinator.ca_key} is on this machine: keep it offline, as only a new server certificate needs it")
    if not lasts(coordinator.server_certificate, coordinator.ca):
        out.say(f"{coordinator.server_certificate} expires soon: renew it, fedct coordinator init {in_shell(folder)}")
    _tidy(coordinator, out)
    _hand_over(coordinator, superexec, link)
    with _all_stopped(out) as running:
        for program, listens in ((link, superlink), (gateway, (_reached(hosts[0]), port)), (superexec, None)):
            running.append(Running(program, coordinator.path, _logged(out, program.name)))
            while listens and not _listens(*listens):
                _watch(running)
        out.say(f"the coordinator is ready: silos call port {port}, and nobody else can reach the SuperLink")
        while True:
            _watch(running)


def _tidy(coordinator: CoordinatorFolder, out: Output) -> None:
    """Delete old runs from the database. A coordinator that cannot do that works all the same."""
    days = coordinator.config().keep_days
    if not days:
        return
    try:
        forgotten = forget(coordinator.state / DATABASE, days)
    except RunError as error:
        out.say(str(error))
    else:
        if forgotten.runs:
            out.say(forgotten.sentence(days))


def _check(coordinator: CoordinatorFolder, given: Path) -> tuple[str, int]:
    """Where the SuperLink listens. Raises ConfigError for a folder with which it could not."""
    again = f"fedct coordinator init {in_shell(given)}"
    name, port = host_and_port(coordinator.address(), "address", f" in {coordinator.flower_config}")
    host = "127.0.0.1" if name == "localhost" else name
    if not _is_loopback(host):
        raise ConfigError(
            f"{coordinator.flower_config} has the SuperLink at {name}, where others reach it too: make that a loopback "
            f"address, {again} --address 127.0.0.1:{port}"
        )
    if not (coordinator.study / STUDY_FILE).is_file():
        raise ConfigError(f"no {STUDY_FILE} in {coordinator.study}: put the study's files there")
    now = timedelta()
    if not is_good_for(coordinator.server_certificate, [name, _NAME], coordinator.ca, now):
        raise ConfigError(f"{coordinator.server_certificate} is not good for {name} and {_NAME}: {again}")
    if not coordinator.clients_ca.exists() or not lasts(coordinator.clients_ca, coordinator.clients_ca, now):
        raise ConfigError(f"{coordinator.clients_ca}, by which the gateway knows silos, is missing or expired: {again}")
    coordinator.config()
    return host, port


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _programs(
    coordinator: CoordinatorFolder, superlink: tuple[str, int], hosts: Sequence[str], outside: int, first_user: int
) -> tuple[Program, Program, Program]:
    """Gateway, SuperExec and SuperLink, each with what it needs."""
    host, port = superlink
    certificates = (coordinator.ca, coordinator.server_certificate, coordinator.server_key)
    listens = [f"{in_brackets(one)}:{outside}" for one in hosts]
    settings = Gateway(
        listen=listens[0],
        listen_too="".join(listens[1:]),
        certificates=str(coordinator.ca.parent),
        temporary=TEMPORARY,
        superlink=superlink,
        superlink_name=_NAME,
        max_message=coordinator.config().max_message,
    )
    conf = f"{TEMPORARY}/gateway.conf"
    gateway = Program(
        "gateway", ["nginx", "-e", "stderr", "-c", conf], first_user,
        files=(*certificates, coordinator.clients_ca), texts={conf: settings.render()},
    )  # fmt: skip
    address = coordinator.address()
    superexec = Program(
        "superexec",
        [
            *flowers_superexec.COMMAND, "--runtime-api-address", address,
            "--root-certificates", str(coordinator.ca), "--superexec-auth-secret-file", str(coordinator.secret),
        ],
        first_user + 1,
        files=(coordinator.ca, coordinator.secret), readable=(coordinator.study,), writable=(coordinator.runs,),
        # Where runs go that were given no folder (plain `flwr run`).
        home=str(coordinator.runs),
    )  # fmt: skip
    link = Program(
        "superlink",
        [
            *flowers_superlink.COMMAND, "--host", host, "--port", str(port), "--isolation", "process",
            "--enable-supernode-auth", "--ssl-ca-certfile", str(coordinator.ca),
            "--ssl-certfile", str(coordinator.server_certificate), "--ssl-keyfile", str(coordinator.server_key),
            "--superexec-auth-secret-file", str(coordinator.secret), "--database", str(coordinator.state / "state.db"),
        ],
        first_user + 2,
        files=(*certificates, coordinator.secret), writable=(coordinator.state,),
    )  # fmt: skip
    return gateway, superexec, link


def _reached(host: str) -> str:
    """An address at which this machine finds its own listener."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def _all_addresses() -> tuple[str, ...]:
    """All addresses of this machine, which may have none of IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        return ("0.0.0.0",)  # noqa: S104 - what it is for
    return ("0.0.0.0", "::")  # noqa: S104


def _check_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {host}:{port} ({error.strerror}): end what listens there, or use another port"
            ) from None


def _hand_over(coordinator: CoordinatorFolder, superexec: Program, link: Program) -> None:
    """Started by root: give the programs the folders that they write to, and let all read the study.

    Links are not followed.
    """
    if os.geteuid() != 0:
        return
    for program in (superexec, link):
        for folder in program.writable:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, program.user, program.user, follow_symlinks=False)
    for path in (coordinator.study, *coordinator.study.rglob("*")):
        if not path.is_symlink():
            path.chmod(_FOR_ALL if path.is_dir() else _FOR_ALL_TO_READ)


@contextmanager
def _all_stopped(out: Output) -> Iterator[list[Running]]:
    """What has been started, ended in the reverse order whatever happens."""
    running: list[Running] = []
    try:
        yield running
    finally:
        for one in reversed(running):
            one.stop()
        out.say("the coordinator is stopped")


def _logged(out: Output, part: str) -> Callable[[str], None]:
    """What a part says: as it is, or as an object that names the part."""

    def say(line: str) -> None:
        with about(part=part):
            out.say(log_line(line.removeprefix(f"{part}: ")) if os.environ.get(VARIABLE) == "json" else line)

    return say


def _watch(running: Sequence[Running]) -> None:
    """Wait a moment. Raises RunError if one of them has ended."""
    time.sleep(_POLL_SECONDS)
    for one in running:
        if (code := one.code()) is not None:
            raise RunError(
                f"the {one.program.name} has ended (exit code {code}), so the rest is stopped: see what it said, and "
                "start the coordinator again"
            )


def _listens(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
