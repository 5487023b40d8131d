"""``fedct privacy-sheet``: what is promised, what was spent by the ledger, what is not covered."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import typer

from fedct_flwr.algorithms.fedct import JointLabeler
from fedct_flwr.cli.output import Json, Output, check_new, echo
from fedct_flwr.cli.silo.folder import SILO_FILE
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.coordinator.algorithm import LabelSharing, find_algorithm
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.files import UNREADABLE, write_atomically
from fedct_flwr.hospital.adding import check_sums
from fedct_flwr.hospital.approval import bare_labels, covers_records, covers_silo, promises_of
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.hospital.shared_usage import spent_on_records
from fedct_flwr.labelers.labeler import check_installed
from fedct_flwr.privacy.budget import WHOLE_SILO, Spending
from fedct_flwr.privacy.sheet import Answers, Together, more_of_run, page, sheet
from fedct_flwr.report.summary import accounts_of
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.printable import json_text, plain, printable
from fedct_flwr.types import ConfigError, RunError

_ADDING: Final = "adding up what was spent"
_T = TypeVar("_T")
_JOINT: Final = "joint labeler"
_DRAWN: Final = "drawn public set"


def privacy_sheet(
    folder: Annotated[Path, typer.Argument(help="A run's folder (of a simulation), or a silo's.")],
    output: Annotated[Path | None, typer.Option(help="Write there.", show_default="standard output")] = None,
    json_: Json = False,
) -> None:
    """Write one page of plain language, as Markdown: what is promised, what was spent, what is not covered.

    The spending is recomputed from the silo's ledger, or read from the run where the coordinator adds the noise.
    Exit code 4 if neither can be read.
    """
    check_new(output)
    if (folder / SILO_FILE).is_file():
        with Output.doing(_ADDING):
            config = SiloConfig.read_toml(folder / SILO_FILE)
            page = _of_silo(config)
            if config.records.folder:
                together = f"\n## All studies of these records\n\nEpsilon: {spent_on_records(config)}.\n"
                page = page._replace(markdown=page.markdown + together)
    elif RunFolder(folder).exists():
        with Output.doing(_ADDING):
            page = _of_run(RunFolder(folder))
    else:
        raise ConfigError(f"{folder} is no run's folder and no silo's: name one with a config.json or a {SILO_FILE}")
    text = json_text(_document(page)) if json_ else printable(page.markdown, keep="\n")
    if output:
        write_atomically(output, text.encode())
    else:
        echo(text)


def sheet_of_run(folder: Path) -> str:
    """The page of a run, as Markdown. Raises RunError where it cannot be read."""
    return printable(_of_run(RunFolder(folder)).markdown, keep="\n")


class _Page(NamedTuple):
    """The page, and the numbers in it: of the silos' ledgers, and of the coordinator's noise."""

    study: str
    protection: str
    markdown: str
    accounts: Sequence[Spending] = ()
    noise: Mapping[str, Any] | None = None

    def then(self, other: "_Page") -> "_Page":
        """The page with another promise below, by which it is called."""
        markdown, accounts = f"{self.markdown}\n{other.markdown}", [*self.accounts, *other.accounts]
        return other._replace(markdown=markdown, accounts=accounts, noise=self.noise)


def _document(page: _Page) -> dict[str, Any]:
    return {
        "study": page.study,
        "protection": page.protection,
        "accounts": list(map(_account, page.accounts)),
        "noise": plain(page.noise),
        "markdown": page.markdown,
    }


def _account(spent: Spending) -> dict[str, Any]:
    same = ("delta", "charges", "accountant", "others", "together", "kept")
    own = {"silo": spent.whom, "epsilon": spent.budget, "spent": spent.epsilon}
    return own | {name: getattr(spent, name) for name in same}


def _of_silo(config: SiloConfig) -> _Page:
    study, privacy = read_study(config.study), config.privacy
    in_sums = _in_sums(config, study) if config.policy.sum_epsilon else None
    if in_sums and not privacy.enabled:
        return in_sums
    accounts = [promises_of(config)["privacy"].spending(study.name)] if config.promises else []
    if config.adds_noise:
        from fedct_flwr.silo.noisy_sum import together_in

        together = together_in(study, draws=config.draws)
        budget: dict[str, Any] = {"epsilon": privacy.epsilon, "delta": privacy.delta, "together": together}
        text = page("joint", study.name, accounts, metrics=False, simulated=False, **budget)
        return _Page(study.name, _DRAWN if config.draws else _JOINT, text, accounts)
    text = sheet(
        study.name,
        privacy,
        len(study.public),
        accounts,
        simulated=False,
        metrics=config.policy.metrics,
        unprotected=bare_labels(read_entries(config.state), study.name, covers_records),
        answers=replace(Answers.of(config), values=bool(study.schema.quantity)),
    )
    own = _Page(study.name, privacy.protection, text, accounts)
    return in_sums.then(own) if in_sums else own


def _in_sums(config: SiloConfig, study: StudyFolder) -> _Page:
    """Of a real silo that lets nothing out but sums with noise."""
    check_sums(config, study)
    from fedct_flwr.privacy.noise_shares import surely_honest

    if study.sums is None:
        raise ConfigError("sum-epsilon needs [sums] in study.toml, which has none: ask the coordinator for it")
    found, may_collude = promises_of(config)["sums"].spending(study.name), study.sums.may_collude
    text = page(
        "sums",
        study.name,
        [found],
        simulated=False,
        metrics=False,
        epsilon=found.budget,
        delta=found.delta,
        honest=surely_honest(study.sums.min_summands, may_collude),
        may_collude=may_collude,
        unprotected=bare_labels(read_entries(config.state), study.name, covers_silo),
    )
    return _Page(study.name, "noise in shares", text, [found])


def _of_run(run: RunFolder) -> _Page:
    config = RunConfig.from_flower(run.settings())
    promised = _promised_by(run, config)
    more = more_of_run(_drawn(run, config), _attacks(run.path))
    return promised._replace(markdown=promised.markdown + more)


def _drawn(run: RunFolder, config: RunConfig) -> dict[str, Any] | None:
    """Cost of a drawn public set for each record, if the run has one."""
    if config.public != "drawn" or not config.draw_epsilon:
        return None
    from fedct_flwr.silo.noisy_sum import drawn_set

    spent = accounts_of(run, config.model_copy(update={"study": drawn_set(config.study)}))
    return {
        "epsilon": config.draw_epsilon,
        "delta": config.draw_delta,
        "unit": "patient" if config.grouped else "record",
        "spent": max(each.epsilon for each in spent),
        "together": max(each.together for each in spent) if any(each.others for each in spent) else None,
        "from_dictionary": bool(config.draw_dictionary),
    }


def _attacks(folder: Path) -> list[dict[str, Any]]:
    """Results of the run's audit, if there was one: an adversary and a sentence each."""
    try:
        seats = json.loads((folder / "audit.json").read_text("utf-8"))["seats"]
        return [{"seat": seat["seat"], "sentence": seat["sentence"]} for seat in seats]
    except FileNotFoundError:
        return []
    except UNREADABLE:
        raise RunError(f"{folder / 'audit.json'} is damaged: run 'fedct audit' again, or take the file away") from None


