"""Records by a query: what three databases give, and each way in which that can fail."""

import hashlib
import re
import resource
import socket
import sqlite3
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from fedct_flwr.config.silo import DataSettings
from fedct_flwr.datasets import query
from fedct_flwr.datasets.federated import column_of_groups
from fedct_flwr.datasets.query import query_digest, query_text, read_query, result_of
from fedct_flwr.types import ConfigError, DataError
from tests import postgresql
from tests.patience import PATIENCE
from tests.postgresql import Server
from tests.sentences import sentence

duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
ROWS = [(3, 1.5, "a", None), (1, None, "b'c", None), (2, -0.25, None, None)]
MAKE = "CREATE TABLE visits (patient INTEGER, crp REAL, ward TEXT, empty INTEGER)"
INSERT = "INSERT INTO visits VALUES (3, 1.5, 'a', NULL), (1, NULL, 'b''c', NULL), (2, -0.25, NULL, NULL)"
SELECT = "-- all\nSELECT patient, crp, ward, empty FROM visits; "
UNFIT = " does not fit the database: correct it, "
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS crp FROM n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql.server() as found:
        found.run(MAKE, INSERT, "GRANT SELECT ON visits TO reader", "CREATE TABLE secret (a INTEGER)")
        found.run("CREATE SEQUENCE numbers", "GRANT ALL ON numbers TO reader")
        yield found


