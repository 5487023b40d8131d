"""Opening of the silo that a message is for, a real one behind its gate or a simulated one."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from flwr.app import Context

from fedct_flwr import silo
from fedct_flwr.config.run import NodeConfig, RunConfig
from fedct_flwr.silo.context import SiloContext
from fedct_flwr.types import ConfigError, SiloName

if TYPE_CHECKING:
    from fedct_flwr.runs.run_folder import RunFolder
    from fedct_flwr.silo.own import OwnSilo

WITHOUT_GATE: Final = "FEDCT_WITHOUT_GATE"
"""Set to 1, a real silo answers without a gate and without a log: for measurements and tests only."""

_Config = TypeVar("_Config", RunConfig, NodeConfig)

_AFTERWARDS: Final[ContextVar[list[Callable[[], None]] | None]] = ContextVar("afterwards", default=None)
"""Work for after the answer has left; None outside of ``gated``."""
_OWN: Final["ContextVar[OwnSilo | None]"] = ContextVar("own", default=None)
"""The silo of the gate, as it has read it."""


def silo_named(context: Context) -> SiloName:
    """The silo that a message is for, before anything else is read. Raises ConfigError or DataError."""
    node = _node(context)
    if node.silo_file:
        return _own(node.silo_file).config.silo

    return silo.simulated_silo(_run_config(context), node.partition_id or 0).name


def open_silo_context(context: Context, *, resumable: bool = True) -> SiloContext:
    """All that is needed to answer a message. Raises ConfigError or DataError.

    ``resumable``: what a simulated silo keeps must outlast one of Flower's runs. A real silo answers only within
    ``gated``: a stock SuperNode, which runs this app by itself, has no gate and writes no log.
    """
    node = _node(context)
    if node.silo_file:
        if not (_AFTERWARDS.get() is not None or os.environ.get(WITHOUT_GATE) == "1"):
            raise ConfigError(
                "a real silo answers only through its gate: start its agent with 'fedct silo start', and the SuperNode "
                "with 'fedct silo connect'"
            )

        return silo.own_context(_own(node.silo_file), context)

    return silo.simulated_context(_run_config(context), node.partition_id or 0, context, resumable=resumable)


def run_of_simulation(context: Context) -> "RunFolder | None":
    """The run's folder, if the silo is a simulated one and has it on this machine; a real silo has none."""
    if _node(context).silo_file:
        return None

    return silo.run_folder_of(_run_config(context), context.run_id)


@contextmanager
def gated(own: "OwnSilo | None" = None) -> Iterator[list[Callable[[], None]]]:
    """Mark this thread as gated: a real silo (``own``) answers, and the gate does further work once the answer left."""
    afterwards: list[Callable[[], None]] = []
    before = _AFTERWARDS.set(afterwards), _OWN.set(own)
    try:
        yield afterwards
    finally:
        _AFTERWARDS.reset(before[0])
        _OWN.reset(before[1])


def once_left(work: Callable[[], None]) -> None:
    """Do some work once the answer has left: later, where there is a gate, and otherwise at once."""
    afterwards = _AFTERWARDS.get()
    if afterwards is None:
        work()
    else:
        afterwards.append(work)


def _own(silo_file: Path) -> "OwnSilo":
    """The silo of a message: the gate's, or without an agent the one that was read first. Raises ConfigError."""
    return _OWN.get() or silo.read_once(silo_file)


def _run_config(context: Context) -> RunConfig:
    """The run config of a message. Raises ConfigError."""
    return _read_once(RunConfig, context.run_config)


def _node(context: Context) -> NodeConfig:
    """The node config of a message. Raises ConfigError."""
    return _read_once(NodeConfig, context.node_config)


def _read_once(kind: type[_Config], raw: Mapping[str, Any]) -> _Config:
    """A process reads each config once, however many messages and silos it serves."""
    return _read(kind, tuple((name, type(value), value) for name, value in raw.items()))  # type: ignore[return-value]


@lru_cache(maxsize=2048)
def _read(kind: type[RunConfig | NodeConfig], items: tuple[tuple[str, type, Any], ...]) -> RunConfig | NodeConfig:
    return kind.from_flower({name: value for name, _, value in items})
