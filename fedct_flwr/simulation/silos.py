"""The silos of a simulation as ``simulate()`` is given them: a data set by name, a folder or tables, and learners.

A learner whose class can be imported, and whose parameters JSON can hold, becomes its import path and its parameters:
so a run folder says what was trained, and silos that are other processes can make it. Any other stays in memory.
"""

import copy
import itertools
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import joblib
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn import get_config

from fedct_flwr import datasets, learners
from fedct_flwr.config.run import MEMORY
from fedct_flwr.config.settings import check_name
from fedct_flwr.datasets.federated import column_of_groups, numbered
from fedct_flwr.datasets.from_tables import Tables
from fedct_flwr.datasets.loading import GONE, LOADERS
from fedct_flwr.datasets.tables import as_category, is_number, usual, without_blanks
from fedct_flwr.learners.catalog import LIBRARIES, HeldLearner, has_methods, is_network, is_plain, package_of
from fedct_flwr.learners.sklearn import copied, functions_in
from fedct_flwr.learners.text import parts_of
from fedct_flwr.text.printable import listed, quoted, suggest
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, DataWarning, LearnerError, SiloName, generator

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from fedct_flwr.datasets.partition import IID, Dirichlet
    from fedct_flwr.drawing.simulated import Drawn

Silos: TypeAlias = Mapping[SiloName, Any] | str | Path
"""A table for each silo, by name: a DataFrame with the label column, or a pair ``(X, y)`` of arrays. Or the name of a
data set, or a folder with ``public.csv`` and a file for each silo, or with folders of images."""

_LABEL: Final = "label"
"""The label column's name where labels come as an array of their own."""


class Data(NamedTuple):
    """Run-config values that lead to the data, and the tables themselves, where they are in memory."""

    settings: dict[str, Any]
    tables: Tables | None = None


def data_of(silos: Silos, public: Any, label: str, tests: Mapping[SiloName, Any] | None = None) -> Data:
    """Read the arguments of ``simulate()``. Raises ConfigError or DataError."""
    found = _data_of(silos, public, label, tests)
    return found._replace(settings=found.settings | public.settings()) if is_drawn(public) else found


def _data_of(silos: Silos, public: Any, label: str, tests: Mapping[SiloName, Any] | None) -> Data:
    if isinstance(silos, Mapping):
        if not isinstance(tests, Mapping | None):
            raise ConfigError(f"tests is of type {type(tests).__name__}: give test tables by the names of silos")
        return _in_memory(silos, public, label, tests or {})
    if tests is not None:
        raise ConfigError(
            "tests has no effect on a folder, which has NAME.test.csv next to NAME.csv, or a data set by name: leave "
            "it out"
        )
    if not isinstance(silos, str | Path):
        raise DataError(
            f"silos is of type {type(silos).__name__}: give a table for each silo, a folder, or a data set's name"
        )
    if public is not None and not is_drawn(public):
        raise ConfigError("public has no effect on a folder or a data set by name, which have their own: leave it out")
    gone = silos in GONE and not Path(silos).is_dir()
    if isinstance(silos, str) and silos != "files" and (gone or silos in LOADERS):
        if label:
            raise ConfigError(f"label has no effect on data set {silos!r}, which knows its own: leave it out")
        return Data(of_data_set(silos))
    if not label and not datasets.holds_images(Path(silos)):
        raise ConfigError("label is missing: name the label column of the silos' files")
    return Data({**of_folder(Path(silos)), "label-column": label})


def is_partition(given: Any) -> "TypeIs[IID | Dirichlet]":
    """Whether it is an object that divides one table, and not the name of a split."""
    return hasattr(type(given), "parts")


def is_drawn(public: Any) -> "TypeIs[Drawn]":
    """Whether it is a ``Drawn``, and not a public table."""
    return hasattr(type(public), "settings")


