"""One column in each form that pandas, NumPy, SciPy and torch have: the same features whichever way it arrives."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedct_flwr import ConfigError, DataError, DataWarning, datasets, simulate
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset, from_tables
from fedct_flwr.datasets.schema import Held
from fedct_flwr.datasets.tables import CATEGORY, columns_of
from fedct_flwr.learners.text import transformer_for
from fedct_flwr.simulation.silos import check_aligned, data_of, learners_of, table_of
from tests.sentences import sentence

NUMBERS = np.arange(40.0) % 5
WORDS = np.array(list("abcde"))[NUMBERS.astype(int)]
FORMS: dict[str, tuple[str, Callable[[], Any]]] = {
    "float": ("number", lambda: NUMBERS),
    "integer": ("number", lambda: NUMBERS.astype(int)),
    "big-endian": ("number", lambda: NUMBERS.astype(">f8")),
    "half": ("number", lambda: NUMBERS.astype(np.float16)),
    "long double": ("number", lambda: NUMBERS.astype(np.longdouble)),
    "nullable": ("number", lambda: pd.array(NUMBERS, dtype="Int64")),
    "category of floats": ("code", lambda: pd.Categorical(NUMBERS)),
    "category of integers": ("code", lambda: pd.Categorical(NUMBERS.astype(int))),
    "sparse": ("number", lambda: pd.arrays.SparseArray(NUMBERS)),
    "truth values": ("truth", lambda: NUMBERS > 2),
    "category of truth values": ("word of truth", lambda: pd.Categorical(NUMBERS > 2)),
    "nullable truth values": ("truth", lambda: pd.array(NUMBERS > 2, dtype="boolean")),
    "sparse truth values": ("truth", lambda: pd.arrays.SparseArray(NUMBERS > 2)),
    "text": ("text", lambda: WORDS),
    "strings": ("text", lambda: pd.array(WORDS, dtype="string")),
    "category of text": ("text", lambda: pd.Categorical(WORDS)),
    "ordered category": ("text", lambda: pd.Categorical(WORDS, ordered=True)),
    "intervals": ("interval", lambda: pd.cut(NUMBERS, [-1, 1, 3, 9])),
    "periods": ("period", lambda: pd.PeriodIndex([f"{2020 + int(n)}Q1" for n in NUMBERS], freq="Q")),
}
CODES = ("category of floats", "category of integers", "category of truth values")
NO_PARQUET = ("big-endian", "half", "long double", "sparse", "sparse truth values", "intervals", "periods")


def frames(form: str) -> dict[str, Any]:
    made = FORMS[form][1]
    silos = {name: pd.DataFrame({"age": 20 + 3.5 * NUMBERS, "x": made()}) for name in ("north", "south", "public")}
    return {name: t if name == "public" else t.assign(ill=["yes", "no"] * 20) for name, t in silos.items()}


def loaded(silos: Any, public: Any = None, label: str = "ill", **settings: Any) -> FederatedDataset:
    accepted = ("repeated-records", "shared-records", "label-in-public")
    data = data_of(silos, public, label)
    return datasets.load(RunConfig.from_flower({**data.settings, "test-fraction": 0.0, "accept": accepted, **settings}))


def loaded_arrays(X: Any) -> Any:
    return loaded({name: (X, ["yes", "no"] * 20) for name in ("north", "south")}, X, "").public.X


def told(dataset: FederatedDataset) -> tuple[Any, list[Any]]:
    found = {column.name: column for column in dataset.schema.columns}
    x = list(found).index("x")
    return found["x"], [part[:, x].tolist() for part in (dataset.public.X, dataset.silos[0].private.X)]


@pytest.mark.parametrize("form", FORMS)
def test_a_column_is_the_same_whichever_way_it_arrives(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = frames(form)
    public, silos = tables["public"], {name: tables[name] for name in ("north", "south")}
    here = told(loaded(silos, public))
    ways = {"csv": lambda table, path: table.to_csv(path, index=False), "parquet": lambda t, path: t.to_parquet(path)}
    for way, write in ways.items():
        # A CSV file does not say that its numbers are codes.
        if form in (NO_PARQUET if way == "parquet" else CODES):
            continue
        folder = tmp_path / way
        folder.mkdir()
        for name, table in tables.items():
            write(table, folder / f"{name}.{way}")
        assert told(loaded(folder)) == here, way
    data = data_of(silos, public, "ill")
    assert data.tables is not None
    data.tables.write(tmp_path / "engine")
    monkeypatch.setenv(from_tables.FOLDER, str(tmp_path / "engine"))
    monkeypatch.setattr(from_tables, "_HELD", {})
    config = {**data.settings, "test-fraction": 0.0, "accept": ("repeated-records", "shared-records")}
    assert told(datasets.load(RunConfig.from_flower(config))) == here


def test_forms_of_one_kind_are_the_same_column() -> None:
    found: dict[str, Any] = {}
    for form, (kind, _) in FORMS.items():
        tables = frames(form)
        own = told(loaded({name: tables[name] for name in ("north", "south")}, tables["public"]))
        assert found.setdefault(kind, own) == own, form
    assert found["code"][0].categories == ("0", "1", "2", "3", "4"), "a category is no amount"
    assert found["word of truth"][0].categories == ("false", "true")


def seen(dataset: FederatedDataset, records: Any) -> Any:
    """The table that a user's own code gets."""
    settings = LearnerSettings(name="tests.learners.test_text.Seen", preprocessing="none")
    return transformer_for(settings, dataset.schema, dataset.public.X).transform(records)


