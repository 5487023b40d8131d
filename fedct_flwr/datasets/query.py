"""A silo's records by a query: one SELECT for PostgreSQL, SQLite or DuckDB, which also reads a folder of Parquet.

The database only reads: one statement, in a read-only transaction or of a database opened so, within a time and an
amount of memory. DuckDB reads no other file. In PostgreSQL the user's rights limit a query: a superuser is refused.

Formal guarantee: an error holds words of a database only of a statement that it has not run yet, so they name tables
and columns of the query. No error holds a record, an address, a user's name or a password.
"""

import hashlib
import re
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv

from fedct_flwr.config import DataSettings
from fedct_flwr.config.silo import MOST_SQL, is_server
from fedct_flwr.datasets.dates import is_dated
from fedct_flwr.datasets.delimited import KindError
from fedct_flwr.datasets.table_files import is_number, is_text, repeated_names, usual
from fedct_flwr.text.printable import listed, quoted

_MOST_BYTES: Final = 1 << 30
"""Bytes of memory for a result."""
_ROWS: Final = 1 << 14
"""Fetched at a time."""
_CONNECT_SECONDS: Final = 10
_GRACE_SECONDS: Final = 1.0
"""Seconds after which PostgreSQL ends a statement that this process has given up."""
_LONGEST: Final = 200
# No comment within a comment: PostgreSQL takes it for one, and the others do not.
_SELECT: Final = re.compile(r"(?>\s|--[^\n]*\n|/\*(?:(?!/\*).)*?\*/)*+(?:select|with)\b", re.IGNORECASE | re.DOTALL)
_SQLITE: Final = b"SQLite format 3\0"
_STATE: Final = re.compile(r"SQLSTATE: (\w{5})")

Tables = Generator[pa.Table, None, None]
Stops = list[Callable[[], None]]
"""Functions that end a running statement, called by another thread."""


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


def read_query(data: DataSettings) -> pa.Table:
    """Result of the query in ``silo.toml``, sorted by its columns, as a database promises no order.

    Columns are numbers, truth values, text or dates. Raises DataError for a query that fails, that gives too much or
    takes too long, for a database that is away, and for a missing driver.
    """
    path, seconds = data.source, data.query_timeout
    # Drivers write more behind it, which a comment at its end would take in.
    sql = f"{query_text(data).rstrip().removesuffix(';')}\n"
    outcome: Future[pa.Table] = Future()
    stops: Stops = []

    def work() -> None:
        try:
            outcome.set_result(_gathered(_reader(data.database)(data, sql, stops), path))
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
    return {"query": query_digest(data), "result": digest.hexdigest(), "records": table.num_rows}


def _gathered(tables: Tables, path: Path) -> pa.Table:
    """All of a result, in types that every reader of tables knows. Raises DataError."""
    parts: list[pa.Table] = []
    room = _MOST_BYTES
    try:
        with closing(tables):
            for part in tables:
                room -= part.nbytes
                if room < 0:
                    raise KindError(f"the query {path} gives more than {_MOST_BYTES >> 30} GiB: narrow it")
                parts.append(part)
        if repeated := repeated_names(parts[0].column_names):
            fix = "name them apart, with AS"
            raise KindError(f"the query {path} gives several columns of the same name, {listed(repeated)}: {fix}")
        table = pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException:
        fix = "CAST that to one of them"
        raise KindError(f"the query {path} gives numbers and text in one column: {fix}") from None
    plain = [_plain(values, name, path) for name, values in zip(table.column_names, table.columns, strict=True)]
    return pa.table(plain, names=table.column_names)


def _plain(values: pa.ChunkedArray, name: str, path: Path) -> pa.ChunkedArray:
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        # PostgreSQL's numeric arrives as text, which holds all of its digits.
        numeric = getattr(kind, "type_name", "") == "numeric"
        values = pa.chunked_array([piece.storage for piece in values.chunks], kind.storage_type)
        values = values.cast(pa.float64()) if numeric else values
    elif pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    values = usual(values)
    if not (is_number(values.type) or is_text(values.type) or is_dated(values.type)):
        raise KindError(f"the query {path} gives {quoted(name)} as {kind}: CAST it to a number or text")
    return values


