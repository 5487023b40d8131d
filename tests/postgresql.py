"""A PostgreSQL server of a test's own, by the programs that the machine has."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.patience import PATIENCE

PROGRAMS = {name: shutil.which(name) for name in ("initdb", "postgres")}
THERE = all(PROGRAMS.values()) and find_spec("adbc_driver_postgresql")
installed = pytest.mark.skipif(
    not THERE, reason="PostgreSQL (initdb, postgres) or the extra postgresql is not installed"
)


class Server(NamedTuple):
    """Where it listens, and the password of its superuser, ``owner``, and of a user who may only read, ``reader``."""

    port: int
    password: str

    @property
    def database(self) -> str:
        """Without a user or a password, as ``silo.toml`` has it."""
        return f"postgresql://127.0.0.1:{self.port}/postgres"

    def run(self, *statements: str) -> None:
        """Run statements as the owner."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self._as_owner, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    @property
    def _as_owner(self) -> str:
        return f"postgresql://owner:{self.password}@127.0.0.1:{self.port}/postgres"


@contextmanager
def server() -> Iterator[Server]:
    """Start one, and stop it."""
    # It refuses to run as root, and another user does not enter pytest's own folders.
    other: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    place = Path(tempfile.mkdtemp(prefix="fedct-postgresql-"))
    password = secrets.token_hex(8)
    (place / "password").write_text(password, "utf-8")
    if other:
        for path in (place, place / "password"):
            shutil.chown(path, other["user"], other["group"])
    try:
        subprocess.run(
            [PROGRAMS["initdb"], "-D", place / "data", "-U", "owner", "--auth=scram-sha-256",
             f"--pwfile={place / 'password'}", "--no-sync", "--encoding=UTF8", "--no-locale"],
            check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE, cwd=place, **other,
        )  # fmt: skip
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                [PROGRAMS["postgres"], "-D", place / "data", "-k", place, "-h", "127.0.0.1", "-p", str(port), "-F"],
                stdout=log, stderr=log, cwd=place, **other,
            )  # fmt: skip
        try:
            found = Server(port, password)
            _wait(found, place / "log")
            found.run(f"CREATE ROLE reader LOGIN PASSWORD '{password}'", "CREATE ROLE stranger")
            yield found
        finally:
            # At once, with the connections that are left.
            process.send_signal(2)
            process.wait(PATIENCE)
    finally:
        shutil.rmtree(place)


def _wait(found: Server, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found.run("SELECT 1")
            return
        except Exception:
            if time.monotonic() > end:
                pytest.fail(f"PostgreSQL does not start:\n{log.read_text('utf-8')}")
            time.sleep(0.1)
