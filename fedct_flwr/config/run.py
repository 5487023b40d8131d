"""The settings of a run and of its nodes, as Flower's run config and node configs hold them."""

import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, InstanceOf, ValidationInfo, field_validator, model_validator

from fedct_flwr.config.learner import AUTO, LearnerSettings, PseudoWeight, Training
from fedct_flwr.config.method import Method, default_method, defaults_of_all, methods, read_method
from fedct_flwr.config.privacy import OF_LABELS, OF_STUDENTS, PROTECTIONS, PrivacySettings, check_delta
from fedct_flwr.config.settings import MAX_INT, Name, Names, OptionalPath, Settings, kebab, one_of
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import ConfigError

STUDY: Final = "study"
"""The ``data`` of a run with real silos: ``data-dir`` holds the study's folder."""

MEMORY: Final = "memory"
"""The ``data`` of a run whose tables were handed to ``simulate()``: ``data-dir`` holds their digest."""

WHOLE_SET_UP_TO: Final = 5000
"""A public set up to this size is asked about whole in every round, a larger one in random subsets of this size."""

TRACKERS: Final = ("none", "mlflow")

_OF_CLASSES: Final = ("algorithm", "partition", "class-weight", "protection", "student")

_GONE: Final = frozenset({"bad-silos", "corruption", "corruption-number"})


@cache
def _keys_of_run() -> frozenset[str]:
    return frozenset({"algorithm", *(kebab(name) for name in RunConfig.model_fields if name != "method")})


def of_run(field: str) -> Any:
    """The default of a field of the run config, for algorithms that have the same setting."""
    return RunConfig.model_fields[field].default


