"""The way out for replies of any Flower app: exactly what ``[app.replies]`` declares, or a numbered refusal.

Formal guarantee: what ``release`` returns was built here, from values of the declared records, keys, dtypes, shapes and
ranges, or is a refusal with a fixed sentence. No object, text of an error or metadata of the app leaves. Each message
that was let in gets one reply at most, and counts before the app sees it. The line of the log, and the reply itself,
are on disk before it returns. Not guaranteed: that declared numbers tell nothing of records. Weights may reveal them,
and an app that means harm can write a record into the digits of a weight.
"""

import hashlib
import io
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.serde import recorddict_to_proto
from numpy.typing import NDArray

from fedct_flwr.hospital.egress_log import EgressLog, keep
from fedct_flwr.hospital.log_entry import Event, LogEntry, Used, digest_in
from fedct_flwr.text.printable import cut, logger, printable
from fedct_flwr.types import Refusal, Refused

if TYPE_CHECKING:
    from fedct_flwr.config.app import AppSettings, ArrayForm, RecordForm

AppAnswer: TypeAlias = RecordDict | Error
FIRST_CODE: Final = 1000
"""Flower's own codes of errors are below: this is added to the number of a refusal."""
_HASH: Final = re.compile(r"[0-9a-f]{0,128}")
_NUMPY: Final = "numpy.ndarray"
_NUMBERS: Final = "biuf"
_NUMBER_BYTES: Final = 8
_LONGEST_REASON: Final = 200
_T = TypeVar("_T")


class Undeclared(Refused):
    """A reply is not one that is declared. ``why`` may name what the app wrote: for the silo's own log alone."""

    def __init__(self, why: str) -> None:
        super().__init__(Refusal.POLICY)
        self.why = printable(cut(why, _LONGEST_REASON))


def declared(content: RecordDict, forms: "Mapping[str, RecordForm]") -> RecordDict:
    """A reply rebuilt from its values, in the order of ``forms``. Raises Undeclared.

    Each value is read once: the app may still hold its objects, and change them meanwhile.
    """
    given = _same_keys(content, forms, "record")
    return RecordDict({name: _record(name, given[name], form) for name, form in forms.items()})


def _same_keys(given: object, forms: Mapping[str, Any], what: str) -> dict[str, Any]:
    found = dict(given.items()) if isinstance(given, RecordDict | ArrayRecord | MetricRecord | ConfigRecord) else {}
    for name in found:
        if type(name) is not str or name not in forms:
            raise Undeclared(f"{what} {str(name)!r} is not declared")
    for name in forms:
        if name not in found:
            raise Undeclared(f"{what} {name!r} is missing")
    return found


def _record(name: str, record: object, form: "RecordForm") -> ArrayRecord | MetricRecord | ConfigRecord:
    kind = MetricRecord if form.metrics else ConfigRecord if form.config else ArrayRecord
    if type(record) is not kind:
        raise Undeclared(f"record {name!r} is of another kind: {type(record).__name__}")
    if isinstance(record, MetricRecord):
        metrics = _same_keys(record, form.metrics, f"in {name!r}, metric")
        return MetricRecord({key: _metric(key, metrics[key], *form.metrics[key]) for key in form.metrics})
    if isinstance(record, ConfigRecord):
        values = _same_keys(record, form.config, f"in {name!r}, value")
        return ConfigRecord({key: _value(key, values[key], most) for key, most in form.config.items()})
    if form.most_bytes:
        return _any_arrays(name, dict(record.items()), form.most_bytes)
    arrays = _same_keys(record, form.arrays, f"in {name!r}, array")
    return ArrayRecord({key: Array(_array(key, arrays[key], one)) for key, one in form.arrays.items()})


def _any_arrays(name: str, arrays: dict[Any, Any], most: int) -> ArrayRecord:
    if not all(type(key) is str for key in arrays):
        raise Undeclared(f"in {name!r}, the name of an array is no text")
    values = {key: _array(key, array, None) for key, array in arrays.items()}
    # A shape can hold as much as numbers do, also of an array without any.
    sizes = (len(key.encode()) + value.nbytes + _NUMBER_BYTES * (value.ndim + 1) for key, value in values.items())
    if (size := sum(sizes)) > most:
        raise Undeclared(f"record {name!r} has {size:,} bytes, and {most:,} are the most")
    return ArrayRecord({key: Array(value) for key, value in values.items()})