def divided(
    given: Any, public: Any, label: str, group: str, split: "IID | Dirichlet", seed: int
) -> tuple[dict[str, Any], Any, str]:
    """One table, or all silos' together, divided over made silos; the public table, and the label column.

    Without ``public`` a quarter of the records, drawn at random, is public and loses its labels. Records of one
    ``group`` stay together, and count as the first of them. Raises ConfigError or DataError.
    """
    if isinstance(given, str | Path):
        raise ConfigError("partition as an object divides tables: a data set by name takes partition='dirichlet'")
    column, tables = label or _LABEL, given if isinstance(given, Mapping) else {"": given}
    parts = [
        _labeled(one, label, column, f"the table of silo {name!r}" if name else "the table")
        for name, one in tables.items()
    ]
    table = joined(parts).combine_chunks()
    y = np.unique(np.asarray(table.column(column)).astype(str), return_inverse=True)[1].astype(LABEL_DTYPE)
    first = of = units = np.arange(table.num_rows)
    if group:
        (of,) = numbered([column_of_groups(table, group, "the table")])
        first, of = np.unique(of, return_index=True, return_inverse=True)[1:]
        units = np.arange(len(first))

    def records_of(part: NDArray[np.intp]) -> pa.Table:
        return table.take(np.flatnonzero(np.isin(of, part)) if group else part)

    if public is None:
        chosen, rest = np.split(generator(seed, "public").permutation(units), [len(units) // 4])
        public, units = records_of(np.sort(chosen)).drop_columns([column]), np.sort(rest)
    found = split.parts(y[first[units]], generator(seed, "partition"))
    return {f"silo-{number}": records_of(units[part]) for number, part in enumerate(found, start=1)}, public, column


def of_data_set(name: str) -> dict[str, Any]:
    """The settings of a data set by name, which is the study's as well."""
    return {"study": name, "data": name, "data-dir": ""}


def of_folder(folder: Path) -> dict[str, Any]:
    """The settings of a folder of tables, but for the label column; the study is called as a name may be."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("._-")[:64] or "files"
    return {"study": name, "data": "files", "data-dir": str(folder.resolve())}


def _in_memory(silos: Mapping[SiloName, Any], public: Any, label: str, tests: Mapping[SiloName, Any]) -> Data:
    if public is None:
        raise ConfigError(
            "public is missing: give the table of examples that the silos label, or Drawn(), which makes one"
        )
    _check_names_of(silos)
    column = label or _LABEL
    named = {str(name): given for name, given in silos.items()}
    tables = {name: _labeled(given, label, column, f"the table of silo {name!r}") for name, given in named.items()}
    of_tests = {str(name): given for name, given in tests.items()}
    for name in of_tests:
        if name not in tables:
            raise ConfigError(f"tests names {quoted(name)}, which is no silo: {suggest(name, tables)}")
    held_out = {
        name: _labeled(given, label, column, f"the test table of silo {name!r}") for name, given in of_tests.items()
    }
    found = Tables(None if is_drawn(public) else table_of(public, "the public table"), tables, held_out)
    return Data({"study": "simulation", "data": MEMORY, "data-dir": found.digest, "label-column": column}, found)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The records of all tables. Raises DataError, which names a column that they hold in different types."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        for name in dict.fromkeys(name for table in tables for name in table.column_names):
            held = [table.schema.field(name) for table in tables if name in table.column_names]
            try:
                pa.unify_schemas([pa.schema([field]) for field in held], promote_options="permissive")
            except pa.ArrowException:
                kinds = listed(sorted({str(field.type) for field in held}))
                raise DataError(f"column {quoted(name)} holds {kinds} in the silos' tables: give it one type") from None
        raise


def tables_in(silos: Mapping[SiloName, Any]) -> dict[SiloName, pa.Table]:
    """A table of each silo; labels that came as an array are in its column ``label``. Raises DataError, ConfigError."""
    _check_names_of(silos)
    where = "the table of silo {!r}".format
    return {
        str(name): _labeled(given, "", _LABEL, where(name))
        if isinstance(given, tuple)
        else table_of(given, where(name))
        for name, given in silos.items()
    }


def _check_names_of(silos: Mapping[SiloName, Any]) -> None:
    if not silos:
        raise DataError("silos is empty: give a table for each silo, by its name")
    for name in silos:
        check_name(str(name))
        if name != str(name) and str(name) in silos:
            raise DataError(f"two silos are called {str(name)!r}, one by a number: give each another name")


def _labeled(given: Any, label: str, column: str, where: str) -> pa.Table:
    if not isinstance(given, tuple):
        if not label:
            raise ConfigError(f"label is missing: name the label column of {where}, or give a tuple (X, y) of arrays")
        return table_of(given, where, label)
    if len(given) != 2:
        raise DataError(f"{where} is a tuple of {len(given)}: give a DataFrame, or a pair (X, y) of arrays")
    check_aligned(*given, where)
    features = table_of(given[0], where)
    labels = labels_of(given[1], features.num_rows, where)
    if column in features.column_names:
        raise DataError(f"{where} has a column {column!r} and labels of their own: drop one of them")
    return features.append_column(column, _array(labels, f"the labels of {where}"))


def labels_of(given: Any, num_records: int, where: str) -> NDArray[Any]:
    """Labels ``(num_records,)``, which may come as one column. Raises DataError for another shape."""
    labels = as_array(given)
    if labels.shape == (num_records, 1):
        labels = labels[:, 0]
    if labels.shape != (num_records,):
        raise DataError(
            f"{where} has {num_records} records and labels of shape {labels.shape}: give one label for each record"
        )
    return labels


def check_aligned(X: Any, y: Any, where: str) -> None:
    """Raise DataError where the indexes of two pandas objects hold the same in another order, or warn of others.

    Records and labels are paired by position, as scikit-learn does.
    """
    one: Any = getattr(X, "index", None)
    other: Any = getattr(y, "index", None)
    # A list has a method of this name.
    if not hasattr(one, "equals") or not hasattr(other, "equals") or one.equals(other):
        return
    if len(one) == len(other) and one.isin(other).all() and other.isin(one).all():
        raise DataError(
            f"{where} is in another order than its labels, by their indexes: sort both, or give the labels' to_numpy() "
            "if rows belong together as they stand"
        )
    what = (
        f"{where} and its labels have indexes that differ, and are paired by position: check that rows belong together"
    )
    warnings.warn(what, DataWarning, stacklevel=2)


def table_of(given: Any, where: str, label: str = "") -> pa.Table:
    """A DataFrame, an Arrow table or an array ``(records, features)`` as a table without pandas' own remarks.

    Categories of numbers are text, but for those of the ``label`` column.
    """
    if isinstance(given, tuple) and hasattr(next(iter(given), None), "shape"):
        raise DataError(f"{where} is a tuple of {len(given)}: give the table alone")
    if isinstance(given, pa.Table):
        _check_names(given.column_names, where)
        return _table(given.columns, given.column_names, label)
    if _is_pandas(given):
        return _of_frame(given, where, label)
    if hasattr(given, "__arrow_c_stream__"):
        try:
            return table_of(pa.table(given), where, label)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise DataError(f"{where} is no table: {type(error).__name__}; give a DataFrame or an array") from None
    if hasattr(given, "collect"):
        raise DataError(f"{where} is a {type(given).__name__}: give what its collect() returns")
    X = as_array(given)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(
            f"{where} is of type {type(given).__name__}, with shape {X.shape} and {X.dtype}: give a DataFrame, or an "
            "array of numbers with one row for each record"
        )
    return pa.table(
        {
            f"x{number}": pa.array(np.ma.getdata(values), mask=_mask(values))
            for number, values in enumerate(X.T, start=1)
        }
    )


def named(X: NDArray[Any], names: Sequence[str], where: str) -> pa.Table:
    """An array ``(records, features)`` of any dtype as a table with columns ``names``; ``where`` is for errors."""
    columns = [_array(X[:, number], f"column {quoted(name)} of {where}") for number, name in enumerate(names)]
    return _table(pa.table(dict(zip(names, columns, strict=True))).columns, [*names], "")


def as_array(given: Any) -> NDArray[Any]:
    """Arrays of NumPy, SciPy and torch, and lists: dense, in this machine's byte order, masked where they were."""
    if hasattr(given, "toarray"):
        return np.asarray(given.toarray())
    if hasattr(given, "detach"):
        tensor = given.detach().cpu()
        return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)
    try:
        found = np.asanyarray(given)
    except ValueError:
        raise DataError("a list of records has rows of different lengths: give each as many values") from None
    found = found.astype(np.float64) if found.dtype == np.longdouble else found
    found = found if isinstance(found, np.ma.MaskedArray) else np.asarray(found)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))