def _promised_by(run: RunFolder, config: RunConfig) -> _Page:
    if config.method.noise:
        page = _of_coordinator(run, config)
        return page if config.protection == "none" else page.then(_of_silos(run, config))
    if config.data == STUDY:
        raise ConfigError(
            f"the silos of the run in {run.path} are real and keep their ledgers to themselves: ask each of them for "
            "'fedct privacy-sheet' of its own folder"
        )
    if isinstance(config.method, JointLabeler):
        return _of_joint(run, config, config.method)
    if not isinstance(find_algorithm(config), LabelSharing):
        raise ConfigError(
            f"the silos of the run in {run.path} share weights ({config.algorithm}), and a privacy sheet is about "
            "labels and votes: name the folder of another run"
        )
    return _of_silos(run, config)


def _of_coordinator(run: RunFolder, config: RunConfig) -> _Page:
    cost, spent = _from_result(run, "privacy", Spending.from_result)
    accounts, noise = [], spent.noise
    more: dict[str, Any] = {"silos_protect": config.protection != "none"}
    kind = "coordinator"
    if noise and noise.honest:
        kind = "shares"
        more = {"honest": noise.honest, "may_collude": noise.may_collude}
        if config.data != STUDY:
            accounts = accounts_of(run, config, WHOLE_SILO)
    text = page(
        kind, config.study, accounts, simulated=config.data != STUDY, metrics=config.report_scores, cost=spent, **more
    )
    return _Page(config.study, config.protection, text, accounts, noise=cost)


def _of_joint(run: RunFolder, config: RunConfig, method: JointLabeler) -> _Page:
    def read(joint: dict[str, Any]) -> Together:
        steps, numbers, honest = (int(joint[name]) for name in ("steps", "numbers", "honest"))
        noise, epsilon, delta = (float(joint[name]) for name in ("noise_multiplier", "epsilon", "delta"))
        fewest = method.fewest_summands(len(run.silos))
        return Together(steps, numbers, honest, noise, epsilon, delta, fewest, method.may_collude)

    together = _from_result(run, "joint", read)[1]
    accounts = accounts_of(run, config)
    budget: dict[str, Any] = {"epsilon": config.epsilon, "delta": config.delta, "together": together}
    text = page("joint", config.study, accounts, simulated=True, metrics=config.report_scores, **budget)
    return _Page(config.study, _JOINT, text, accounts)


def _from_result(run: RunFolder, name: str, read: Callable[[dict[str, Any]], _T]) -> tuple[dict[str, Any], _T]:
    """The noise in a run's result, as written and as read. Raises RunError."""
    noise = run.read_json("result.json").get(name) if run.ended_at() else None
    if not isinstance(noise, dict):
        raise RunError(
            f"the run in {run.path} has not completed, and only then tells what its noise costs: wait, or resume it"
        )
    try:
        return noise, read(noise)
    except (KeyError, TypeError, ValueError):
        raise RunError(
            f"the noise of the run in {run.path} cannot be read from its result.json: start a new run"
        ) from None


def _of_silos(run: RunFolder, config: RunConfig) -> _Page:
    privacy = config.privacy_settings(config.asked_about(run.num_public))
    accounts: list[Spending] = []
    if privacy.enabled:
        check_installed(privacy)
        accounts = accounts_of(run, config)
    kind = find_algorithm(config).kind
    text = sheet(
        config.study,
        privacy,
        run.num_public,
        accounts,
        simulated=True,
        metrics=config.report_scores,
        answers=Answers(
            labels=bool(kind and kind.one_label),
            students=config.method.votes,
            lessons=config.method.transfer_settings(1).lessons,
            probabilities=bool(kind and kind.own_targets),
            values=bool(run.outcome.quantity),
            summed=config.method.in_sums,
        ),
    )
    return _Page(config.study, privacy.protection, text, accounts)
