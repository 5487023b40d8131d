"""Tables in memory as a federation, for ``simulate()``. No copy of a record is written for a run in this process.

The run config has no place for tables: it holds their digest, by which they are found here. Other processes of this
machine find them in files, in a folder that the environment names.
"""

import hashlib
import io
import os
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.parquet

from fedct_flwr.config import RunConfig, TableSettings
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.from_tables import Source, federation
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.types import ConfigError, SiloName

FOLDER: Final = "FEDCT_TABLES_FOLDER"
"""Environment variable: a folder in which ``Tables.write`` has left tables for other processes."""

_PUBLIC: Final = "public.parquet"
_TESTS: Final = "tests"


class _InMemory(TableSettings):
    """Tables in memory have no settings of their own, nor a file to name them."""

    place: ClassVar[str] = ""


_TOLD: Final = _InMemory()


class Tables:
    """The public table, unless it is drawn; one for each silo with the label column; perhaps some silos' test tables.

    They are found as long as this object lives.
    """

    def __init__(
        self,
        public: pa.Table | None,
        silos: Mapping[SiloName, pa.Table],
        tests: Mapping[SiloName, pa.Table] = MappingProxyType({}),
    ) -> None:
        self.public = public
        self.silos = dict(silos)
        self.tests = {silo: tests[silo] for silo in self.silos if silo in tests}
        _HELD[self.digest] = self

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the silos' names and all tables, in hexadecimal: the same for the same contents."""
        digest = hashlib.sha256(b"fedct tables 1")
        tests = [(f"test of {silo}", table) for silo, table in self.tests.items()]
        for name, table in [*([("", self.public)] if self.public else []), *self.silos.items(), *tests]:
            digest.update(f" {len(name)} {name}".encode())
            with pa.ipc.new_stream(_Hashed(digest), table.schema) as stream:
                # In one piece: how a table is cut into pieces says nothing of what it holds.
                stream.write_table(table.combine_chunks(), max_chunksize=max(1, table.num_rows))
        return digest.hexdigest()

    def write(self, folder: Path) -> None:
        """Write the tables below a folder, for other processes to find."""
        below = folder / self.digest
        below.mkdir(mode=0o700, parents=True)
        if self.public:
            pa.parquet.write_table(self.public, below / _PUBLIC)
        for position, (silo, table) in enumerate(self.silos.items()):
            # The order of the silos counts.
            pa.parquet.write_table(table, below / f"{position:06}-{silo}.parquet")
        (below / _TESTS).mkdir()
        for silo, table in self.tests.items():
            pa.parquet.write_table(table, below / _TESTS / f"{silo}.parquet")


class _Hashed(io.RawIOBase):
    """A file that only hashes what is written to it."""

    def __init__(self, digest: "hashlib._Hash") -> None:
        self._digest = digest

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return len(content)


_HELD: Final[WeakValueDictionary[str, Tables]] = WeakValueDictionary()


def load(config: RunConfig) -> FederatedDataset:
    """The tables whose digest is the run config's ``data-dir``, as a federation.

    Raises ConfigError where this process has no such tables, and DataError as ``from_tables.federation``.
    """
    folder = Path(os.environ.get(FOLDER, "")) / config.data_dir
    public: pa.Table | Path | None
    silos: Mapping[SiloName, pa.Table | Path]
    tests: Mapping[SiloName, pa.Table | Path]
    if held := _HELD.get(config.data_dir):
        public, silos, tests = held.public, held.silos, held.tests
    elif FOLDER in os.environ and folder.is_dir():
        public = folder / _PUBLIC if (folder / _PUBLIC).is_file() else None
        silos = {path.stem.partition("-")[2]: path for path in sorted(folder.glob("[0-9]*.parquet"))}
        own = {silo: folder / _TESTS / f"{silo}.parquet" for silo in silos}
        tests = {silo: path for silo, path in own.items() if path.is_file()}
    else:
        raise ConfigError("the tables of this run were in the memory of another process: hand them to simulate() again")
    return federation(
        config.study,
        "the silos' tables",
        None if public is None else _source("the public table", public),
        {silo: _source(f"the table of silo {silo!r}", table) for silo, table in silos.items()},
        config,
        leave_out="leave the silo out",
        tests={silo: _source(f"the test table of silo {silo!r}", table) for silo, table in tests.items()},
    )


def _source(where: str, table: pa.Table | Path) -> Source:
    return Source(where, partial(read_table, table) if isinstance(table, Path) else lambda text: table, _TOLD)
