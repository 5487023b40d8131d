"""The gate of any Flower app: a declared reply leaves once, built anew; nothing else does, and the log says why."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from fedct_flwr.config.app import AppSettings
from fedct_flwr.hospital.app_gate import FIRST_CODE, AppGate, declared
from fedct_flwr.hospital.approval import revoke, terms_digest
from fedct_flwr.hospital.egress_log import FOLDER
from fedct_flwr.hospital.log_entry import Event, is_revoked
from fedct_flwr.types import Refusal, Refused
from tests.hospital.apps import APPS, SKLEARN, AppOnDisk, good_reply

pytestmark = pytest.mark.usefixtures("in_a_run")
RUN, CODE = 11, "c0de" * 16


@pytest.fixture
def silo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppOnDisk:
    monkeypatch.syspath_prepend(APPS)
    made = AppOnDisk(tmp_path)
    made.approve()
    return made


@pytest.fixture
def gate(silo: AppOnDisk) -> Iterator[AppGate]:
    with silo.log() as log:
        yield AppGate(silo.config.app, terms_digest(silo.config, None), log, lambda: not is_revoked(silo.config.state))


def question(kind: str = "train") -> Message:
    return Message(RecordDict({"config": ConfigRecord({"lr": 0.1})}), dst_node_id=1, message_type=kind)


def asked(gate: AppGate, content: RecordDict, run: int = RUN) -> RecordDict | Error:
    """What leaves in reply to one message."""
    message = question()
    admitted = gate.admit(message, run, CODE)
    return admitted if isinstance(admitted, Error) else gate.release(Message(content, reply_to=message), run, CODE)


def code_of(answer: object) -> Refusal:
    """The reason of a refusal, which has a fixed sentence and no other text."""
    assert isinstance(answer, Error)
    reason = Refusal.from_number(answer.code - FIRST_CODE)
    assert answer.reason == reason.sentence
    return reason


def raw(data: bytes, dtype: str = "float64", shape: tuple[int, ...] = (1,), stype: str = "numpy.ndarray") -> Array:
    return Array(dtype, shape, stype, data)


def npy(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, value, **options)
    return file.getvalue()


def array(value: Any) -> Callable[[RecordDict], None]:
    """Exchanges the declared vector of one float64."""

    def change(reply: RecordDict) -> None:
        reply["arrays"]["1"] = value if isinstance(value, Array) else Array(value)

    return change


def metric(key: str, value: Any) -> Callable[[RecordDict], None]:
    return lambda reply: reply["metrics"].__setitem__(key, value)


def huge() -> bytes:
    """A header that tells of far more than there is."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2**62, 4)})
    return file.getvalue()


