"""From settings to the labeler whose labels leave a silo. The records are no argument: nothing is fitted to them."""

from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final

from fedct_flwr.config import LearnerSettings, PrivacySettings, SiloConfig
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import ConfigError, SiloName

if TYPE_CHECKING:
    # Needs dp_accounting, which a study without protection does not.
    from fedct_flwr.labelers.labeler import Labeler

_EXTRAS: Final = {
    "privacy": ("dp_accounting", "opendp"),
    "dp-sgd": ("dp_accounting", "opendp", "torch"),
}


def check_installed(privacy: PrivacySettings) -> None:
    """Raise ConfigError if the protection needs a package that is not installed, naming the extra."""
    if not privacy.enabled:
        return
    check_extra(privacy.chosen.extra, f"protection = {privacy.protection!r}")


def check_all_installed(config: SiloConfig) -> None:
    """The same for all that bounds what leaves a real silo, noise in sums too."""
    check_installed(config.privacy)
    if config.adds_noise:
        check_extra("privacy", f"kinds = {[*config.policy.kinds]}")


def check_extra(extra: str, what: str) -> None:
    """Raise ConfigError if a package of an extra, which ``what`` needs, is not installed."""
    missing = [package for package in _EXTRAS[extra] if find_spec(package) is None]
    if missing:
        raise ConfigError(f"{what} needs {', '.join(missing)}: pip install -c constraints.txt -e '.[{extra}]'")


def decides_labeler(privacy: PrivacySettings, learner: LearnerSettings) -> dict[str, object]:
    """What makes a labeler another one, as JSON takes it: not the budget, which may be raised and spent on."""
    return {"protection": privacy.protection, "seed": learner.seed, **privacy.chosen.of_learner(learner)}


def labeler_for(
    privacy: PrivacySettings,
    learner: LearnerSettings,
    silo: SiloName,
    schema: Schema,
    public: PublicSet,
    num_units: int,
) -> "Labeler":
    """The labeler that the settings describe, at the beginning of a study.

    Raises ConfigError for a missing extra, a learner that the protection cannot use, or a plan that the budget does not
    cover, or that covers no labels; DataError for features that cannot be preprocessed. Takes seconds for
    noise that was not looked for before in this process.

    Formal guarantees:
        What the labeler is depends on the settings, the public set and the number of units, which all count as
        public, and on no record.
    """
    check_installed(privacy)
    if not privacy.chosen.labeler:
        raise ConfigError(
            f"labels are asked for, which protection = {privacy.protection!r} does not cover: choose another protection"
        )
    from fedct_flwr.labelers.labeler import Start

    made: Labeler = resolve_name(privacy.chosen.labeler)(Start(privacy, learner, silo, schema, public, num_units))
    return made
