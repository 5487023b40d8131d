"""Flower's command line, run for the user: offline, with a home of its own, and with errors that are one sentence."""

import importlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Final, Self

import httpx
import tomli_w
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from google.protobuf.message import DecodeError

from fedct_flwr.flower.runtime_client import MEDIA_TYPE, version_headers
from fedct_flwr.types import RunError

BIN: Final = Path(sys.executable).parent
# Everything runs offline: dependencies are installed already, and nothing is reported to anybody.
OFFLINE: Final = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
APP_NAME: Final = "fedct-flwr"

_CONNECTION: Final = "superlink"
_KEY_IN_USE: Final = 23
_UNKNOWN_RUN: Final = 16
_ANSWER_SECONDS: Final = 120.0

_APPS: Final = ("server_app", "client_app")


def stage_app(app: Path, *, whole: bool = True) -> None:
    """Copy the app to a folder that Flower can bundle; without the ``whole`` only the two apps of a few lines."""
    for package in ("fedct_flwr", *_APPS) if whole else _APPS:
        source = Path(str(importlib.import_module(package).__file__)).parent
        shutil.copytree(source, app / package, ignore=shutil.ignore_patterns("__pycache__"))
    bundled = Path(str(resources.files("fedct_flwr.cli").joinpath("app.toml")))
    checkout = Path(__file__).parents[2] / "pyproject.toml"
    described = app / "pyproject.toml"
    shutil.copy(bundled if bundled.exists() else checkout, described)
    if whole:
        return
    project = tomllib.loads(described.read_text(encoding="utf-8"))
    flower = project["tool"]["flwr"]["app"]
    # Flower refuses patterns that no file has.
    flower["fab-include"] = [f"{package}/*.py" for package in _APPS]
    del flower["fab-exclude"]
    about = {key: project["project"][key] for key in ("name", "version", "description", "license", "dependencies")}
    described.write_text(tomli_w.dumps({"project": about, "tool": {"flwr": project["tool"]["flwr"]}}), encoding="utf-8")


_LOOPBACK: Final = "localhost,127.0.0.1,::1"


def environment(home: Path) -> dict[str, str]:
    """Environment variables for Flower's programs, with this home. No proxy is for calls of this machine to itself."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    direct = ",".join(filter(None, [os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), _LOOPBACK]))
    without = dict.fromkeys(("no_proxy", "NO_PROXY", "no_grpc_proxy"), direct)
    return {**os.environ, **OFFLINE, **without, "FLWR_HOME": str(home), "PATH": path}


class NoAnswer(RunError):
    """The output of ``flwr`` could not be understood; another try may help."""


class Unreachable(NoAnswer):
    """The SuperLink does not answer."""


class RunOver(RunError):
    """The run is over for the SuperLink, and the coordinator's app will not say how it ended."""


class _Declined(RunError):
    """The SuperLink has answered with an error, whose gRPC status is ``code``."""

    def __init__(self, sentence: str, code: int | None) -> None:
        super().__init__(sentence)
        self.code = code


