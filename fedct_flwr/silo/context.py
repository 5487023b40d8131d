"""Context of one message: the silo's site, its state between rounds, and its permitted answers.

A real silo takes all of it from its ``silo.toml``; the run config decides only whether test scores are wanted.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from flwr.app import Context

from fedct_flwr import datasets
from fedct_flwr.config.run import NodeConfig, RunConfig
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.labelers.labeler import check_extra, check_installed
from fedct_flwr.learners.base import Resumable, Saveable
from fedct_flwr.learners.meeting import MEETING
from fedct_flwr.runs.run_folder import RunFolder, default_path
from fedct_flwr.seeding import generator
from fedct_flwr.silo.site import (
    SITES_KEPT,
    ContextState,
    FolderState,
    LocalState,
    Site,
    real_site,
    simulated_silo,
    simulated_site,
)
from fedct_flwr.types import ConfigError, SiloName

if TYPE_CHECKING:
    # Needs the extra privacy, which a study without protection does not.
    from fedct_flwr.privacy.budget import Budget
    from fedct_flwr.privacy.noise_shares import VoteShares
    from fedct_flwr.silo.noisy_sum import NoiseAdder
    from fedct_flwr.silo.release import Answering, Purse, Release

WITHOUT_GATE: Final = "FEDCT_WITHOUT_GATE"
"""Set to 1, a real silo answers without a gate and without a log: for measurements and tests only."""

_Config = TypeVar("_Config", RunConfig, NodeConfig)


@dataclass(frozen=True, eq=False)
class OwnSilo:
    """A real silo as its files were, each read once. Its gate, its site and the watch share it."""

    file: Path
    content: bytes
    """Bytes that ``config`` was read from."""
    config: SiloConfig

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read ``silo.toml``, and all else when it is first asked for. Raises ConfigError."""
        content = file.read_bytes() if os.access(file, os.R_OK) else b""
        return cls(file, content, SiloConfig.read_toml(file, content))

    @cached_property
    def study(self) -> StudyFolder:
        """The study. Raises ConfigError or DataError."""
        return read_study(self.config.study)

    @cached_property
    def site(self) -> Site:
        """Records, learner and all else. Raises ConfigError or DataError."""
        return real_site(self.config, self.study)


_AFTERWARDS: Final[ContextVar[list[Callable[[], None]] | None]] = ContextVar("afterwards", default=None)
"""Work for after the answer has left; None outside of ``gated``."""
_OWN: Final[ContextVar[OwnSilo | None]] = ContextVar("own", default=None)
"""The silo of the gate, as it has read it."""


@dataclass(frozen=True, eq=False)
class SiloContext:
    """``model`` is where the silo's model is kept, if it can be; a resumed run goes on from it (``resumes``).

    ``model_digest`` (32 bytes) stands for the settings that decide what the model is. ``before`` is where a real silo
    keeps the model of before the study, ``judgment`` what a silo makes of the consensus. ``runs_kept``: Flower's runs
    of which ``state`` keeps where the learner stood. ``sends_scores``: whether test scores go on replies.
    ``hands_out_weights``: in simulation only. ``release_of`` makes what answers instead of the personal model or the
    bare students; None without a protection.
    """

    site: Site
    state: LocalState
    model: Path | None
    model_digest: bytes
    resumes: bool
    sends_scores: bool
    hands_out_weights: bool
    release_of: "Callable[[Answering], Release] | None" = None
    before: Path | None = None
    judgment: Path | None = None
    runs_kept: int = 8
    purse_of: "Callable[[], Purse] | None" = None
    """Makes the purse for the silo's part in sums with noise for records."""
    study_of: Callable[[], StudyFolder] | None = None
    """The study of a real silo that counts values for a drawn public set."""
    noise_adder_of: "Callable[[], NoiseAdder] | None" = None
    """Makes the adder of the silo's share of noise in sums of votes; None where it adds to no such sum."""
    in_process: bool = False
    """Whether its learner lives as long as its state does."""

    @property
    def decision(self) -> Path | None:
        """File of the safeguard's last decision, next to the judgment."""
        return self.judgment.with_suffix(".decision") if self.judgment else None

    @cached_property
    def release(self) -> "Release | None":
        """The release that answers instead of the personal model."""
        if self.release_of is None:
            return None
        from fedct_flwr.silo.release import Answering

        return self.release_of(Answering(self.site.labeler, {}))

    def release_of_students(self, votes: int) -> "Release | None":
        """The release that answers instead of bare students, with ``votes`` on each example."""
        if self.release_of is None:
            return None
        from fedct_flwr.silo.release import by_students

        return self.release_of(by_students(self.site, votes))