def _mask(values: NDArray[Any]) -> NDArray[np.bool_] | None:
    return np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None


def _is_pandas(given: Any) -> bool:
    # Without pandas imported there is no DataFrame of its kind.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, pandas.DataFrame)


def _of_frame(frame: Any, where: str, label: str) -> pa.Table:
    names = [str(name) for name in frame.columns]
    _check_names(names, where)
    # One by one, so that an error can name the column without quoting a value.
    columns = [_array(frame.iloc[:, number], f"column {quoted(name)} of {where}") for number, name in enumerate(names)]
    return _table(pa.table(dict(zip(names, columns, strict=True))).columns, names, label)


def _table(columns: Sequence[pa.ChunkedArray], names: list[str], label: str) -> pa.Table:
    """As the same table is after a way through a file: categories are text, but for numbers in the ``label`` column."""
    own = [
        column.cast(kind.value_type)
        if name == label and pa.types.is_dictionary(kind := column.type) and is_number(kind.value_type)
        else column
        for name, column in zip(names, columns, strict=True)
    ]
    read = [without_blanks(usual(column)) for column in own]
    fields = [_field(name, *pair) for name, pair in zip(names, zip(own, read, strict=True), strict=True)]
    return pa.Table.from_arrays(read, schema=pa.schema(fields))