OF_OWN_CODE = (
    "integer", "nullable", "truth values", "text", "category of integers", "category of floats",
    "category of truth values", "category of text", "ordered category",
)  # fmt: skip


@pytest.mark.parametrize("form", OF_OWN_CODE)
def test_ones_own_code_sees_the_column_as_the_frame_holds_it(form: str) -> None:
    values = pd.Series(FORMS[form][1]())
    if values.dtype == "category":
        more = ["none"] if "text" in form else []
        values = values.cat.set_categories([*values.cat.categories[::-1], *more], ordered="ordered" in form)
    values = values.astype("int64") if form == "nullable" else values
    tables = {name: frame.assign(x=values) for name, frame in frames(form).items()}
    public = tables.pop("public")
    dataset = loaded(tables, public)
    pd.testing.assert_series_equal(seen(dataset, dataset.public.X)["x"], values, check_names=False)
    assert seen(dataset, dataset.silos[0].private.X)["x"].dtype == values.dtype


def test_whole_numbers_are_floats_for_all_silos_where_one_has_a_gap_and_for_new_records_with_one() -> None:
    tables = frames("integer")
    public = tables.pop("public")
    dataset = loaded(tables, public)
    X = dataset.public.X.copy()
    X[0, 1] = np.nan
    assert [seen(dataset, part)["x"].dtype for part in (dataset.public.X, X)] == [np.int64, np.float64]
    tables["north"] = tables["north"].assign(x=np.where(NUMBERS == 0, np.nan, NUMBERS))
    assert seen(loaded(tables, public), dataset.public.X)["x"].dtype == np.float64


@pytest.mark.parametrize(
    ("order", "moved"),
    [
        (["ill", "age", "x", "id"], ""),
        (["x", "age", "ill", "id"], "position 0 there is 'age', but 'x' in the table of silo 'north'"),
        (["age", "id", "x", "ill"], "position 1 there is 'x', but 'id' in the table of silo 'north'"),
    ],
)
def test_a_column_of_a_silo_that_has_another_position_is_named(order: list[str], moved: str) -> None:
    tables = frames("float")
    public = tables.pop("public")
    north = tables["north"].assign(id=range(40))[order]
    tables = {"south": tables["south"].assign(id=range(40)), "north": north}
    assert loaded(tables, public, **{"group-column": "id"}).moved == moved


@pytest.mark.parametrize("way", ["csv", "parquet"])
def test_codes_that_a_file_holds_as_categories_are_whole_numbers_to_ones_own_code(way: str, tmp_path: Path) -> None:
    if way == "csv":
        (tmp_path / "data.toml").write_text('categories = ["x"]\n')
    for name, table in frames("category of integers").items():
        path = tmp_path / f"{name}.{way}"
        table.to_parquet(path) if way == "parquet" else table.to_csv(path, index=False)
    dataset = loaded(tmp_path)
    found = seen(dataset, dataset.public.X)["x"]
    assert found.tolist() == NUMBERS.astype(int).tolist()
    assert found.cat.categories.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("told", [b"", b"[" * 100_000, b'[["a"], [[1]], false]', b'[["a", "b"], [1, true], 3]'])