def silo_named(context: Context) -> SiloName:
    """The silo that a message is for, before anything else is read. Raises ConfigError or DataError."""
    node = _node(context)
    if node.silo_file:
        return _own(node.silo_file).config.silo
    return simulated_silo(_run_config(context), node.partition_id or 0).name


def open_silo_context(context: Context, *, resumable: bool = True) -> SiloContext:
    """All that is needed to answer a message. Raises ConfigError or DataError.

    ``resumable``: what a simulated silo keeps must outlast one of Flower's runs. A real silo answers only within
    ``gated``: a stock SuperNode, which runs this app by itself, has no gate and writes no log.
    """
    node = _node(context)
    if node.silo_file:
        if not (_AFTERWARDS.get() is not None or os.environ.get(WITHOUT_GATE) == "1"):
            raise ConfigError(
                "a real silo answers only through its gate: start its agent with 'fedct silo start', and the SuperNode "
                "with 'fedct silo connect'"
            )
        here = _own(node.silo_file)
        own, site = here.config, here.site
        return SiloContext(
            site,
            FolderState(own.state),
            model=model_of(own, site),
            model_digest=_model_digest(own),
            # Which of its own models a network goes on from: Flower knows a resumed run as another.
            resumes=context.run_config.get("resume") is True,
            sends_scores=own.policy.metrics and context.run_config.get("report-scores") is True,
            hands_out_weights=False,
            release_of=_own_release(own, site) if own.privacy.enabled else None,
            before=model_before(own, site),
            judgment=judgment_of(own, site.terms.study),
            purse_of=partial(_own_purse_of_joint, own) if own.adds_noise else None,
            study_of=(lambda: here.study) if own.draws else None,
            noise_adder_of=partial(_own_noise_adder, here) if own.policy.sum_epsilon else None,
        )
    config = _run_config(context)
    site = simulated_site(config, node.partition_id or 0)
    run = _run_folder(config, context.run_id)
    kept = run if config.save_models else None
    model = kept.silo_model(site.silo, site.learner.suffix) if kept and isinstance(site.learner, Saveable) else None
    # A silo that trains on finds its last answer there after a resume: it would learn that round twice otherwise.
    lasts = run and resumable and model and isinstance(site.learner, Resumable)
    lasting = FolderState(run.silo_answers(site.silo)) if run and lasts else None
    return SiloContext(
        site,
        lasting or ContextState(context.state),
        model=model,
        # A simulated silo's files belong to one run and to Flower's runs that resume it, and these change no settings.
        model_digest=bytes(32),
        resumes=config.resume,
        sends_scores=config.report_scores,
        hands_out_weights=True,
        release_of=_simulated_release(config, site, run) if site.privacy.enabled else None,
        judgment=run.silo_judgment(site.silo) if run else None,
        runs_kept=1,
        purse_of=partial(_simulated_purse_of_joint, config, site, run) if config.method.trains_together else None,
        noise_adder_of=partial(_simulated_noise_adder, config, site, run) if config.method.noise_in_shares else None,
        in_process=not lasting and MEETING.get() is not None and len(datasets.load(config).silos) <= SITES_KEPT,
    )


def run_of_simulation(context: Context) -> RunFolder | None:
    """The run's folder, if the silo is a simulated one and has it on this machine; a real silo has none."""
    if _node(context).silo_file:
        return None
    return _run_folder(_run_config(context), context.run_id)