@contextmanager
def _failing(path: Path, *, words: bool = False) -> Iterator[None]:
    """Raise DataError for whatever a driver raises, with the database's own ``words`` where they hold no record."""
    try:
        yield
    except Exception as error:
        text = str(error)
        state = found[1] if (found := _STATE.search(text)) else ""
        if state == "57014" or "interrupted" in text.lower():
            raise TimeoutError from None
        if words:
            # The first line, without the driver's words in front.
            line = re.split(r"E(?:rror|RROR): *", text, maxsplit=1)[-1].split("\n")[0]
            why = f"does not fit the database: correct it, {quoted(line, _LONGEST)}"
        else:
            why = f"fails in the database{f' (SQLSTATE {state})' * bool(state)}: run it there to see why"
        raise KindError(f"the query {path} {why}") from None


def _driver(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        fix = f"pip install -c constraints.txt -e '.[{extra}]'"
        raise KindError(f"the query needs {name}, which is not installed: {fix}") from None


def _reader(database: str) -> Callable[[DataSettings, str, Stops], Tables]:
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


def _postgresql(data: DataSettings, sql: str, stops: Stops) -> Tables:
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
        with _failing(data.source, words=True):
            cursor.adbc_prepare(sql)
        with _failing(data.source):
            cursor.execute(sql)
            yield from _batches(cursor.fetch_record_batch())


def _sqlite(data: DataSettings, sql: str, stops: Stops) -> Tables:
    # Of its own library: the driver of Arrow takes a column's type from its first rows, and cannot be interrupted.
    with closing(sqlite3.connect(f"file:{quote(data.database)}?mode=ro", uri=True)) as connection:
        stops.append(connection.interrupt)
        with _failing(data.source, words=True):
            connection.execute(f"EXPLAIN {sql}").close()
        with _failing(data.source):
            cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description]
        yield pa.table([pa.nulls(0)] * len(names), names)
        while True:
            with _failing(data.source):
                rows = cursor.fetchmany(_ROWS)
            if not rows:
                return
            yield pa.table([pa.array(values) for values in zip(*rows, strict=True)], names)


def _duckdb(data: DataSettings, sql: str, stops: Stops) -> Tables:
    duckdb, place = _driver("duckdb", "duckdb"), Path(data.database)
    # Nothing is written, not even what does not fit into memory.
    closed = {"enable_external_access": False, "temp_directory": ""}
    try:
        if place.is_dir():
            connection = duckdb.connect(config={"temp_directory": ""})
            for file in sorted(place.glob("*.parquet")):
                connection.read_parquet(str(file)).create_view(file.stem)
            inside = str(place).replace("'", "''")
            connection.execute(f"SET allowed_directories = ['{inside}']")
            connection.execute("SET enable_external_access = false")
        else:
            connection = duckdb.connect(str(place), read_only=True, config=closed)
        connection.execute("SET lock_configuration = true")
    except duckdb.Error:
        fix = "close what has it open, or correct database under [data]"
        raise KindError(f"the database is neither SQLite nor one that this DuckDB opens: {fix}") from None
    with closing(connection):
        stops.append(connection.interrupt)
        with _failing(data.source, words=True):
            if len(connection.extract_statements(sql)) > 1:
                raise duckdb.Error("there is more than one statement in it")
            relation = connection.sql(sql)
        with _failing(data.source):
            yield from _batches(relation.to_arrow_reader(_ROWS))


def _batches(reader: pa.RecordBatchReader) -> Tables:
    yield reader.schema.empty_table()
    for batch in reader:
        yield pa.Table.from_batches([batch])
