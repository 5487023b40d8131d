"""Approval by a silo: a digest of all that decides what may leave, as a line of the egress log.

A change of the study, the public set, the learner, its language model, the policy, or what the silo's labels mean
changes the digest: nothing leaves until it is approved again. Only the last line that approves or revokes counts.

To approve again gives nothing back that was spent: the limits of a policy are totals over all that ever left for a
study and its public set. To allow more, raise a limit in ``silo.toml`` and approve that.

Two approvers, two keys: an approval that one person alone cannot give.

``approvers`` in ``silo.toml`` names people and their Ed25519 public keys. Each signs the terms as they are; the first
signature waits in a file, the second makes the approval, whose line in the log has both. The terms include the
approvers, so another list of them is not what was approved. A signature is for one place in the log: once anything was
approved or revoked, it is worth nothing, though the log still shows it. The line in the log also names the approvers,
and they sign what is approved next: one person alone can neither strike them from ``silo.toml`` nor exchange their
keys. A person who may write all of the silo's folder and reads the egress key can still do everything here: keep the
folder's owner and the approvers apart.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedct_flwr import silo
from fedct_flwr.config.silo import AppSilo, SiloConfig, SiloFolder
from fedct_flwr.datasets.query import query_digest
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.files import write_atomically
from fedct_flwr.hospital import app_code
from fedct_flwr.hospital.duplicates import DuplicateReport
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key, load_public_key
from fedct_flwr.hospital.log_entry import REVOKED, TERMS, Event, LogEntry, digest_in, is_revoked
from fedct_flwr.labelers.labeler import check_all_installed
from fedct_flwr.learners.catalog import LANGUAGE
from fedct_flwr.learners.language import fingerprint, located
from fedct_flwr.privacy.budget import DATA_SET, WHOLE_SILO, Spending
from fedct_flwr.types import ConfigError, DataError, LearnerError, RunError
from fedct_flwr.wire.codec import VERSION
from fedct_flwr.wire.content import Terms
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.numbers import KINDS, PROBABILITIES
from fedct_flwr.wire.sums import SUMMED, SUMS_WITH_NOISE

_PURPOSE: Final = b"fedct approver "
_FIRST: Final = "approval.first"
"""The signature of the first of two approvers, which waits for the second."""
_KEYS: Final = "approver-keys"
"""In the line of an approval: the approvers of then, with their keys."""
_PARTS: Final = "parts"
"""In the line of an approval: digests of all that was approved, by name."""
_PART_DIGITS: Final = 16

_FORMAT: Final = 1

_PRIVACY: Final = "privacy"
_SOFTWARE: Final = ("fedct-flwr", "flwr", "scikit-learn")


def terms_digest(config: SiloFolder, study: StudyFolder | None) -> bytes:
    """SHA-256 (32 bytes) over all that is approved. ``study`` is None for an app.

    That is: versions of this format and of the messages, the silo's name, the study (name, classes, columns, public
    set, test set), learner and the files of its language model, policy, privacy (where something is promised), label
    column and mapping, the text of a query, which share of the records is for testing, and to which coordinator all of
    it goes, as ``silo.toml`` writes it. Not where files or databases are, and not the records: they may grow. A test
    file counts as one, wherever it lies. Of an app: its settings, and its files. Raises LearnerError for a language
    model that cannot be read, DataError for such a query, and AppError for such an app.
    """
    return _digest(_agreed(config, study))


def _digest(agreed: Mapping[str, object]) -> bytes:
    return hashlib.sha256(b"fedct approval " + json.dumps(agreed, sort_keys=True).encode()).digest()


def changed(config: SiloFolder, study: StudyFolder | None, entries: Iterable[LogEntry]) -> list[str]:
    """Names of what is not as it was last approved; none where nothing was. Raises as ``terms_digest`` does."""
    approved = [entry.details.get(_PARTS) for entry in entries if entry.event is Event.APPROVED]
    before, now = approved[-1] if approved else None, _digests(_agreed(config, study))
    if not isinstance(before, Mapping):
        return []
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _digests(agreed: Mapping[str, object]) -> dict[str, str]:
    parts = {name: json.dumps(part, sort_keys=True).encode() for name, part in agreed.items()}
    return {name: hashlib.sha256(part).hexdigest()[:_PART_DIGITS] for name, part in parts.items()}


def _agreed(config: SiloFolder, study: StudyFolder | None) -> dict[str, object]:
    agreed: dict[str, object] = {
        "format": [_FORMAT, VERSION],
        "silo": config.silo,
        "superlink": config.connection.superlink,
        # Only where there are some: what was approved before there were any stays approved.
        **({"approvers": as_hex(approvers_of(config))} if config.approvers else {}),
    }
    if isinstance(config, SiloConfig) and study:
        agreed |= {
            "study": study.digest.hex(),
            "policy": config.policy.decides,
            **({"records": config.records.decides} if config.records.folder else {}),
            **({"language-model": model} if (model := language_model(config)) else {}),
            **({"query": query_digest(config.data)} if config.data.query else {}),
            **config.decides_model,
        }
    elif isinstance(config, AppSilo):
        agreed |= {"app": config.app.model_dump(mode="json"), "code": app_code.fingerprint(config.app.client)}
    return agreed


def approving_digest(config: SiloFolder, study: StudyFolder | None) -> bytes:
    """The digest that approves the terms as they are now; empty where a model, a query or an app cannot be read."""
    try:
        return terms_digest(config, study)
    except (LearnerError, DataError, app_code.AppError):
        return b""


def language_model(config: SiloConfig) -> str | None:
    """SHA-256 of the files of the learner's language model, in hex digits; None for a learner without one.

    Changed files change which texts get which labels. Raises LearnerError for a model that cannot be read.
    """
    if config.learner.name not in LANGUAGE:
        return None
    try:
        return fingerprint(located(str(config.learner.params.get("folder", ""))))
    except OSError as error:
        raise LearnerError(f"the learner's language model cannot be read: {error.strerror}") from None


def approve(
    log: EgressLog,
    config: SiloConfig,
    study: StudyFolder,
    duplicates: DuplicateReport | None = None,
    **more: object,
) -> LogEntry:
    """Put an approval of the terms as they are now into the log. Raises RunError if it cannot be written.

    For later readers of the log, the line also tells what the approver was told of ``duplicates`` (None: they were
    not looked for; with an alarm, it was approved despite them), and which versions of what software were installed.
    Neither is part of the terms, nor are ``more`` facts on the approval: the approver (``by``), and the ``reason``.
    """
    agreed = _agreed(config, study)
    details: dict[str, object] = {
        TERMS: _digest(agreed).hex(),
        _PARTS: _digests(agreed),
        "num-public": len(study.public),
        "learner": config.learner.name,
        "superlink": config.connection.superlink,
        "policy": config.policy.logged,
        "duplicates": (
            {
                "exact": duplicates.exact,
                "rounded": duplicates.rounded,
                "own-exact": duplicates.own_exact,
                "alarm": duplicates.alarm,
            }
            if duplicates
            else None
        ),
        "versions": {name: _version(name) for name in (*_SOFTWARE, *config.learner.packages)},
    }
    if config.promises:
        details[_PRIVACY] = config.privacy.decides
    if config.approvers:
        details[_KEYS] = as_hex(approvers_of(config))
    details |= {name: value for name, value in more.items() if value}
    return _append(log, LogEntry(Event.APPROVED, study.name, study.public.fingerprint.hex(), details=details))


def approve_app(log: EgressLog, config: AppSilo, **more: object) -> LogEntry:
    """The same for an app: the line has its limits. Raises RunError if it cannot be written, and AppError."""
    agreed = _agreed(config, None)
    details: dict[str, object] = {
        TERMS: _digest(agreed).hex(),
        _PARTS: _digests(agreed),
        "superlink": config.connection.superlink,
        "code": app_code.fingerprint(config.app.client),
        "limits": {
            **config.app.model_dump(include={"messages_a_run", "runs_a_day"}),
            "most_bytes": config.app.most_bytes,
        },
        "versions": {name: _version(name) for name in _SOFTWARE},
        **({_KEYS: as_hex(approvers_of(config))} if config.approvers else {}),
        **{name: value for name, value in more.items() if value},
    }
    return _append(log, LogEntry(Event.APPROVED, config.app.client, details=details))


def revoke(log: EgressLog) -> LogEntry:
    """Take back whatever was approved. Raises RunError if it cannot be written."""
    return _append(log, LogEntry(Event.REVOKED))


def withdraw(state: Path) -> None:
    """From now on nothing leaves, also while an agent holds the log. Raises RunError if that cannot be written."""
    try:
        (state / _FIRST).unlink(missing_ok=True)
        write_atomically(state / REVOKED, b"")
    except OSError as error:
        raise RunError(f"cannot write to {state}: {error.strerror}; stop the agent instead") from None


def put_down(log: EgressLog, state: Path) -> None:
    """Write a withdrawn approval into the log, if there is one. Raises RunError, and it stays withdrawn."""
    if is_revoked(state):
        revoke(log)
        (state / REVOKED).unlink()


def in_force(entries: Iterable[LogEntry]) -> LogEntry | None:
    """The line of the approval that counts after these lines, or None."""
    decisions = [entry for entry in entries if entry.event in (Event.APPROVED, Event.REVOKED)]
    return decisions[-1] if decisions and digest_in(decisions[-1]) else None


def current(entries: Iterable[LogEntry]) -> bytes | None:
    """The digest of the terms that are approved after these lines, or None."""
    found = in_force(entries)
    return digest_in(found) if found else None


# --- what differential privacy promises


@dataclass(frozen=True)
class Promise:
    """Promise of differential privacy in ``silo.toml``: for each record, or for the silo as a whole.

    ``kept_by`` is the mechanism that keeps it, ``account`` its name in the ledger.
    """

    config: SiloConfig
    kept_by: str
    protects: str
    epsilon: float
    delta: float
    account: str

    def spending(self, study: str) -> Spending:
        """Spending on a study, by the ledger. Raises ConfigError for a missing package, and LedgerError."""
        check_all_installed(self.config)

        return silo.account_of(self.config, study, self.account)

    def approve(self, study: str, terms: bytes) -> None:
        """Put its budget in force, higher or lower, on the approval of these terms. Raises LedgerError."""
        silo.approve_budget(self.config, study, terms, self.account)


def promises_of(config: SiloConfig) -> dict[str, Promise]:
    """Promises of these settings by name: ``privacy`` for each record, ``sums`` for the silo as a whole."""
    privacy, policy = config.privacy, config.policy
    found = {}
    if config.promises:
        whom = f"each {config.unit}"
        found["privacy"] = Promise(config, config.promised_by, whom, privacy.epsilon, privacy.delta, DATA_SET)
    if policy.sum_epsilon:
        of_silo = "noise in secure sums", "this silo as a whole", policy.sum_epsilon, policy.sum_delta
        found["sums"] = Promise(config, *of_silo, WHOLE_SILO)
    return found


def covers_records(entry: LogEntry) -> bool:
    """Whether an approval promises something of each record, for its labels."""
    return _PRIVACY in entry.details


def covers_silo(entry: LogEntry) -> bool:
    """Whether an approval promises that nothing but sums with noise leaves, by ``sum-epsilon``."""
    policy = entry.details.get("policy")
    return isinstance(policy, Mapping) and bool(policy.get("sum_epsilon"))


def _released(entries: Iterable[LogEntry]) -> Iterator[tuple[LogEntry | None, LogEntry]]:
    """Each line with which labels left, after that of the approval of then."""
    approved = None
    for entry in entries:
        if entry.event is Event.APPROVED:
            approved = entry
        elif entry.event is Event.RELEASED:
            yield approved, entry


def bare_labels(entries: Iterable[LogEntry], study: str, covers: Callable[[LogEntry], bool]) -> int:
    """Labels of a study that left under approvals that promised no such thing: no promise covers them."""
    return sum(
        entry.queries
        for approved, entry in _released(entries)
        if entry.study == study and not (approved and covers(approved))
    )


def had_scores(entries: Iterable[LogEntry], study: str) -> bool:
    """Whether labels of a study have left under an approval of test scores without noise."""
    approvals = (approved for approved, entry in _released(entries) if approved and entry.study == study)
    policies = (approved.details.get("policy") for approved in approvals)
    return any(isinstance(policy, Mapping) and policy.get("metrics") for policy in policies)


def has_promised_labels(entries: Iterable[LogEntry]) -> bool:
    """Whether labels have left under an approval that promised something of records, or of the silo as a whole.

    Then the ledger was charged before.
    """
    return any(approved and (covers_records(approved) or covers_silo(approved)) for approved, _ in _released(entries))


def has_bare_labels(entries: Iterable[LogEntry]) -> bool:
    """Whether labels have left under an approval that promised neither."""
    return any(
        not (approved and (covers_records(approved) or covers_silo(approved))) for approved, _ in _released(entries)
    )


def was_promised(entries: Iterable[LogEntry], covers: Callable[[LogEntry], bool]) -> bool:
    """Whether an approval has ever promised such a thing."""
    return any(entry.event is Event.APPROVED and covers(entry) for entry in entries)


def _version(package: str) -> str | None:
    """The version that is installed; None if that is not known under this name."""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return None


def _append(log: EgressLog, entry: LogEntry) -> LogEntry:
    try:
        return log.append(entry)
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"cannot write the egress log {log.path}: {reason}; nothing was changed") from None


# --- two approvers, two keys


def approvers_now(config: SiloFolder, entries: Iterable[LogEntry]) -> dict[str, Ed25519PublicKey]:
    """The next approvers, by name: those of the last approval, or those in ``silo.toml`` if it had none.

    Raises ConfigError where two have the same key.
    """
    own, last = approvers_of(config), [entry for entry in entries if entry.event is Event.APPROVED][-1:]
    keys = last[0].details.get(_KEYS) if last else None
    if not isinstance(keys, Mapping):
        return own
    return {name: Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)) for name, key in keys.items()}


def approvers_of(config: SiloFolder) -> dict[str, Ed25519PublicKey]:
    """The approvers in ``silo.toml``. Raises ConfigError where two have the same key."""
    keys = {name: load_public_key(path) for name, path in config.approvers.items()}
    if len(set(as_hex(keys).values())) < len(keys):
        raise ConfigError("two approvers in silo.toml have the same key: let each make a key of their own")
    return keys


def as_hex(keys: Mapping[str, Ed25519PublicKey]) -> dict[str, str]:
    """The keys as 64 hexadecimal digits each."""
    return {name: key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex() for name, key in keys.items()}


def sign(
    config: SiloFolder, entries: Sequence[LogEntry], digest: bytes, by: str, key: Path | None
) -> Mapping[str, str]:
    """Sign the terms as one of ``approvers_now``, to be approved next after the last line that approves or revokes.

    Returns both signatures by name if this is the second, and nothing if it is the first.

    Raises ConfigError for a name that is not an approver's, or a key that is not this person's.
    """
    approvers = approvers_now(config, entries)
    after = max((entry.number for entry in entries if entry.event in (Event.APPROVED, Event.REVOKED)), default=0)
    if by not in approvers:
        names = ", ".join(approvers)
        raise ConfigError(f"{by!r} is not an approver ({names}): give --by with one of their names, and --key")
    if key is None:
        raise ConfigError(f"--key is missing: {by} signs with a key of their own, as approvers were named")
    private = load_egress_key(key)
    if private.public_key() != approvers[by]:
        raise ConfigError(f"{key} is not the key of {by}: give the one whose public half was named for {by}")
    own = base64.b64encode(private.sign(_message(by, digest, after))).decode()
    path = config.state / _FIRST
    signed = {**_valid(approvers, digest, after, path), by: own}
    if len(signed) < 2:
        config.state.mkdir(exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps(signed).encode())
        return {}
    path.unlink(missing_ok=True)
    return signed


def _valid(approvers: Mapping[str, Ed25519PublicKey], digest: bytes, after: int, path: Path) -> dict[str, str]:
    """The signatures that wait, of these approvers, for the terms of today."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    valid = {}
    for name, signature in found.items() if isinstance(found, dict) else ():
        if name not in approvers:
            continue
        try:
            approvers[name].verify(base64.b64decode(signature), _message(name, digest, after))
        except (InvalidSignature, ValueError, TypeError):
            continue
        valid[name] = signature
    return valid


