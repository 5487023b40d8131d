"""A silo's records by a query: one SELECT for PostgreSQL, SQLite or DuckDB, which also reads a folder of Parquet.

The database only reads: one statement, in a read-only transaction or of a database opened so, within a time and an
amount of memory. DuckDB reads no other file. In PostgreSQL the user's rights limit a query: a superuser is refused.

Formal guarantee: an error holds words of a database only of a statement of which it has not run any part yet, so they
name tables and columns of the query. A PIVOT makes columns of values: an error names a column of the result only where
the query's text or the settings do. No error holds a record, an address, a user's name or a password.
"""

import hashlib
import re
import resource
import sqlite3
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv

from fedct_flwr.config.silo import MOST_SQL, DataSettings, is_server
from fedct_flwr.datasets.dates import is_dated
from fedct_flwr.datasets.delimited import KindError
from fedct_flwr.datasets.tables import LEFT_OUT, as_names, is_number, is_text, repeated_names, unrounded, usual
from fedct_flwr.text.printable import count, quoted
from fedct_flwr.types import DataError

_MOST_BYTES: Final = 1 << 30
"""Bytes of memory for a result."""
_MOST_MEMORY: Final = 2 * _MOST_BYTES
"""Bytes of memory that reading it may take on top of what this process has."""
_ROWS: Final = 1 << 14
"""Fetched at a time, at most."""
_FEW: Final = 1 << 9
"""Fetched at a time where texts may be long."""
_MOST_CELL: Final = 1 << 20
"""Most bytes of a cell in SQLite."""
_CONNECT_SECONDS: Final = 10
_GRACE_SECONDS: Final = 1.0
"""Seconds after which PostgreSQL ends a statement that this process has given up."""
_LONGEST: Final = 200
# No comment within a comment: PostgreSQL takes it for one, and the others do not.
_SELECT: Final = re.compile(r"(?>\s|--[^\n]*\n|/\*(?:(?!/\*).)*?\*/)*+(?:select|with)\b", re.IGNORECASE | re.DOTALL)
_SQLITE: Final = b"SQLite format 3\0"
_QUOTED: Final = re.compile(r"""["'`](.*?)["'`]""")
_TOO_MUCH: Final = re.compile("out of memory|too big|could not allocate|failed to allocate", re.IGNORECASE)
_TOO_LARGE: Final = "needs too much memory: narrow it, to fewer records or shorter texts"
_STATE: Final = re.compile(r"SQLSTATE: (\w{5})")
Tables = Generator[pa.Table, None, None]
Stops = list[Callable[[], None]]
"""Functions that end a running statement, called by another thread."""


class FailedOnRecordsError(DataError):
    """A query that its database takes failed as it ran: a record does not fit it."""


def query_text(data: DataSettings) -> str:
    """The SQL of a query. Raises DataError for a file that holds no SELECT, or more than a person reads."""
    path = data.source
    try:
        content = data.sql
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise KindError(
            f"cannot read the query {path} ({error.strerror}): correct query under [data] in silo.toml"
        ) from None
    except UnicodeDecodeError:
        raise KindError(f"the query {path} is not UTF-8: save it as that") from None
    if len(content) > MOST_SQL or not _SELECT.match(text):
        raise KindError(
            f"the query {path} is no SELECT: write one SELECT, or WITH and SELECT, of at most {MOST_SQL:,} bytes"
        )
    return text


def query_digest(data: DataSettings) -> str:
    """SHA-256 of a query's text in hexadecimal digits. Raises DataError like ``query_text``."""
    return hashlib.sha256(query_text(data).encode()).hexdigest()


