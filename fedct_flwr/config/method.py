"""An algorithm as a run config holds it: its own settings, and its part in what follows from those of the run.

``config`` names no algorithm. ``algorithms/__init__.py`` does, each with its class, which is imported on use.
"""

from collections import UserDict
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedct_flwr.config.privacy import NoisePlan, TransferSettings
from fedct_flwr.config.settings import Choice, Uses, config_error, kebab, uses, why_without_effect
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import ConfigError

_TABLE: Final = "fedct_flwr.algorithms"


@dataclass(frozen=True)
class Method:
    """The fields of a subclass are the algorithm's own settings; the run config checks them as they are annotated.

    A key that several algorithms have has the same default in each, since Flower's run config lists it once.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: ClassVar[str]
    """The name in settings."""
    title: ClassVar[str]
    """The name in tables."""
    rule: ClassVar[str] = ""
    """The rule for its consensus, where the title names none."""
    written: ClassVar[Mapping[str, str]] = {}
    """The keys of fields whose keys are not their names with hyphens."""
    used: ClassVar[Uses] = {}
    """Keys of the run that it uses and some other algorithm does not, and conditions of its own keys."""
    asks_once: ClassVar[bool] = False
    """Whether it has one round, however many the run config allows."""
    leaves_student: ClassVar[bool] = False
    """Whether silos end with no model of their own, but with the student of all, where one is set."""
    fixed_rounds: ClassVar[int] = 0
    """Rounds that it always has; 0: as many as the run config allows."""
    also_real: ClassVar[Collection[str]] = ()
    """Settings of simulated silos that it takes with real ones too."""
    trains_together: ClassVar[bool] = False
    """Whether silos train one labeler together, for epsilon and delta, which each silo's ledger is charged with."""
    predicts_quantities: ClassVar[bool] = False
    """Whether it can also predict a quantity instead of a class."""
    grades_risks: ClassVar[bool] = False
    """Whether it is for time to an event, and for nothing else."""
    refused: ClassVar[Mapping[str, str]] = {}
    """Keys of other algorithms that would harm here: the sentence that refuses each."""

    @property
    def full_title(self) -> str:
        """The title with the rule: FedCT (majority) is not FedCT (Dawid-Skene)."""
        return f"{self.title} ({self.rule})" if self.rule else self.title

    # Each message of a simulation brings a run config, which is read again.
    @classmethod
    @cache
    def own(cls) -> Mapping[str, str]:
        """Its own settings: the name of the field by key."""
        return {cls.written.get(field.name, kebab(field.name)): field.name for field in fields(cls)}

    @classmethod
    @cache
    def _adapter(cls) -> TypeAdapter[Self]:
        return TypeAdapter(cls)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Its own settings by key, as they are by default."""
        by_name = {field.name: field.default for field in fields(cls)}
        return {key: by_name[name] for key, name in cls.own().items() if by_name[name] is not MISSING}

    @classmethod
    def uses(cls) -> Uses:
        """Keys that it uses and some other algorithm does not, and the conditions of each."""
        return uses(*cls.own()) | cls.used

    @classmethod
    def read(cls, raw: Mapping[str, Any], where: str) -> Self:
        """The algorithm with its own settings of ``raw``. Raises ConfigError, which names ``where``."""
        given = {name: raw[key] for key, name in cls.own().items() if key in raw}
        try:
            return cls._adapter().validate_python(given)
        except ValidationError as error:
            raise config_error(error, where, {name: key for key, name in cls.own().items()}) from None

    def settings(self) -> dict[str, Any]:
        """Keys of the run config and their values."""
        return {"algorithm": self.name, **{key: getattr(self, name) for key, name in self.own().items()}}

    # --- its part in what the run config says

    @property
    def votes(self) -> int:
        """Votes of each silo on an example: those of its students, or 0 where it sends a label."""
        return 0

    @property
    def in_sums(self) -> bool:
        """Whether silos only add what they answer, in secure sums."""
        return False

    def fewest_summands(self, num_silos: int) -> int:
        """Silos that a secure sum of ``num_silos`` needs at least."""
        return num_silos

    @property
    def noise(self) -> NoisePlan | None:
        """Noise on counts of votes, if there is any: the coordinator's, or the silos' (``noise_in_shares``)."""
        return None

    @property
    def noise_in_shares(self) -> bool:
        """Whether silos add this noise, each a share of it, inside the secure sum of their votes."""
        return self.in_sums and self.noise is not None

    @property
    def protects_silos(self) -> bool:
        """Whether epsilon and delta protect each silo as a whole, by noise on votes, also with real silos."""
        return self.noise is not None

    @property
    def protects_records(self) -> bool:
        """Whether each simulated silo adds noise to its students' votes, for epsilon and delta."""
        return False

    @property
    def pays_by_label(self) -> bool:
        """Whether each public example that is asked about costs privacy."""
        return self.protects_silos

    @property
    def facts(self) -> dict[str, Any]:
        """Its settings for the card of a global model."""
        return {}

    def wrong(self, config: Any) -> str:
        """Explain in a sentence why its settings and those of the run ``config`` do not fit; empty if they do."""
        return ""

    def check_real(self) -> None:
        """Raise ConfigError for settings of its own that real silos decide for themselves."""

    def check_public(self, num_public: int) -> None:
        """Raise ConfigError for settings that this many public examples do not allow."""

    def transfer_settings(self, fewest_units: int) -> TransferSettings:
        """How each simulated silo teaches its students, where the smallest has ``fewest_units`` records or patients."""
        return TransferSettings()