def _message(name: str, digest: bytes, after: int) -> bytes:
    return _PURPOSE + json.dumps([name, after]).encode() + b" " + digest


_IN_POLICIES: Final[tuple[Kind, ...]] = (*KINDS.values(), *SUMMED)
"""Kinds that real silos answer: one of each name in a policy and study."""


def kinds_let_out(names: Iterable[str], terms: Terms, *, noisy: bool = False) -> list[Kind]:
    """The kinds that a silo's policy permits by these names, in a study with these terms.

    ``noisy``: where sums leave with noise alone.
    """
    known: Iterable[Kind] = SUMS_WITH_NOISE.values() if noisy else _IN_POLICIES
    return [kind for name in names for kind in known if kind.policy == name and kind.fits(terms.quantity)]


def check_let_out(names: Iterable[str], terms: Terms) -> None:
    """Raise ConfigError for a policy that permits no kind that a study with these terms can ask for."""
    if not kinds_let_out(names, terms):
        fix = f"write kinds = ['{PROBABILITIES.policy}']" if terms.quantity else "name one for classes"
        raise ConfigError(f"kinds under [policy] in silo.toml holds no kind of answer that the study asks for: {fix}")


def kind_in_policy(name: str) -> Kind:
    """The kind with this name in policies, in any study."""
    return next(kind for kind in _IN_POLICIES if kind.policy == name)
