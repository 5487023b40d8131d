"""One simulation under several seeds: a run folder for each below one folder, and means with their standard errors.

A seed draws the split into training and test records, and all that is random in training. The standard error says
how far the mean over these seeds may lie off the mean over all seeds; it does not say what other patients would give.
"""

import math
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple, TypeAlias

from joblib import Parallel, cpu_count, delayed, parallel_config
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from fedct_flwr.config.settings import MAX_INT
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.evaluation.references import methods_of
from fedct_flwr.runs import scores
from fedct_flwr.runs.run_folder import Monitor, RunFolder, check_new
from fedct_flwr.runs.scores import SiloScores
from fedct_flwr.simulation.comparing import LEVEL, over_seeds, overlap, standard_error
from fedct_flwr.simulation.notebook import DataFrame, RichRepr, frame
from fedct_flwr.simulation.run import OwnFolder, Run, read_run
from fedct_flwr.simulation.silos import divided, is_partition
from fedct_flwr.simulation.simulate import simulate
from fedct_flwr.simulation.simulation import Engine, Simulation
from fedct_flwr.types import ConfigError, FedctError, LearnerError, RunError, SiloName

TESTS: Final = {"pooled": "pooled test", "own": "own test"}
"""The pooled test first: it has more records."""
_FEWEST: Final = 2
_MOST_AT_ONCE: Final = 4
_SECONDS_TO_START: Final = 2.0
"""A run shorter than a process takes to start is not worth one."""
_OF_ONE_RUN: Final = frozenset({"seed", "run-dir", "resume"})

Begin: TypeAlias = Callable[[Path, int, bool], None]
"""Begins the run of a seed in a new folder, or resumes it there (True), and scores it."""


class Mean(NamedTuple):
    """A mean over ``n`` seeds and its standard error; NaN for what cannot be computed. ``ahead``: of them above 0.

    Seeds that all give the same tell no error.
    """

    mean: float
    error: float
    n: int
    ahead: int = 0

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Of the values that are known.

        >>> Mean.of([1.0, 3.0, float("nan")])
        Mean(mean=2.0, error=1.0, n=2, ahead=2)
        """
        known = [value for value in values if not math.isnan(value)]
        mean = fmean(known) if known else math.nan
        return cls(mean, standard_error(known), len(known), sum(value > 0 for value in known))


def seeds_in(folder: Path) -> tuple[int, ...]:
    """Seeds that have a run folder here, in their order; none for a folder of something else."""
    names = [path.name.removeprefix("seed-") for path in folder.glob("seed-*") if RunFolder(path).exists()]
    return tuple(sorted(int(name) for name in names if name.isdecimal()))


def seeds_to_go_on_with(folder: Path) -> tuple[int, ...]:
    """The same. Raises RunError for a folder without any."""
    if not (seeds := seeds_in(folder)):
        raise RunError(f"{folder} is no folder of repeated runs: it has no run seed-0 or of another seed")
    return seeds


def planned_seeds(repeats: int, seed: int | None, begun: Sequence[int] = ()) -> tuple[int, ...]:
    """``repeats`` seeds from ``seed`` (0) on, and at least those that were ``begun``. Raises ConfigError."""
    if not isinstance(repeats, int):
        raise ConfigError("repeats comes first and is the number of seeds, as in repeat(5, silos, public, label=...)")
    if repeats < _FEWEST:
        raise ConfigError(f"repeats is {repeats}: a standard error needs {_FEWEST} seeds at least")
    if begun and seed not in (None, begun[0]):
        raise ConfigError(f"the repeats begin with seed {begun[0]} and not {seed}: leave the seed out")
    first = begun[0] if begun else seed or 0
    number = max(repeats, begun[-1] - first + 1 if begun else 0)
    if not 0 <= first <= MAX_INT - number:
        raise ConfigError(f"{number} seeds from {first} on are no seeds: choose another one")
    return tuple(range(first, first + number))


def settings_of(folder: Path) -> dict[str, Any]:
    """The settings of a run but for its seed and its folder. Raises RunError."""
    return {key: value for key, value in RunFolder(folder).settings().items() if key not in _OF_ONE_RUN}


def seed_folder(folder: Path, seed: int) -> Path:
    """Where the run of a seed is."""
    return folder / f"seed-{seed}"


def run_seeds(
    folder: Path,
    seeds: Sequence[int],
    begin: Begin,
    on_run: Callable[[Run], None],
    processes: int = 1,
    seconds: float = math.inf,
) -> None:
    """Run the seeds that have no finished run in the folder, and tell each run, also those that had.

    Where the first takes a while, the others run in ``processes`` at a time, and ``begin`` must be picklable; none
    begins after ``seconds``. A run that was stopped goes on from its checkpoint; one without any starts over. Raises
    RunError for a run that fails; the others stay, and the next call goes on there.
    """
    started = time.monotonic()

    def tasks(part: Sequence[int]) -> Iterator[Any]:
        for seed in part:
            if seed == seeds[0] or time.monotonic() - started < seconds:
                # Learners of one's own are imported from where this process finds them.
                yield delayed(_begin)(seed_folder(folder, seed), seed, begin, sys.path)

    for part in (seeds[:1], seeds[1:]):
        slow = time.monotonic() - started > _SECONDS_TO_START
        with parallel_config("loky", inner_max_num_threads=1):
            parallel = Parallel(n_jobs=processes if slow else 1, return_as="generator", pre_dispatch="n_jobs")
            for path in parallel(tasks(part)):
                _check_same(seed_folder(folder, seeds[0]), path)
                on_run(read_run(path))


def is_complete(path: Path) -> bool:
    """Whether a run has ended well and is scored."""
    run = RunFolder(path)
    ended = run.ended_at() is not None and run.read_json("result.json").get("status") == "completed"
    return ended and (path / scores.FILE).is_file()


def _begin(path: Path, seed: int, begin: Begin, search: list[str]) -> Path:
    sys.path[:] = search
    if is_complete(path):
        return path
    can_go_on = (path / "checkpoint.npz").is_file() and RunFolder(path).exists()
    if path.exists() and not can_go_on:
        # Nothing of it can be used.
        shutil.rmtree(path)
    try:
        begin(path, seed, can_go_on)
    except (ConfigError, LearnerError):
        raise  # of the settings, which all seeds have
    except FedctError as error:
        raise type(error)(f"with seed {seed}: {error}") from error
    return path


def _check_same(first: Path, path: Path) -> None:
    """Raise RunError where two runs differ in more than their seed: no mean would be of anything."""
    one, other = settings_of(first), settings_of(path)
    if changed := sorted(key for key in {*one, *other} if one.get(key) != other.get(key)):
        raise RunError(f"{path} has other settings than {first} ({', '.join(changed)}): take it away, and go on")


def at_once(engine: Engine) -> int:
    """Number of runs at a time: each has its data in memory, and Flower's engine takes all cores for one."""
    return 1 if engine == "flower" else min(_MOST_AT_ONCE, cpu_count())


