"""A silo's own settings, ``silo.toml``, and what its Flower node is told. Nobody else has a say in them."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from fedct_flwr.config.learner import OF_NETWORKS, LearnerSettings
from fedct_flwr.config.privacy import PrivacySettings
from fedct_flwr.config.protections import COVER_VOTES, OF_PROTECTION, TRAIN_ONCE, own_keys, said
from fedct_flwr.config.settings import (
    MAX_INT,
    NAME_PATTERN,
    OptionalPath,
    OptionalRelativePath,
    RelativePath,
    Settings,
    VisibleName,
)
from fedct_flwr.config.tables import SiloTables
from fedct_flwr.config.transfer import TransferSettings
from fedct_flwr.config.uses import Choice, Needs, Uses, a_network, set_to, uses, why_without_effect
from fedct_flwr.types import ConfigError

_YOUNGER: Final = ("max_local_rounds", "max_consensus_weight")
"""Limits of a policy that came later than others."""


def _strings(value: object) -> object:
    """TOML keys are text, and so is what a label is called."""
    return {str(key): str(name) for key, name in value.items()} if isinstance(value, Mapping) else value


_PLANNED: Final = {name: used and used | uses("rounds", "queries") for name, used in OF_PROTECTION.items()}

_OF_KINDS: Final[dict[str, dict[str, Uses]]] = {
    # Students have teachers of their own, under [transfer].
    "hard": {"privacy": uses(*own_keys(COVER_VOTES)), "learner": uses("pseudo-weight")},
    "soft": {"policy": uses("max-local-rounds", "max-consensus-weight")},
    "counts": {
        "transfer": uses("partitions", "teachers")
        | uses(
            "noise",
            "gamma",
            "lessons",
            needs=Needs(
                f"{said(COVER_VOTES)} under [privacy]", lambda config: config.privacy.protection in COVER_VOTES
            ),
        )
    },
}
"""By kind of message, what only that kind uses of each table."""

_OF_NETWORKS: Final[Uses] = OF_NETWORKS | uses(
    "epochs",
    needs=Needs(
        f"'counts' among kinds, or {said(TRAIN_ONCE)}",
        lambda config: "counts" in config.policy.kinds or config.privacy.protection in TRAIN_ONCE,
    ),
)


class DataSettings(Settings):
    """Where the silo's records are. A table in a file, with a label column, or a folder of images for each class."""

    file: RelativePath
    label: str = ""
    """The label column of a table."""
    mapping: Annotated[dict[str, str], BeforeValidator(_strings)] = Field(default_factory=dict)
    """The study's class for each label as the file writes it; empty: the file uses the study's names."""
    test_file: OptionalRelativePath = None
    """Labeled records that are never trained on, to score the model with; empty: ``test-fraction`` of ``file``."""
    test_fraction: float = Field(default=0.0, ge=0, lt=1)
    tables: SiloTables = SiloTables()
    """The form of ``file`` and ``test-file``, where they are tables; the study's may have another. ``group`` keeps a
    patient's records on one side of the split."""

    @model_validator(mode="after")
    def _check_test(self) -> Self:
        if self.test_file and self.test_fraction:
            raise ValueError("test-file and test-fraction exclude each other: keep one of them")
        return self


class Policy(Settings):
    """What may leave the silo, and what a question for probabilities may ask of it.

    The limits of rounds, queries and bytes are totals over all that ever left for a study and its public set, whatever
    was approved in between. Those of local rounds and of the consensus's weight hold for each question.
    """

    kinds: tuple[Literal["hard", "soft", "counts"], ...] = ("hard",)
    """Messages that may leave: one class for each queried example (hard), probabilities (soft), votes (counts)."""
    metrics: bool = False
    """Whether test scores may leave (four numbers on each reply)."""
    max_rounds: int = Field(default=100, ge=1, le=MAX_INT)
    """Replies with labels."""
    max_queries: int = Field(default=1_000_000, ge=1, le=MAX_INT)
    """Labels of public examples; each vote that is counted is one, and each class's probability."""
    max_bytes: int = Field(default=10_000_000, ge=1, le=MAX_INT)
    max_local_rounds: int = Field(default=100, ge=1, le=1000)
    """Rounds of training that a question for probabilities may ask for: they cost time here and no bytes."""
    max_consensus_weight: float = Field(default=1.0, ge=0, le=1e6)
    """What others' probabilities may count, at most, beside 1 for the silo's own records: with a large weight the
    personal model would learn what the coordinator says, and little else. Learned in turn with the records they count
    1."""

    @property
    def decides(self) -> dict[str, object]:
        """What is approved of it, as JSON takes it.

        A limit that is younger than what was approved before is there only where it differs from its default: so that
        stays approved. A default may therefore be lowered later, and never be raised.
        """
        fields = type(self).model_fields
        same = {name for name in _YOUNGER if getattr(self, name) == fields[name].default}
        return self.model_dump(mode="json", exclude=same)