def _array(name: str, array: Array, form: "ArrayForm | None") -> NDArray[Any]:
    """The numbers of an array in NumPy's format, as its own header says, without the bytes around them."""
    data, where = array.data, f"array {name!r}"
    if array.stype != _NUMPY or type(data) is not bytes:
        raise Undeclared(f"{where} is not in NumPy's format")
    file = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    except ValueError:
        raise Undeclared(f"{where} is not in NumPy's format") from None
    if dtype.kind not in _NUMBERS or dtype.itemsize > _NUMBER_BYTES or not dtype.isnative:
        raise Undeclared(f"{where} holds {dtype}, which are no plain numbers")
    if form and (dtype.name, shape) != (form.dtype, form.shape):
        raise Undeclared(f"{where} is {dtype.name} {shape}, and {form.dtype} {form.shape} is declared")
    start = file.tell()
    # Whole numbers of Python: no product of a shape is too large.
    if min(shape, default=1) < 0 or len(data) - start != dtype.itemsize * int(np.prod(np.array(shape, object))):
        raise Undeclared(f"{where} has more or fewer bytes than its shape")
    flat = np.frombuffer(data, dtype, offset=start)
    # A truth value has 7 bits to spare, and a number that is not finite has a payload.
    flat = flat.view(np.uint8) != 0 if dtype.kind == "b" else flat
    if dtype.kind == "f" and not np.isfinite(flat).all():
        raise Undeclared(f"{where} holds numbers that are not finite")
    return np.ascontiguousarray(flat.reshape(shape, order="F" if by_columns else "C")).reshape(shape)


