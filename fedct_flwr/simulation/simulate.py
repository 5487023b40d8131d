"""``simulate()``: data, an algorithm and learners in, a run out."""

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

from fedct_flwr import datasets, evaluation, privacy
from fedct_flwr.algorithms.fedct import FedCT, is_own
from fedct_flwr.config.run import MEMORY, RunConfig
from fedct_flwr.config.settings import kebab
from fedct_flwr.datasets.from_tables import FOLDER, Tables
from fedct_flwr.datasets.inspection import gathered
from fedct_flwr.learners.catalog import LEARNER_FOLDER, HeldLearner, named_in, package
from fedct_flwr.runs.records import errors_of, grouped
from fedct_flwr.runs.run_folder import Monitor, RunFolder
from fedct_flwr.simulation.run import OwnFolder, Run
from fedct_flwr.simulation.silos import Data, Silos, data_of, divided, given_learner, is_partition, learners_of, ranking
from fedct_flwr.simulation.simulation import Engine, Simulation
from fedct_flwr.text.console import bar
from fedct_flwr.text.console import progress as bar_of
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import ConfigError, DataWarning, LearnerError, RunError, SiloName

if TYPE_CHECKING:
    from fedct_flwr.config.method import Method

_FOR_TIMES: Final = "fedct-grades"
"""The algorithm for time to an event."""
_OF_ARGUMENTS: Final = {
    "data": "silos", "data-dir": "silos", "label-column": "label", "num-server-rounds": "rounds", "run-dir": "run_dir",
    "group-column": "group", "event-column": "event",
}  # fmt: skip
"""Keys of the run config that an argument stands for."""


