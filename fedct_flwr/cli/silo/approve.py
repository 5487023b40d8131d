"""``fedct silo approve`` and ``revoke``: what would leave, in plain words, and a question; and its withdrawal."""

import getpass
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, cast

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fedct_flwr import silo
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.app_page import app_sections
from fedct_flwr.cli.silo.approval_page import Page, Units
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config.learner import AUTO
from fedct_flwr.config.silo import AppSilo, SiloConfig, SiloFolder
from fedct_flwr.datasets.federated import check_protected
from fedct_flwr.datasets.query import result_of
from fedct_flwr.datasets.silo_records import differing, read_grouped, table_of
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.hospital import app_code, approval
from fedct_flwr.hospital.adding import check_sums
from fedct_flwr.hospital.approval import check_let_out
from fedct_flwr.hospital.duplicates import find_duplicates
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.latest_state import open_log, remember
from fedct_flwr.hospital.log_entry import LogEntry, is_revoked, read_entries
from fedct_flwr.learners.catalog import CLASSIFIERS
from fedct_flwr.text.printable import in_shell, printable, quoted
from fedct_flwr.types import ConfigError, RunError

_DESPITE: Final = "despite duplicates"
_LONGEST: Final = 1000
"""Characters of a name or a reason, which are part of a line of the log."""
_PARTS: Final = {
    "study": "the study: its classes, columns, public set or test set",
    "query": "the text of the query",
    "language-model": "the files of the language model",
    "test": "the records that are for testing",
    "code": "the app's files",
    "format": "what this version of fedct approves",
}
"""Names of what was approved, where they are not those of settings."""
_IN, _FURTHER = 2, 4
"""Columns that a line begins at, and where it goes on."""


def approve(
    folder: Folder = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without being asked, for programs.")] = False,
    despite_duplicates: Annotated[
        bool,
        typer.Option("--despite-duplicates", help="Approve although records of the silo are in the public set."),
    ] = False,
    by: Annotated[str, typer.Option(help="Name of the approver, for the log.", show_default="who is logged in")] = "",
    reason: Annotated[str, typer.Option(help="Why it is approved, for the log; --yes needs it.")] = "",
    key: Annotated[
        Path | None, typer.Option(help="The approver's own key, where silo.toml has approvers (two have to sign).")
    ] = None,
    json_: Json = False,
) -> None:
    """Read in plain words what would leave this silo, and allow it. Nothing leaves before that.

    The log keeps who approved, and why. Where silo.toml names approvers, two of them have to approve, each with a key
    of their own. Stop the agent first.

    Exit code 1 and nothing written if it is declined.
    """
    if yes and not reason.strip():
        raise ConfigError("--yes approves without a person who reads: give the reason for the log, --reason TEXT")
    config, out = SiloFolder.read_toml(silo_file(folder)), Output(as_json=json_)
    by, console = _approver(by, reason), out.console
    subject = _study(config, out) if isinstance(config, SiloConfig) else _app(cast("AppSilo", config))
    # Before anybody reads for long: is it a log that an approval can go into?
    with open_log(config) as log:
        entries = list(read_entries(config.state))
        sections = subject.sections(entries)
        if changed := approval.changed(config, subject.study, entries):
            sections = {"Changed since it was last approved": [*map(_part, changed)], **sections}
        for title, lines in sections.items():
            console.print(f"\n[bold]{title}[/]")
            for line in lines:
                _show(console, line)
        approvers = approval.approvers_now(config, entries)
        if (now := approval.as_hex(approvers)) != (then := approval.as_hex(approval.approvers_of(config))):
            change = f"from {', '.join(now)} to {', '.join(then) or 'none'}"
            _show(console, f"Approvers change {change}, or their keys do: two of those before sign this.")
        console.print()
        document: dict[str, Any] = {"approved": False, "duplicates_alarm": subject.alarm, "sections": sections}
        if not _agreed(subject.alarm, yes=yes, despite_duplicates=despite_duplicates, err=json_):
            console.print("Not approved: nothing leaves.")
            out.show(document)
            raise typer.Exit(1)
        if is_revoked(config.state):
            raise RunError(
                "the approval was revoked while you read this, so nothing was approved: run the command again"
            )
        details: dict[str, object] = {"by": by, "reason": reason}
        if approvers:
            details["approvers"] = signed = approval.sign(config, entries, subject.terms(), by, key)
            if not signed:
                console.print(
                    f"Signed by {by}. Nothing leaves before a second approver has signed the same.", markup=False
                )
                out.show(document)
                return
        subject.write(log, details)
        remember(config, log)
    console.print("Approved, and written into the egress log.")
    console.print("Next: start the SuperNode and the agent (fedct silo connect, fedct silo start; or the containers)")
    out.show({**document, "approved": True})


class _Subject(NamedTuple):
    """A study, or an app, to be approved: its page after the log's lines, its terms, and what writes the approval.

    ``alarm``: whether records seem to be in the public set.
    """

    sections: Callable[[Sequence[LogEntry]], dict[str, list[str]]]
    terms: Callable[[], bytes]
    write: Callable[[EgressLog, dict[str, object]], None]
    study: StudyFolder | None = None
    alarm: bool = False


