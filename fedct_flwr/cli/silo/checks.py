"""Checks of a silo's own machine: disk, keys, log, approval, promises, limits, and the way to the coordinator.

Formal guarantee: a finding holds words of this program, names and numbers of the study (which are public), settings of
``silo.toml`` but neither its mapping nor where the records lie, counts of records as ``rounded`` has them, and the
number of a record in which a column is not what the study says, without its value; and of a query what the database
says of its text, before it has run. The text of an error, which may
quote a file, goes into ``details``, which is shown only to who asks for it on the spot.
"""

import http.client
import ipaddress
import os
import platform
import re
import shutil
import socket
import ssl
import stat
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from importlib.metadata import distributions, requires, version
from pathlib import Path
from typing import Final, TypeVar, cast

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from packaging.requirements import Requirement

from fedct_flwr import labelers
from fedct_flwr.cli.certificates import days_left
from fedct_flwr.cli.findings import CheckFinding, bad, good, warning
from fedct_flwr.cli.silo.connect import NO_KIT
from fedct_flwr.config.settings import split_address
from fedct_flwr.config.silo import AppSilo, SiloConfig, SiloFolder
from fedct_flwr.datasets.federated import check_protected, num_units
from fedct_flwr.datasets.silo_records import read_grouped, table_of
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.hospital.app_code import load
from fedct_flwr.hospital.approval import kind_in_policy, promises_of
from fedct_flwr.hospital.keys import load_egress_key, load_public_key, loaded, public_key_path
from fedct_flwr.hospital.latest_state import NOT_APPROVED, Approval, approval_state, lost_ledger, lost_line
from fedct_flwr.hospital.link import call, sentence_of
from fedct_flwr.hospital.log_entry import read_entries, verify_log
from fedct_flwr.hospital.shared_usage import SharedUsage
from fedct_flwr.learners import Learner
from fedct_flwr.text.printable import count
from fedct_flwr.types import ConfigError, Examples, FedctError, Groups

