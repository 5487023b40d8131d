"""A real silo, as its ``silo.toml`` and its study describe it: its site, and its permitted answers.

The run config decides only whether test scores are wanted.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from flwr.app import Context

from fedct_flwr import labelers, privacy, silo, survival
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.federated import SiloData, check_protected, split_silo
from fedct_flwr.datasets.inspection import Finding, Severity, refuse
from fedct_flwr.datasets.inspection.cells import TESTED
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.query import FailedOnRecordsError, result_of
from fedct_flwr.datasets.silo_records import read_each, read_grouped, table_of
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.learners import Saveable
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.catalog import check_allowed
from fedct_flwr.silo.context import SiloContext, release_by
from fedct_flwr.silo.site import FolderState, Site
from fedct_flwr.types import ConfigError, DataError, Examples, Groups, generator

if TYPE_CHECKING:
    # Needs the extra privacy, which a study without protection does not.
    from fedct_flwr.privacy.budget import Budget
    from fedct_flwr.silo.noisy_sum import NoiseAdder
    from fedct_flwr.silo.release import Answering, Purse, Release


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


# Later changes on disk have no effect; the agent's gate shuts at one.
read_once: Final = lru_cache(maxsize=16)(OwnSilo.read)


def own_context(here: OwnSilo, context: Context) -> SiloContext:
    """Context of a message to a real silo. Raises ConfigError or DataError."""
    own, site = here.config, here.site
    return SiloContext(
        site,
        FolderState(own.state),
        model=model_of(own, site),
        model_digest=_model_digest(own),
        # Which of its own models a network goes on from: Flower knows a resumed run as another.
        resumes=context.run_config.get("resume") is True,
        sends_scores=own.policy.metrics and context.run_config.get("report-scores") is True,
        simulated=False,
        release_of=_own_release(own, site) if own.privacy.enabled else None,
        before=model_before(own, site),
        judgment=judgment_of(own, site.terms.study),
        purse_of=partial(_own_purse_of_records, own) if own.adds_noise or own.scores else None,
        study_of=(lambda: here.study) if own.counts or own.scores else None,
        noise_adder_of=partial(_own_noise_adder, here) if own.policy.sum_epsilon else None,
    )


def real_site(config: SiloConfig, study: StudyFolder) -> Site:
    """The silo that ``silo.toml`` describes, in this study. Raises ConfigError or DataError."""
    check_allowed(config.learner.name, config.learner.packages)
    result: Mapping[str, object] = {}
    try:
        table = table_of(config.data, study)
        result = result_of(config.data, table)
        found = inspect_records(config.data, study, config.silo, table, scored=config.policy.metrics)
        places = {config.silo: config.data.source, config.silo + TESTED: config.data.test_file}
        refuse(found.findings, {"": study.config.public, **places})
        own = _own_records(config, study, read_each if config.always_answers else partial(read_grouped, table=table))
        kept = own.private.size + own.test.size * (config.data.test_file is None)
        if config.promises and table is not None and kept < table.num_rows:
            raise DataError(f"{config.data.source} has records that cannot be read alone: see 'fedct silo check'")
        del table
        if study.schema.follow_up and not config.always_answers:
            survival.check_can_rank(survival.times_of(own.private.y), str(config.data.source))
        if own.private.size == 0:
            raise DataError(
                f"{config.data.source} leaves no records to train on: lower test-fraction, or see who has opted out"
            )
        if config.promises:
            check_protected(own.groups, config.silo)
        findings = found.suspicious
    except DataError as error:
        if not config.always_answers:
            raise
        # No record may decide whether there is an answer.
        why = f"{error}; records that cannot be read are left out"
        try:
            own = _own_records(config, study, read_each)
        except FailedOnRecordsError:
            nothing = Examples(study.public.X[:0], study.test.y[:0])
            own = SiloData(config.silo, nothing, nothing, np.zeros(0, np.int64) if config.data.tables.group else None)
        findings = [Finding("unreadable", Severity.SAID, why, "", silo=config.silo)]
    return Site(
        config.silo,
        own.private,
        own.test,
        study.test,
        study.public,
        learner_for(config.learner, config.silo, study.schema, study.public, own.private.X),
        config.learner,
        config.privacy,
        config.transfer,
        study.schema,
        study.terms,
        groups=own.groups,
        test_groups=own.test_groups,
        findings=tuple(findings),
        set_aside=config.set_aside(study.config),
        leaves_out=config.records.opt_out is not None,
        result=result,
    )


def _own_records(
    config: SiloConfig, study: StudyFolder, read: Callable[..., tuple[Examples, Groups | None]]
) -> SiloData:
    """The silo's records to train on and to test with, as ``read`` reads them."""
    data = config.data
    records, groups = read(data, study)
    nothing = Examples(records.X[:0], records.y[:0])
    if data.test_file:
        test, of_test = read(data, study, data.test_file)
        return SiloData(config.silo, records, test, groups, of_test)
    rng = generator(config.learner.seed, "test", config.silo)
    if data.test_fraction:
        return split_silo(config.silo, records, groups, data.test_fraction, rng)
    return SiloData(config.silo, records, nothing, groups)


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


def _model_digest(config: SiloConfig) -> bytes:
    return hashlib.sha256(json.dumps(config.decides_model, sort_keys=True).encode()).digest()


def _own_purse(config: SiloConfig, budget: "Budget") -> "Purse":
    """A real silo's: its ledger outlives runs, and its noise cannot be predicted."""
    ledger = privacy.Ledger(config.state, common=privacy.common_budget(config))
    return silo.Purse(ledger, budget, lambda question: privacy.SecureNoise(), real=True)


def _own_release(config: SiloConfig, site: Site) -> "Callable[[Answering], Release]":
    labels = {name: config.decides_model[name] for name in ("label", "mapping", "test")}
    return partial(release_by, site, labels, partial(_own_purse_of_records, config), lambda: config.state)


def _own_purse_of_records(config: SiloConfig) -> "Purse":
    return _own_purse(config, silo.own_budget(config))


def _own_noise_adder(here: OwnSilo) -> "NoiseAdder":
    """A real silo's, by its own policy and the study's terms of sums. Raises ConfigError where the study has none."""
    labelers.check_extra("privacy", "sum-epsilon")

    own, sums = here.config, here.study.sums
    if sums is None:
        raise ConfigError("sum-epsilon needs [sums] in study.toml, which has none: ask the coordinator for it")
    purse = _own_purse(own, silo.own_budget(own, privacy.WHOLE_SILO))
    return silo.NoiseAdder(purse, privacy.surely_honest(sums.min_summands, sums.may_collude))