@pytest.fixture
def reader(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, for the user who may read one table."""
    monkeypatch.setenv("PGUSER", "reader")
    monkeypatch.setenv("PGPASSWORD", server.password)
    return server


@pytest.fixture(params=["sqlite", "duckdb", "parquet", pytest.param("postgresql", marks=postgresql.installed)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same table in each of them."""
    if request.param == "postgresql":
        found: Server = request.getfixturevalue("reader")
        return found.database
    if request.param == "parquet":
        folder = tmp_path / "it's parquet"
        folder.mkdir()
        columns = [pa.array(values) for values in zip(*ROWS, strict=True)]
        pa.parquet.write_table(pa.table(columns, ["patient", "crp", "ward", "empty"]), folder / "visits.parquet")
        return str(folder)
    path = str(tmp_path / f"clinic.{request.param}")
    with sqlite3.connect(path) if request.param == "sqlite" else duckdb.connect(path) as connection:
        connection.execute(MAKE)
        connection.execute(INSERT)
    return path


def settings(folder: Path, database: str, sql: str, **more: object) -> DataSettings:
    (folder / "cohort.sql").write_text(sql, "utf-8")
    return DataSettings.read(
        {"query": "cohort.sql", "database": database, "label": "ward", **more}, "silo.toml", folder
    )


def failure(data: DataSettings) -> str:
    said = sentence(DataError, read_query, data)
    # "what: what to do" on one line.
    assert ": " in said
    return said


# --- what arrives


def test_databases_give_the_same_records_in_the_same_order(tmp_path: Path, database: str) -> None:
    data = settings(tmp_path, database, SELECT)
    table = read_query(data)
    assert table.column("patient").to_pylist() == [1, 2, 3]
    assert table.column("crp").to_pylist() == [None, -0.25, 1.5]
    assert table.column("ward").to_pylist() == ["b'c", None, "a"]
    assert table.column("empty").null_count == 3
    # The same fingerprint whichever database holds them.
    written = b'"patient","crp","ward","empty"\n1,,"b\'c",\n2,-0.25,,\n3,1.5,"a",\n'
    assert result_of(data, table) == {
        "query": hashlib.sha256(SELECT.encode()).hexdigest(),
        "result": hashlib.sha256(b"fedct result 1 " + written).hexdigest(),
        "records": 3,
    }


def test_types_are_numbers_text_truth_and_dates(tmp_path: Path, database: str) -> None:
    sql = "SELECT CAST(1.50 AS NUMERIC(5, 2)) AS n, sum(patient) AS s, avg(crp) AS m, count(*) AS c FROM visits"
    assert read_query(settings(tmp_path, database, sql)).to_pylist() == [{"n": 1.5, "s": 6, "m": 0.625, "c": 3}]


@pytest.mark.parametrize("kind", ["NUMERIC(20, 0)", "NUMERIC(20, 2)", "BIGINT", "HUGEINT", "UUID"])
def test_patients_numbers_keep_all_digits(tmp_path: Path, database: str, kind: str) -> None:
    if kind in ("HUGEINT", "UUID") and (".sqlite" in database or (kind == "HUGEINT" and "://" in database)):
        pytest.skip("it has no such type")
    number = "00000000-0000-0000-0000-00000000000" if kind == "UUID" else "27600000000000000"
    table = read_query(settings(tmp_path, database, f"SELECT CAST('{number}' || patient AS {kind}) AS p FROM visits"))
    assert column_of_groups(table, "p", "t").to_pylist() == [number + one for one in "123"]


@postgresql.installed
def test_no_record_decides_whether_sqlite_gives_any(tmp_path: Path) -> None:
    path, sql = tmp_path / "clinic.db", "SELECT a FROM t"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES ('x'), (x'FF00'), (CAST(x'FF41' AS TEXT))")
    assert read_query(settings(tmp_path, str(path), sql)).column("a").to_pylist() == ["ff00", "x", "\ufffdA"]


def test_money_is_refused_as_its_unit_is_the_servers(tmp_path: Path, reader: Server) -> None:
    said = failure(settings(tmp_path, reader.database, "SELECT CAST(12.34 AS money) AS fee FROM visits"))
    assert said.endswith("gives 'fee' as money: CAST it to numeric")


def test_a_whole_column_decides_its_type(tmp_path: Path) -> None:
    path = tmp_path / "clinic.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a, b)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(None, number) for number in range(20_000)])
        connection.execute("INSERT INTO t VALUES (2.5, 0.5)")
    table = read_query(settings(tmp_path, str(path), "SELECT a, b FROM t"))
    assert [str(field.type) for field in table.schema] == ["double", "double"]
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO t VALUES ('Meier', 1)")
    # As in a CSV file: the inspection says so.
    table = read_query(settings(tmp_path, str(path), "SELECT a, b FROM t WHERE b > 19000 OR a IS NOT NULL"))
    assert table.column("a").drop_null().to_pylist() == ["2.5", "Meier"]
    table = read_query(settings(tmp_path, str(path), "SELECT b AS a FROM t UNION ALL SELECT 'Meier'"))
    assert table.column("a").to_pylist()[:2] == ["0", "0.5"]


# --- what is refused


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM visits", "COPY visits TO 'x.csv'", "CREATE TABLE x AS SELECT 1", "ATTACH 'x.db' AS x", "", "--\n",
        "SET x = 1", "SELECTED", "/* SELECT 1", "/* /* */ SELECT */ COPY visits TO PROGRAM 'x'", "/**/" * 10_000 + "x",
        "SELECT 1" + " " * 70_000,
    ],
    ids=range(12),
)  # fmt: skip
def test_only_a_select_is_sent(tmp_path: Path, sql: str) -> None:
    # The database is not even there.
    said = failure(settings(tmp_path, "nowhere.db", sql))
    assert said.endswith("is no SELECT: write one SELECT, or WITH and SELECT, of at most 65,536 bytes")


def test_a_query_that_writes_is_refused(tmp_path: Path, database: str, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["database"] == "sqlite":
        sql = "WITH x AS (SELECT 1) DELETE FROM visits RETURNING patient"
    elif request.node.callspec.params["database"] == "postgresql":
        sql = "WITH x AS (DELETE FROM visits RETURNING patient) SELECT * FROM x"
    else:
        sql = "WITH x AS (SELECT 1) INSERT INTO visits SELECT 1, 2, 'x', 3"
    assert failure(settings(tmp_path, database, sql)).startswith("the query ")
    assert read_query(settings(tmp_path, database, SELECT)).num_rows == 3


@postgresql.installed
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nextval('numbers')",
        "SELECT set_config('transaction_read_only', 'off', true)",
        "SELECT set_config('transaction_read_only', 'off', false) FROM visits",
    ],
)
def test_a_transaction_stays_read_only(tmp_path: Path, reader: Server, sql: str) -> None:
    assert failure(settings(tmp_path, reader.database, sql)).endswith(": run it there to see why")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 1 AS a; SELECT 2 AS a", UNFIT),
        ("SELECT 1) TO STDOUT; DELETE FROM visits; COPY (SELECT 1", UNFIT),
        ("SELECT nope FROM visits", f"{UNFIT}.*nope"),
        (
            "SELECT patient, crp, patient FROM visits",
            "s several columns of the same name, 'patient': name them apart, with AS$",
        ),
    ],
    ids=range(4),
)
def test_what_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path, database: str, sql: str, said: str) -> None:
    assert re.search(said, failure(settings(tmp_path, database, sql)))
    assert read_query(settings(tmp_path, database, SELECT)).num_rows == 3


