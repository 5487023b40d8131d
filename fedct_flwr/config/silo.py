"""A silo's own settings, ``silo.toml``. The silo alone decides them.

Of a limit, the setting has the name, the range, the default and the explanation. ``hospital/log_entry.py`` says what
is counted.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from fedct_flwr.config.app import AppSettings
from fedct_flwr.config.learner import OF_NETWORKS, LearnerSettings
from fedct_flwr.config.privacy import OF_STUDENTS, PROTECTIONS, PrivacySettings, TransferSettings
from fedct_flwr.config.settings import (
    MAX_INT,
    Address,
    Name,
    OptionalRelativePath,
    RelativePath,
    Settings,
    VisibleName,
    either,
    kebab,
    uses,
)
from fedct_flwr.config.tables import GroupedImages, SiloTables
from fedct_flwr.types import ConfigError

if TYPE_CHECKING:
    from fedct_flwr.config.study import StudyConfig


def _strings(value: object) -> object:
    """TOML keys are text, and so is what a label is called."""
    return {str(key): str(name) for key, name in value.items()} if isinstance(value, Mapping) else value


MOST_SQL: Final = 1 << 16
"""Most bytes of a query, so that a person can read it."""
_PASSWORD: Final = re.compile(r"password\s*=", re.IGNORECASE)


def is_server(database: str) -> bool:
    """Whether it is the address of a PostgreSQL server, not a path."""
    return database.startswith(("postgresql://", "postgres://"))


def _database(value: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return str(Path(folder) / value) if folder and value and "://" not in value else value


class DataSettings(Settings):
    """Where the silo's records are: in a ``file``, or in a ``database`` that a ``query`` reads."""

    file: OptionalRelativePath = None
    """A table, or a folder with a folder of images for each class."""
    query: OptionalRelativePath = None
    """A file of SQL that reads the records from ``database``: one SELECT of the label and the study's columns."""
    database: Annotated[str, AfterValidator(_database)] = ""
    """A PostgreSQL server ('postgresql://host/name'), a SQLite or DuckDB file, or a folder of Parquet files. User and
    password are in the environment (PGUSER, PGPASSWORD), or in the file that PGPASSFILE names."""
    query_timeout: float = Field(default=300.0, ge=1, le=86400)
    """Seconds after which a query is given up."""
    label: str = ""
    """The label column of a table."""
    mapping: Annotated[dict[str, str], BeforeValidator(_strings)] = Field(default_factory=dict)
    """The study's class for each label as the file writes it; empty: the file uses the study's names."""
    test_file: OptionalRelativePath = None
    """Labeled records that are never trained on, to score the model with; empty: ``test-fraction`` of ``file``."""
    test_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Share of the records of ``file`` that are never trained on."""
    tables: SiloTables = SiloTables()
    """The form of ``file`` and ``test-file``, where they are tables; the study's may have another. ``group`` keeps a
    patient's records on one side of the split."""
    images: GroupedImages = GroupedImages()
    """Where ``file`` is a folder of images."""

    _opt_out: Path | None = PrivateAttr(None)

    @property
    def source(self) -> Path:
        """Where the records are: the file or the folder, or the query that reads them."""
        return self.query or self.file or Path()

    @property
    def opt_out(self) -> Path | None:
        """The list under ``[records]``, which all that reads records leaves out."""
        return self._opt_out

    @property
    def without_opt_out(self) -> Self:
        """The same without the opt-out list."""
        found = self.model_copy()
        found._opt_out = None
        return found

    @cached_property
    def sql(self) -> bytes:
        """The beginning of the query's file, read once: what is approved is what runs. Raises OSError."""
        with self.source.open("rb") as file:
            return file.read(MOST_SQL + 1)

    # Of all keys together: an error of one would quote its value.
    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if bool(self.file) == bool(self.query) or bool(self.query) != bool(self.database):
            raise ValueError("name a file with the records, or a query and its database, and leave the others empty")
        if _PASSWORD.search(unquote(self.database)) or ("://" in self.database and urlsplit(self.database).password):
            raise ValueError(
                "a password stands in database: take it out, and set PGPASSWORD, or PGPASSFILE to a file of passwords"
            )
        if "://" in self.database and not is_server(self.database):
            raise ValueError("database must be a path, or begin with postgresql://")
        return self

    @model_validator(mode="after")
    def _check_test(self) -> Self:
        if self.test_file and self.test_fraction:
            raise ValueError("test-file and test-fraction exclude each other: keep one of them")
        return self