def read_query(data: DataSettings, columns: Collection[str] = (), *, each: bool = False) -> pa.Table:
    """Result of the query in ``silo.toml``, sorted by its columns, as a database promises no order.

    Columns are numbers, truth values, text or dates; with a study's ``columns`` no others than those that it, the
    settings or the query's text name. Raises DataError for a query that fails, that gives too much or takes too long,
    for a database that is away, and for a missing driver. ``each``: the type of a cell depends on no other record.
    """
    path, seconds = data.source, data.query_timeout
    # Drivers write more behind it, which a comment at its end would take in.
    sql = f"{query_text(data).rstrip().removesuffix(';')}\n"
    outcome: Future[pa.Table] = Future()
    stops: Stops = []

    def work() -> None:
        try:
            with _bounded(path):
                outcome.set_result(_gathered(_reader(data.database)(data, sql, stops, each), data, sql, columns))
        except BaseException as error:
            outcome.set_exception(error)

    # A thread that no exit waits for: a driver cannot be interrupted while its server is silent.
    threading.Thread(target=work, name="query", daemon=True).start()
    try:
        table = outcome.result(seconds)
    except TimeoutError:
        for stop in stops:
            stop()
        fix = "narrow it, or raise query-timeout under [data] in silo.toml"
        raise KindError(f"the query {path} has no answer within {seconds:g} s: {fix}") from None
    order = [(field.name, "ascending") for field in table.schema if not pa.types.is_null(field.type)]
    return table.sort_by(order) if order else table


def result_of(data: DataSettings, table: pa.Table | None) -> dict[str, Any]:
    """A query for the log: SHA-256 of its text and of its result, and the number of records; empty without a query."""
    if not data.query or table is None:
        return {}
    digest = hashlib.sha256(b"fedct result 1 ")
    # As text: two databases give the same numbers as different types.
    for batch in table.combine_chunks().to_batches(_ROWS):
        pyarrow.csv.write_csv(batch, written := pa.BufferOutputStream())
        digest.update(written.getvalue())
    # With those of patients who have opted out: two lines of a log must not tell how many they are.
    records = table.num_rows + int((table.schema.metadata or {}).get(LEFT_OUT, 0))
    return {"query": query_digest(data), "result": digest.hexdigest(), "records": records}


def _is_named(name: str, sql: str, known: Collection[str] = ()) -> bool:
    """Whether an error may quote a name: it is ``known``, or in the query's text and not within a longer word."""
    word = rf"(?!(?<=\w)\w){re.escape(name)}(?<!\w(?=\w))"
    return name in known or bool(name.strip() and re.search(word, sql, re.IGNORECASE))


def _gathered(tables: Tables, data: DataSettings, sql: str, columns: Collection[str]) -> pa.Table:
    """All of a result, in types that every reader of tables knows. Raises DataError."""
    parts: list[pa.Table] = []
    room, gives = _MOST_BYTES, f"the query {data.source} gives"
    with closing(tables):
        for part in tables:
            room -= part.nbytes
            if room < 0:
                raise KindError(f"{gives} more than {_MOST_BYTES >> 30} GiB: narrow it")
            parts.append(part)
    names, known = parts[0].column_names, {data.label, *columns, *chain(*data.tables.named.values())}
    named = [_is_named(name, sql, known) for name in names]
    shown = [quoted(name) if named[at] else f"column {at + 1}" for at, name in enumerate(names)]
    if repeated := [shown[names.index(name)] for name in repeated_names(names)]:
        raise KindError(f"{gives} several columns of the same name, {', '.join(repeated)}: name them apart, with AS")
    if columns and not all(named):
        what = f"{count(named.count(False), 'column')} that neither its text nor the study names"
        raise KindError(f"{gives} {what}: name all columns in the SELECT")
    return pa.table([_joined(parts, at, f"{gives} {shown[at]}") for at in range(len(names))], names=names)