class Connection(Settings):
    """The way out, for the SuperNode; the agent uses ``supernode`` and ``secret`` alone."""

    superlink: VisibleName
    """The coordinator, as ``host:port``."""
    ca_certificate: RelativePath = Path("connection/ca.crt")
    node_key: RelativePath = Path("connection/node.key")
    client_certificate: RelativePath = Path("connection/client.crt")
    """What opens the coordinator's gateway, from the silo's kit; not there where the gateway asks for none."""
    client_key: RelativePath = Path("connection/client.key")
    secret: RelativePath = Path("connection/secret")
    """What the agent shows to its SuperNode."""
    supernode: VisibleName = "127.0.0.1:9094"
    """Where the SuperNode listens for its agent, as ``host:port``."""


class SiloConfig(Settings):
    """``silo.toml``. Relative paths start at its folder."""

    silo: str = Field(pattern=NAME_PATTERN)
    study: RelativePath = Path("study")
    """The study's folder, as the coordinator handed it out."""
    state: RelativePath = Path("state")
    """What the silo keeps: the egress log, answers, its model."""
    egress_key: RelativePath = Path("keys/egress.key")
    """Ed25519 key that signs the egress log."""
    data: DataSettings
    learner: LearnerSettings
    policy: Policy = Policy()
    privacy: PrivacySettings = PrivacySettings()
    transfer: TransferSettings = TransferSettings()
    connection: Connection

    @property
    def decides_model(self) -> dict[str, object]:
        """What decides, beside study and records, what the silo's labels are; as JSON takes it."""
        # Only where something is promised: what was approved before there were promises stays approved.
        promised = {"privacy": self.privacy.decides} if self.privacy.enabled else {}
        taught = {"transfer": self.transfer.model_dump(mode="json")} if "counts" in self.policy.kinds else {}
        # So for whoever says nothing of the form of tables.
        tables = {key: self.data.tables.model_dump(mode="json", by_alias=True)[key] for key in self.data.tables.given}
        return {
            **promised,
            **taught,
            **({"tables": tables} if tables else {}),
            "learner": self.learner.decides_model,
            "label": self.data.label,
            "mapping": self.data.mapping,
            "test": [self.data.test_file is not None, self.data.test_fraction],
        }

    def check_effects(self, *, network: bool | None = None) -> None:
        """Raise ConfigError for settings that do nothing with the others, also those of learners where that is known.

        Reading the file does not call this, so that revoking and verifying work with any file.
        """
        self.check_promised()
        for table in ("privacy", "policy", "transfer", "learner"):
            choices = self._choices(table)
            if table == "learner" and network is not None:
                used = _OF_NETWORKS if network else {}
                choices.append(Choice(f"learner {self.learner.name!r}", used, {"network": OF_NETWORKS}, a_network))
            self._refuse(table, getattr(self, table).given, choices)

    def check_promised(self) -> None:
        """Raise ConfigError for an epsilon or a delta without a protection, which promises nothing."""
        self._refuse(
            "privacy", [key for key in self.privacy.given if key in ("epsilon", "delta")], self._choices("privacy")
        )

    def _refuse(self, table: str, keys: Iterable[str], choices: Iterable[Choice]) -> None:
        for key in keys:
            if why := next(filter(None, (why_without_effect(key, [choice], self) for choice in choices)), ""):
                promise = "nothing is protected, as " * (key in ("epsilon", "delta"))
                raise ConfigError(f"under [{table}] in silo.toml, {promise}{why}")

    def _choices(self, table: str) -> list[Choice]:
        """What decides which keys of a table have an effect, all of which must have a use for a key."""
        options = {kind: tables[table] for kind, tables in _OF_KINDS.items() if table in tables}
        used = {key: need for kind in self.policy.kinds for key, need in options.get(kind, {}).items()}
        kinds = f"kinds = {list(self.policy.kinds)} under [policy]"
        choices = [Choice(kinds, used, options, lambda names: f"add {names[0]!r} to kinds")]
        if table == "privacy":
            protection = self.privacy.protection
            choices.insert(0, Choice(said([protection]), _PLANNED[protection], _PLANNED, partial(set_to, "protection")))
        return choices

    @model_validator(mode="after")
    def _check_promise(self) -> Self:
        if self.policy.metrics and self.privacy.enabled:
            raise ValueError(
                "scores are computed from private records without noise: set metrics = false under [policy], or "
                "protection = 'none' under [privacy]"
            )
        if self.privacy.enabled and "soft" in self.policy.kinds:
            raise ValueError(
                f"protection = {self.privacy.protection!r} covers labels and not probabilities: leave 'soft' out of "
                "kinds under [policy], or set protection = 'none' under [privacy]"
            )
        if self.privacy.enabled and self.data.test_fraction:
            raise ValueError(
                "which records are held out depends on all of them, and with a protection none may change what becomes "
                "of another: set test-fraction = 0 under [data], or name a test-file there"
            )
        return self


class NodeConfig(Settings):
    """What one node knows of itself: from the agent, or from the simulation.

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
