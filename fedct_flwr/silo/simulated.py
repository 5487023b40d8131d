"""A simulated silo: its part of the run config's data set, its permitted answers, and its part in secure sums."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flwr.app import Context, Message

from fedct_flwr import datasets, privacy, secure_sum, silo
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import SiloData
from fedct_flwr.learners import MEETING, Resumable, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder, default_path
from fedct_flwr.silo.context import SiloContext, release_by
from fedct_flwr.silo.round import open_silo_context
from fedct_flwr.silo.site import SITES_KEPT, ContextState, FolderState, Site
from fedct_flwr.silo.summing import Ready
from fedct_flwr.types import ConfigError, Refused, generator
from fedct_flwr.wire.messages import from_record, to_record

if TYPE_CHECKING:
    # Needs the extra privacy, which a study without protection does not.
    from fedct_flwr.privacy.budget import Budget
    from fedct_flwr.privacy.noise_shares import VoteShares
    from fedct_flwr.silo.noisy_sum import NoiseAdder
    from fedct_flwr.silo.release import Answering, Purse, Release


@lru_cache(maxsize=SITES_KEPT)
def simulated_site(config: RunConfig, partition_id: int) -> Site:
    """The silo at this position of the run config's data set. Raises ConfigError or DataError."""
    dataset, data = datasets.load(config), simulated_silo(config, partition_id)
    return Site(
        data.name,
        data.private,
        data.test,
        dataset.test,
        dataset.public,
        build_learner(config, dataset, partition_id, data.private.X),
        config.learner_settings(partition_id, len(dataset.silos)),
        config.privacy_settings(config.asked_about(len(dataset.public))),
        config.method.transfer_settings(dataset.fewest_units),
        dataset.schema,
        dataset.schema.terms(config.study, len(dataset.public), dataset.public.fingerprint),
        groups=data.groups,
    )


def simulated_silo(config: RunConfig, partition_id: int) -> SiloData:
    """Records of silo ``partition_id``, from 0. Raises ConfigError if there is none, DataError for unreadable ones."""
    silos = datasets.load(config).silos
    if partition_id >= len(silos):
        raise ConfigError(f"there are {len(silos)} silos but this is node {partition_id + 1}: lower num-supernodes")
    return silos[partition_id]


def simulated_context(config: RunConfig, partition_id: int, context: Context, *, resumable: bool) -> SiloContext:
    """Context of a message to a simulated silo. Raises ConfigError or DataError."""
    site = simulated_site(config, partition_id)
    run = run_folder_of(config, context.run_id)
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
        simulated=True,
        release_of=_simulated_release(config, site, run) if site.privacy.enabled else None,
        judgment=run.silo_judgment(site.silo) if run else None,
        run=run,
        runs_kept=1,
        purse_of=partial(_simulated_purse_of_joint, config, site, run) if config.method.trains_together else None,
        noise_adder_of=partial(_simulated_noise_adder, config, site, run) if config.method.noise_in_shares else None,
        in_process=not lasting and MEETING.get() is not None and len(datasets.load(config).silos) <= SITES_KEPT,
    )


def run_folder_of(config: RunConfig, run_id: int) -> RunFolder | None:
    """Only where a coordinator on this machine has begun a run: the run config alone names no place to write to."""
    run = RunFolder(Path(config.run_dir) if config.run_dir else default_path(config.study, run_id))
    return run if run.exists() else None


def _simulated_purse(
    config: RunConfig, site: Site, run: RunFolder | None, budget: "Budget", seed: str = "noise"
) -> "Purse":
    """A simulated silo's: all of it in the run's folder, the noise of a seed. Raises ConfigError without a folder."""
    ledger = privacy.Ledger(_privacy_folder(config, site, run))
    return silo.Purse(
        ledger, budget, lambda asked: privacy.SimulatedNoise(generator(config.seed, seed, site.silo, asked.hex()))
    )


def _simulated_release(config: RunConfig, site: Site, run: RunFolder | None) -> "Callable[[Answering], Release]":
    def purse() -> "Purse":
        return _simulated_purse(config, site, run, privacy.budget_of(site.privacy, grouped=site.groups is not None))

    return partial(release_by, site, {}, purse, partial(_privacy_folder, config, site, run))


def _simulated_purse_of_joint(config: RunConfig, site: Site, run: RunFolder | None) -> "Purse":
    budget = privacy.Budget(config.epsilon, config.delta, privacy.unit_of(grouped=site.groups is not None))
    return _simulated_purse(config, site, run, budget, "joint noise")


def _simulated_noise_adder(config: RunConfig, site: Site, run: RunFolder | None) -> "NoiseAdder":
    """A simulated silo's, for the run's noise. Raises ConfigError without a folder."""
    method: Any = config.method
    silos = len(config.roster) or len(datasets.load(config).silos)
    plan = method.noise

    def as_gamma_says(shares: "VoteShares") -> privacy.Budget:
        return privacy.Budget(shares.price(plan.delta).upper, plan.delta, privacy.PrivacyUnit.SILO)

    purse = _simulated_purse(
        config, site, run, privacy.Budget(plan.epsilon, plan.delta, privacy.PrivacyUnit.SILO), "noise in shares"
    )
    honest = privacy.surely_honest(method.fewest_summands(silos), method.may_collude)
    return silo.NoiseAdder(purse, honest, as_gamma_says if plan.gamma else None)


def _privacy_folder(config: RunConfig, site: Site, run: RunFolder | None) -> Path:
    if run is not None:
        return run.silo_privacy(site.silo)
    protection = site.privacy.protection
    what = f"protection = {protection!r}" if site.privacy.enabled else f"algorithm {config.algorithm!r}"
    raise ConfigError(f"{what} keeps a ledger in the run's folder, which is not on this machine: set run-dir")


_SESSION: Final = "session-of-sums"


def add_in_sum(message: Message, context: Context) -> Message:
    """The silo's reply to a message of a secure sum; its session is kept in the context. Raises ConfigError, DataError.

    Bytes that are no request are refused as the silo refuses them.
    """
    here, memory = open_silo_context(context), ContextState(context.state)
    config = RunConfig.from_flower(context.run_config)
    name, names = here.site.silo, config.roster or [silo.name for silo in datasets.load(config).silos]
    summand = secure_sum.SumClient(
        name, secure_sum.simulated_key(config, name), secure_sum.simulated_terms(config, names)
    )
    if (kept := memory.get(_SESSION)) is not None:
        secure_sum.remind(summand, kept)
    try:
        request = from_record(message.content)
    except Refused:
        request = b""
    reply = summand.answer(request, Ready(here.state))
    memory.put(_SESSION, secure_sum.to_bytes(summand))
    return Message(to_record(reply), reply_to=message)