EGRESS_KEYS: Final = "put back keys/egress.key and keys/egress.pub"
LATEST: Final = "restore the folder as a whole from the latest backup, with the user that all agents run as"
_MEGABYTE: Final = 1_000_000
_LEAST_DISK: Final = 100
"""Megabytes."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_SECONDS: Final = 5.0
_DAYS_LEFT: Final = 30
_MOST_SKEW: Final = 30.0
T = TypeVar("T")
_PACKAGES: Final = ("fedct-flwr", "flwr", "numpy", "scikit-learn", "pyarrow", "torch", "xgboost-cpu")
# Names of containers on a network of their own.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class Unread(Exception):
    """A check needs something that cannot be read, which another finding tells already."""


class Silo:
    """The silo's folder and its contents, each read once. Raises Unread for contents that cannot be read."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.parent
        self.fits = False
        """Whether the records are of the study's form, once the check of them has found that."""
        self.copied = False
        """Whether records stand in the public set as well, once the check of the data has found that."""
        self._tried = False
        self.learner: Learner | None = None
        """Trained, once the check of it has done that."""

    @cached_property
    def place(self) -> SiloFolder:
        """The settings that every silo has."""
        return self.read("silo.toml", lambda: SiloFolder.read_toml(self.file))

    @cached_property
    def runs_app(self) -> bool:
        """Whether it runs an app; not where its settings cannot be read."""
        try:
            return isinstance(self.place, AppSilo)
        except Unread:
            return False

    @cached_property
    def config(self) -> SiloConfig:
        """The settings of a silo that co-trains."""
        return cast("SiloConfig", self.place)

    @cached_property
    def study(self) -> StudyFolder:
        """The study."""
        config = self.config
        return self.read("the study", lambda: read_study(config.study))

    @cached_property
    def table(self) -> pa.Table | None:
        """The silo's records as a file or a query has them; None of images. Raises what reading raises, but once."""
        config, study = self.config, self.study
        if self._tried:
            # To try again may take long.
            raise Unread("the records")
        self._tried = True
        return table_of(config.data, study)

    @cached_property
    def grouped(self) -> tuple[Examples, Groups | None]:
        """The silo's records, and which of them are one patient's."""
        config, study = self.config, self.study
        return self.read("the records", lambda: read_grouped(config.data, study, table=self.table))

    @property
    def records(self) -> Examples:
        """The silo's records."""
        return self.grouped[0]

    def read(self, what: str, read: Callable[[], T]) -> T:
        """Result of reading. Raises Unread instead of the package's own errors, which another finding reports."""
        try:
            return read()
        except (FedctError, OSError):
            raise Unread(what) from None

    def shown(self, path: Path) -> str:
        """A path for others to read: from the silo's folder on, and of what lies elsewhere only the last name."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else f"…/{path.name}"


def packages(_: Silo) -> Iterator[CheckFinding]:
    """Python, and required packages of a version that does not do. Pip has installed all of them."""
    needed = [one for one in map(Requirement, requires(_PACKAGES[0]) or []) if not one.marker]
    wrong = [one for one in needed if not one.specifier.contains(version(one.name), prereleases=True)]
    for one in wrong:
        needs = f"{one.name}{one.specifier}"
        yield bad(f"{one.name} {version(one.name)}, and {needs} is needed", f"pip install '{needs}'")
    if not wrong:
        there = {one.name: one.version for one in distributions() if one.name in _PACKAGES}
        shown = ", ".join(f"{name} {there[name]}" for name in _PACKAGES if name in there)
        yield good(f"Python {platform.python_version()} on {sys.platform}, {shown}")


def settings(silo: Silo) -> Iterator[CheckFinding]:
    """Whether ``silo.toml`` can be read."""
    try:
        yield good(f"silo.toml: silo {silo.place.silo}")
    except Unread:
        # The reason may quote the mapping, in which labels stand as the hospital writes them.
        yield bad("silo.toml cannot be read", "fedct silo status says what is wrong")


def disk(silo: Silo) -> Iterator[CheckFinding]:
    """Room for the log and the model: what cannot be logged is not released."""
    state = silo.place.state
    free = shutil.disk_usage(next(folder for folder in (state, *state.parents) if folder.exists())).free // _MEGABYTE
    message = f"disk: {free:,} MB are free where the log and the model are kept"
    fix = f"make room, at least {_LEAST_DISK} MB: what cannot be logged stays here"
    yield good(message) if free >= _LEAST_DISK else bad(message, fix)


def app(silo: Silo) -> Iterator[CheckFinding]:
    """Whether the app can be imported, here and now."""
    config = silo.place
    if isinstance(config, AppSilo):
        load(config.app.client)
        yield good(f"client app: {config.app.client} is imported, and may answer {', '.join(config.app.replies)}")


# --- keys and the log


def egress_key(silo: Silo) -> Iterator[CheckFinding]:
    """The key that signs the log, and its public half."""
    path = silo.place.egress_key
    if load_egress_key(path).public_key() == load_public_key(public_key_path(path)):
        yield good(f"egress key: {silo.shown(path)} and its public half")
    else:
        yield bad("egress key: the public key is that of another one", EGRESS_KEYS)


def egress_log(silo: Silo) -> Iterator[CheckFinding]:
    """Whether the log of all that left is intact."""
    config = silo.place
    verdict = verify_log(config.state, load_public_key(public_key_path(config.egress_key)), config.silo)
    if line := lost_line(config):
        yield bad(
            f"egress log: line {line:,}, which keys remember, is gone: the state folder is not mounted, or an older "
            "copy was put back",
            "mount it, or restore the latest copy; fedct silo start says more",
        )
    elif not verdict.intact:
        where = f" from line {verdict.bad_line}" if verdict.bad_line else ""
        yield bad(f"egress log: not intact{where}", "fedct silo verify says more; until then nothing leaves")
    elif lost_ledger(config, read_entries(config.state)):
        yield bad(
            "privacy ledger: it is gone, and labels have left under its budget",
            "restore the state folder as a whole from the latest backup; until then nothing leaves",
        )
    else:
        yield good(f"egress log: intact, {count(verdict.chain.number, 'line')}")


def node_key(silo: Silo) -> Iterator[CheckFinding]:
    """The SuperNode's key, by which the coordinator knows this silo."""
    path = silo.place.connection.node_key
    wrong = "is no ECDSA P-384 key"
    key: ec.EllipticCurvePrivateKey = loaded(
        path, partial(load_ssh_private_key, password=None), ec.EllipticCurvePrivateKey, wrong
    )
    if not isinstance(key.curve, ec.SECP384R1):
        raise ConfigError(f"{path} {wrong}")
    shown = silo.shown(path)
    yield good(f"node key: {shown}; the coordinator must know {shown}.pub")