def _joined(parts: list[pa.Table], at: int, where: str) -> pa.ChunkedArray:
    """One column, text where a part of it is, as in a CSV file. Raises DataError for a type that no reader knows."""
    pieces, metadata = [part.select([at]) for part in parts], parts[0].schema[at].metadata or {}
    try:
        if pa.string() in [piece.schema.types[0] for piece in pieces]:
            pieces = [piece.cast(pa.schema([(piece.column_names[0], pa.string())])) for piece in pieces]
        values = usual(pa.concat_tables(pieces, promote_options="permissive").column(0))
    except pa.ArrowException:
        raise KindError(f"{where} in several kinds: CAST it to one of them") from None
    kind = values.type
    if metadata.get(b"POSTGRESQL:type") == b"money":
        # As whole cents, or whatever the server's locale says.
        raise KindError(f"{where} as money: CAST it to numeric")
    if kind == pa.uuid():
        return as_names(values, where)
    if getattr(kind, "type_name", "") == "numeric":
        # PostgreSQL's, as text.
        values = pa.chunked_array([piece.storage for piece in values.chunks], pa.string())
    if values.type != kind or pa.types.is_decimal(kind):
        return unrounded(values)
    if not (is_number(kind) or is_text(kind) or is_dated(kind)):
        # The fields of a struct may be named by values.
        shown = getattr(kind, "type_name", "") or re.split("<(?!arrow)", str(kind))[0]
        raise KindError(f"{where} as {shown}: CAST it to a number or text")
    return values


@contextmanager
def _bounded(path: Path) -> Iterator[None]:
    """Limit the memory that this process takes on Linux: no driver counts a batch of long texts."""
    try:
        data_pages = int(Path("/proc/self/statm").read_text().split()[5])
    except OSError:
        yield
        return
    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = data_pages * resource.getpagesize() + _MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
    try:
        yield
    except MemoryError:
        raise KindError(f"the query {path} {_TOO_LARGE}") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, most))


@contextmanager
def _failing(path: Path, words: str = "") -> Iterator[None]:
    """Raise DataError for whatever a driver raises; in its own words where all that it quotes are ``words`` of SQL."""
    try:
        yield
    except Exception as error:
        text = str(error)
        state = found[1] if (found := _STATE.search(text)) else ""
        if state == "57014" or "interrupted" in text.lower():
            raise TimeoutError from None
        # The first line, without the driver's words in front.
        line = re.split(r"E(?:rror|RROR): *", text, maxsplit=1)[-1].split("\n")[0]
        kind: type[DataError] = KindError
        if isinstance(error, MemoryError) or _TOO_MUCH.search(line):
            why = _TOO_LARGE
        elif words and all(_is_named(word, words) for word in _QUOTED.findall(line)):
            why = f"does not fit the database: correct it, {quoted(line, _LONGEST)}"
        else:
            why = f"fails in the database{f' (SQLSTATE {state})' * bool(state)}: run it there to see why"
            kind = KindError if words else FailedOnRecordsError
        raise kind(f"the query {path} {why}") from None