def _study(config: SiloConfig, out: Output) -> _Subject:
    # fedct silo check makes the learner, and so tests its import path.
    config.check_effects(network=False if config.learner.name in {AUTO, *CLASSIFIERS} else None)
    study = read_study(config.study)
    check_sums(config, study)
    check_let_out(config.policy.kinds, study.terms)
    with out.doing("comparing the silo's records with the public set"):
        table = table_of(config.data, study)
        records, groups = read_grouped(config.data, study, table=table)
        if config.data.test_file:
            read_grouped(config.data, study, config.data.test_file)
        if config.promises:
            check_protected(groups, config.silo)
        found = find_duplicates(records.X, study.public.X, study.schema)

    def sections(entries: Sequence[LogEntry]) -> dict[str, list[str]]:
        sections = Page(config, study, entries, Units.of(records, groups), found).sections()
        if config.noisy_kind == "draw":
            outside = silo.plan_of(study).form.place(records.X)[1] or "0 values outside of the data dictionary"
            sections["Values of this silo that the study does not foresee"] = [outside]
        if table is not None and any(columns := differing(table)):
            lacking, extra = columns
            sections["Columns of this silo that differ from the study's"] = [
                *(f"Missing for all records, as the study allows: {quoted(name)}" for name in lacking),
                *(f"Left out: {quoted(name)}" for name in extra),
            ]
        return sections

    def write(log: EgressLog, details: dict[str, object]) -> None:
        result = result_of(config.data, table) if config.data.query else {}
        # Budgets first: one that is in force lets nothing out that is not approved.
        for promise in approval.promises_of(config).values():
            promise.approve(study.name, approval.terms_digest(config, study))
        approval.approve(log, config, study, found, **details, result=result)

    return _Subject(sections, partial(approval.terms_digest, config, study), write, study, found.alarm)


def _app(config: AppSilo) -> _Subject:
    # One that cannot be imported could not answer.
    app_code.load(config.app.client)
    terms = approval.terms_digest(config, None)

    def write(log: EgressLog, details: dict[str, object]) -> None:
        if approval.terms_digest(config, None) != terms:
            raise RunError("the app's files were written while you read this: read it again, nothing was approved")
        approval.approve_app(log, config, **details)

    return _Subject(partial(app_sections, config), lambda: terms, write)


def _part(name: str) -> str:
    return _PARTS.get(name, f"{name} in silo.toml")


def _approver(by: str, reason: str) -> str:
    """Name of the approver. Raises ConfigError for a name or a reason that hides something."""
    if not by:
        try:
            by = getpass.getuser()
        except (KeyError, OSError, ImportError):
            # A container's user may have no name.
            by = f"user {os.getuid()}"
    for option, text in (("--by", by), ("--reason", reason)):
        if printable(text) != text or len(text) > _LONGEST:
            raise ConfigError(f"{option} {text[:40]!r} is too long or has hidden characters: write plain text")
    return by


def _show(console: Console, line: str) -> None:
    """One line, further in where it goes on: what a name pushes there does not look like a sentence of this page."""
    parts = Text(printable(line)).wrap(console, console.width - _FURTHER)
    for number, part in enumerate(parts):
        part.rstrip()
        console.print(Padding(part, (0, 0, 0, _FURTHER if number else _IN), expand=False))


def _agreed(alarm: bool, *, yes: bool, despite_duplicates: bool, err: bool) -> bool:
    """Ask. An alarm is not passed by the way: who wants that types it out. Raises ConfigError for ``--yes`` alone."""
    if alarm and not despite_duplicates:
        if yes:
            raise ConfigError(
                "records of this silo seem to be in the public set, so labels on it tell about its patients: ask the "
                "coordinator where the public set comes from, or add --despite-duplicates to approve all the same"
            )
        question = f"To approve all the same, type '{_DESPITE}'"
        if typer.prompt(question, default="", show_default=False, err=err) != _DESPITE:
            return False
    return yes or typer.confirm("Approve this?", err=err)


def revoke(
    folder: Folder = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Withdraw the approval at once, also while the agent is at work. Released labels cannot be called back."""
    silo = silo_file(folder)
    config, out = SiloFolder.read_toml(silo), Output()
    # Revoked is revoked, even if the log cannot be read.
    if is_revoked(config.state) or not _is_approved(config.state):
        out.say("Nothing is approved: nothing leaves.")
        return
    if not yes and not typer.confirm("Withdraw the approval, so that nothing leaves from now on?"):
        raise typer.Exit(1)
    approval.withdraw(config.state)
    try:
        with EgressLog.open(config.state, config.silo, load_egress_key(config.egress_key)) as log:
            approval.put_down(log, config.state)
        out.say("Revoked: nothing leaves from now on, and the log says so.")
    except (ConfigError, RunError):
        out.say(
            "Revoked: nothing leaves from now on. An agent that is at work writes it into the log within a second, "
            f"otherwise the next command does: fedct silo verify {in_shell(silo.parent)}"
        )
    out.say("To allow it again: fedct silo approve")


def _is_approved(state: Path) -> bool:
    try:
        return approval.current(read_entries(state)) is not None
    except RunError:
        return True