def _field(name: str, given: pa.ChunkedArray, read: pa.ChunkedArray) -> pa.Field:
    kind = given.type
    if not pa.types.is_dictionary(kind) or not given.num_chunks:
        return pa.field(name, read.type)
    whole = given.unify_dictionaries().chunk(0).dictionary
    return as_category(name, read, whole, ordered=kind.ordered)


def _check_names(names: list[str], where: str) -> None:
    if repeated := sorted(name for name, times in Counter(names).items() if times > 1):
        raise DataError(f"{where} has columns of the same name: {listed(repeated)}; rename them")


def _array(values: Any, where: str) -> Any:
    try:
        if isinstance(values, np.ndarray):
            return pa.array(np.ma.getdata(values), from_pandas=True, mask=_mask(values))
        return pa.array(_plain(values), from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        if (kind := str(values.dtype)) != "object":
            raise DataError(f"{where} holds {kind}: turn it into numbers or text") from None
        raise DataError(f"{where} does not hold one kind of values: make all of them numbers, or all text") from None


def _plain(values: Any) -> Any:
    """A column of pandas in a form that Arrow has: sparse ones dense, intervals and periods as text."""
    kind = getattr(values.dtype, "categories", values).dtype
    if type(kind).__name__ == "SparseDtype":
        return np.asarray(values)
    if type(kind).__name__ in ("IntervalDtype", "PeriodDtype"):
        if hasattr(values, "cat"):
            return values.cat.rename_categories(str)
        return values.astype(object).map(str, na_action="ignore")
    if isinstance(values.dtype, np.dtype) and not values.dtype.isnative:
        return as_array(values)
    if values.dtype == np.longdouble:
        return values.astype(np.float64)
    return values


_DIGITS: Final = 16
_NOT_OWN: Final = (*LIBRARIES, "torch", "builtins", "abc")
"""Packages whose code a digest leaves out."""
_CONSTANTS: Final = (int, float, str, tuple, list, dict, np.ndarray)
_NUMBERS: Final = itertools.count(1)


class Given(NamedTuple):
    """A learner as the run config names it, and the object, where it is held in memory."""

    name: str
    params: dict[str, Any]
    held: HeldLearner | None = None


def learners_of(learner: Any, silos: Sequence[SiloName]) -> tuple[dict[str, Any], list[HeldLearner]]:
    """Run-config values for one learner, or for a mapping with one for each silo, and what they hold in memory.

    A name alone says nothing of parameters: those are ``learner-params``. Raises LearnerError.
    """
    if isinstance(learner, str):
        return {"learner": learner}, []
    if not isinstance(learner, Mapping):
        given = given_learner(learner, "learner")
        return {"learner": given.name, "learner-params": json.dumps(given.params)}, _held([given])
    learner = {str(name): one for name, one in learner.items()}
    for name in learner:
        if name not in silos:
            raise LearnerError(f"learner names {name!r}, which is no silo: {suggest(name, silos)}")
    if missing := [silo for silo in silos if silo not in learner]:
        raise LearnerError(f"learner names none for silo {missing[0]!r}: give one for each silo, or one for all")
    all_given = [given_learner(learner[silo], f"learner of silo {silo!r}") for silo in silos]
    params = json.dumps([given.params for given in all_given])
    return {"learner": [given.name for given in all_given], "learner-params": params}, _held(all_given)


def ranking(learner: Any) -> Any:
    """Learners of time to an event, where functions ``fit(X, time, event)`` stand for estimators."""
    if isinstance(learner, Mapping):
        return {silo: ranking(one) for silo, one in learner.items()}
    return learners.ByFunction(learner) if isinstance(learner, FunctionType) else learner


def given_learner(learner: Any, what: str) -> Given:
    """One learner. Raises LearnerError for another object."""
    if isinstance(learner, str):
        return Given(learner, {})
    if isinstance(learner, type | FunctionType):
        raise LearnerError(_no_object(learner, what))
    if is_network(learner):
        if type(learner).__module__ == "torch.jit._script":
            raise LearnerError(
                f"{what} is a module of torch.jit.script, which cannot be trained: give the module itself"
            )
        return _as_object(learner, [package_of(type(learner))], deep=True)
    if not has_methods(learner, "fit", "predict"):
        raise LearnerError(
            f"{what} is of type {type(learner).__name__}: give an estimator in scikit-learn's manner, a torch "
            "module, a short name or an import path"
        )
    if is_plain(learner):
        return _as_object(learners.as_estimator(learner), {package_of(type(learner))}, deep=False)
    found = _by_path(learner)
    parts = [learner, *(value for value in learner.get_params(deep=True).values() if hasattr(value, "get_params"))]
    return found or _as_object(
        learner, {*map(package_of, functions_in(learner)), *(package_of(type(part)) for part in parts)}, deep=False
    )


def _no_object(maker: type | FunctionType, what: str) -> str:
    """The sentence that refuses a class, or a function that makes a learner, and says what works instead."""
    try:
        known = [*signature(maker).parameters.values()]
    except ValueError:  # a class that is built into Python
        known = []
    needed = [
        one.name
        for one in known
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    call = f"{maker.__name__}({', '.join(f'{name}=...' for name in needed)})"
    kind, instead = ("class", "an object of it") if isinstance(maker, type) else ("function", "what it returns")
    sizes = " and ".join(name for name in needed if name in ("num_features", "num_classes"))
    path = f", or its import path as text, such as 'my_module.{maker.__name__}', which gets {sizes}" if sizes else ""
    return f"{what} is the {kind} {maker.__name__}: give {instead}, {call}{path}"


def _held(given: Iterable[Given]) -> list[HeldLearner]:
    return [one.held for one in given if one.held]


def _by_path(estimator: Any) -> Given | None:
    """Its class by import path, with parameters that differ from the class's own; None where that is not the same."""
    kind = type(estimator)
    try:
        fresh = kind().get_params(deep=False)
        params = {
            name: value for name, value in estimator.get_params(deep=False).items()
            if name not in fresh or repr(value) != repr(fresh[name])
        }  # fmt: skip
        # Tuples, numbers of NumPy and the like would come back as something else.
        exact = repr(json.loads(json.dumps(params))) == repr(params)
    except Exception:  # what a user's class may raise when it is made without parameters
        return None
    path = _path(kind)
    return Given(path, params) if path and exact else None


def _path(kind: type) -> str | None:
    """Where any process of this machine can import a class from, by its public name if it has one."""
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        return None
    parts = kind.__module__.split(".")
    public = list(itertools.takewhile(lambda part: not part.startswith("_"), parts))
    for module in (".".join(public), kind.__module__):
        try:
            if module and getattr(import_module(module), kind.__name__, None) is kind:
                return f"{module}.{kind.__name__}"
        except ImportError:
            continue
    return None


def _own_code(learner: Any) -> list[Any]:
    """Code of a user's own functions and classes in a learner: a notebook gives one name to several in turn."""
    parts = [*learner.modules()] if is_network(learner) else [getattr(one, "wrapped", one) for one in parts_of(learner)]
    kinds = dict.fromkeys(kind for part in parts for kind in type(part).__mro__ if package_of(kind) not in _NOT_OWN)
    members = [(name, vars(kind)[name]) for kind in kinds for name in sorted(vars(kind))]
    left = [*functions_in(learner), *(getattr(one, "fget", getattr(one, "__func__", one)) for _, one in members)]
    known = dict[FunctionType, Any]()
    while left:
        if isinstance(one := left.pop(), FunctionType) and one not in known:
            cells = [cell.cell_contents for cell in one.__closure__ or ()]
            known[one] = [_instructions(one.__code__), one.__defaults__, one.__kwdefaults__, cells]
            called = [one.__globals__.get(name) for name in one.__code__.co_names]
            left += [each for each in called if getattr(each, "__module__", "") == one.__module__]
    return [
        *known.values(),
        *((name, one) for name, one in members if isinstance(one, _CONSTANTS) and name[:2] != "__"),
    ]


def _instructions(code: CodeType) -> tuple[Any, ...]:
    """Of a function, wherever it is written."""
    constants = [_instructions(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    return (
        code.co_code,
        code.co_names,
        [sorted(map(repr, one)) if isinstance(one, frozenset) else one for one in constants],
    )


def _as_object(learner: Any, packages: Iterable[str], *, deep: bool) -> Given:
    kind = type(learner)
    try:
        digest = str(joblib.hash((learner, _own_code(learner))))[:_DIGITS]
    except Exception:  # whatever pickling a user's object raises
        # A run with it cannot be resumed, as its learner cannot be compared with another.
        digest = f"unnamed-{next(_NUMBERS)}"
    original = copy.deepcopy(learner) if deep else copied(learner)
    name = f"{kind.__module__}.{kind.__qualname__}@{digest}".replace("<", "").replace(">", "").replace(",", "")
    made = partial(copy.deepcopy if deep else copied, original)
    held = HeldLearner(name, made, set(packages), get_config()["transform_output"])
    return Given(name, {}, held)