def _metric(name: str, value: object, low: float, high: float) -> int | float:
    whole = isinstance(low, int) and isinstance(high, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise Undeclared(f"metric {name!r} is of another type than declared: {type(value).__name__}")
    # NumPy's numbers are such, too; from here on it is Python's own.
    number = int(value) if whole else float(value)
    if not low <= number <= high:
        raise Undeclared(f"metric {name!r} is outside of [{low:g}, {high:g}]")
    return number


def _value(name: str, value: Any, most: int) -> Any:
    if type(value) not in (str, bytes, bool, int, float):
        raise Undeclared(f"value {name!r} is a {type(value).__name__}, and lists and other types may not leave")
    size = len(value.encode() if isinstance(value, str) else value) if isinstance(value, str | bytes) else _NUMBER_BYTES
    if size > most:
        raise Undeclared(f"value {name!r} has {size:,} bytes, and {most:,} are the most")
    if isinstance(value, float) and not math.isfinite(value):
        raise Undeclared(f"value {name!r} is not finite")
    return value


def _packed(content: RecordDict) -> bytes:
    """Records as they are kept on disk: Flower's protobuf message."""
    found: bytes = recorddict_to_proto(content).SerializeToString(deterministic=True)
    return found


class AppGate:
    """Decides which replies of an app leave one silo.

    ``approving`` is the digest that approves the app as it is now. ``unchanged`` says whether the files behind it are
    still those that this process has read; it is asked before each decision.
    """

    def __init__(self, app: "AppSettings", approving: bytes, log: EgressLog, unchanged: Callable[[], bool]) -> None:
        self._app, self._approving, self._log, self._unchanged = app, approving, log, unchanged
        self._one_at_a_time = threading.Lock()
        self._approved: bytes | None = None
        self._spent, self._answers = Used(), 0
        self._messages: dict[int, int] = {}
        self._began: dict[int, str] = {}
        self._question: tuple[LogEntry, bytes] | None = None
        """The message that was let in and has had no reply: its line, and its content."""
        log.follow(self._count)

    def admit(self, message: Message, run_id: int, code_hash: str) -> int | Error:
        """The number (from 1) of a message in its run, if it may be answered; else the refusal. Never raises."""

        def number() -> int:
            self._check_approved()
            kind, content = message.metadata.message_type, _packed(message.content)
            if kind not in self._app.replies:
                raise Undeclared(f"no reply to messages of type {kind!r} is declared")
            sent, today = self._messages.get(run_id, 0), datetime.now(UTC).date().isoformat()
            if sent >= self._app.messages_a_run:
                raise Refused(Refusal.LIMIT)
            if not sent and sum(day == today for day in self._began.values()) >= self._app.runs_a_day:
                raise Refused(Refusal.LIMIT)
            asked = hashlib.sha256(content).hexdigest()
            line = self._line(Event.ADMITTED, run_id, code_hash, round=sent + 1, kind=kind, request=asked)
            self._append(line)
            self._question = line, content
            return sent + 1

        return self._decided(number, run_id, code_hash)

    def release(self, reply: object, run_id: int, code_hash: str) -> AppAnswer:
        """The reply to send, if it is declared, or else the refusal. Never raises."""

        def answer() -> RecordDict:
            self._check_approved()
            (asked, question), self._question = self._question or (LogEntry(Event.REFUSED), b""), None
            if not asked.request or asked.run != run_id:
                raise Undeclared("a second reply to one message")
            if type(reply) is not Message or not reply.has_content():
                raise Undeclared("the app replied with an error, or with no message")
            content = declared(reply.content, self._app.replies[asked.kind])
            payload = _packed(content)
            digest = hashlib.sha256(payload).hexdigest()
            line = replace(asked, event=Event.RELEASED, bytes=len(payload), payload=digest)
            self._append(line, lambda: keep(self._log.path.parent, line, payload, question))
            return content

        return self._decided(answer, run_id, code_hash)

    def refuse(self, reason: Refusal, run_id: int, code_hash: str, *, send: bool = True) -> Error | None:
        """A logged refusal, for the agent's own reasons; None: nothing is sent. Never raises."""
        with self._one_at_a_time:
            refusal = self._refused(reason, run_id, code_hash)
            return refusal if send else None

    def spent(self) -> Used:
        """Messages that were let in (as rounds), and bytes that left."""
        return self._spent

    def answers(self) -> int:
        """How many replies left so far."""
        return self._answers

    def _count(self, entry: LogEntry) -> None:
        self._spent = self._spent.plus(entry)
        if entry.event in (Event.APPROVED, Event.REVOKED):
            self._approved = digest_in(entry)
        elif entry.event is Event.ADMITTED:
            self._messages[entry.run] = self._messages.get(entry.run, 0) + 1
            self._began.setdefault(entry.run, entry.time[:10])
        self._answers += entry.event is Event.RELEASED

    def _check_approved(self) -> None:
        if not self._approving or self._approved != self._approving or self._unchanged() is not True:
            raise Refused(Refusal.NOT_APPROVED)

    def _decided(self, decide: Callable[[], _T], run_id: int, code_hash: str) -> _T | Error:
        """The decision; any error is a refusal, and leaves no question open."""
        with self._one_at_a_time:
            why = ""
            try:
                return decide()
            except Refused as refused:
                reason, why = refused.reason, getattr(refused, "why", "")
            except BaseException:
                # Also what ends a process: the objects of an app may raise anything.
                logger.exception("The gate met an unexpected error")
                reason = Refusal.INTERNAL
            return self._refused(reason, run_id, code_hash, why)

    def _refused(self, reason: Refusal, run_id: int, code_hash: str, why: str = "") -> Error:
        logger.warning("No reply leaves: %s%s", reason.sentence, f" ({why})" * bool(why))
        asked = self._question[0] if self._question else LogEntry(Event.REFUSED)
        told = {"round": asked.round, "request": asked.request, "details": {"why": why} if why else {}}
        self._question = None
        try:
            self._log.append(self._line(Event.REFUSED, run_id, code_hash, reason=reason.name, **told))
        except Exception:
            logger.exception("The egress log cannot be written")
            reason = Refusal.NOT_LOGGED
        return Error(FIRST_CODE + reason.number, reason.sentence)

    def _line(self, event: Event, run_id: int, code_hash: str, **fields: Any) -> LogEntry:
        # It comes from the coordinator: what is no hash has no place in the log.
        code = code_hash if _HASH.fullmatch(code_hash) else "not a hash"
        return LogEntry(event, self._app.client, run=run_id, code=code, **fields)

    def _append(self, line: LogEntry, before: Callable[[], None] = lambda: None) -> None:
        """Write a line, and ``before`` that what it is about. Raises Refused (NOT_LOGGED)."""
        try:
            before()
            self._log.append(line)
        except OSError:
            logger.exception("The egress log cannot be written")
            raise Refused(Refusal.NOT_LOGGED) from None