AT_LEAST: Final = ("min_summands", "may_collude", "sum_epsilon", "sum_delta")
"""Settings of the policy: what a secure sum must protect, at least."""

YOUNGER: Final = ("max_consensus_weight", *AT_LEAST)
"""Approvals of before these settings stay valid while they have their defaults, which may be lowered, never raised."""


class Policy(Settings):
    """Permissions and limits: what may leave the silo, and what a question for probabilities may ask of it.

    The limits of rounds, queries and bytes are totals over all that ever left for a study and its public set, whatever
    was approved in between. That of the consensus's weight holds for each question.
    """

    kinds: tuple[
        Literal["hard", "shares", "soft", "counts", "sum", "count-sum", "joint", "draw", "count", "scores"], ...
    ] = ("hard",)
    """Messages that may leave: one class for each queried example (hard; shares, where other silos learn the share of
    the votes that each class has), probabilities (soft), votes (counts), parts of secure sums of labels (sum), of votes
    (count-sum), or with noise of gradients (joint), of counts of each column's values (draw) or of patients who meet a
    condition (count). Each of these three stands alone. Next to kinds under a promise: scores, which are counts with
    noise in one sum for all silos."""
    metrics: bool = False
    """Whether test scores may leave: four numbers on each reply, or two where a number is predicted."""
    max_rounds: int = Field(default=100, ge=1, le=MAX_INT)
    """In total: replies with labels."""
    max_queries: int = Field(default=1_000_000, ge=1, le=MAX_INT)
    """In total: labels of public examples. Each vote that is counted is one, and each class's probability."""
    max_bytes: int = Field(default=10_000_000, ge=1, le=MAX_INT)
    """In total: bytes of all replies, of refusals too."""
    max_consensus_weight: float = Field(default=1.0, ge=0, le=1e6)
    """For each question for probabilities: the weight of others' probabilities next to 1 for the silo's own records.
    The coordinator chooses it. With a large weight the personal model would learn what the coordinator says, and little
    else. Learned in turn with the records, as fedmd asks, they count 1."""
    min_summands: int = Field(default=3, ge=3, le=100)
    """For secure sums: the fewest silos whose sum a study may open."""
    may_collude: int = Field(default=1, ge=0, le=98)
    """For secure sums: how many silos a study must at least allow to collude without learning this silo's answers."""
    sum_epsilon: float = Field(default=0.0, ge=0)
    """For secure sums: what all of them together may tell of this silo as a whole. Then only sums leave to which silos
    add noise in shares, and even the coordinator learns no more. 0: sums without noise leave."""
    sum_delta: float = Field(default=1e-5, gt=0, lt=1)
    """The delta of ``sum-epsilon``."""

    @field_validator("kinds", mode="before")
    @classmethod
    def _check_kinds(cls, kinds: Any) -> Any:
        if isinstance(kinds, list | tuple) and "soft-sum" in kinds:
            raise ValueError(
                "soft-sum is not a kind of answer, as secure sums add neither probabilities nor values: write sum for "
                "sums of labels, or soft, of which the coordinator sees each silo's"
            )
        if not isinstance(kinds, list | tuple):
            return kinds
        return [kind for place, kind in enumerate(kinds) if kind not in kinds[:place]]

    @property
    def adds(self) -> tuple[str, ...]:
        """The kinds that leave as parts of secure sums."""
        return tuple(kind for kind in self.kinds if kind in _ADDED)

    @property
    def teaches(self) -> bool:
        """Whether votes of students may leave, in sums or not."""
        return any(kind in _TAUGHT for kind in self.kinds)

    @property
    def decides(self) -> dict[str, object]:
        """The approved settings as JSON types."""
        return self.as_approved(YOUNGER)

    @property
    def logged(self) -> dict[str, object]:
        """Settings that an approval writes into the log: the limits of sums only where sums may leave."""
        return self.model_dump(mode="json", exclude=set() if self.adds else {*AT_LEAST})