OWN: Final = "fedct-own-"
"""Prefix of the names of rules that are functions."""


class Methods(UserDict[str, Any]):
    """Algorithms by name, each a class or the path that it is imported by when its name is asked for."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, str):
            module, _, kind = found.rpartition(".")
            found = self[name] = getattr(import_module(f"fedct_flwr.{module}"), kind)
        return found


def methods() -> MutableMapping[str, type[Method]]:
    """All algorithms by name; ``values()`` imports them all."""
    found: MutableMapping[str, type[Method]] = import_module(_TABLE).ALGORITHMS
    return found


def default_method() -> str:
    """The name of the algorithm of a run config that names none."""
    return str(import_module(_TABLE).DEFAULT)


def defaults_of_all() -> dict[str, Any]:
    """The settings of all algorithms by key."""
    return {key: value for method in methods().values() for key, value in method.defaults().items()}


def read_method(raw: Mapping[str, Any], of_run: Collection[str], where: str) -> Method:
    """The algorithm that ``raw`` names, with its settings. Raises ConfigError.

    ``of_run`` are keys of every run. A setting of another algorithm may be there with its default, as Flower gives all.
    """
    known = methods()
    name = raw.get("algorithm", default_method())
    method = known[name] if isinstance(name, str) and name in known else None
    own = method.own() if method else {}
    # Other algorithms are imported only where one of their settings is there.
    others = [key for key in raw if key not in of_run and key not in own]
    defaults = defaults_of_all() if others else {}
    for key in others:
        if key not in defaults:
            raise ConfigError(f"unknown key {key!r} in {where}: {suggest(key, sorted({*of_run, *defaults}))}")
    if method is None:
        advice = suggest(str(name), known)
        if name == "pfnm":
            advice = "python -m benchmarks pfnm measures it; choose fedavg here"
        elif str(name).startswith(OWN):
            advice = "its rule is a function, and files hold none: call FedCT(rule) with the same function first"
        raise ConfigError(f"unknown algorithm {name!r}: {advice}")
    for key in others:
        if raw[key] != defaults[key]:
            if key in method.refused:
                raise ConfigError(method.refused[key])
            owners = {other: uses(*found.own()) for other, found in known.items()}
            raise ConfigError(why_without_effect(key, [Choice("algorithm = {}", [name], owners)], None))
    return method.read(raw, where)