def modes(silo: Silo) -> Iterator[CheckFinding]:
    """Whether other users of the machine can read what they must not."""
    config, secret = silo.place, silo.place.connection.secret
    if not secret.is_file() or not secret.stat().st_size:
        yield bad(f"secret: {silo.shown(secret)} is missing or empty", "make the silo's folder with fedct silo init")
    exposed = [path for path in (config.egress_key, config.connection.node_key, secret) if _open_to_others(path)]
    for path in exposed:
        yield bad(f"file modes: others can read {silo.shown(path)}", f"chmod 600 {silo.shown(path)}")
    # A user who may not enter the folder cannot read what is in it.
    curious = [silo.shown(path) for path in (silo.file, config.state) if _open_to_others(path)]
    if curious:
        yield warning(f"file modes: others can read {', '.join(curious)}", "chmod -R go= . in the silo's folder")
    if not exposed and not curious:
        yield good("file modes: only the owner can read keys, settings and state")


def _open_to_others(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & _OTHERS)


def approval(silo: Silo) -> Iterator[CheckFinding]:
    """Whether the study, or the app, is approved as it is now."""
    study = None if silo.runs_app else silo.study
    found = approval_state(silo.place, study, list(read_entries(silo.place.state)))
    if found is Approval.APPROVED:
        yield good(f"approval: the {'study' if study else 'app'} is approved as it is now")
    else:
        message, _, fix = NOT_APPROVED[found].partition(": ")
        yield warning(f"approval: {message}", fix)


# --- limits and promises


def shared_limits(silo: Silo) -> Iterator[CheckFinding]:
    """The folder under ``[records]``, and what all studies have used; nothing where no limits are shared."""
    folder, usage = silo.config.records.folder, SharedUsage.of(silo.config)
    if folder is None or usage is None:
        return
    if not _can_write(folder):
        yield bad(
            f"shared limits: this user cannot write into {silo.shown(folder)}, so nothing leaves",
            "let all studies' agents write into the folder under [records]; in containers, mount it: "
            "compose.limits.yaml says how",
        )
        return
    studies = usage.spent()[1]
    yield good(f"shared limits: of {count(studies, 'silo folder')}; fedct silo status says what is used")


