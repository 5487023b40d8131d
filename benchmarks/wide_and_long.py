"""How long tables take that are very wide or very long, and how much memory: loaded, and in a whole simulation.

Each is measured in a process of its own, so that peaks of memory are not mixed. Of wide tables, the rounds alone are
measured too, side by side with scikit-learn alone on the arrays that were loaded.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import files
from fedct_flwr.datasets.federated import hold_out
from fedct_flwr.datasets.folder import read_folder
from fedct_flwr.datasets.labels import class_names
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import check_names
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import columns_of, encode
from fedct_flwr.flower.in_process import run_in_process
from fedct_flwr.learners.sklearn import make_estimator
from fedct_flwr.seeding import generator, random_state
from fedct_flwr.simulation.simulation import Simulation
from fedct_flwr.simulation.watch import Watch
from fedct_flwr.types import ABSTAIN, Examples

SILOS: Final = ("a", "b", "c")
LABEL: Final = "ill"
_ROOT: Final = Path(__file__).parents[1]
_LEARNER: Final = "naive-bayes"
_ROUNDS: Final = 2
TRAINED: Final = ("naive-bayes", "logistic-regression")
"""Learners whose rounds are compared with scikit-learn alone: the cheapest one is the hardest case."""


class Shape(NamedTuple):
    """Records in each of the four tables, and their numeric and categorical columns."""

    rows: int
    numbers: int
    categories: int


SHAPES: Final = {"wide": Shape(300, 20_000, 0), "long": Shape(250_000, 17, 3)}
_WIDE: Final = 1000
"""Columns from which on rounds are compared with scikit-learn alone."""
_SMALL: Final = {"wide": Shape(100, 2_000, 0), "long": Shape(25_000, 17, 3)}


def run(seeds: int | None, fast: bool) -> None:
    """Loading and simulating 4 tables of 300 x 20,000, and 4 of 250,000 x 20: seconds, and the peak of memory."""
    start = time.perf_counter()
    runs: dict[str, Runs] = {}
    shapes = _SMALL if fast else SHAPES
    for name, shape in shapes.items():
        with tempfile.TemporaryDirectory(prefix="fedct-") as temporary:
            folder = Path(temporary) / "tables"
            folder.mkdir()
            write(folder, shape)
            for _ in range(seeds or 1):
                steps = runs.setdefault(f"{name}: steps", Runs())
                steps.add(**{step: float(seconds) for step, seconds in _told(["steps", str(folder)])})
                runs.setdefault(f"{name}: load", Runs()).add(**_measured(_python("load", str(folder))))
                runs.setdefault(f"{name}: simulate", Runs()).add(**_measured(_simulation(folder, Path(temporary))))
                if shape.numbers >= _WIDE:
                    for learner in TRAINED:
                        told = _told(["train", str(folder), learner])
                        runs.setdefault(f"{name}: train {learner}", Runs()).add(**{k: float(v) for k, v in told})
    settings = {name: shape._asdict() for name, shape in shapes.items()} | {"learner": _LEARNER, "rounds": _ROUNDS}
    report.write("wide-and-long", _text(runs, shapes), runs, settings, time.perf_counter() - start)


def write(folder: Path, shape: Shape) -> None:
    """A public set and three silos of this shape, as CSV files."""
    rng = np.random.default_rng(0)
    for name in ("public", *SILOS):
        X = rng.normal(size=(shape.rows, shape.numbers)).round(4)
        table = {f"x{number}": column for number, column in enumerate(X.T)}
        wards = np.array(["east", "west", "north", "south"])
        table |= {f"c{number}": wards[rng.integers(0, 4, shape.rows)] for number in range(shape.categories)}
        if name != "public":
            table[LABEL] = np.where(X[:, :4].sum(axis=1) > 0, "yes", "no")
        pyarrow.csv.write_csv(pa.table(table), folder / f"{name}.csv")


def load(folder: Path) -> None:
    """Load a folder as a simulation does."""
    settings = {"study": "s", "data": "files", "data-dir": str(folder), "label-column": LABEL}
    dataset = files.load(RunConfig.from_flower(settings))
    # Every simulation asks for it.
    assert dataset.public.fingerprint


def steps(folder: Path) -> dict[str, float]:
    """Seconds of processor time of each step of loading, over all tables."""
    spent: dict[str, float] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        spent[name] = spent.get(name, 0.0) + time.process_time() - began

    found = read_folder(folder)
    with step("reading"):
        table = read_table(found.public)
    with step("what columns are"):
        columns = columns_of(table, found.public)
    with step("check_names"):
        check_names(columns, found.public)
    with step("encode"):
        public = PublicSet(encode(table, columns, found.public))
    with step("fingerprint"):
        assert public.fingerprint
    text = [LABEL, *(column.name for column in columns if column.categories is not None)]
    for silo, path in found.silos.items():
        with step("reading"):
            table = read_table(path, text)
        with step("labels"):
            names = class_names(table.column(LABEL), LABEL, path)
        with step("encode"):
            X = encode(table.drop_columns([LABEL]), columns, path)
        records = Examples(X, np.array([name == "yes" for name in names], dtype=np.int16))
        with step("hold_out"):
            hold_out(records, (0.2,), generator(0, "split", silo))
    return spent


def train(folder: Path, learner: str) -> dict[str, float]:
    """Processor seconds of all rounds, and of the same training by scikit-learn alone, on the arrays that were loaded.

    Scikit-learn alone imputes, scales, fits and predicts the public set, in each round for each silo, as its pipeline
    does.
    """
    settings = {
        "study": "wide",
        "data": "files",
        "data-dir": str(folder),
        "label-column": LABEL,
        "learner": learner,
        # Without the guard, a round is one fit and one prediction for each silo.
        "pseudo-weight": 1.0,
        "num-server-rounds": _ROUNDS,
        "stop-at-fixed-point": False,
    }
    with tempfile.TemporaryDirectory(prefix="fedct-") as temporary:
        # Whatever is imported and read once is no part of the rounds that are measured.
        first, _ = _rounds({**settings, "num-server-rounds": 1}, Path(temporary) / "first")
        targets = np.asarray(first.folder.load_checkpoint().targets)
        simulation, seconds = _rounds(settings, Path(temporary) / "run")
    public, labeled, alone = simulation.dataset.public.X, np.flatnonzero(targets != ABSTAIN), 0.0
    with threadpool_limits(1):
        for silo in simulation.dataset.silos:
            estimator = make_estimator(learner, {}, random_state(simulation.config.seed, "learner", silo.name))
            pipeline = make_pipeline(SimpleImputer(), StandardScaler(), estimator)
            began = time.process_time()
            pipeline.fit(*silo.private).predict(public)
            both = np.concatenate([silo.private.X, public[labeled]])
            pipeline.fit(both, np.concatenate([silo.private.y, targets[labeled]])).predict(public)
            alone += time.process_time() - began
    return {"rounds": seconds, "alone": alone}


def _rounds(settings: dict[str, Any], path: Path) -> tuple[Simulation, float]:
    """A simulation that has run, and the processor seconds of its rounds."""
    simulation = Simulation.checked(settings, path)
    began = time.process_time()
    simulation.run(run_in_process, Watch(simulation.folder, lambda record: None))
    return simulation, time.process_time() - began


def _simulation(folder: Path, temporary: Path) -> list[str]:
    number = len(list(temporary.iterdir()))
    options = ["--data-dir", str(folder), "--label", LABEL, "--learner", _LEARNER, "--rounds", str(_ROUNDS)]
    command = "from fedct_flwr.cli.main import run; run()"
    more = ["--in-process", "--no-watch", "--run-dir", str(temporary / f"run-{number}")]
    return [sys.executable, "-c", command, "simulate", *options, *more]


def _python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.wide_and_long", *arguments]


def _measured(command: list[str]) -> dict[str, float]:
    """Seconds, how many of them it waited for a core, processor seconds, and the peak of memory in MB of a process.

    Where other work runs on the machine, seconds say more of that than of the process.
    """
    start = time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    # Of its first thread, nanoseconds on a core and in wait of one: Linux, Documentation/scheduler/sched-stats.rst.
    waited = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[-1]} ended with {process.returncode}")
    # Linux counts kilobytes.
    return {
        "seconds": time.perf_counter() - start,
        "waited": waited,
        "processor": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss * 1024 / 1e6,
    }


def _told(arguments: list[str]) -> list[list[str]]:
    done = subprocess.run(_python(*arguments), cwd=_ROOT, check=True, capture_output=True, text=True)
    return [line.rsplit(" ", 1) for line in done.stdout.splitlines()]


def _text(runs: dict[str, Runs], shapes: dict[str, Shape]) -> str:
    def median(of: str, name: str) -> float:
        return float(np.median(runs[of].values[name]))

    whole = [
        [
            f"{name}: 4 x {shape.rows:,} x {shape.numbers + shape.categories:,}",
            what,
            *(f"{median(f'{name}: {what}', value):,.{digits}f}" for value, digits in _COLUMNS.items()),
        ]
        for name, shape in shapes.items()
        for what in ("load", "simulate")
    ]
    trained = [
        [learner, f"{rounds:.2f}", f"{alone:.2f}", f"{rounds / alone:.2f}"]
        for learner in TRAINED
        for rounds, alone in [[median(f"wide: train {learner}", value) for value in ("rounds", "alone")]]
    ]
    named = list(next(iter(runs.values())).values)
    parts = [[step, *(f"{median(f'{name}: steps', step):.2f}" for name in shapes)] for step in named]
    return (
        "# Wide and long tables\n\n"
        f"A public set and three silos as CSV files. `simulate` is `fedct simulate --in-process` with `{_LEARNER}` and "
        f"{_ROUNDS} rounds, baselines included; memory is that of the whole process, all libraries included.\n\n"
        + report.table(
            ["Tables", "", "Seconds", "of which waiting for a core", "Processor seconds", "Peak of memory (MB)"], whole
        )
        + f"\nProcessor seconds of {_ROUNDS} rounds on the wide tables, with messages, consensus and models on disk, "
        "next to scikit-learn alone on the same arrays: its pipeline of imputing, scaling and the learner, fitted and "
        "asked about the public set as often. Goal: at most twice.\n\n"
        + report.table(["Learner", "Rounds", "scikit-learn alone", "Ratio"], trained)
        + "\nProcessor seconds of each step of loading, over all four tables:\n\n"
        + report.table(["Step", *shapes], parts)
    )


_COLUMNS: Final = {"seconds": 1, "waited": 1, "processor": 1, "megabytes": 0}


def _print(found: dict[str, float]) -> None:
    for name, seconds in found.items():
        print(name, seconds)


_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "load": load,
    "steps": lambda folder: _print(steps(folder)),
    "train": lambda folder, learner: _print(train(folder, learner)),
}

if __name__ == "__main__":
    _COMMANDS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