class SuperLink:
    """Requests to a running SuperLink, made by the ``flwr`` command. A context manager.

    ``address`` is ``host:port``; ``authority`` the certificate that has signed the SuperLink's. All methods raise
    NoAnswer, Unreachable where nothing answers, and RunError if it declines.
    """

    def __init__(self, address: str, authority: Path) -> None:
        self.address = address
        self._authority = authority.absolute()

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="fedct-")
        self._home = Path(self._folder.name) / "flwr"
        self._home.mkdir()
        connection = {"address": self.address, "root-certificates": str(self._authority)}
        config = {"superlink": {"default": _CONNECTION, _CONNECTION: connection}}
        (self._home / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def register(self, public_key: Path, name: str) -> bool:
        """Admit the node with this key, under a name. Returns whether it is new."""
        try:
            self._ask("supernode", "register", str(public_key), _CONNECTION, "--name", name)
        except _Declined as declined:
            if declined.code == _KEY_IN_USE:
                return False
            raise
        return True

    def unregister(self, node_id: int) -> None:
        """Admit a node no longer."""
        self._ask("supernode", "unregister", str(node_id), _CONNECTION)

    def start(self, settings: Mapping[str, Any]) -> int:
        """Start a run of the app with these run-config values. Returns its id."""
        app, values = Path(self._folder.name) / APP_NAME, Path(self._folder.name) / "run-config.toml"
        if not app.exists():
            stage_app(app, whole=False)
        values.write_text(tomli_w.dumps(dict(settings)), encoding="utf-8")
        answer = self._ask("run", str(app), _CONNECTION, "--run-config", str(values))
        with _understood("run"):
            return int(answer["run-id"])

    def status(self, run_id: int) -> str:
        """Pending, starting, running, or finished:completed, finished:failed, finished:stopped."""
        try:
            answer = self._ask("list", _CONNECTION, "--run-id", str(run_id))
        except _Declined as declined:
            if declined.code == _UNKNOWN_RUN:
                raise RunOver(
                    f"the SuperLink at {self.address} knows this run no longer, as its database is another one: "
                    "register the silos' keys again with 'fedct coordinator register'"
                ) from None
            raise
        with _understood("list"):
            return str(answer["runs"][0]["status"])

    def unfinished(self) -> list[int]:
        """The ids of all runs that are not over."""
        answer = self._ask("list", _CONNECTION)
        with _understood("list"):
            runs = answer["runs"]
            return sorted(int(run["run-id"]) for run in runs if not str(run["status"]).startswith("finished"))

    def stop(self, run_id: int) -> None:
        """End a run."""
        self._ask("stop", str(run_id), _CONNECTION)

    def log(self, run_id: int) -> str:
        """Output of the coordinator's app so far; empty if it cannot be read."""
        done = self._flwr("log", str(run_id), _CONNECTION, "--show")
        return done.stdout if done.returncode == 0 else ""

    def _ask(self, *command: str) -> dict[str, Any]:
        answer = self._flwr(*command, "--format", "json")
        try:
            # Flower's own messages before the JSON are not part of the answer.
            content: dict[str, Any] = json.loads(answer.stdout[answer.stdout.index("{") :])
            success = bool(content["success"])
        except (ValueError, KeyError, TypeError):
            raise NoAnswer(f"'flwr {command[0]}' gave no answer: {_one_line(answer.stderr or answer.stdout)}") from None
        if success:
            return content
        message = str(content.get("error-message", ""))
        if "Connection to the SuperLink is unavailable" in message:
            raise Unreachable(
                f"no SuperLink answers at {self.address} with a certificate that {self._authority} has signed: start "
                "it, or correct the address"
            )
        code = re.search(r"\[code: (\d+)\] *", message)
        reason = message[code.end() :] if code else message.rpartition("\n\n")[2]
        raise _Declined(
            f"the SuperLink at {self.address} declines: {_one_line(reason)}", int(code[1]) if code else None
        )

    def _flwr(self, *command: str) -> subprocess.CompletedProcess[str]:
        arguments = [str(BIN / "flwr"), *command]
        with subprocess.Popen(
            arguments, env=environment(self._home), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                output, errors = process.communicate(timeout=_ANSWER_SECONDS)
            except BaseException as error:
                # Waited for, unlike what subprocess.run kills when it is interrupted.
                process.kill()
                process.wait()
                if isinstance(error, subprocess.TimeoutExpired):
                    unheard = f"no SuperLink answers at {self.address} within {_ANSWER_SECONDS:g} s"
                    raise Unreachable(unheard) from None
                raise
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


@contextmanager
def _understood(command: str) -> Iterator[None]:
    """Raise NoAnswer for an answer in which something is missing."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError):
        raise NoAnswer(f"'flwr {command}' gave an answer in which something is missing") from None


def _one_line(text: str) -> str:
    return " ".join(text.split())[-300:] or "nothing was said"


_TIMEOUT_SECONDS: Final = 30.0
_PATIENCE: Final = 2
"""Heartbeat intervals that Flower lets pass before it counts a node as gone."""


@dataclass(frozen=True)
class Node:
    """``key`` in OpenSSH's form. ``seen``: its last heartbeat, or up to a minute after it; None before the first."""

    key: bytes
    node_id: int
    online: bool
    seen: datetime | None


def list_nodes(address: str, authority: Path) -> list[Node]:
    """All nodes that are registered. Raises Unreachable, NoAnswer, or RunError if the SuperLink declines."""
    from flwr.proto.control_pb2 import ListNodesRequest, ListNodesResponse

    headers = {"accept": MEDIA_TYPE, "content-type": MEDIA_TYPE, **version_headers("flwr CLI")}
    try:
        context = ssl.create_default_context(cafile=str(authority))
        found = httpx.post(
            f"https://{address}/v1/control/list-nodes", content=ListNodesRequest().SerializeToString(),
            headers=headers, verify=context, timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
        answer = ListNodesResponse.FromString(found.raise_for_status().content)
    except httpx.TransportError:
        raise Unreachable(
            f"no SuperLink answers at {address} with a certificate that {authority} has signed: start it, or correct "
            "the address"
        ) from None
    except httpx.HTTPStatusError as error:
        why = ": see its log, and whether the disk with its database is full" * error.response.is_server_error
        status = error.response.status_code
        raise RunError(f"the SuperLink at {address} declines with HTTP status {status}{why}") from None
    except (ValueError, DecodeError):
        raise NoAnswer(f"what answers at {address} is no SuperLink") from None
    nodes = []
    for node in answer.nodes_info:
        if node.unregistered_at:
            continue
        online, until = node.status == "online", node.online_until
        last = until - (_PATIENCE * node.heartbeat_interval if online else 0)
        try:
            key = load_pem_public_key(node.public_key).public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        except (ValueError, UnsupportedAlgorithm):
            continue
        seen = datetime.fromtimestamp(last, UTC) if until else None
        nodes.append(Node(key, node.node_id, online, seen))
    return nodes