def run_one(
    settings: Mapping[str, Any],
    engine: Engine,
    named: Collection[str],
    packages: Collection[str] | None,
    path: Path,
    seed: int,
    goes_on: bool,
) -> None:
    """Begin a run of these settings in a new folder, or resume it there, and score it. Raises as ``Simulation``."""
    begun = RunFolder(path).settings() if goes_on else None
    chosen = {**begun, "resume": True} if begun is not None else {**settings, "seed": seed}
    simulation = Simulation.checked(chosen, path, named=named, begun=begun, packages=packages)
    simulation.run(simulation.runner(engine), Monitor(simulation.folder, lambda record: None))
    simulation.score()


class Repeats(RichRepr):
    """Runs that differ in their seed alone. Its table has means over the seeds, with standard errors."""

    def __init__(self, path: Path, *, held: Sequence[object] = (), packages: Collection[str] | None = ()) -> None:
        self.path, self._held, self._packages = path, held, packages
        self.seeds = tuple(seed for seed in seeds_to_go_on_with(path) if is_complete(seed_folder(path, seed)))
        """Seeds whose runs have ended."""
        if not self.seeds:
            raise RunError(f"no run in {path} has ended yet: go on with it")

    @property
    def runs(self) -> Iterator[Run]:
        """One after the other, so that only one is in memory."""
        return (Run(RunFolder(seed_folder(self.path, seed)), packages=self._packages) for seed in self.seeds)

    @property
    def first(self) -> Run:
        """The run with the first seed."""
        return next(iter(self.runs))

    @cached_property
    def _overlap(self) -> float:
        return overlap(self.first)

    @cached_property
    def rows(self) -> list[list[SiloScores]]:
        """The scores of each run, in the order of the seeds."""
        return [scores.read(seed_folder(self.path, seed) / scores.FILE) for seed in self.seeds]

    @property
    def silos(self) -> list[SiloName]:
        """The silos that are in any run, in their order."""
        return list(dict.fromkeys(row.silo for rows in self.rows for row in rows))

    @property
    def methods(self) -> tuple[str, ...]:
        """Scored methods: the run's own models, and the baselines that it trained."""
        return methods_of(self.first.config)

    @property
    def scores(self) -> DataFrame:
        """Means and standard errors by silo, and of all. Needs pandas."""
        lines: list[tuple[str, Callable[[str], dict[str, Mean]]]]
        lines = [*((silo, partial(self.of_silo, silo)) for silo in self.silos), ("mean", self.of_all)]
        rows: list[dict[str, Any]] = []
        for name, of in lines:
            rows.append({"silo": name})
            for test in TESTS:
                for method, value in of(test).items():
                    rows[-1] |= {f"{test}_{method}": value.mean, f"{test}_{method}_error": value.error}
        return frame(rows, "silo")

    @property
    def document(self) -> dict[str, Any]:
        """The means for programs."""
        first = self.first
        return {
            "study": first.config.study,
            "algorithm": first.config.algorithm,
            "folder": str(self.path),
            "seeds": list(self.seeds),
            "measure": first.measure,
            "silos": [
                {"silo": silo, **{test: _documents(self.of_silo(silo, test)) for test in TESTS}} for silo in self.silos
            ],
            "mean": {test: _documents(self.of_all(test)) for test in TESTS},
        }

    def of_silo(self, silo: SiloName, test: str) -> dict[str, Mean]:
        """By method, a silo's mean score on its ``own`` or the ``pooled`` test set; ``gain`` is that over local."""
        found = [row for rows in self.rows for row in rows if row.silo == silo]
        return self._means([{method: row.value(test, method) for method in self.methods} for row in found])

    def of_all(self, test: str, name: str = "") -> dict[str, Mean]:
        """The same of the mean over the silos that have all scores under a seed, or all metrics of this ``name``."""
        return self._means([scores.means(rows, test, name) for rows in self.rows])

    def of_worst(self, test: str) -> dict[str, Mean]:
        """The same of the silo with the lowest score by each method: which one that is may differ."""
        seeds = [own for rows in self.rows if (own := scores.comparable(rows, test))]
        return self._means([{m: min(row.value(test, m) for row in own) for m in self.methods} for own in seeds])

    @property
    def sentence(self) -> str:
        """Meaning of the gains over silos alone, in a sentence."""
        if "local" not in self.methods:
            return ""
        if len(self.seeds) == 1:
            return "one seed cannot be told from chance: --repeats 8 runs more"
        title = find_algorithm(self.first.config).full_title
        parts = []
        for test, where in {"pooled": "on all silos' test records", "own": "on their own"}.items():
            found = self.of_all(test)["gain"]
            *_, p = over_seeds(found.mean, found.error, found.n, self._overlap)
            if not math.isnan(p):
                better = "they gain" if found.mean > 0 else "they lose"
                word = better if p < 1 - LEVEL else "the difference may be chance"
                ahead = f"ahead in {found.ahead} of {found.n} seeds"
                parts.append(f"{where} {word} ({shown(found, signed=True)}, {ahead})")
            elif found.n > 1:
                same = f"all seeds gave the same difference ({shown(found, signed=True)})"
                parts.append(f"{where} {same}, as with own test files and a learner without chance")
        lost = Counter(row.silo for rows in self.rows for row in rows if row.verdict and row.verdict.word == "lost")
        if lost:
            named = ", ".join(f"{silo} in {times}" for silo, times in lost.most_common())
            parts.append(f"by an exact test on own records, these lost in some of {len(self.seeds)} seeds: {named}")
        return f"silos with {title}: {'; '.join(parts)}" if parts else ""

    def _means(self, scores: Sequence[Mapping[str, float]]) -> dict[str, Mean]:
        found = {method: Mean.of([row[method] for row in scores]) for method in self.methods}
        if "local" in self.methods:
            # Paired: a seed that is hard for one is hard for the other.
            found["gain"] = Mean.of([row["federated"] - row["local"] for row in scores])
        return found

    def _headline(self) -> str:
        how = find_algorithm(self.first.config)
        return f"{how.full_title}: {len(self.seeds)} seeds, in {self.path}"

    @property
    def lines(self) -> list[tuple[str, list[tuple[str, dict[str, Mean]]]]]:
        """The table's sections: by test the silos' means, then those of all, of the worst silo, and of the AUC."""
        found = []
        for test, words in TESTS.items():
            if (overall := self.of_all(test))["federated"].n:
                of = [(silo, self.of_silo(silo, test)) for silo in self.silos]
                of += [("mean", overall), ("worst silo", self.of_worst(test))]
                if (areas := self.of_all(test, "auc"))["federated"].n:
                    of.append(("mean AUC", areas))
                found.append((words, of))
        return found

    @property
    def columns(self) -> list[str]:
        """Headings of ``cells``."""
        title = find_algorithm(self.first.config).title
        heads = {**scores.titles(title), "centralized": "pooled data"}
        gains = [f"{title} - alone", "ahead in"] if "local" in self.methods else []
        return [*(heads[name] for name in self.methods), *gains]

    def cells(self, of: Mapping[str, Mean]) -> list[str]:
        """A line's means by method, its gain with the standard error, and in how many splits that is one."""
        means = [shown(of[method]._replace(error=math.nan)) for method in self.methods]
        return (
            [*means, shown(of["gain"], signed=True), f"{of['gain'].ahead} of {of['gain'].n}"] if "gain" in of else means
        )

    def _table(self) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column(self.first.measure.replace(" ", "\n"), no_wrap=True)
        for heading in self.columns:
            table.add_column(heading, justify="right", no_wrap=True)
        for words, lines in self.lines:
            table.add_section()
            table.add_row(f"[italic]{words}[/]")
            for name, of in lines:
                table.add_row(escape(name), *self.cells(of), style="bold" if name == "mean" else None)
        return table