@contextmanager
def gated(own: OwnSilo | None = None) -> Iterator[list[Callable[[], None]]]:
    """Mark this thread as gated: a real silo (``own``) answers, and the gate does further work once the answer left."""
    afterwards: list[Callable[[], None]] = []
    before = _AFTERWARDS.set(afterwards), _OWN.set(own)
    try:
        yield afterwards
    finally:
        _AFTERWARDS.reset(before[0])
        _OWN.reset(before[1])


def once_left(work: Callable[[], None]) -> None:
    """Do some work once the answer has left: later, where there is a gate, and otherwise at once."""
    afterwards = _AFTERWARDS.get()
    if afterwards is None:
        work()
    else:
        afterwards.append(work)


def model_of(config: SiloConfig, site: Site) -> Path | None:
    """File of a real silo's personal model; None if its learner's models cannot be saved."""
    learner = site.learner
    return config.state / f"model-{site.terms.study}{learner.suffix}" if isinstance(learner, Saveable) else None


def model_before(config: SiloConfig, site: Site) -> Path | None:
    """File of a real silo's model from before the study, one for each way to train it; None without one."""
    if (path := model_of(config, site)) is None:
        return None
    return path.with_name(f"before-{path.stem}-{_model_digest(config).hex()[:16]}{path.suffix}")


def judgment_of(config: SiloConfig, study: str) -> Path:
    """File of a real silo's judgment of the consensus."""
    return config.state / f"judgment-{study}.json"


def _own(silo_file: Path) -> OwnSilo:
    """The silo of a message: the gate's, or without an agent the one that was read first. Raises ConfigError."""
    return _OWN.get() or read_once(silo_file)


# Later changes on disk have no effect; the agent's gate shuts at one.
read_once: Final = lru_cache(maxsize=16)(OwnSilo.read)


def _model_digest(config: SiloConfig) -> bytes:
    return hashlib.sha256(json.dumps(config.decides_model, sort_keys=True).encode()).digest()


def _own_purse(config: SiloConfig, budget: "Budget") -> "Purse":
    """A real silo's: its ledger outlives runs, and its noise cannot be predicted."""
    from fedct_flwr.privacy.ledger import Ledger, common_budget
    from fedct_flwr.privacy.randomness import SecureNoise
    from fedct_flwr.silo.release import Purse

    ledger = Ledger(config.state, common=common_budget(config))
    return Purse(ledger, budget, lambda question: SecureNoise(), real=True)


def _simulated_purse(
    config: RunConfig, site: Site, run: RunFolder | None, budget: "Budget", seed: str = "noise"
) -> "Purse":
    """A simulated silo's: all of it in the run's folder, the noise of a seed. Raises ConfigError without a folder."""
    from fedct_flwr.privacy.ledger import Ledger
    from fedct_flwr.privacy.randomness import SimulatedNoise
    from fedct_flwr.silo.release import Purse

    ledger = Ledger(_privacy_folder(config, site, run))
    return Purse(ledger, budget, lambda asked: SimulatedNoise(generator(config.seed, seed, site.silo, asked.hex())))


def _release(
    site: Site,
    labels: Mapping[str, object],
    purse_of: "Callable[[Budget], Purse]",
    folder: Callable[[], Path],
    answering: "Answering",
) -> "Release":
    """Release of the answering model's labels, kept in ``folder``. Raises ConfigError where a package is missing."""
    check_installed(site.privacy)
    from fedct_flwr.privacy.budget import budget_of
    from fedct_flwr.silo.release import Release, settings_digest

    purse, state = purse_of(budget_of(site.privacy, grouped=site.groups is not None)), FolderState(folder())
    digest = settings_digest(site, labels, answering.decisive)
    return Release(answering.labeler, purse, state, site.terms.study, digest)


def _own_release(config: SiloConfig, site: Site) -> "Callable[[Answering], Release]":
    labels = {name: config.decides_model[name] for name in ("label", "mapping", "test")}
    return partial(_release, site, labels, partial(_own_purse, config), lambda: config.state)