def _flat(values: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    return {key: ",".join(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _is_time(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


class SimulatedSilos(Training):
    """Settings that real silos make in ``silo.toml``; shares are in 0..1, sizes are numbers of examples."""

    label_column: str = ""
    """For ``files``: the column of the silos' tables that is to be predicted; images need none."""
    text_columns: Names = ()
    """For ``files``: columns of free text, which learners for text read, besides those that ``data.toml`` names."""
    group_column: str = ""
    """For ``files``: the column that says which records belong together, such as a patient's number. All records of a
    group are on one side of every split, and the column is no feature. Empty: what ``data.toml`` says, or none."""
    outcome: Literal["class", "number", "survival"] = "class"
    """For data = files: whether ``label-column`` holds classes, numbers to predict, or times of follow-up."""
    event_column: str = ""
    """For outcome = survival: the column that is 1 where the event was seen, and 0 where a record is censored."""
    horizons: Names = ()
    """For outcome = survival: times at which the chances of an event are scored; empty: the median time of events."""
    positive_class: str = ""
    """Of two classes the one that sensitivity is about, such as the ill; empty: the last one."""
    accept: Names = ()
    """For data = files: findings of the inspection to accept, by name: 'one-per-record:ward'."""
    inspect: bool = True
    """Whether tables are inspected first; false where they are known, and nothing wrong with them is refused."""
    num_silos: int = Field(default=0, ge=0, le=MAX_INT)
    """Silos to split a data set into that has none of its own; 0: its default."""
    private_size: int = Field(default=0, ge=0, le=MAX_INT)
    """Private records of all silos together, where a data set is split; 0: the paper's size."""
    public_size: int = Field(default=0, ge=0, le=MAX_INT)
    """Public examples, where a data set is split; 0: the paper's size."""
    partition: Literal["iid", "dirichlet", "dirichlet-by-silo"] = "iid"
    """Evenly; each class divided by its own draw; or silos of one size, each with its own draw of classes."""
    dirichlet_concentration: float = Field(default=0.5, gt=0)
    """For both Dirichlet partitions: the smaller, the more silos differ."""
    public_fraction: float = Field(default=0.25, gt=0, lt=1)
    """Share of each silo's records that make up the public set, where the data set has none."""
    test_fraction: float = Field(default=0.2, ge=0, lt=1)
    """Share of each silo's records held out for testing."""
    public: Literal["given", "drawn"] = "given"
    """The data set's own public set, or one that is drawn: from the data dictionary, and from silos' noisy counts."""
    draw_epsilon: float = Field(default=1.0, ge=0)
    """The drawn set's epsilon for a record in total, besides that of the labels; 0: it follows from the dictionary."""
    draw_delta: float = Field(default=1e-5, gt=0, lt=1)
    """The chance that draw-epsilon does not hold."""
    draw_rows: int = Field(default=2000, ge=1, le=100_000)
    """Examples of the drawn set; more cost no privacy."""
    draw_dictionary: str = ""
    """The data dictionary: a file, or its text as JSON; empty: a simulation takes ranges and categories from all
    tables, which a real study cannot."""

    learner: Names = (AUTO,)
    """One learner for all silos, or one for each in the data set's order; auto: each silo chooses by its own
    records."""
    learner_params: str = "{}"
    """JSON object with the learners' parameters, or a JSON list with an object for each learner."""
    silos_at_once: int = Field(default=0, ge=0, le=MAX_INT)
    """For networks in one process: of how many silos to train as one at a time; 0: as many as pay and have room, 1: one
    after the other."""
    pseudo_weight: PseudoWeight = AUTO
    """Weight of a pseudo-labeled public example, if a private one has 1; auto: each silo trusts the consensus unless
    its own records speak against it."""

    protection: Annotated[str, one_of(OF_LABELS)] = "none"
    """Labeler whose labels leave: none (the model's own), dp-sgd, dp-linear or randomized-response."""
    epsilon: float = Field(default=1.0, gt=0)
    """In total over all rounds: for each record of a silo, or with dp-fedavg for each silo."""
    delta: float = Field(default=1e-5, ge=0, lt=1)
    """The chance that epsilon does not hold, in total; well below 1 / records."""
    clipping_norm: float = Field(default=1.0, gt=0)
    """The longest that a record's gradient may be (dp-sgd), or a silo's update (dp-fedavg)."""
    baselines: Literal["all", "local", "none"] = "all"
    """For simulations: which models the co-trained ones are compared with at the end. All trains each silo's learner
    alone and on all private records in one place; local trains it alone only."""


class RunConfig(SimulatedSilos):
    """The settings of one run, as they stand under ``[tool.flwr.app.config]`` (with hyphens).

    Those of its algorithm are in ``method``, and in the file of that.
    Times are seconds, shares are in 0..1, sizes are numbers of examples.
    """

    study: Name
    """Name of the study; messages of another study are refused."""
    data: str
    """Name of a data set, ``files`` for one table per silo in ``data-dir``, or ``study`` for real silos."""
    data_dir: str = ""
    """For ``files`` the folder of tables or images, for ``study`` the study's; absolute for runs by plain ``flwr``."""
    method: InstanceOf[Method]
    """The algorithm: answers of the silos, and their consensus. The key ``algorithm`` has its name, and its own
    settings have keys of their own."""
    student: str = ""
    """Learner of one global model, trained at the end on the public set and its final labels; empty: none. The settings
    above of preprocessing and of networks hold for it too; a network takes local-steps for each round."""
    student_params: str = "{}"
    """JSON object with the student's parameters."""

    num_server_rounds: int = Field(default=10, ge=1, le=MAX_INT)
    """Most rounds; an algorithm that asks once has one round whatever the default is, and takes no other number."""
    query_size: int = Field(default=0, ge=0, le=MAX_INT)
    """Public examples drawn for each round's question; 0: all of them, but at most 5,000 where there are several
    rounds, or each label costs privacy."""
    stop_at_fixed_point: bool = True
    """End when the same silos voted and no label changed, unless a learner trains on from round to round (networks)."""
    roster: Names = ()
    """Names of the silos that are expected; empty: all silos of the data set."""
    min_silos: int = Field(default=2, ge=2)
    """Silos that must be there at the start and answer every round."""
    roster_deadline: float = Field(default=60.0, gt=0)
    """How long the run waits at its start for silos that are not there."""
    round_deadline: float = Field(default=600.0, gt=0)
    """How long a round waits for answers."""
    seed: int = Field(default=0, ge=0, le=MAX_INT)
    """Every random choice follows from it, but for noise that protects real silos."""
    report_scores: bool = False
    """Let silos put test scores on their replies (experiments only)."""
    save_models: bool = True
    """Keep each simulated silo's model in the run folder (real silos keep theirs to themselves). Networks go on after a
    resume with the models that were kept."""
    run_dir: str = ""
    """Folder of the run, absolute; empty: ``~/.fedct/runs/<study>-<run id>``."""
    resume: bool = False
    """Go on with the run in ``run-dir``, from its checkpoint."""
    tracking: Annotated[str, one_of(TRACKERS)] = "none"
    """Where the coordinator writes the run besides: none, or mlflow (the extra of that name)."""

    @classmethod
    def read(cls, raw: Mapping[str, Any], where: str, folder: Path | None = None) -> Self:
        """The settings of a flat mapping. Raises ConfigError, which names the nearest key or its algorithm."""
        if gone := sorted(_GONE & raw.keys()):
            raise ConfigError(
                f"there is no setting {gone[0]!r} any more: hand simulate() tables of bad silos with other labels; a "
                "colluder's learner, among one for each silo, is sklearn.dummy.DummyClassifier"
            )
        of_run = _keys_of_run()
        own = {key: value for key, value in raw.items() if key in of_run and key != "algorithm"}
        return super().read({**own, "method": read_method(raw, of_run, where)}, where, folder)

    @classmethod
    def from_flower(cls, run_config: Mapping[str, Any]) -> Self:
        """Read Flower's run config. Raises ConfigError, naming the nearest key for one that does not exist."""
        return cls.read(run_config, "the run config")

    def to_flower(self) -> dict[str, str | int | float | bool]:
        """The flat mapping that ``from_flower`` reads: the keys of every run, and those of its algorithm."""
        return _flat({**self.model_dump(by_alias=True, exclude={"method"}), **self.method.settings()})

    @classmethod
    def defaults(cls) -> dict[str, str | int | float | bool]:
        """The flat mapping of all settings that need not be given, also those of all algorithms."""
        return _flat(defaults_of_all()) | cls.defaults_of_run()

    @classmethod
    def defaults_of_run(cls) -> dict[str, str | int | float | bool]:
        """The same without settings that only some algorithms have."""
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        of_run = cls.model_construct().model_dump(by_alias=True, exclude=required)
        return _flat({**of_run, "algorithm": default_method()})

    @property
    def algorithm(self) -> str:
        """The name of what silos share, and of how a consensus is made of it."""
        return self.method.name

    @field_validator("draw_dictionary")
    @classmethod
    def _from_everywhere(cls, given: str) -> str:
        return given if not given or given.startswith("{") else str(Path(given).resolve())

    @field_validator("learner_params", "student_params")
    @classmethod
    def _check_json(cls, text: str, info: ValidationInfo) -> str:
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"is not JSON ({error.msg} at position {error.pos})") from None
        several = info.field_name == "learner_params"
        objects = value if several and isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in objects):
            raise ValueError(f'needs a JSON object such as {{"max_depth": 3}}{", or a list of them" * several}')
        return text

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if not self.learner:
            raise ValueError("learner must name at least one learner")
        params = json.loads(self.learner_params)
        if isinstance(params, list) and len(params) != len(self.learner):
            raise ValueError(f"learner-params must be one object, or a list of {len(self.learner)} for the learners")
        if self.data == "files" and not self.data_dir:
            raise ValueError("data = 'files' needs data-dir")
        if self.outcome != "class" and self.data not in ("files", MEMORY):
            raise ValueError(
                f"outcome = {self.outcome!r} is for data = 'files' in a simulation: named data sets know what their "
                "outcome is, and studies with real silos have classes"
            )
        if (self.outcome == "survival") != bool(self.event_column):
            raise ValueError("outcome = 'survival' and event-column go together: name the column of events")
        if self.horizons and not self.event_column:
            raise ValueError("horizons are for outcome = 'survival': leave them out")
        if not all(map(_is_time, self.horizons)):
            raise ValueError("horizons must be times above 0, with commas between them")
        if self.data == STUDY and not (self.data_dir and self.roster):
            raise ValueError("data = 'study' needs data-dir, the study's folder, and the silos' names as roster")
        twice = sorted({silo for silo in self.roster if self.roster.count(silo) > 1})
        if twice:
            raise ValueError(f"the roster names {', '.join(map(repr, twice))} more than once")
        if self.roster and len(self.roster) < self.min_silos:
            raise ValueError(f"the roster names {len(self.roster)} silos but min-silos is {self.min_silos}")
        if self.data not in ("files", MEMORY, STUDY) and self.public_fraction + self.test_fraction >= 1:
            raise ValueError("public-fraction and test-fraction leave no private records: their sum must be below 1")
        if json.loads(self.student_params) and not self.student:
            raise ValueError("student-params are given but no student: name a learner as student, or leave them out")
        check_delta(self.protection, self.delta)
        if self.rounds != self.num_server_rounds != of_run("num_server_rounds"):
            only = "asks the silos once" if self.method.asks_once else f"always has {self.rounds} rounds"
            raise ValueError(f"algorithm {self.algorithm!r} {only}: leave num-server-rounds out")
        if wrong := self.method.wrong(self):
            raise ValueError(wrong)
        return self

    @property
    def grouped(self) -> bool:
        """Whether a column says which records are one patient's, who is then what a promise protects."""
        return bool(self.group_column)

    @property
    def rounds(self) -> int:
        """Rounds at most: one for an algorithm that asks once."""
        return 1 if self.method.asks_once else self.method.fixed_rounds or self.num_server_rounds

    def asked_about(self, num_public: int) -> int:
        """How many public examples each round asks about."""
        most = num_public if self.method.asks_once and not self.method.pays_by_label else WHOLE_SET_UP_TO
        return self.query_size or min(num_public, most)

    def check_fits(self, silos: Collection[str], num_public: int) -> None:
        """Raise ConfigError if the settings ask for silos or public examples that the data set does not have."""
        for silo in self.roster:
            if silo not in silos:
                raise ConfigError(f"roster names {silo!r}, which is no silo of the data set: {suggest(silo, silos)}")
        if self.min_silos > len(self.roster or silos):
            raise ConfigError(f"min-silos is {self.min_silos} but there are only {len(silos)} silos")
        if self.student and "global" in silos:
            raise ConfigError("a silo is called 'global', which is the name of the student's file: rename the silo")
        if self.query_size > num_public:
            raise ConfigError(f"query-size is {self.query_size} but the public set has {num_public} examples")
        self.method.check_public(num_public)

    def check_real(self, named: Collection[str] = ()) -> None:
        """Raise ConfigError for settings that each real silo makes for itself, and that have no effect here.

        Those are given that differ from their defaults, or are ``named``.
        """
        settings, defaults = self.to_flower(), {**self.defaults_of_run(), **self.method.defaults()}
        self.method.check_real()
        shared = {*self.method.also_real, *(("epsilon", "delta") if self.method.protects_silos else ())}
        if self.student:
            shared |= set(map(kebab, Training.model_fields))
        for name in (*map(kebab, SimulatedSilos.model_fields), "min-summands", "may-collude", "joint-labeler"):
            if (settings.get(name) != defaults.get(name) or name in named) and name not in shared:
                raise ConfigError(
                    f"{name} has no effect on real silos, which have data and learners of their own: leave it out"
                )

    def check_grades(self, *, wanted: bool) -> None:
        """Raise ConfigError for an algorithm that grades risks where none are ``wanted``, or the other way round."""
        if wanted == self.method.grades_risks:
            return
        if not wanted:
            raise ConfigError(
                f"algorithm {self.algorithm!r} is for time to an event: choose another, or name its columns"
            )
        able = " or ".join(repr(name) for name, method in methods().items() if method.grades_risks)
        raise ConfigError(f"algorithm {self.algorithm!r} is not for time to an event: set algorithm to {able}")

    def check_quantity(self, quantity: str, *named: str) -> None:
        """Raise ConfigError for one of these settings, or of all, that needs classes: a ``quantity`` is predicted."""
        names = named or _OF_CLASSES
        what = f"the outcome {quantity!r} of {self.data!r} is a number"
        if "algorithm" in names and not (self.method.predicts_quantities or self.method.grades_risks):
            # A count of patients has a fixed round, and trains nothing.
            able = sorted(
                (name for name, m in methods().items() if m.predicts_quantities and not m.fixed_rounds), reverse=True
            )
            raise ConfigError(
                f"algorithm {self.algorithm!r} needs classes, and {what}: set algorithm to "
                f"{' or '.join(map(repr, able))}"
            )
        settings, defaults = self.to_flower(), self.defaults_of_run()
        # Grades are labels of classes, and it asks nothing of records.
        covered = {"protection"} if self.method.grades_risks and PROTECTIONS[self.protection].reads_votes else set()
        for name in (name for name in names if name not in covered):
            if name != "algorithm" and settings[name] != defaults[name]:
                raise ConfigError(f"{name} = {settings[name]!r} needs classes, and {what}: leave it out")

    def privacy_settings(self, queries: int) -> PrivacySettings:
        """Each simulated silo's guarantee, where a round asks for ``queries`` labels. The run is the whole study."""
        same = {name: getattr(self, name) for name in PrivacySettings.model_fields if hasattr(self, name)}
        plan: dict[str, Any] = {"rounds": self.rounds, "queries": self.rounds * queries}
        if self.method.protects_records:
            plan["protection"] = OF_STUDENTS
        return PrivacySettings.read({kebab(name): value for name, value in {**same, **plan}.items()}, "the run config")

    def learner_settings(self, silo: int, num_silos: int) -> LearnerSettings:
        """The learner of the silo at this position of the data set.

        Raises ConfigError if there are several learners but not one for each silo.
        """
        if len(self.learner) not in (1, num_silos):
            raise ConfigError(
                f"learner names {len(self.learner)} learners but the data set has {num_silos} silos: "
                "name one learner for all, or one for each silo"
            )
        number = silo % len(self.learner)
        params = json.loads(self.learner_params)
        return self._learner(self.learner[number], params[number] if isinstance(params, list) else params)

    @property
    def learner_names(self) -> tuple[str, ...]:
        """Of the silos' learners, and of the student."""
        return (*self.learner, *([self.student] if self.student else []))

    def student_settings(self) -> LearnerSettings:
        """The learner of the global model, where ``student`` names one."""
        return self._learner(self.student, json.loads(self.student_params)).model_copy(update={"pseudo_weight": 1.0})

    def _learner(self, name: str, params: dict[str, Any]) -> LearnerSettings:
        same = {kebab(field): getattr(self, field) for field in LearnerSettings.model_fields if hasattr(self, field)}
        return LearnerSettings.read({**same, "name": name, "params": params}, "the run config")


class NodeConfig(Settings):
    """One node's own facts: from the agent, or from the simulation.

    A stock SuperNode whose node config names a ``silo-file`` gets refusals alone: only an agent has a gate. With
    ``FEDCT_WITHOUT_GATE=1`` in its environment it answers all the same, without gate and without log. That is for
    measurements, never for a hospital's records.
    """

    silo_file: OptionalPath = None
    """``silo.toml`` of a real silo."""
    partition_id: int | None = Field(default=None, ge=0)
    """Position of a simulated silo in the data set."""
    num_partitions: int | None = Field(default=None, ge=1)

    @classmethod
    def from_flower(cls, node_config: Mapping[str, Any]) -> Self:
        """Read Flower's node config. Raises ConfigError."""
        return cls.read(node_config, "the node config")

    @model_validator(mode="after")
    def _check_identity(self) -> Self:
        if (self.silo_file is None) == (self.partition_id is None):
            raise ValueError("a node needs a silo-file (or a partition-id, which the simulation sets), and not both")
        return self