def _driver(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        fix = f"pip install -c constraints.txt -e '.[{extra}]'"
        raise KindError(f"the query needs {name}, which is not installed: {fix}") from None


def _reader(database: str) -> Callable[[DataSettings, str, Stops, bool], Tables]:
    """Reader for a database: by a server's address, or by the first bytes of the file at a path."""
    if is_server(database):
        return _postgresql
    try:
        with Path(database).open("rb") as file:
            return _sqlite if file.read(len(_SQLITE)) == _SQLITE else _duckdb
    except IsADirectoryError:
        return _duckdb
    except OSError as error:
        raise KindError(f"the database is not there ({error.strerror}): correct database under [data]") from None


def _postgresql(data: DataSettings, sql: str, stops: Stops, each: bool) -> Tables:
    dbapi = _driver("adbc_driver_postgresql.dbapi", "postgresql")
    join = "&" if "?" in data.database else "?"
    try:
        connection = dbapi.connect(f"{data.database}{join}connect_timeout={_CONNECT_SECONDS}")
    except dbapi.Error as error:
        # Only of a server that answers.
        if "FATAL" in str(error) or "password" in str(error):
            why = "refuses this user: set PGUSER and PGPASSWORD, or PGPASSFILE, and correct database under [data]"
        else:
            why = "does not answer: start it, or correct database under [data] in silo.toml"
        raise KindError(f"the database {why}") from None
    with connection, connection.cursor() as cursor:
        with _failing(data.source):
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(f"SET LOCAL statement_timeout = {1000 * (data.query_timeout + _GRACE_SECONDS):.0f}")
            cursor.execute("SELECT current_setting('is_superuser')")
            (powerful,) = cursor.fetchone()
        if powerful == "on":
            raise KindError("the database's user is a superuser: make one that may only SELECT, and set PGUSER to it")
        with _failing(data.source, sql):
            cursor.adbc_prepare(sql)
        with _failing(data.source):
            cursor.execute(sql)
            yield from _batches(cursor.fetch_record_batch())


def _sqlite(data: DataSettings, sql: str, stops: Stops, each: bool) -> Tables:
    # Of its own library: the driver of Arrow takes a column's type from its first rows, and cannot be interrupted.
    with closing(sqlite3.connect(f"file:{quote(data.database)}?mode=ro", uri=True)) as connection:
        stops.append(connection.interrupt)
        # One record may hold text that is no UTF-8.
        connection.text_factory = lambda cell: cell.decode(errors="replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_CELL)
        with _failing(data.source, sql):
            connection.execute(f"EXPLAIN {sql}").close()
        with _failing(data.source):
            cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description]
        yield pa.table([pa.nulls(0)] * len(names), names)
        while rows := _some(cursor, data.source):
            made = partial(_text, decimal=data.tables.decimal) if each else _array
            yield pa.table(list(map(made, zip(*rows, strict=True))), names)


def _array(values: Sequence[Any]) -> pa.Array:
    """Cells as SQLite has them, each of any type; text where they are of several, as in a CSV file. Bytes are text."""
    values = [value.hex() if isinstance(value, bytes) else value for value in values]
    try:
        return pa.array(values)
    except pa.ArrowException:
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _text(values: Sequence[Any], decimal: str) -> pa.Array:
    """The same, each cell as its own text, and a whole number without a point, however SQLite holds it."""
    plain = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    plain = [str(value).replace(".", decimal) if isinstance(value, float) else value for value in plain]
    plain = [value.hex() if isinstance(value, bytes) else value for value in plain]
    return pa.array([None if value is None else str(value) for value in plain], pa.string())


def _some(cursor: sqlite3.Cursor, path: Path) -> list[tuple[Any, ...]]:
    """Next rows, few where they are long; none at the end."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    with _failing(path):
        while len(rows) < _ROWS and size < _MOST_BYTES >> 6 and (more := cursor.fetchmany(_FEW >> 3)):
            rows += more
            size += sum(map(sys.getsizeof, chain.from_iterable(more)))
    return rows


def _duckdb(data: DataSettings, sql: str, stops: Stops, each: bool) -> Tables:
    duckdb, place = _driver("duckdb", "duckdb"), Path(data.database)
    # Nothing is written, not even what does not fit into memory.
    closed: dict[str, str | bool] = {"temp_directory": "", "memory_limit": f"{_MOST_BYTES}B"}
    closed |= {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    try:
        if place.is_dir():
            connection, files = duckdb.connect(config=closed), sorted(place.glob("*.parquet"))
            for file in files:
                connection.read_parquet(str(file)).create_view(file.stem)
            # Other files may lie next to the tables.
            connection.execute("SET allowed_paths = $files", {"files": [*map(str, files)]})
            connection.execute("SET enable_external_access = false")
        else:
            connection = duckdb.connect(str(place), read_only=True, config={"enable_external_access": False} | closed)
        connection.execute("SET lock_configuration = true")
    except duckdb.Error:
        fix = "close what has it open, or correct database under [data]"
        raise KindError(f"the database is neither SQLite nor one that this DuckDB opens: {fix}") from None
    with closing(connection):
        stops.append(connection.interrupt)
        with _failing(data.source, sql):
            statements = connection.extract_statements(sql)
            if len(statements) > 1:
                raise duckdb.Error("there is more than one statement in it")
        # A PIVOT is a statement of several parts, of which the first read records.
        with _failing(data.source, sql if statements[0].type.name == "SELECT" else ""):
            relation = connection.sql(sql)
        with _failing(data.source):
            yield from _batches(relation.to_arrow_reader(_FEW))


def _batches(reader: pa.RecordBatchReader) -> Tables:
    yield reader.schema.empty_table()
    for batch in reader:
        yield pa.Table.from_batches([batch])