def _can_write(folder: Path) -> bool:
    """Whether the folder is there for this user, or can be made."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
    except PermissionError:
        return False
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def protection(silo: Silo) -> None:
    """Make the labeler of a promise for these records. Raises what is wrong."""
    config, agreed, promised = silo.config, silo.study, silo.config.privacy
    if not config.promises:
        return
    from fedct_flwr.silo.noisy_sum import together_in

    check_protected(silo.grouped[1], config.silo)
    if config.adds_noise:
        together_in(agreed, config.noisy_kind)
    elif promised.chosen.labeler:
        promised, size = promised.after(config.set_aside(agreed.config)), num_units(silo.records.size, silo.grouped[1])
        labelers.labeler_for(labelers.Start(promised, config.learner, config.silo, agreed.schema, agreed.public, size))


def privacy(silo: Silo) -> Iterator[CheckFinding]:
    """Promises, and what the ledger says was spent of each; nothing where nothing is promised."""
    for promise in promises_of(silo.config).values():
        budget = f"epsilon {promise.epsilon:g}, delta {promise.delta:g} for {promise.protects} in total"
        spent = promise.spending(silo.study.name).asked
        yield good(f"privacy: {promise.kept_by}, {budget}; {spent:.3g} spent")


def students(silo: Silo) -> Iterator[CheckFinding]:
    """Records enough for all teachers (FedKT), and a learner for them; nothing where no votes may leave."""
    config, agreed, records = silo.config, silo.study, silo.records
    if all(kind_in_policy(name).own_model for name in config.policy.kinds):
        return

    transfer = config.transfer
    number = transfer.most_students(noisy=config.privacy.enabled)
    # Records kept back for the silo's own test are not for teachers.
    X = records.X[: records.size - int(config.data.test_fraction * records.size)]
    units = num_units(len(X), None if silo.grouped[1] is None else silo.grouped[1][: len(X)])
    given = transfer, config.privacy, config.learner, config.silo, agreed.schema, agreed.public, X, number
    labelers.transfer_for(*given, num_units=units)
    yield good(f"students: {number} can be taught on these records")


# --- the way to the coordinator and to the SuperNode


def certificates(silo: Silo) -> Iterator[CheckFinding]:
    """The coordinator's certificate authority, and what opens its gateway. Only the gateway knows whether it asks."""
    connection = silo.place.connection
    for what, path, fix in (
        ("certificate", connection.ca_certificate, "ask the coordinator for a new ca.crt"),
        ("client certificate", connection.client_certificate, NO_KIT),
    ):
        if path == connection.client_certificate and not path.exists():
            continue
        days = days_left(path)
        if days < 0:
            yield bad(f"{what}: it has expired", fix)
        elif days < _DAYS_LEFT:
            yield warning(f"{what}: valid for {days} more days", fix)
        else:
            yield good(f"{what}: valid for {days:,} more days")


def coordinator(silo: Silo) -> Iterator[CheckFinding]:
    """A real TLS connection to the SuperLink with that certificate, the way Flower's client makes it."""
    connection = silo.place.connection
    address = connection.superlink
    context = ssl.create_default_context(cafile=str(connection.ca_certificate))
    if connection.client_certificate.exists():
        context.load_cert_chain(connection.client_certificate, connection.client_key)
    answer = call(address, context)
    if answer.error:
        message, _, fix = sentence_of(answer.error).partition(": ")
        yield bad(f"coordinator: {address}: {message}", fix)
        return
    if answer.status < http.HTTPStatus.BAD_REQUEST:
        # A SuperLink has no page, and its gateway shows none.
        yield warning(
            f"coordinator: at {address} something else has the right certificate (HTTP status {answer.status})",
            "ask the coordinator what is between the gateway and you",
        )
    else:
        yield good(f"coordinator: {address} answers, and its certificate is the right one")
    try:
        date = parsedate_to_datetime(answer.headers["Date"])
    except (KeyError, TypeError, ValueError):
        yield warning("clock: the coordinator tells no time", "compare this machine's clock with another one")
        return
    # A time of no known zone (-0000) is one of UTC.
    skew = (datetime.now(UTC) - date.replace(tzinfo=date.tzinfo or UTC)).total_seconds()
    if abs(skew) > _MOST_SKEW:
        side = "ahead of" if skew > 0 else "behind"
        yield warning(f"clock: {abs(skew):,.0f} s {side} the coordinator's", "set the clocks, best by NTP")
    else:
        yield good("clock: the same as the coordinator's, within a few seconds")


def link(silo: Silo) -> Iterator[CheckFinding]:
    """Whether agent and SuperNode may be apart: between them is plain HTTP. Makes no connection."""
    address = silo.place.connection.supernode
    host = split_address(address)[0]
    try:
        near = ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = _PLAIN_NAME.fullmatch(host) is not None
    if near:
        yield good(f"link: the SuperNode at {address} is on this machine, or a container next to the agent")
    else:
        yield warning(
            f"link: the way to the SuperNode at {address} is not encrypted, and the SuperNode is not authenticated",
            "run both on one machine, or on a network of their own",
        )


def supernode(silo: Silo) -> Iterator[CheckFinding]:
    """Whether the SuperNode listens for its agent. ``fedct silo status`` shows the work of both."""
    address = silo.place.connection.supernode
    try:
        socket.create_connection(split_address(address), timeout=_SECONDS).close()
        yield good(f"SuperNode: it listens at {address}")
    except OSError:
        yield warning(f"SuperNode: nothing listens at {address}", "fedct silo connect")