class RecordsSettings(Settings):
    """Patients who are left out, and limits over all studies about the same records, whose ``silo.toml`` name a folder.

    The folder is on one machine, and all agents that name it run as the same user. Without a folder, no limit holds
    over several studies. The limits count as those under ``[policy]`` do, with all that left before the folder was
    named.
    """

    opt_out: OptionalRelativePath = None
    """A table of patients whose records are left out of training, counts and tests, by the ids in the group column. The
    agent reads it when it starts. Needs no new approval."""
    folder: OptionalRelativePath = None
    """Where the studies write down together what has left about these records."""
    max_rounds: int = Field(default=100, ge=1, le=MAX_INT)
    """In total over all studies: replies with labels."""
    max_queries: int = Field(default=1_000_000, ge=1, le=MAX_INT)
    """In total over all studies: labels of public examples."""
    max_bytes: int = Field(default=10_000_000, ge=1, le=MAX_INT)
    """In total over all studies: bytes of all replies, of refusals too."""

    epsilon: float = Field(default=0.0, ge=0)
    """Most epsilon of all studies together for a record; 0: no limit over studies. Each study that names the folder is
    counted there, and once labels have left without a protection there is no bound."""
    delta: float = Field(default=1e-5, ge=0, lt=1)
    """The delta of that epsilon."""

    @property
    def decides(self) -> Mapping[str, Any]:
        """The approved settings as JSON types: the folder too, as another one would count from the beginning."""
        return self.model_dump(mode="json", exclude={"opt_out"})

    @model_validator(mode="after")
    def _check_folder(self) -> Self:
        if self.folder is None and (given := [key for key in self.given if key != kebab("opt_out")]):
            raise ValueError(f"{given[0]} has no effect without a folder: name the one that all studies share")
        return self


class SiloGovernance(Settings):
    """``[governance]``: what the hospital answers in its impact assessment (fedct silo dpia). Decides nothing."""

    purpose: VisibleName = ""
    """Why the records are processed."""
    lawful_basis: VisibleName = ""
    """The article that allows it, such as 'GDPR Art. 6(1)(e), 9(2)(j)'."""
    ethics_number: VisibleName = ""
    """Number of the ethics committee's vote."""
    processors: VisibleName = ""
    """Others who process records on the hospital's behalf."""


_PROMISED_BY: Final = {"joint": "joint labeler", "draw": "drawn public set", "count": "noisy counts of patients"}
"""Kinds that stand alone, as their guarantee covers no other, and what keeps their promise."""
_NOISY: Final = tuple(_PROMISED_BY)
_WITH_NOISE: Final = ("sum", "count-sum")
"""Kinds to whose sums silos can add noise in shares."""
_SCORES: Final = "scores"
"""Stands next to kinds under a promise, whose budget pays for it."""
_ADDED: Final = (*_WITH_NOISE, *_NOISY, _SCORES)
_TAUGHT: Final = ("counts", "count-sum")
"""Kinds that students answer, whom teachers have taught."""