def _documents(means: Mapping[str, Mean]) -> dict[str, Any]:
    return {name: mean._asdict() for name, mean in means.items()}


def shown(value: Mean, *, signed: bool = False) -> str:
    """A mean with its standard error.

    >>> shown(Mean(0.8, 0.012, 5)), shown(Mean(0.02, 0.01, 5), signed=True), shown(Mean(math.nan, math.nan, 0))
    ('0.800 ±0.012', '+0.020 ±0.010', '-')
    """
    if math.isnan(value.mean):
        return "-"
    mean = f"{value.mean:+.3f}" if signed else f"{value.mean:.3f}"
    return mean if math.isnan(value.error) else f"{mean} ±{value.error:.3f}"


def repeat(
    repeats: int,
    silos: Any = None,
    public: Any = None,
    *,
    seed: int | None = None,
    run_dir: Path | str | None = None,
    resume: Path | str | None = None,
    packages: Collection[str] = (),
    progress: bool | Callable[[Run], None] | None = None,
    **arguments: Any,
) -> Repeats:
    """Simulate with the seeds ``seed`` (0) to ``seed + repeats - 1``, and give means with standard errors.

    All else is as in ``simulate``. The runs go to ``seed-0`` and so on below the new folder ``run_dir``, or below a
    temporary one. ``resume`` is a folder of repeats to go on with: finished runs stay, other seeds have the settings of
    the first one where none are given, and ``repeats`` may be larger than it was. ``progress`` may be a function that
    is told each run as it ends.

    Raises what ``simulate`` does, and ConfigError for fewer than two repeats.
    """
    seeds = planned_seeds(repeats, seed, seeds_to_go_on_with(Path(resume)) if resume else ())
    if is_partition(split := arguments.get("partition")):
        # All seeds are about the same silos.
        label = arguments.get("time") or arguments.get("label", "")
        silos, public, label = divided(silos, public, label, arguments.get("group", ""), split, seeds[0])
        arguments |= {} if "time" in arguments else {"label": label}
        del arguments["partition"]
    own = None if run_dir or resume else OwnFolder()
    folder = own.path / "repeats" if own else Path(run_dir or resume or "").resolve()
    first = settings_of(seed_folder(folder, seeds[0])) if resume else None
    if not resume:
        check_new(folder)

    def begin(path: Path, seed: int, goes_on: bool) -> None:
        where: dict[str, Any] = {"resume": path} if goes_on else {"run_dir": path, "seed": seed, "_first": first}
        bars = progress if isinstance(progress, bool) else None
        simulate(silos, public, progress=bars, packages=packages, **where, **arguments)

    try:
        on_run = progress if callable(progress) else lambda run: None
        run_seeds(folder, seeds, begin, on_run)
    except BaseException:
        # Runs that are not returned leave nothing behind.
        if own:
            own.remove()
        raise
    return Repeats(folder, held=[own], packages=packages if resume else None)
