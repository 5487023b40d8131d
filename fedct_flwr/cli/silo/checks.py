"""What a silo has on its own machine: disk, keys, log, approval, promises and limits.

Formal guarantee: a finding holds words of this program, names and numbers of the study (which are public), settings of
``silo.toml`` but neither its mapping nor where the records lie, counts of records as ``rounded`` has them, and the
number of a record in which a column is not what the study says, without its value. The text of an error, which may
quote a file, goes into ``details``, which is shown only to who asks for it on the spot.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedct_flwr.cli.findings import Finding, Unread, bad, by_amount, good, or_bad, warning
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.inspection.inspect import Inspection
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.study_folder import StudyFolder, read_records, read_study
from fedct_flwr.hospital.approval import approving_digest, current
from fedct_flwr.hospital.keys import load_egress_key, load_public_key, public_key_path
from fedct_flwr.hospital.latest_state import lost_ledger, lost_line
from fedct_flwr.hospital.log_entry import Spent, read_entries
from fedct_flwr.hospital.log_proof import verify_log
from fedct_flwr.hospital.revocation import is_revoked
from fedct_flwr.hospital.shared_books import SharedBooks
from fedct_flwr.kinds import kind_in_policy
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.text.plural import count
from fedct_flwr.types import Examples, FedctError

PACKAGES: Final = ("flwr", "numpy", "scikit-learn", "pyarrow", "torch", "xgboost-cpu")
_MEGABYTE: Final = 1_000_000
_LEAST_DISK: Final = 100 * _MEGABYTE
_GOOD_DISK: Final = 1000 * _MEGABYTE
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_EGRESS_KEYS: Final = "put back keys/egress.key and keys/egress.pub"
_DETAILS: Final = "fedct silo check --details says what is wrong"


class Silo:
    """The silo's folder, and what is in it, each read once. What cannot be read raises Unread."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.parent

    @cached_property
    def config(self) -> SiloConfig:
        """The settings."""
        with _unread("silo.toml"):
            return SiloConfig.read_toml(self.file)

    @cached_property
    def study(self) -> StudyFolder:
        """The study."""
        config = self.config
        with _unread("the study"):
            return read_study(config.study)

    @cached_property
    def records(self) -> Examples:
        """The silo's records."""
        config, study = self.config, self.study
        with _unread("the records"):
            return read_records(config.data, study)

    @cached_property
    def inspection(self) -> Inspection:
        """What the inspection finds of the silo's records."""
        config, study = self.config, self.study
        with _unread("the records"):
            return inspect_records(config.data, study, config.silo)

    def shown(self, path: Path) -> str:
        """A path for others to read: from the silo's folder on, and of what lies elsewhere only the last name."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else f"…/{path.name}"


@contextmanager
def _unread(what: str) -> Iterator[None]:
    try:
        yield
    except (FedctError, OSError):
        raise Unread(what) from None


def disk(silo: Silo) -> Iterator[Finding]:
    """Room for the log and the model: what cannot be logged is not released."""
    state = silo.config.state
    free = shutil.disk_usage(next(folder for folder in (state, *state.parents) if folder.exists())).free
    yield by_amount(
        f"disk: {free // _MEGABYTE:,} MB are free where the log and the model are kept",
        free,
        (_LEAST_DISK, f"make room, at least {_LEAST_DISK // _MEGABYTE} MB: what cannot be logged does not leave"),
        (_GOOD_DISK, f"make room, {_GOOD_DISK // _MEGABYTE:,} MB are better"),
    )


# --- keys and the log


def egress_key(silo: Silo) -> Iterator[Finding]:
    """The key that signs the log, and its public half."""
    path = silo.config.egress_key
    with or_bad("egress key: it is missing or damaged", _EGRESS_KEYS):
        pair = load_egress_key(path).public_key() == load_public_key(public_key_path(path))
    if pair:
        yield good(f"egress key: {silo.shown(path)} and its public half")
    else:
        yield bad("egress key: the public key is that of another one", _EGRESS_KEYS)


def egress_log(silo: Silo) -> Iterator[Finding]:
    """Whether the log of all that left is intact."""
    config = silo.config
    with or_bad("egress log: it cannot be verified without the public key", "put back keys/egress.pub"):
        key = load_public_key(public_key_path(config.egress_key))
    verdict = verify_log(config.state, key, config.silo)
    if line := lost_line(config):
        yield bad(
            f"egress log: line {line:,}, which keys remember, is gone: the state folder is not mounted, or an older "
            "copy was put back",
            "mount it, or restore the latest copy; fedct silo start says more",
        )
    elif verdict.intact and lost_ledger(config, read_entries(config.state)):
        yield bad(
            "privacy ledger: it is gone, and labels have left under its budget",
            "restore the state folder as a whole from the latest backup; until then nothing leaves",
        )
    elif verdict.intact:
        yield good(f"egress log: intact, {count(verdict.lines, 'line')}")
    else:
        where = f" from line {verdict.bad_line}" if verdict.bad_line else ""
        yield bad(f"egress log: not intact{where}", "fedct silo verify says more; until then nothing leaves")


def node_key(silo: Silo) -> Iterator[Finding]:
    """The SuperNode's key, by which the coordinator knows this silo."""
    path = silo.config.connection.node_key
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
        usable = isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP384R1)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        usable = False
    shown = silo.shown(path)
    if usable:
        yield good(f"node key: {shown}; the coordinator must know {shown}.pub")
    else:
        yield bad(f"node key: {shown} is missing or no ECDSA P-384 key", "put back the one of fedct silo init")


def modes(silo: Silo) -> Iterator[Finding]:
    """Whether other users of the machine can read what they must not."""
    if os.name != "posix":
        yield warning("file modes: not looked at on this system", "let only the silo's user read its folder")
        return
    config, secret = silo.config, silo.config.connection.secret
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