_PROTECTED: Final = tuple(name for name in PROTECTIONS if name != "none")
_EFFECTS: Final[Sequence[tuple[str, Collection[str], Sequence[str]]]] = (
    ("privacy", ("epsilon", "delta"), (*_PROTECTED, *_NOISY)),
    ("privacy", ("rounds", "queries"), _PROTECTED),
    *(("privacy", PROTECTIONS[name].own, (name,)) for name in _PROTECTED),
    ("policy", [*map(kebab, AT_LEAST)], _ADDED),
    ("policy", ("max-consensus-weight",), ("soft",)),
    ("transfer", [*map(kebab, TransferSettings.model_fields)], _TAUGHT),
    ("transfer", ("noise", "gamma", "lessons"), (OF_STUDENTS,)),
    ("learner", ("pseudo-weight",), ("hard", "shares", "sum", "joint")),
    ("learner", ("epochs",), _TAUGHT),
    ("learner", ("warm-up-rounds",), ("hard", "shares", "soft", "sum", "joint")),
)
"""Tables, keys in them, and the kinds and protections of which these keys need one to have an effect."""


class Connection(Settings):
    """The way out, for the SuperNode; the agent uses ``supernode`` and ``secret`` alone."""

    superlink: Address
    """The coordinator, as ``host:port``."""
    ca_certificate: RelativePath = Path("connection/ca.crt")
    """The authority that signs the coordinator's certificate."""
    node_key: RelativePath = Path("connection/node.key")
    """The SuperNode's key. The coordinator knows this silo by its public half, node.key.pub."""
    client_certificate: RelativePath = Path("connection/client.crt")
    """Certificate for the coordinator's gateway, from the invitation; not there where the gateway asks for none."""
    client_key: RelativePath = Path("connection/client.key")
    secret: RelativePath = Path("connection/secret")
    """The agent's secret for its SuperNode."""
    supernode: Address = "127.0.0.1:9094"
    """Where the SuperNode listens for its agent, as ``host:port``. The agent calls it by plain HTTP and shows the
    secret: keep both on one machine, or on a network of their own."""


_APP: Final = "app"


class SiloFolder(Settings):
    """The part of ``silo.toml`` that every silo has. Relative paths start at its folder."""

    silo: Name
    state: RelativePath = Path("state")
    """The silo's state: the egress log, answers, its model."""
    egress_key: RelativePath = Path("keys/egress.key")
    """Ed25519 key that signs the egress log."""
    approvers: Annotated[dict[str, RelativePath], Field(default_factory=dict)]
    """Four eyes: people and their public keys (Ed25519, PEM). Two of them have to approve, each with fedct silo approve
    --by NAME --key FILE; empty: anybody at this machine may."""
    connection: Connection

    @classmethod
    def read(cls, raw: Mapping[str, Any], where: str, folder: Path | None = None) -> Self:
        """Settings of an app where there is ``[app]``, and otherwise of a silo that co-trains. Raises ConfigError."""
        kind = AppSilo if _APP in raw else SiloConfig
        if cls is SiloFolder:
            return kind.read(raw, where, folder)  # type: ignore[return-value]  # SiloFolder is what Self stands for
        if cls is SiloConfig and kind is AppSilo:
            raise ConfigError(
                f"{where} has [app], and this command is for co-training: for an app there are approve, check, "
                "connect, metrics, revoke, start, status and verify"
            )
        return super().read(raw, where, folder)

    @field_validator("approvers")
    @classmethod
    def _check_approvers(cls, value: dict[str, Path]) -> dict[str, Path]:
        if len(value) == 1 or len(set(value.values())) < len(value):
            raise ValueError("name two people or more, each with a key of their own, or none")
        return value


class AppSilo(SiloFolder):
    """``silo.toml`` of a silo that runs a Flower app of its own people, and does not co-train."""

    app: AppSettings


