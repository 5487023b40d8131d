"""The settings of a run and of a silo's node: frozen, validated once. The only place that reads raw mappings."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedct_flwr.suggest import suggest
from fedct_flwr.types import ConfigError


def _split_names(value: object) -> object:
    """Flower's run config has no lists, so lists of names are written with commas."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _none_if_empty(value: object) -> object:
    """Flower's configs have no null; an empty text means that nothing is set."""
    return None if value == "" else value


# Flower carries signed 64-bit integers.
_MAX_INT: Final = 2**63 - 1

Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]


def _flat(values: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    return {key: ",".join(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Settings(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=_kebab, populate_by_name=False, strict=False, allow_inf_nan=False
    )

    @classmethod
    def _read(cls, raw: Mapping[str, Any], where: str) -> Self:
        known = [_kebab(name) for name in cls.model_fields]
        for key in raw:
            if key not in known:
                raise ConfigError(f"unknown key {key!r} in {where}: {suggest(key, known)}")
        try:
            return cls.model_validate(dict(raw))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            if first["type"] == "missing":
                raise ConfigError(f"{key!r} is missing in {where}") from None
            reason = first["msg"].removeprefix("Value error, ")
            if not key:
                raise ConfigError(f"settings in {where} do not go together: {reason}") from None
            raise ConfigError(f"{key} = {first['input']!r} in {where}: {reason}") from None


class RunConfig(_Settings):
    """The settings of one run, as they stand under ``[tool.flwr.app.config]`` (with hyphens).

    Times are seconds, shares are in 0..1, sizes are numbers of examples.
    """

    study: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Name of the study; messages of another study are refused."""
    data: str
    """Name of a data set, or ``files`` for one table per silo in ``data-dir``."""
    data_dir: str = ""
    label_column: str = ""
    num_silos: int = Field(default=0, ge=0, le=_MAX_INT)
    """Silos to split a data set into that has none of its own; 0: its default."""
    private_size: int = Field(default=0, ge=0, le=_MAX_INT)
    """Private records of all silos together, where a data set is split; 0: the paper's size."""
    public_size: int = Field(default=0, ge=0, le=_MAX_INT)
    """Public examples, where a data set is split; 0: the paper's size."""
    partition: Literal["iid", "dirichlet"] = "iid"
    dirichlet_concentration: float = Field(default=0.5, gt=0)
    public_fraction: float = Field(default=0.25, gt=0, lt=1)
    """Share of each silo's records that make up the public set, where the data set has none."""
    test_fraction: float = Field(default=0.2, ge=0, lt=1)
    """Share of each silo's records held out for testing."""

    algorithm: str = "fedct"
    quorum: float = Field(default=0.9, gt=0, le=1)
    """Share of the votes cast that a label needs, for qualified majorities."""
    learner: Names = ("logistic-regression",)
    """One learner for all silos, or one for each in the data set's order."""
    learner_params: str = "{}"
    """JSON object with the learners' parameters, or a JSON list with an object for each learner."""
    preprocessing: Literal["standard", "none"] = "standard"
    pseudo_weight: float = Field(default=1.0, gt=0)
    """Weight of a pseudo-labeled public example beside 1 for a private one."""
    local_steps: int = Field(default=50, ge=1, le=_MAX_INT)
    """For networks: minibatch steps per round, the paper's communication period b."""
    batch_size: int = Field(default=64, ge=1, le=_MAX_INT)
    """For networks: private examples in a minibatch, and as many pseudo-labeled ones."""
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    device: str = "auto"
    """For networks: auto, cpu, cuda, cuda:1, mps."""

    num_server_rounds: int = Field(default=10, ge=1, le=_MAX_INT)
    query_size: int = Field(default=0, ge=0, le=_MAX_INT)
    """Public examples to ask about in each round, drawn anew; 0: all of them, but at most 5,000."""
    stop_at_fixed_point: bool = True
    """End when the same silos voted and no label changed, unless a learner trains on from round to round (networks)."""
    roster: Names = ()
    """Names of the silos that are expected; empty: all silos of the data set."""
    min_silos: int = Field(default=2, ge=2)
    """Silos that must be there at the start and answer every round."""
    roster_deadline: float = Field(default=15.0, gt=0)
    round_deadline: float = Field(default=600.0, gt=0)
    seed: int = Field(default=0, ge=0, le=_MAX_INT)
    report_scores: bool = False
    """Let silos put test scores on their replies (experiments only)."""
    save_models: bool = True
    """Keep each simulated silo's model in the run folder (real silos keep theirs to themselves)."""
    run_dir: str = ""
    """Folder of the run, absolute; empty: ``~/.fedct/runs/<study>-<run id>``."""
    resume: bool = False

    @classmethod
    def from_flower(cls, run_config: Mapping[str, Any]) -> Self:
        """Read Flower's run config. Raises ConfigError, naming the nearest key for one that does not exist."""
        return cls._read(run_config, "the run config")

    def to_flower(self) -> dict[str, str | int | float | bool]:
        """The flat mapping that ``from_flower`` reads."""
        return _flat(self.model_dump(by_alias=True))

    @classmethod
    def defaults(cls) -> dict[str, str | int | float | bool]:
        """The flat mapping of all settings that need not be given."""
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return _flat(cls.model_construct().model_dump(by_alias=True, exclude=required))

    @field_validator("learner_params")
    @classmethod
    def _check_json(cls, text: str) -> str:
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"is not JSON ({error.msg} at position {error.pos})") from None
        objects = value if isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in objects):
            raise ValueError('needs a JSON object such as {"max_depth": 3}, or a list of them')
        return text

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if not self.learner:
            raise ValueError("learner must name at least one learner")
        params = json.loads(self.learner_params)
        if isinstance(params, list) and len(params) != len(self.learner):
            raise ValueError(f"learner-params must be one object, or a list of {len(self.learner)} for the learners")
        if self.data == "files" and not (self.data_dir and self.label_column):
            raise ValueError("data = 'files' needs data-dir and label-column")
        twice = sorted({silo for silo in self.roster if self.roster.count(silo) > 1})
        if twice:
            raise ValueError(f"the roster names {', '.join(map(repr, twice))} more than once")
        if self.roster and len(self.roster) < self.min_silos:
            raise ValueError(f"the roster names {len(self.roster)} silos but min-silos is {self.min_silos}")
        if self.public_fraction + self.test_fraction >= 1:
            raise ValueError("public-fraction and test-fraction leave no private records: their sum must be below 1")
        return self

    def check_fits(self, silos: Collection[str], num_public: int) -> None:
        """Raise ConfigError if the settings ask for silos or public examples that the data set does not have."""
        for silo in self.roster:
            if silo not in silos:
                raise ConfigError(f"roster names {silo!r}, which is no silo of the data set: {suggest(silo, silos)}")
        if self.min_silos > len(self.roster or silos):
            raise ConfigError(f"min-silos is {self.min_silos} but there are only {len(silos)} silos")
        if self.query_size > num_public:
            raise ConfigError(f"query-size is {self.query_size} but the public set has {num_public} examples")

    @property
    def learner_specs(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Each learner's name with its parameters."""
        params = json.loads(self.learner_params)
        if isinstance(params, dict):
            params = [params] * len(self.learner)
        return tuple(zip(self.learner, params, strict=True))

    def learner_spec(self, silo: int, num_silos: int) -> tuple[str, dict[str, Any]]:
        """Name and parameters of the learner of the silo at this position of the data set.

        Raises ConfigError if there are several learners but not one for each silo.
        """
        specs = self.learner_specs
        if len(specs) not in (1, num_silos):
            raise ConfigError(
                f"learner names {len(specs)} learners but the data set has {num_silos} silos: "
                "name one learner for all, or one for each silo"
            )
        return specs[silo % len(specs)]


class NodeConfig(_Settings):
    """What one node knows of itself, as given by ``flower-supernode --node-config`` or by the simulation."""

    silo: str = ""
    """Name of the silo this node stands for; empty: the one at position ``partition-id``."""
    state_dir: Annotated[Path | None, BeforeValidator(_none_if_empty)] = None
    """Folder for what the silo keeps between rounds; without one it is kept in Flower's context."""
    learner_packages: Names = ()
    """Python packages whose learners a named silo trains if the run config asks for them, beside the short names."""
    allow_scores: bool = False
    """Let a named silo put test scores on its replies if the run config asks for them."""
    partition_id: int | None = Field(default=None, ge=0)
    num_partitions: int | None = Field(default=None, ge=1)

    @classmethod
    def from_flower(cls, node_config: Mapping[str, Any]) -> Self:
        """Read Flower's node config. Raises ConfigError."""
        return cls._read(node_config, "the node config")

    @property
    def is_simulated(self) -> bool:
        """Whether the node has no silo of its own: everything it works with is the run's."""
        return not self.silo

    @model_validator(mode="after")
    def _check_identity(self) -> Self:
        if not self.silo and self.partition_id is None:
            raise ValueError("a node needs a silo name (or a partition-id, which the simulation sets)")
        return self