def simulate(
    silos: Silos | Any = None,
    public: Any = None,
    *,
    label: str = "",
    group: str = "",
    time: str = "",
    event: str = "",
    tests: Mapping[SiloName, Any] | None = None,
    algorithm: "Method | FedCT | str | None" = None,
    learner: Any = None,
    rounds: int | None = None,
    seed: int | None = None,
    engine: Engine = "loopback",
    run_dir: Path | str | None = None,
    resume: Path | str | None = None,
    packages: Collection[str] = (),
    progress: bool | Callable[[Mapping[str, Any]], None] | None = None,
    _first: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """Run a federation on this machine, and score it against every silo alone and all data in one place.

    ``silos`` is a mapping of names to tables: DataFrames with the column ``label``, or pairs ``(X, y)`` of arrays; with
    ``public``, the table of unlabeled examples, which decides what columns there are, or ``Drawn(epsilon=1)`` where
    there is none. Or it is a folder of tables or images, or the name of a data set. One table, or all silos' tables,
    are divided by ``partition=Dirichlet(0.5, silos=10)`` or ``IID(10)``; without ``public`` a quarter of the records
    loses its labels. ``group`` names a column that says which records belong together, such as a patient's number: it
    is no feature, and no patient is both trained on and tested with. ``time`` and ``event`` name columns of follow-up
    instead of a ``label``: silos then share grades of risk. A silo with a table in ``tests`` is tested on
    it, and any other on a share of its records.

    ``algorithm`` is an object such as ``FedCT(Qualified(0.9))`` or a name; ``learner`` an estimator in scikit-learn's
    manner, a torch module, a short name, an import path, or a mapping of silos to these; for times to an event also a
    function ``fit(X, time, event)`` that returns another, from ``X`` to log hazards. Other keys of the run config
    are arguments with underscores: ``protection="dp-linear", epsilon=1.0``. Defaults are in
    ``config/run.py`` and in the algorithm's own file.

    The run goes to the new folder ``run_dir``, or to a temporary one that lives as long as the ``Run``. ``resume`` is
    the folder of a run to go on with, up to another number of ``rounds``; ``packages`` are those whose learners it may
    name by import paths. ``progress`` shows bars (None: on a terminal), or is given each round's record.

    Suspicious tables raise a ``DataWarning``, and those that would make results meaningless a DataError; findings
    that are intended go by ``accept=["one-per-record:ward"]``.

    Raises ConfigError for settings, LearnerError for a learner, DataError for data, before anything is written; and
    RunError for a run that fails.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def records(n):
    ...     X = rng.normal(size=(n, 2))
    ...     return X, X[:, 0] > 0
    >>> run = simulate({"a": records(40), "b": records(40)}, records(60)[0], learner="naive-bayes", progress=False)
    >>> run.status, sorted(run.models), run.consensus.dtype
    ('completed', ['a', 'b'], dtype('bool'))
    """
    if engine not in get_args(Engine):
        raise ConfigError(f"unknown engine {engine!r}: {suggest(str(engine), get_args(Engine))}")
    if not isinstance(group, str):
        raise ConfigError(f"group is of type {type(group).__name__}: give the name of a column")
    label, of_times = _of_times(label, time, event, algorithm, settings)
    settings = {key: value for key, value in settings.items() if key not in of_times}
    begun = _begun(resume, run_dir)
    # Later ones win: the settings of a run that goes on, the data, keys of the run config, the algorithm, the learner.
    # Another seed of repeated runs has the settings of the first one.
    before = _first if begun is None else begun
    if silos is None and before is None:
        raise ConfigError("silos is missing: give a table for each silo, a folder, or a data set's name")
    if is_partition(split := settings.get("partition")):
        silos, public, label = divided(silos, public, label, group, split, seed or 0)
        del settings["partition"]
    data = Data({}) if silos is None else data_of(silos, public, label, tests)
    named = of_times | _settings(settings, rounds=rounds, seed=seed, group=group or None)
    given = named | _of_algorithm(algorithm, settings)
    chosen = {**_with_data(before, data), "resume": begun is not None} | given
    of_learner, held = _of_learner(learner, chosen, settings)
    chosen, given = chosen | of_learner, given | of_learner
    if held and engine == "flower":
        raise LearnerError(
            f"the learner {held[0].name.partition('@')[0]} is an object that only this process has: give engine "
            "'loopback', or an estimator whose class can be imported and whose parameters JSON can hold"
        )
    if isinstance(algorithm, FedCT) and is_own(type(algorithm.rule)) and engine == "flower":
        raise ConfigError("a rule of one's own is an object that only this process has: give engine 'loopback'")
    own = None if run_dir or resume else OwnFolder()
    path = own.path / "run" if own else Path(run_dir or resume or "").resolve()
    try:
        trusted = None if before is None else {*packages, *map(package, named_in(given))}
        simulation = Simulation.checked(chosen, path, named=[*named], begun=begun, packages=trusted)
        if _first and begun is None:
            settled = simulation.config.to_flower()
            if changed := sorted(key for key, value in _first.items() if settled.get(key) != value):
                raise RunError(f"the first seed's run has other settings ({', '.join(changed)}): leave these out")
        for note in simulation.notes():
            warnings.warn(note, DataWarning, stacklevel=2)
        for caution in simulation.cautions():
            warnings.warn(caution, privacy.PrivacyWarning, stacklevel=2)
        for finding in gathered(simulation.findings):
            warnings.warn(finding.sentence, DataWarning, stacklevel=2)
        with _for_others(data.tables, engine) as variables:
            _run(simulation, engine, variables, progress, keep_log=own is None)
    except BaseException:
        # A run that is not returned leaves nothing behind.
        if own:
            own.remove()
        raise
    return Run(simulation.folder, dataset=simulation.dataset, held=[own, data.tables, *held, simulation.models])


def _run(
    simulation: Simulation,
    engine: Engine,
    variables: Mapping[str, str],
    progress: bool | Callable[[Mapping[str, Any]], None] | None,
    *,
    keep_log: bool,
) -> None:
    runner = simulation.runner(engine, variables, outlives=True)
    on_round = progress if callable(progress) else None
    visible = None if progress is None else progress is True
    ended = len(simulation.folder.rounds())
    left = simulation.config.rounds - ended
    shown = (
        bar("rounds", left, visible=visible) if visible is not False else contextlib.nullcontext(lambda number: None)
    )
    with shown as advance:
        monitor = Monitor(simulation.folder, on_round or (lambda record: advance(1)))
        simulation.run(runner, monitor, keep_log=keep_log)
    for line in grouped(errors_of(simulation.folder)):
        warnings.warn(f"a silo could not answer in each round, or keep its model: {line}", stacklevel=3)
    simulation.score(iter if visible is False else partial(bar_of, what=evaluation.TRAINING, visible=visible))


def _settings(settings: Mapping[str, Any], **named: Any) -> dict[str, Any]:
    """Run-config values of what goes by its key, and of arguments that are given. Raises ConfigError."""
    keys = {"rounds": "num-server-rounds", "seed": "seed", "group": "group-column"}
    found = {keys[name]: value for name, value in named.items() if value is not None}
    for name, value in settings.items():
        key = kebab(name)
        if argument := _OF_ARGUMENTS.get(key):
            raise ConfigError(f"{name} is no setting of simulate(): give {argument}")
        if key == "student" and not isinstance(value, str):
            found |= _of_student(value, settings)
        elif key.endswith("-params") and not isinstance(value, str):
            found[key] = _as_json(value, name)
        elif isinstance(value, Path):
            # The coordinator of Flower's engine works elsewhere.
            found[key] = str(value.resolve())
        else:
            found[key] = tuple(value) if isinstance(value, list) else value
    return found


def _as_json(params: Any, name: str) -> str:
    """Parameters as JSON, with NumPy's numbers as Python's. Raises ConfigError for what JSON does not have."""
    try:
        return json.dumps(params, default=lambda value: value.item())
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(
            f"{name} hold a value that JSON does not have: give numbers, text and lists, or the learner as an object"
        ) from None


def _of_times(
    label: str, time: str, event: str, algorithm: Any, settings: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The label column and settings for time to an event, where its columns are named. Raises ConfigError."""
    if not time and not event:
        return label, {}
    if not (time and event):
        raise ConfigError("time and event go together: name the column of times, and the column of events (1 or 0)")
    if label:
        raise ConfigError("label is for classes and numbers, time and event are for time to an event: leave one out")
    horizons = settings.get("horizons", ())
    horizons = horizons if isinstance(horizons, str) else tuple(map(str, np.atleast_1d(horizons)))
    given = {"outcome": "survival", "event-column": event, "horizons": horizons}
    return time, given | ({} if algorithm else {"algorithm": _FOR_TIMES})


def _of_student(student: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    given = given_learner(student, "student")
    if given.held:
        raise LearnerError(
            "student is an object that no file can name: give an estimator whose class can be imported and whose "
            "parameters JSON can hold, a short name, or an import path"
        )
    if "student_params" in settings:
        raise ConfigError("student_params have no effect on a student that is an object: set them on it")
    return {"student": given.name, "student-params": json.dumps(given.params)}


def _of_algorithm(algorithm: "Method | FedCT | str | None", settings: Mapping[str, Any]) -> dict[str, Any]:
    if algorithm is None or isinstance(algorithm, str):
        return {} if algorithm is None else {"algorithm": algorithm}
    if isinstance(algorithm, type) or not hasattr(algorithm, "settings"):
        raise ConfigError(f"algorithm is {algorithm!r}: give an object such as FedCT(), or a name such as 'fedct'")
    found = algorithm.settings()
    for name in settings:
        if kebab(name) in found:
            raise ConfigError(f"{name} is set twice, by algorithm as well: leave one of them out")
    return found


def _of_learner(
    learner: Any, chosen: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], list[HeldLearner]]:
    if learner is None:
        return {}, []
    if chosen.get("outcome") == "survival":
        learner = ranking(learner)
    if "learner_params" in settings and not isinstance(learner, str):
        raise ConfigError("learner_params have no effect on learners that are objects: set them on these")
    # Only a mapping asks for the silos' names.
    named = isinstance(learner, Mapping)
    silos = [silo.name for silo in datasets.load(RunConfig.from_flower(chosen)).silos] if named else []
    return learners_of(learner, silos)


def _with_data(before: Mapping[str, Any] | None, data: Data) -> dict[str, Any]:
    """Settings with these data. Runs that go on keep their study's name. Raises RunError where tables were others."""
    if before is None:
        return data.settings
    if data.tables and (before.get("data"), before.get("data-dir")) != (MEMORY, data.tables.digest):
        raise RunError("cannot resume the run with other data: hand it the very tables that it began with")
    return {**before, **{key: value for key, value in data.settings.items() if key != "study"}}


def _begun(resume: Path | str | None, run_dir: Path | str | None) -> dict[str, Any] | None:
    """The settings that a resumed run began with. Raises RunError for a folder without them."""
    if resume is None:
        return None
    if run_dir is not None:
        raise ConfigError("run_dir has no effect with resume: leave it out")
    return RunFolder(Path(resume).resolve()).settings()


@contextlib.contextmanager
def _for_others(tables: Tables | None, engine: Engine) -> Iterator[dict[str, str]]:
    """Environment variables by which other processes find tables, and learners in the working folder."""
    if engine == "loopback":
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="fedct-tables-") as folder:
        if tables:
            tables.write(Path(folder))
        yield {FOLDER: folder, LEARNER_FOLDER: os.environ.get(LEARNER_FOLDER, str(Path.cwd()))}
