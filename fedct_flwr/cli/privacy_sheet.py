"""``fedct privacy-sheet``: what is promised, what was spent by the ledger, what is not covered."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.cli import documents
from fedct_flwr.cli.output import Json, Output, echo
from fedct_flwr.cli.predictions import check_new
from fedct_flwr.cli.silo.folder import SILO_FILE
from fedct_flwr.config import STUDY, RunConfig, SiloConfig
from fedct_flwr.coordinator.label_sharing import LabelSharing
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.hospital.approval import unprotected_labels
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.labelers.protect import check_installed
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.sheet import sheet
from fedct_flwr.privacy.sheet_of_noise import sheet_of_noise
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.printable import json_text, plain, printable
from fedct_flwr.types import ConfigError, RunError

_ADDING: Final = "adding up what was spent"


def privacy_sheet(
    folder: Annotated[Path, typer.Argument(help="A run's folder (of a simulation), or a silo's.")],
    output: Annotated[Path | None, typer.Option(help="Write there.", show_default="standard output")] = None,
    json_: Json = False,
) -> None:
    """Write one page of plain language, as Markdown: what is promised, what was spent, what is not covered.

    What was spent is recomputed from the silo's ledger; where the coordinator adds the noise, it is what its run says.
    Exit code 4 if neither can be read.
    """
    check_new(output)
    if (folder / SILO_FILE).is_file():
        with Output.doing(_ADDING):
            page = _of_silo(SiloConfig.read_toml(folder / SILO_FILE))
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


class _Page(NamedTuple):
    """The page, and the numbers in it: of the silos' ledgers, and of the coordinator's noise."""

    study: str
    protection: str
    markdown: str
    accounts: Sequence[Spending] = ()
    noise: Mapping[str, Any] | None = None


def _document(page: _Page) -> documents.PrivacySheet:
    return {
        "study": page.study,
        "protection": page.protection,
        "accounts": list(map(_account, page.accounts)),
        "noise": plain(page.noise),
        "markdown": page.markdown,
    }


def _account(spent: Spending) -> documents.Account:
    return {
        "silo": spent.whom,
        "epsilon": spent.budget,
        "delta": spent.delta,
        "charges": spent.charges,
        "spent": spent.epsilon,
        "lower": spent.lower,
        "accountant": spent.accountant,
        "others": spent.others,
        "together": spent.together,
        "kept": spent.kept,
    }


def _of_silo(config: SiloConfig) -> _Page:
    study, privacy = read_study(config.study), config.privacy
    accounts: list[Spending] = []
    if privacy.enabled:
        check_installed(privacy)
        from fedct_flwr.silo.release import account_of

        accounts = [account_of(config, study.name)]
    text = sheet(
        study.name,
        privacy,
        len(study.public),
        accounts,
        simulated=False,
        metrics=config.policy.metrics,
        unprotected=unprotected_labels(read_entries(config.state), study.name),
        answers=Answers.of(config),
    )
    return _Page(study.name, privacy.protection, text, accounts)


def _of_run(run: RunFolder) -> _Page:
    config = RunConfig.from_flower(run.settings())
    if config.coordinator_adds_noise:
        page = _of_coordinator(run, config)
        if config.protection == "none":
            return page
        own = _of_silos(run, config)
        return own._replace(markdown=f"{page.markdown}\n{own.markdown}", noise=page.noise)
    if config.data == STUDY:
        raise ConfigError(
            f"the silos of the run in {run.path} are real and keep their ledgers to themselves: ask each of them for "
            "'fedct privacy-sheet' of its own folder"
        )
    if not isinstance(find_algorithm(config), LabelSharing):
        raise ConfigError(
            f"the silos of the run in {run.path} share weights ({config.algorithm}), and a privacy sheet is about "
            "labels and votes: name the folder of another run"
        )
    return _of_silos(run, config)


def _of_coordinator(run: RunFolder, config: RunConfig) -> _Page:
    cost = run.read_json("result.json").get("privacy") if run.ended_at() else None
    if not isinstance(cost, dict):
        raise RunError(
            f"the run in {run.path} has not completed, and only then tells what its noise costs: wait, or resume it"
        )
    try:
        spent = Spending.from_result(cost)
    except ValueError:
        raise RunError(
            f"what the run in {run.path} has spent cannot be read from its result.json: start a new run"
        ) from None
    text = sheet_of_noise(
        config.study,
        spent,
        simulated=config.data != STUDY,
        metrics=config.report_scores,
        silos_protect=config.protection != "none",
    )
    return _Page(config.study, config.protection, text, noise=cost)


def _of_silos(run: RunFolder, config: RunConfig) -> _Page:
    facts = run.read_json("config.json")
    if not isinstance(facts.get("num_public"), int) or not isinstance(facts.get("silos"), list):
        raise RunError(f"{run.path} is no complete run folder: config.json names no silos or no public set")
    num_public = facts["num_public"]
    privacy = config.privacy_settings(config.asked_about(num_public))
    accounts: list[Spending] = []
    if privacy.enabled:
        check_installed(privacy)
        from fedct_flwr.privacy.ledger import Ledger
        from fedct_flwr.silo.release import account

        accounts = [account(Ledger(run.silo_privacy(silo)), silo, config.study, privacy) for silo in facts["silos"]]
    text = sheet(
        config.study,
        privacy,
        num_public,
        accounts,
        simulated=True,
        metrics=config.report_scores,
        answers=Answers(
            labels=not (config.votes or config.soft),
            students=config.votes,
            lessons=config.lessons,
            probabilities=config.soft,
            values=bool(run.quantity),
        ),
    )
    return _Page(config.study, privacy.protection, text, accounts)
