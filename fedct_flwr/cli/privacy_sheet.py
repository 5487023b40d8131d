"""``fedct privacy-sheet``: what is promised, what was spent by the ledger, what is not covered."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from fedct_flwr import silo
from fedct_flwr.algorithms.fedct import LabelSharing
from fedct_flwr.algorithms.joint import JointLabeler
from fedct_flwr.cli.output import Json, Output, check_new, echo
from fedct_flwr.cli.promised import sheets_of
from fedct_flwr.cli.silo.folder import SILO_FILE
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.files import UNREADABLE, write_atomically
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.hospital.shared_usage import spent_on_records
from fedct_flwr.labelers.labeler import check_installed
from fedct_flwr.privacy.budget import WHOLE_SILO, Spending
from fedct_flwr.privacy.sheet import PermittedQuestions, Sheet, Together
from fedct_flwr.report.summary import accounts_of
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.printable import json_text, plain, printable
from fedct_flwr.types import ConfigError, RunError

_ADDING: Final = "adding up what was spent"
_T = TypeVar("_T")


def privacy_sheet(
    folder: Annotated[Path, typer.Argument(help="A run's folder (of a simulation), or a silo's.")],
    output: Annotated[Path | None, typer.Option(help="Write there.", show_default="standard output")] = None,
    json_: Json = False,
) -> None:
    """Write one page of plain language, as Markdown: what is promised, what was spent, what is not covered.

    The spending is recomputed from the silos' ledgers; noise on all silos' votes or sums is read from the run's result.
    Exit code 4 if one that is needed cannot be read.
    """
    check_new(output)
    if (folder / SILO_FILE).is_file():
        with Output.doing(_ADDING):
            config = SiloConfig.read_toml(folder / SILO_FILE)
            sheets = [*sheets_of(config, read_study(config.study), [*read_entries(config.state)]).values()]
            if config.records.folder:
                sheets[-1] = _with(sheets[-1], over_studies=spent_on_records(config))
    elif RunFolder(folder).exists():
        with Output.doing(_ADDING):
            sheets = _of_run(RunFolder(folder))
    else:
        raise ConfigError(f"{folder} is no run's folder and no silo's: name one with a config.json or a {SILO_FILE}")
    text = json_text(_document(sheets)) if json_ else _markdown(sheets)
    if output:
        write_atomically(output, text.encode())
    else:
        echo(text)


def sheet_of_run(folder: Path) -> str:
    """The page of a run, as Markdown. Raises RunError where it cannot be read."""
    return _markdown(_of_run(RunFolder(folder)))


def _markdown(sheets: list[Sheet]) -> str:
    return printable("\n".join(sheet.markdown for sheet in sheets), keep="\n")


def _with(sheet: Sheet, **facts: object) -> Sheet:
    return replace(sheet, facts={**sheet.facts, **facts})


def _document(sheets: list[Sheet]) -> dict[str, Any]:
    """The pages, called by the last, and the numbers in them: of silos' ledgers, and of noise on votes."""
    return {
        "study": sheets[-1].study,
        "protection": sheets[-1].protection,
        "accounts": [_account(account) for sheet in sheets for account in sheet.accounts],
        "noise": plain(next((sheet.cost.to_result() for sheet in sheets if sheet.cost), None)),
        "markdown": "\n".join(sheet.markdown for sheet in sheets),
    }


def _account(spent: Spending) -> dict[str, Any]:
    same = ("delta", "charges", "accountant", "others", "together", "kept")
    own = {"silo": spent.whom, "epsilon": spent.budget, "spent": spent.epsilon}
    return own | {name: getattr(spent, name) for name in same}


def _of_run(run: RunFolder) -> list[Sheet]:
    config = RunConfig.from_flower(run.settings())
    sheets = _promised_by(run, config)
    return [*sheets[:-1], _with(sheets[-1], drawn=_drawn(run, config), attacks=attacks_in(run.path))]


def _drawn(run: RunFolder, config: RunConfig) -> dict[str, Any] | None:
    """Cost of a drawn public set for each record, if the run has one."""
    if config.public != "drawn" or not config.draw_epsilon:
        return None

    spent = accounts_of(run, config.model_copy(update={"study": silo.drawn_set(config.study)}))
    return {
        "epsilon": config.draw_epsilon,
        "delta": config.draw_delta,
        "unit": "patient" if config.grouped else "record",
        "spent": max(each.epsilon for each in spent),
        "together": max(each.together for each in spent) if any(each.others for each in spent) else None,
        "from_dictionary": bool(config.draw_dictionary),
    }