FORBIDDEN: dict[str, Callable[[RecordDict], None]] = {
    "a record more": lambda reply: reply.__setitem__("more", MetricRecord({"a": 1})),
    "a record less": lambda reply: reply.__delitem__("metrics"),
    "another kind of record": lambda reply: reply.__setitem__("metrics", ConfigRecord({"num-examples": 60})),
    "an array more": lambda reply: reply["arrays"].__setitem__("2", Array(np.zeros(1))),
    "an array less": lambda reply: reply["arrays"].__delitem__("0"),
    "a dtype": array(np.zeros(1, np.float32)),
    "another byte order": array(np.zeros(1, ">f8")),
    "a shape": array(np.zeros(2)),
    "an axis more": array(np.zeros((1, 1))),
    "text": array(np.array(["Erika"])),
    "a pickle": array(raw(npy(np.array([{"a": 1}], object), allow_pickle=True))),
    "bytes behind an array": array(raw(npy(np.zeros(1)) + b"Erika")),
    "too few bytes": array(raw(npy(np.zeros(1))[:-1])),
    "a huge header": array(raw(huge())),
    "no format of NumPy's": array(raw(b"Erika")),
    "another serialization": array(raw(npy(np.zeros(1)), stype="torch.tensor")),
    "an archive of arrays": array(raw(b"PK\x03\x04")),
    "not a number": array(np.array([np.nan])),
    "an infinite number": array(np.array([np.inf])),
    "a metric more": metric("records", 3),
    "a metric less": lambda reply: reply["metrics"].__delitem__("train-loss"),
    "a metric above its range": metric("train-loss", 100.5),
    "a metric below its range": metric("num-examples", 0),
    "a metric that is no number": metric("train-loss", float("nan")),
    "a metric that is infinite": metric("train-loss", float("inf")),
    "a fraction for a whole number": metric("num-examples", 60.5),
    "a list of metrics": metric("train-loss", [0.1, 0.2]),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_forbidden_reply_never_leaves(gate: AppGate, silo: AppOnDisk, name: str) -> None:
    reply = good_reply()
    FORBIDDEN[name](reply)
    assert code_of(asked(gate, reply)) is Refusal.POLICY
    line = silo.entries()[-1]
    assert (line.event, line.reason, line.bytes, line.payload) == (Event.REFUSED, "POLICY", 0, "")
    assert line.details["why"], "the silo's own log says what was wrong"
    assert gate.answers() == 0
    assert not (silo.config.state / FOLDER).exists()


def test_a_declared_reply_leaves_and_is_kept_and_a_second_one_never_leaves(gate: AppGate, silo: AppOnDisk) -> None:
    assert asked(gate, good_reply()) == good_reply()
    ((line, payload),) = silo.released()
    assert payload == good_reply()
    assert (line.run, line.round, line.kind, line.code) == (RUN, 1, "train", CODE)
    assert [entry.event for entry in silo.entries()] == [Event.APPROVED, Event.ADMITTED, Event.RELEASED]
    assert code_of(gate.release(Message(good_reply(), reply_to=question()), RUN, CODE)) is Refusal.POLICY
    # Nor a reply in the place of one that was refused.
    gate.admit(question(), RUN, CODE)
    gate.refuse(Refusal.INTERNAL, RUN, CODE)
    assert code_of(gate.release(Message(good_reply(), reply_to=question()), RUN, CODE)) is Refusal.POLICY
    # Nor one of another run.
    gate.admit(question(), RUN, CODE)
    assert code_of(gate.release(Message(good_reply(), reply_to=question()), RUN + 1, CODE)) is Refusal.POLICY
    assert len(silo.released()) == 1


def test_limits_hold_over_restarts_and_runs(gate: AppGate, silo: AppOnDisk) -> None:
    for _ in range(SKLEARN["messages-a-run"]):
        assert isinstance(asked(gate, good_reply()), RecordDict)
    assert code_of(asked(gate, good_reply())) is Refusal.LIMIT
    again = AppGate(silo.config.app, terms_digest(silo.config, None), gate._log, lambda: True)
    assert code_of(asked(again, good_reply())) is Refusal.LIMIT
    # A run counts by its first message, whatever became of it; runs that have begun go on.
    assert isinstance(again.admit(question(), RUN + 1, CODE), int)
    assert code_of(asked(again, good_reply(), RUN + 2)) is Refusal.LIMIT
    assert isinstance(asked(again, good_reply(), RUN + 1), RecordDict)


def test_nothing_leaves_without_an_approval_of_app_and_declaration(
    gate: AppGate, silo: AppOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = terms_digest(silo.config, None)
    silo.write({**SKLEARN, "messages-a-run": 5})
    assert terms_digest(silo.config, None) != before
    other = AppGate(silo.config.app, terms_digest(silo.config, None), gate._log, lambda: True)
    assert code_of(asked(other, good_reply())) is Refusal.NOT_APPROVED
    silo.write(SKLEARN)
    assert terms_digest(silo.config, None) == before
    package = tmp_path / "elsewhere" / "plain_sklearn"
    package.mkdir(parents=True)
    (package / "client_app.py").write_text("# another app\n")
    monkeypatch.setattr("sys.path", [str(package.parent)])
    monkeypatch.delitem(__import__("sys").modules, "plain_sklearn", raising=False)
    assert terms_digest(silo.config, None) != before
    # A withdrawal between question and reply keeps the reply here.
    message = question()
    assert gate.admit(message, RUN, CODE) == 1
    revoke(gate._log)
    assert code_of(gate.release(Message(good_reply(), reply_to=message), RUN, CODE)) is Refusal.NOT_APPROVED
    assert code_of(asked(gate, good_reply())) is Refusal.NOT_APPROVED
    assert silo.released() == []


def forms(**records: Any) -> Any:
    raw = {"client": "a:b", "messages-a-run": 1, "runs-a-day": 1, "replies": {"train": records}}
    return AppSettings.read(raw, "silo.toml").replies["train"]


def test_what_leaves_is_built_anew() -> None:
    declaration = forms(
        arrays={"arrays": {"b": {"dtype": "bool", "shape": [2]}, "a": {"dtype": "float64", "shape": [2, 3]}}},
        metrics={"metrics": {"loss": [0.0, 9.0]}},
    )
    # Spare bits of truth values, blanks in a header, an order of columns, of keys and of records.
    padded = npy(np.zeros(2, bool))[:-2].replace(b", } ", b",}  ") + b"\x41\x00"
    by_columns = Array(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    reply = RecordDict({"metrics": MetricRecord({"loss": np.float64(1)})})
    reply["arrays"] = ArrayRecord({"a": by_columns, "b": raw(padded, "Erika", (7,))})
    found = declared(reply, declaration)
    assert list(found) == ["arrays", "metrics"]
    assert list(found["arrays"]) == ["b", "a"]
    assert found["arrays"]["b"] == Array(np.array([True, False]))
    assert found["arrays"]["a"] == Array(np.arange(6.0).reshape(2, 3))
    assert type(found["metrics"]["loss"]) is float


def test_objects_that_lie_are_read_once() -> None:
    class Liar(float):
        def __float__(self) -> float:
            return 1e9

        def __le__(self, other: object) -> bool:
            return True

        __ge__ = __le__

    declaration = forms(metrics={"metrics": {"loss": [0.0, 9.0]}})
    for record in (MetricRecord({"loss": Liar(1)}), type("Other", (MetricRecord,), {})({"loss": 1.0})):
        with pytest.raises(Refused):
            declared(RecordDict({"metrics": record}), declaration)
    reply = RecordDict({"metrics": MetricRecord({"loss": 1.0})})
    reply.__dict__["items"] = lambda: [("metrics", reply["metrics"]), ("Erika", reply["metrics"])]
    with pytest.raises(Refused):
        declared(reply, declaration)


def test_a_cap_counts_names_and_numbers() -> None:
    declaration = forms(arrays={"most-bytes": 34}, config={"config": {"note": 5, "number": 8}})
    arrays, config = ArrayRecord({"ab": Array(np.zeros(2))}), ConfigRecord({"note": "hello", "number": 7})
    assert declared(RecordDict({"arrays": arrays, "config": config}), declaration)["config"] == config
    for wrong in (
        {"arrays": ArrayRecord({"abcde": Array(np.zeros(2))})},
        {"arrays": ArrayRecord({"a": Array(np.zeros(3))})},
        {"arrays": ArrayRecord({"a": Array(np.array(["x"]))})},
        {"arrays": ArrayRecord({"a": Array(np.zeros((1, 2, 3, 0)))})},
        {"arrays": ArrayRecord({"a": Array(np.zeros(1, np.longdouble))})},
        {"config": ConfigRecord({"note": "héllo", "number": 7})},
        {"config": ConfigRecord({"note": ["a"], "number": 7})},
        {"config": ConfigRecord({"note": b"123456", "number": 7})},
        {"config": ConfigRecord({"note": "hello", "number": float("nan")})},
        {"config": ConfigRecord({"note": "hello", "number": -float("inf")})},
    ):
        with pytest.raises(Refused):
            declared(RecordDict({"arrays": arrays, "config": config, **wrong}), declaration)