def test_a_files_own_remarks_on_a_category_change_nothing(told: bytes) -> None:
    field = pa.field("x", pa.string(), metadata={CATEGORY: told})
    (column,) = columns_of(pa.table([["a", "b"]], schema=pa.schema([field])), "it")
    assert (column.categories, column.held) == (("a", "b"), Held())


@pytest.mark.parametrize("missing", [np.ma.array, lambda values, mask: np.where(mask, np.nan, values)])
def test_what_a_mask_hides_is_missing(missing: Callable[..., Any]) -> None:
    mask = np.arange(80).reshape(40, 2) % 7 == 0
    X = missing(np.arange(80.0).reshape(40, 2), mask=mask)
    np.testing.assert_array_equal(np.isnan(loaded_arrays(X)), mask)


class Streamed:
    """A frame as polars and DuckDB give theirs: Arrow's stream, with categories that are views of text."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(schema)


def test_a_stream_of_views_is_a_table() -> None:
    words = pa.array(WORDS).dictionary_encode()
    views = pa.DictionaryArray.from_arrays(words.indices.cast(pa.uint32()), words.dictionary.cast(pa.string_view()))
    assert table_of(Streamed(pa.table({"x": views})), "it").equals(pa.table({"x": pa.array(WORDS)}))


def test_a_lazy_frame_is_told_to_collect() -> None:
    lazy = type("LazyFrame", (), {"collect": None})()
    with pytest.raises(DataError, match=r"^it is a LazyFrame: give what its collect\(\) returns$"):
        table_of(lazy, "it")


def test_sparse_matrices_and_tensors_are_arrays() -> None:
    sparse, torch = pytest.importorskip("scipy.sparse"), pytest.importorskip("torch")
    X = np.float32([[0, 1], [2, 0], [0, 3], [4, 0]] * 10)
    expected = loaded_arrays(X)
    for given in (
        sparse.csr_matrix(X),
        sparse.coo_array(X),
        torch.tensor(X, requires_grad=True),
        torch.tensor(X).bfloat16(),
    ):
        np.testing.assert_array_equal(loaded_arrays(given), expected)


def test_lists_are_arrays_and_rows_of_different_lengths_are_refused() -> None:
    long = table_of(np.array([[1.5, 2.0]], dtype=np.longdouble), "it")
    assert table_of([[1.5, 2.0]], "it").equals(long)
    with pytest.raises(DataError, match="rows of different lengths"):
        table_of([[1.5, 2.0], [1.5]], "it")
    with pytest.raises(ConfigError, match=r"label column of the table of silo 'a', or give a tuple \(X, y\)"):
        data_of({"a": [X := [[1.0]], [0]], "b": (X, [1])}, X, "")


def test_records_and_labels_in_another_order_are_refused_by_their_indexes() -> None:
    X = pd.DataFrame({"age": [30.0, 40.0, 50.0]}, index=[5, 7, 9])
    y = pd.Series([0, 1, 1], index=X.index)
    check_aligned(X, y, "it")
    check_aligned(X, y[::-1].to_numpy(), "it")
    with pytest.raises(DataError, match="it is in another order than its labels"):
        check_aligned(X, y[::-1], "it")
    with pytest.raises(DataError, match="the table of silo 'a' is in another order"):
        data_of({"a": (X, y[::-1])}, X, "")
    with pytest.warns(DataWarning, match="indexes that differ, and are paired by position"):
        check_aligned(X, y.reset_index(drop=True), "it")
    with pytest.raises(DataError, match="it is a tuple of 2: give the table alone"):
        table_of((X, None), "it")


def test_numbers_that_no_column_holds_are_named() -> None:
    with pytest.raises(DataError, match=r"^column 'x' of it holds complex128: turn it into numbers or text$"):
        table_of(pd.DataFrame({"x": NUMBERS + 1j}), "it")


@pytest.mark.parametrize(
    ("first", "others", "expected"),
    [
        (["yes ", "no"], ["yes", "no"], ["no", "yes"]),
        (["yes ", "no"], ["yes ", "no"], ["no", "yes "]),
        (["1.0", "0"], ["1", "0"], ["0", "1"]),
        (["True", "False"], ["TRUE", "FALSE"], ["false", "true"]),
        (["True", "False"], [True, False], [False, True]),
        ([1.0, 2.5], [1, 1], [1.0, 2.5]),
    ],
)
def test_one_odd_spelling_of_a_label_names_no_class(first: list[Any], others: list[Any], expected: list[Any]) -> None:
    X = np.arange(8.0)[:, None]
    schema = loaded({"north": (X, first * 4), "south": (X, others * 4)}, X, "").schema
    found = schema.outcome.as_written(np.array([0, 1])).tolist()
    assert list(map(repr, found)) == list(map(repr, expected))


# --- what is no column


SECRET = "Erika-4711"

Made = Callable[[int], Any]


def frame(size: int, name: Any, column: Made, label: Made | None = None) -> pd.DataFrame:
    found = pd.DataFrame({"age": np.arange(size, dtype=float)})
    found[name] = column(size)
    if label:
        found["ill"] = label(size)
    return found


def truth(size: int) -> list[int]:
    return [number % 2 for number in range(size)]


def load(column: Made, name: Any = "x", label: Made = truth) -> FederatedDataset:
    silos = {silo: frame(6, name, column, label) for silo in ("north", "south")}
    data = data_of(silos, frame(4, name, column), "ill")
    return datasets.load(RunConfig.from_flower({**data.settings, "test-fraction": 0.0}))


def error(column: Made) -> str:
    text = sentence(DataError, load, column)
    assert SECRET not in text
    assert "data.toml" not in text
    return text


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (lambda n: pd.date_range("2020-01-01", periods=n), "holds dates"),
        (lambda n: pd.to_timedelta(range(n), unit="s"), "holds 'duration"),
        (lambda n: [SECRET.encode()] * n, "holds 'binary'"),
        (lambda n: [1, SECRET] * (n // 2), "one kind of values"),
        (lambda n: [[SECRET]] * n, "holds 'list"),
        (lambda n: [np.inf] * n, "infinite values"),
    ],
)
def test_columns_that_do_not(column: Made, said: str) -> None:
    text = error(column)
    assert said in text
    assert "'x'" in text


def test_tests_that_name_no_silos() -> None:
    table = frame(6, "x", range, truth)
    with pytest.raises(ConfigError, match="tests is of type DataFrame: give test tables by the names of silos"):
        data_of({"north": table, "south": table}, frame(4, "x", range), "ill", table)  # type: ignore[arg-type]


def test_two_silos_of_one_name_are_refused_and_numbers_are_names() -> None:
    table, public = frame(6, "x", range, truth), frame(4, "x", range)
    with pytest.raises(DataError, match="two silos are called '1'"):
        data_of({1: table, "1": table}, public, "ill")  # type: ignore[dict-item]
    assert learners_of({1: "naive-bayes", 2: "svm"}, ["1", "2"])[0]["learner"] == ["naive-bayes", "svm"]


def test_columns_of_the_same_name() -> None:
    table = pa.Table.from_arrays([pa.array([1, 2])] * 2, names=["age", "age"])
    for given in (table, table.to_pandas(), table.to_reader()):
        with pytest.raises(DataError, match="columns of the same name: 'age'"):
            data_of({"north": given}, given, "ill")


def test_threads_simulate_in_turns_and_torchs_generator_stays_where_it_is() -> None:
    """Both runs have the labels that they have alone."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    silos = {name: (X := rng.normal(size=(40, 3)), (X[:, 0] > 0).astype(int)) for name in "abc"}
    public, before = rng.normal(size=(50, 3)), torch.get_rng_state()

    def run(learner: str) -> list[int]:
        given = {"learner": learner, "rounds": 2, "baselines": "none", "progress": False, "inspect": False}
        return list(simulate(silos, public, **given).consensus)

    learners = ("mlp", "decision-tree", "mlp")
    with ThreadPoolExecutor(len(learners)) as threads:
        found = list(threads.map(run, learners))
    assert found == [run(learner) for learner in learners]
    assert torch.equal(torch.get_rng_state(), before)