def _simulated_release(config: RunConfig, site: Site, run: RunFolder | None) -> "Callable[[Answering], Release]":
    folder = partial(_privacy_folder, config, site, run)
    return partial(_release, site, {}, partial(_simulated_purse, config, site, run), folder)


def _own_purse_of_joint(config: SiloConfig) -> "Purse":
    from fedct_flwr.silo.release import own_budget

    return _own_purse(config, own_budget(config))


def _simulated_purse_of_joint(config: RunConfig, site: Site, run: RunFolder | None) -> "Purse":
    from fedct_flwr.privacy.budget import Budget, unit_of

    budget = Budget(config.epsilon, config.delta, unit_of(grouped=site.groups is not None))
    return _simulated_purse(config, site, run, budget, "joint noise")


def _own_noise_adder(here: OwnSilo) -> "NoiseAdder":
    """A real silo's, by its own policy and the study's terms of sums. Raises ConfigError where the study has none."""
    check_extra("privacy", "sum-epsilon")
    from fedct_flwr.privacy.budget import WHOLE_SILO
    from fedct_flwr.privacy.noise_shares import surely_honest
    from fedct_flwr.silo.noisy_sum import NoiseAdder
    from fedct_flwr.silo.release import own_budget

    own, sums = here.config, here.study.sums
    if sums is None:
        raise ConfigError("sum-epsilon needs [sums] in study.toml, which has none: ask the coordinator for it")
    purse = _own_purse(own, own_budget(own, WHOLE_SILO))
    return NoiseAdder(purse, surely_honest(sums.min_summands, sums.may_collude))


def _simulated_noise_adder(config: RunConfig, site: Site, run: RunFolder | None) -> "NoiseAdder":
    """A simulated silo's, for the run's noise. Raises ConfigError without a folder."""
    from fedct_flwr.privacy.budget import Budget, PrivacyUnit
    from fedct_flwr.privacy.noise_shares import surely_honest
    from fedct_flwr.silo.noisy_sum import NoiseAdder

    method: Any = config.method
    silos = len(config.roster) or len(datasets.load(config).silos)
    plan = method.noise

    def as_gamma_says(shares: "VoteShares") -> Budget:
        return Budget(shares.price(plan.delta).upper, plan.delta, PrivacyUnit.SILO)

    purse = _simulated_purse(config, site, run, Budget(plan.epsilon, plan.delta, PrivacyUnit.SILO), "noise in shares")
    honest = surely_honest(method.fewest_summands(silos), method.may_collude)
    return NoiseAdder(purse, honest, as_gamma_says if plan.gamma else None)


def _privacy_folder(config: RunConfig, site: Site, run: RunFolder | None) -> Path:
    if run is not None:
        return run.silo_privacy(site.silo)
    protection = site.privacy.protection
    what = f"protection = {protection!r}" if site.privacy.enabled else f"algorithm {config.algorithm!r}"
    raise ConfigError(f"{what} keeps a ledger in the run's folder, which is not on this machine: set run-dir")


def _run_config(context: Context) -> RunConfig:
    """The run config of a message. Raises ConfigError."""
    return _read_once(RunConfig, context.run_config)


def _node(context: Context) -> NodeConfig:
    """The node config of a message. Raises ConfigError."""
    return _read_once(NodeConfig, context.node_config)


def _read_once(kind: type[_Config], raw: Mapping[str, Any]) -> _Config:
    """A process reads each config once, however many messages and silos it serves."""
    return _read(kind, tuple((name, type(value), value) for name, value in raw.items()))  # type: ignore[return-value]


@lru_cache(maxsize=2048)
def _read(kind: type[RunConfig | NodeConfig], items: tuple[tuple[str, type, Any], ...]) -> RunConfig | NodeConfig:
    return kind.from_flower({name: value for name, _, value in items})


def _run_folder(config: RunConfig, run_id: int) -> RunFolder | None:
    """Only where a coordinator on this machine has begun a run: the run config alone names no place to write to."""
    run = RunFolder(Path(config.run_dir) if config.run_dir else default_path(config.study, run_id))
    return run if run.exists() else None