def attacks_in(folder: Path) -> list[dict[str, Any]]:
    """Results of the run's audit, if there was one: an adversary and a sentence each."""
    try:
        seats = json.loads((folder / "audit.json").read_text("utf-8"))["seats"]
        return [{"seat": seat["seat"], "sentence": seat["sentence"]} for seat in seats]
    except FileNotFoundError:
        return []
    except UNREADABLE:
        raise RunError(f"{folder / 'audit.json'} is damaged: run 'fedct audit' again, or take the file away") from None


def _promised_by(run: RunFolder, config: RunConfig) -> list[Sheet]:
    if config.method.noise:
        own = [_of_silos(run, config)] if config.protection != "none" else []
        return [_of_coordinator(run, config), *own]
    if config.data == STUDY:
        raise ConfigError(
            f"the silos of the run in {run.path} are real and keep their ledgers to themselves: ask each of them for "
            "'fedct privacy-sheet' of its own folder"
        )
    if isinstance(config.method, JointLabeler):
        return [_of_joint(run, config, config.method)]
    if not isinstance(find_algorithm(config), LabelSharing):
        raise ConfigError(
            f"the silos of the run in {run.path} share weights ({config.algorithm}), and a privacy sheet is about "
            "labels and votes: name the folder of another run"
        )
    return [_of_silos(run, config)]


def _of_coordinator(run: RunFolder, config: RunConfig) -> Sheet:
    spent, accounts = _from_result(run, "privacy", Spending.from_result), list[Spending]()
    kind, noise = "coordinator", spent.noise
    facts: dict[str, Any] = {"silos_protect": config.protection != "none"}
    if noise and noise.honest:
        kind, facts = "shares", {"honest": noise.honest, "may_collude": noise.may_collude}
        if config.data != STUDY:
            accounts = accounts_of(run, config, WHOLE_SILO)
    return Sheet(
        kind=kind, study=config.study, protection=config.protection, accounts=accounts,
        simulated=config.data != STUDY, metrics=config.report_scores, cost=spent, facts=facts,
    )  # fmt: skip


def _of_joint(run: RunFolder, config: RunConfig, method: JointLabeler) -> Sheet:
    def read(joint: dict[str, Any]) -> Together:
        steps, numbers, honest = (int(joint[name]) for name in ("steps", "numbers", "honest"))
        noise, epsilon, delta = (float(joint[name]) for name in ("noise_multiplier", "epsilon", "delta"))
        fewest = method.fewest_summands(len(run.silos))
        return Together(steps, numbers, honest, noise, epsilon, delta, fewest, method.may_collude)

    facts = {"epsilon": config.epsilon, "delta": config.delta, "together": _from_result(run, "joint", read)}
    return Sheet(
        kind="joint", study=config.study, protection="joint labeler", accounts=accounts_of(run, config),
        simulated=True, metrics=config.report_scores, facts=facts,
    )  # fmt: skip


def _from_result(run: RunFolder, name: str, read: Callable[[dict[str, Any]], _T]) -> _T:
    """The noise in a run's result. Raises RunError."""
    noise = run.read_json("result.json").get(name) if run.ended_at() else None
    if not isinstance(noise, dict):
        raise RunError(
            f"the run in {run.path} has not completed, and only then tells what its noise costs: wait, or resume it"
        )
    try:
        return read(noise)
    except (KeyError, TypeError, ValueError):
        raise RunError(
            f"the noise of the run in {run.path} cannot be read from its result.json: start a new run"
        ) from None


def _of_silos(run: RunFolder, config: RunConfig) -> Sheet:
    privacy = config.privacy_settings(config.asked_about(run.num_public))
    accounts: list[Spending] = []
    if privacy.enabled:
        check_installed(privacy)
        accounts = accounts_of(run, config)
    kind = find_algorithm(config).kind
    answers = PermittedQuestions(
        labels=bool(kind and kind.one_label),
        students=config.method.votes,
        lessons=config.method.transfer_settings(1).lessons,
        probabilities=bool(kind and kind.for_numbers),
        values=bool(run.outcome.quantity),
        summed=config.method.in_sums,
    )
    more: dict[str, Any] = {"accounts": accounts, "simulated": True, "metrics": config.report_scores}
    return Sheet.of_labels(config.study, privacy, run.num_public, answers, **more)