def test_an_error_that_quotes_a_record_is_not_shown(tmp_path: Path, database: str) -> None:
    if ".sqlite" in database:
        pytest.skip("SQLite casts all text to numbers")
    said = failure(settings(tmp_path, database, "SELECT CAST(ward AS INTEGER) AS w FROM visits"))
    assert "b'c" not in said
    assert " fails in the database" in said
    assert said.endswith(": run it there to see why")


PIVOT = "(PIVOT visits ON ward USING count(*))"


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (f"SELECT * FROM {PIVOT}", ["patient", "crp", "empty"]),
        ("SELECT a.*, b.* FROM pivoted a JOIN pivoted b USING (patient)", []),
        ("SELECT * FROM visits POSITIONAL JOIN (PIVOT visits ON ward USING list(crp))", []),
        (f"SELECT p FROM {PIVOT} p", []),
        (f"SELECT [p] AS p FROM {PIVOT} p", []),
        (f"SELECT Meyer FROM {PIVOT}", []),
        ("SELECT * FROM (PIVOT visits ON CAST(ward AS INTEGER) USING count(*))", []),
        ("SELECT * FROM (PIVOT visits ON error(ward || '-') USING count(*))", []),
    ],
    ids=range(8),
)
def test_a_pivot_whose_columns_are_values_names_none(tmp_path: Path, sql: str, columns: list[str]) -> None:
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(MAKE)
        connection.execute("INSERT INTO visits VALUES (1, 1.5, 'Meier', NULL), (2, 2.5, 'Huber', NULL)")
        connection.execute(f"CREATE TABLE pivoted AS SELECT * FROM {PIVOT}")
    said = sentence(DataError, read_query, settings(tmp_path, str(path), sql), columns)
    assert "Meier" not in said
    assert "Huber" not in said


def test_a_query_that_never_ends_is_stopped(tmp_path: Path, database: str) -> None:
    before = threading.active_count()
    data, began = settings(tmp_path, database, ENDLESS, **{"query-timeout": 1}), time.monotonic()
    assert failure(data).endswith(
        "has no answer within 1 s: narrow it, or raise query-timeout under [data] in silo.toml"
    )
    assert time.monotonic() - began < PATIENCE
    end = time.monotonic() + PATIENCE
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.05)
    # It does not go on in silence.
    assert threading.active_count() <= before