def approval(silo: Silo) -> Iterator[Finding]:
    """Whether the study is approved as it is now."""
    config, agreed = silo.config, silo.study
    with or_bad("approval: the egress log cannot be read", "fedct silo verify says more"):
        approved = current(read_entries(config.state))
    if approved is None or is_revoked(config.state):
        yield warning("approval: nothing is approved, so nothing leaves", "fedct silo approve")
    elif approved != approving_digest(config, agreed):
        yield warning("approval: study or settings have changed since, so nothing leaves", "fedct silo approve")
    else:
        yield good("approval: the study is approved as it is now")


# --- limits and promises


def shared_limits(silo: Silo) -> Iterator[Finding]:
    """The folder under ``[records]``, and what all studies have used; nothing where no limits are shared."""
    config = silo.config
    folder = config.records.folder
    if folder is None:
        return
    if not _can_write(folder):
        yield bad(
            f"limits over all studies: this user cannot write into {silo.shown(folder)}, so nothing leaves",
            "let all studies' agents write into the folder under [records]; in containers, mount it: "
            "compose.limits.yaml says how",
        )
        return
    said = f"limits over all studies: what has left cannot be told from {silo.shown(folder)}, so nothing leaves"
    fix = "restore the folder as a whole from the latest backup, with the user that all agents run as"
    books = SharedBooks.of(config)
    with or_bad(said, fix):
        used = books.spent()[0] if books else Spent()
    yield good(
        f"limits over all studies: {used.rounds:,} rounds, {used.queries:,} labels, {used.bytes:,} bytes used; fedct "
        "silo status says of how many"
    )


def _can_write(folder: Path) -> bool:
    """Whether the folder is there for this user, or can be made."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
    except PermissionError:
        return False
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def privacy(silo: Silo) -> Iterator[Finding]:
    """Extras, budgets, labeler and ledger of what is promised; nothing where nothing is."""
    config, agreed, promised, policy = silo.config, silo.study, silo.config.privacy, silo.config.policy
    if not config.promises and not policy.sum_epsilon:
        return
    from fedct_flwr.labelers.protect import check_all_installed, check_extra, labeler_for

    # What is missing is this program's to know, and tells nothing of the records.
    with or_bad("", "install the extra where the agent runs"):
        check_all_installed(config)
        check_extra("privacy", "epsilon")
    from fedct_flwr.hospital.adding import check_sums
    from fedct_flwr.privacy.budget import budget_of
    from fedct_flwr.silo.joint import together_in
    from fedct_flwr.silo.noisy_sum import account_of_sums
    from fedct_flwr.silo.release import account_of

    if config.promises:
        size = silo.records.size
        if budget_of(promised).weakness(size):
            yield warning(
                f"privacy: delta is {promised.delta:g}, which is not below one divided by the number of records",
                "set a smaller delta under [privacy]: as it is, publishing a record at random would pass for private",
            )
        name = "the joint labeler" if config.adds_noise else promised.protection
        fix = f"correct [privacy] in silo.toml, or what the study asks for; {_DETAILS}"
        with or_bad(f"privacy: {name} cannot be set up for these records", fix):
            if config.adds_noise:
                check_sums(config, agreed)
                together_in(agreed)
            else:
                labeler_for(promised, config.learner, config.silo, agreed.schema, agreed.public, size)
        promise = f"{name}, epsilon {promised.epsilon:g}, delta {promised.delta:g} for each record in total"
        yield _spent(silo, account_of, promise)
    if policy.sum_epsilon:
        fix = f"correct [policy] in silo.toml, or ask the coordinator for another [sums] in study.toml; {_DETAILS}"
        with or_bad("privacy: this silo cannot add noise to the study's secure sums", fix):
            check_sums(config, agreed)
        promise = f"epsilon {policy.sum_epsilon:g}, delta {policy.sum_delta:g} for this silo as a whole in total"
        yield _spent(silo, account_of_sums, f"noise in secure sums, {promise}")


def _spent(silo: Silo, account: Callable[[SiloConfig, str], Spending], promise: str) -> Finding:
    """A promise, and what the ledger says was spent of it."""
    with or_bad("privacy: the ledger cannot be used, so nothing leaves", "fedct privacy-sheet says more"):
        found = account(silo.config, silo.study.name)
    if found.ahead:
        return bad(
            f"privacy: the clock is earlier than the privacy ledger's last charge ({found.ahead}), so nothing leaves",
            "set the clock; if it is right, and was ahead then: fedct silo approve, which corrects that date and "
            "forgets no charge",
        )
    return good(f"privacy: {promise}; {found.epsilon:.3g} spent")


def students(silo: Silo) -> Iterator[Finding]:
    """Records enough for all teachers (FedKT), and a learner for them; nothing where no votes may leave."""
    config, agreed, records = silo.config, silo.study, silo.records
    if all(kind_in_policy(name).own_model for name in config.policy.kinds):
        return
    from fedct_flwr.labelers.students import transfer_for

    noisy, transfer = config.privacy.enabled, config.transfer
    number = transfer.most_students(noisy=noisy)
    # Records kept back for the silo's own test are not for teachers.
    taught = records.size - int(config.data.test_fraction * records.size)
    X = records.X[:taught]
    # How many records there are may be the reason, and is not for others.
    fix = f"set fewer teachers or partitions under [transfer], or correct [privacy] and [learner]; {_DETAILS}"
    with or_bad(f"students: {number} cannot be taught on these records", fix):
        transfer_for(transfer, config.privacy, config.learner, config.silo, agreed.schema, agreed.public, X, number)
    yield good(f"students: {number} can be taught on these records")