class SiloConfig(SiloFolder):
    """``silo.toml``. Relative paths start at its folder."""

    study: RelativePath = Path("study")
    """The study's folder, as the coordinator handed it out."""
    data: DataSettings
    learner: LearnerSettings
    policy: Policy = Policy()
    privacy: PrivacySettings = PrivacySettings()
    transfer: TransferSettings = TransferSettings()
    records: RecordsSettings = RecordsSettings()
    governance: SiloGovernance = SiloGovernance()

    @property
    def adds_noise(self) -> bool:
        """Whether it lets parts of sums out whose noise protects records, and nothing else."""
        return bool(self.noisy_kind)

    @property
    def leaving(self) -> str:
        """Contents of its messages, which count towards the limit of labels, in a word."""
        return "numbers" if self.adds_noise else "labels"

    @property
    def noisy_kind(self) -> str:
        """The kind that lets these parts out, which is also the table of study.toml with its plan; empty if none."""
        return next((kind for kind in self.policy.kinds if kind in _NOISY), "")

    @property
    def counts(self) -> bool:
        """Whether these sums only count: values, for a public set that is drawn, or patients."""
        return self.noisy_kind in ("draw", "count")

    @property
    def scores(self) -> bool:
        """Whether scores leave as counts with noise."""
        return _SCORES in self.policy.kinds

    @property
    def unattacked(self) -> tuple[str, ...]:
        """Kinds that let out more or other things than class labels, which are all that a rehearsed attack reads."""
        return tuple(kind for kind in self.policy.kinds if kind not in ("hard", "shares", _SCORES))

    def set_aside(self, study: "StudyConfig") -> float:
        """The part of epsilon that a drawn set and scores of this study take, and labels do not get."""
        return study.draw_epsilon + (study.scores.epsilon if study.scores and self.scores else 0.0)

    @property
    def promised_by(self) -> str:
        """Name of the mechanism that keeps to the budget of each record."""
        return _PROMISED_BY.get(self.noisy_kind, self.privacy.protection)

    @property
    def promises(self) -> bool:
        """Whether its ledger bounds what leaves of each record, by a protection of its own or by noise in sums."""
        return self.privacy.enabled or self.adds_noise

    @property
    def always_answers(self) -> bool:
        """Whether a promise covers what leaves: then no record decides whether there is an answer."""
        return self.promises or self.policy.sum_epsilon > 0

    @property
    def grouped_by(self) -> str:
        """Column of the patients' ids, or the pattern of them in the names of images; empty without one."""
        return self.data.tables.group or self.data.images.group_pattern

    @property
    def grouped(self) -> bool:
        """Whether several records may be one patient's, who is then what a promise protects."""
        return bool(self.grouped_by)

    @property
    def unit(self) -> str:
        """Whom a promise protects, in a word."""
        return "patient" if self.grouped else "record"

    @property
    def decides_model(self) -> dict[str, object]:
        """Settings that decide the silo's labels, besides study and records; as JSON types."""
        # Only where something is promised: what was approved before there were promises stays approved.
        promised = {"privacy": self.privacy.decides} if self.promises else {}
        taught = {"transfer": self.transfer.model_dump(mode="json")} if self.policy.teaches else {}
        # Unset forms of tables change no digest.
        tables = {key: self.data.tables.model_dump(mode="json", by_alias=True)[key] for key in self.data.tables.given}
        return {
            **promised,
            **taught,
            **({"tables": tables} if tables else {}),
            **({"image-groups": pattern} if (pattern := self.data.images.group_pattern) else {}),
            "learner": self.learner.decides_model,
            "label": self.data.label,
            "mapping": self.data.mapping,
            "test": [self.data.test_file is not None, self.data.test_fraction],
        }

    def check_effects(self, *, network: bool | None = None) -> None:
        """Raise ConfigError for settings that do nothing with the others, also those of learners where that is known.

        Reading the file does not call this, so that revoking and verifying work with any file.
        """
        for table, keys, options in _EFFECTS:
            self._refuse_without(table, keys, options)
        self.privacy.check_unit(grouped=self.grouped)
        if not self.policy.sum_epsilon:
            self._refuse("policy", ("sum-delta",), "sum-epsilon above 0")
        if network is False:
            self._refuse("learner", OF_NETWORKS | uses("warm-up-rounds"), "a network as learner")

    def check_promised(self) -> None:
        """Raise ConfigError for an epsilon or a delta without a protection, which promises nothing."""
        self._refuse_without(*_EFFECTS[0])

    def _refuse_without(self, table: str, keys: Collection[str], options: Sequence[str]) -> None:
        if {*options}.isdisjoint((*self.policy.kinds, self.privacy.protection)):
            kinds = [one for one in options if one not in PROTECTIONS]
            words = [f"{either(kinds)} among kinds under [policy]"] if kinds else []
            if protections := [one for one in options if one in PROTECTIONS]:
                words.insert(0, f"protection = {either(protections)}")
            self._refuse(table, keys, " or ".join(words))

    def _refuse(self, table: str, keys: Collection[str], words: str) -> None:
        for key in getattr(self, table).given:
            if key in keys:
                promise = "nothing is protected, as " * (key in ("epsilon", "delta"))
                raise ConfigError(
                    f"under [{table}] in silo.toml, {promise}{key} has no effect without {words}: set that, or leave "
                    "it out"
                )

    @model_validator(mode="after")
    def _leave_out(self) -> Self:
        self.data._opt_out = self.records.opt_out
        return self

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        noisy = self.noisy_kind
        if self.scores and (self.counts or not self.promises):
            raise ValueError(
                "scores with noise go next to labels under a promise: choose a protection under [privacy] or 'joint', "
                "or take 'scores' out of kinds under [policy], where metrics = true lets scores without noise out"
            )
        if self.scores and not self.data.test_file:
            raise ValueError("scores count test records: name a test-file under [data], or take 'scores' out of kinds")
        if self.adds_noise and len({*self.policy.kinds} - {_SCORES}) > 1:
            raise ValueError(
                f"the guarantee of {noisy!r} covers no other kind of message: leave {noisy!r} the only one of kinds "
                "under [policy], or leave it out"
            )
        if self.adds_noise and self.privacy.enabled:
            raise ValueError(
                f"with kinds = [{noisy!r}] silos add their noise to sums: set protection = 'none' under [privacy], "
                "where epsilon and delta are the budget"
            )
        if self.policy.metrics and self.promises:
            raise ValueError(
                "scores are computed from private records without noise: set metrics = false under [policy], or "
                + (f"leave {noisy!r} out of kinds" if self.adds_noise else "protection = 'none' under [privacy]")
            )
        if self.policy.sum_epsilon and (self.policy.metrics or not set(self.policy.kinds) <= {*_WITH_NOISE}):
            raise ValueError(
                "sum-epsilon promises that nothing but sums with noise leaves: set kinds to ['sum'], ['count-sum'] or "
                "both, and metrics = false under [policy], or sum-epsilon = 0"
            )
        if self.privacy.protection == OF_STUDENTS and not set(self.policy.kinds) <= {*_TAUGHT}:
            raise ValueError(
                f"protection = {OF_STUDENTS!r} covers votes of students alone: set kinds = ['counts'] under [policy], "
                "or choose another protection under [privacy]"
            )
        if self.privacy.enabled and "soft" in self.policy.kinds:
            raise ValueError(
                f"protection = {self.privacy.protection!r} covers labels and not probabilities: leave 'soft' out "
                "of kinds under [policy], or set protection = 'none' under [privacy]"
            )
        if self.records.folder and self.records.folder.resolve() == self.state.resolve():
            raise ValueError(
                "folder under [records] is this study's own state: name another one, which all studies about the same "
                "records share"
            )
        if self.records.epsilon and not self.promises:
            raise ValueError(
                "epsilon under [records] promises something of all studies, and this one has no protection: choose one "
                "under [privacy], or take epsilon out of [records]"
            )
        if self.promises and self.data.test_fraction:
            raise ValueError(
                "which records are held out depends on all of them, and with a protection none may change what becomes "
                "of another: set test-fraction = 0 under [data], or name a test-file there"
            )
        return self