def test_a_result_has_a_size(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_MOST_BYTES", 1 << 20)
    endless = ENDLESS.replace("SELECT count(*) AS crp", "SELECT i AS crp")
    assert failure(settings(tmp_path, database, endless)).endswith("narrow it")


@pytest.mark.parametrize(("value", "why"), [("hex(zeroblob(50000))", "gives more"), ("zeroblob(2000000)", "too much")])
def test_memory_is_bounded_while_rows_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    monkeypatch.setattr(query, "_MOST_BYTES", 1 << 24)
    path = tmp_path / "clinic.db"
    sqlite3.connect(path).execute("CREATE TABLE t (a)")
    endless = ENDLESS.replace("SELECT count(*) AS crp", f"SELECT {value} AS crp")
    tracemalloc.start()
    try:
        assert why in failure(settings(tmp_path, str(path), endless))
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_where_a_driver_counts_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_MOST_MEMORY", 1 << 28)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    held = _peak()
    sql = "SELECT repeat('x', 3000000) AS crp FROM range(5000)"
    assert failure(settings(tmp_path, str(tmp_path), sql)).endswith("to fewer records or shorter texts")
    assert _peak() - held < 1.2 * (1 << 28)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def _peak() -> int:
    """Bytes of this process in memory at most."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize(("module", "extra"), [("adbc_driver_postgresql.dbapi", "postgresql"), ("duckdb", "duckdb")])
def test_a_missing_driver_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    database = "postgresql://localhost/x" if extra == "postgresql" else str(tmp_path)
    assert failure(settings(tmp_path, database, "SELECT 1")).endswith(f"pip install -c constraints.txt -e '.[{extra}]'")


# --- a database that is away, and its users


@pytest.mark.parametrize("where", ["nothing listens", "no such host", "silence"])
def test_a_server_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    pytest.importorskip("adbc_driver_postgresql")
    monkeypatch.setattr(query, "_CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if where == "nothing listens":
            listener.close()
        host = "nowhere.invalid" if where == "no such host" else "127.0.0.1"
        said = failure(settings(tmp_path, f"postgresql://anna@{host}:{port}/clinic", "SELECT 1"))
    assert said == "the database does not answer: start it, or correct database under [data] in silo.toml"


@pytest.mark.parametrize("what", ["nothing", "text", "a folder"])
def test_a_file_that_is_no_database(tmp_path: Path, what: str) -> None:
    path = tmp_path / "clinic"
    if what == "text":
        path.write_text("patient,crp\n1,2\n", "utf-8")
    elif what == "a folder":
        path.mkdir()
    said = failure(settings(tmp_path, "clinic", "SELECT patient FROM visits"))
    assert said.startswith("the query " if what == "a folder" else "the database is n")
    assert str(path) not in said


def test_duckdb_reads_no_other_file(tmp_path: Path, database: str) -> None:
    if ".duckdb" not in database and "parquet" not in database:
        pytest.skip("another database")
    folder = Path(database) if Path(database).is_dir() else tmp_path
    for place in {tmp_path, folder}:
        (place / "other.csv").write_text("a\nMeier\n", "utf-8")
        other = str(place / "other.csv").replace("'", "''")
        for sql in (
            f"SELECT * FROM read_csv('{other}')",
            f"SELECT * FROM '{other}'",
            f"SELECT * FROM read_text('{other}')",
        ):
            assert "Meier" not in failure(settings(tmp_path, database, sql))


@postgresql.installed
def test_users_with_other_rights_or_passwords(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", server.password)
    monkeypatch.setenv("PGUSER", "owner")
    said = failure(settings(tmp_path, server.database, SELECT))
    assert said.startswith("the database's user is a superuser: ")
    monkeypatch.setenv("PGUSER", "reader")
    said = failure(settings(tmp_path, server.database, "SELECT a FROM secret"))
    assert said.endswith("fails in the database (SQLSTATE 42501): run it there to see why")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    said = failure(settings(tmp_path, server.database, "SELECT 1"))
    assert said.startswith("the database refuses this user: set PGUSER and PGPASSWORD, or PGPASSFILE")
    assert "hunter2" not in said
    assert "reader" not in said


# --- settings


@pytest.mark.parametrize(
    "database",
    [
        "postgresql://anna:hunter2@host/x", "postgres://host/x?password=hunter2", "postgresql://host/x?p%61ssword=hunter2",
        "host=x password=hunter2", "host=x password = hunter2", "mysql://anna:hunter2@host/x",
    ],
)  # fmt: skip
def test_a_password_in_the_settings_is_refused_and_not_quoted(tmp_path: Path, database: str) -> None:
    said = sentence(ConfigError, settings, tmp_path, database, SELECT)
    assert "hunter2" not in said
    assert "a password stands in database: take it out, and set PGPASSWORD" in said


@pytest.mark.parametrize(
    "given",
    [{}, {"query": "a.sql"}, {"database": "a.db"}, {"file": "a.csv", "query": "a.sql", "database": "a.db"},
     {"file": "a.csv", "database": "a.db"}],
)  # fmt: skip
def test_records_come_from_one_place(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="name a file with the records, or a query and its database"):
        DataSettings.read(given, "silo.toml")


def test_a_query_that_is_not_there(tmp_path: Path) -> None:
    data = settings(tmp_path, "clinic.db", SELECT)
    data.source.unlink()
    with pytest.raises(DataError, match="correct query under"):
        query_text(data)
    data.source.write_bytes("SELECT 'ü'".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        query_text(data)


def test_the_text_that_is_approved_is_the_one_that_runs(tmp_path: Path) -> None:
    data = settings(tmp_path, "clinic.db", SELECT)
    approved = query_digest(data)
    data.source.write_text("SELECT 1", "utf-8")
    assert query_text(data).startswith(SELECT)
    assert query_digest(data) == approved
