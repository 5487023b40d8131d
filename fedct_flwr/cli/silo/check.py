"""``fedct silo check``: what is ready and what is not, safe to e-mail."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from fedct_flwr.cli.findings import FOUND_BAD, CheckFinding, Mark, bad, show
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo import checks
from fedct_flwr.cli.silo import checks_records as records
from fedct_flwr.cli.silo.checks import Silo, Unread
from fedct_flwr.cli.silo.connect import NO_KIT
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.hospital.adding import check_sums
from fedct_flwr.learners.catalog import check_allowed
from fedct_flwr.types import FedctError

_MORE: Final = "fedct silo check --details says what is wrong"
_NOT_A_TABLE: Final = "save it as CSV UTF-8 with a header and no column twice, or tell its form under [data.tables]"
_MEANT: Final = (
    "fill them in, correct them, or say under [data.mapping] which class each means; of images, name folders like that"
)


@dataclass(frozen=True)
class Check:
    """One row of the table of checks.

    Where ``look`` ends with an error of ours, the finding says ``failed`` and ``fix``. The error's own text goes into
    the details; an empty ``failed`` says it, so only where it tells nothing of records. A look that returns None has
    nothing to say.
    """

    title: str
    look: Callable[[Silo], Iterator[CheckFinding] | None]
    failed: str = ""
    fix: str = ""
    of_apps: bool = False
    """Whether it is also for a silo that runs an app instead of co-training."""

    def findings(self, silo: Silo) -> Iterator[CheckFinding]:
        """The findings; never raises."""
        try:
            yield from self.look(silo) or ()
        except Unread as what:
            yield CheckFinding(Mark.UNKNOWN, f"{self.title}: not looked at, as {what} cannot be read")
        except Exception as error:
            if self.fix and isinstance(error, FedctError | OSError):
                yield bad(f"{self.title}: {self.failed or error}", self.fix, error)
            else:
                yield bad(f"{self.title}: could not be looked at ({type(error).__name__})", _MORE, error)


def _allowed(silo: Silo) -> None:
    check_allowed(silo.config.learner.name, silo.config.learner.packages)


def _promised(silo: Silo) -> None:
    check_sums(silo.config, silo.study)


CHECKS: Final = (
    Check("packages", checks.packages, of_apps=True),
    Check("settings", checks.settings, of_apps=True),
    Check("disk", checks.disk, of_apps=True),
    Check("client app", checks.app, fix="install it where the agent runs, or correct client under [app]", of_apps=True),
    Check("study", records.study, "its folder cannot be read", "ask the coordinator for the study's folder again"),
    Check("records", records.records, "the file cannot be read as a table", _NOT_A_TABLE),
    Check("labels", records.labels, "some are missing, no class of the study, or outside of its range", _MEANT),
    Check("data", records.inspection),
    Check("protected records", records.each_alone, "they cannot be read", _NOT_A_TABLE),
    Check("classes", records.class_counts),
    Check("duplicates", records.duplicates),
    Check("package", _allowed, fix="use a short name, or add its package to packages in silo.toml"),
    Check("learner", records.learner, "it cannot be trained on these records", f"correct [learner]; {_MORE}"),
    # These errors tell of settings and the study alone.
    Check("effects", records.effects, fix="correct silo.toml: what is written there and does nothing misleads"),
    Check("promises", _promised, fix="install it where the agent runs, or correct silo.toml or study.toml"),
    Check("protection", checks.protection, "it cannot be set up for these records", f"correct [privacy]; {_MORE}"),
    Check("privacy", checks.privacy, "the ledger cannot be used, so nothing leaves", "fedct privacy-sheet says more"),
    Check("shared limits", checks.shared_limits, "what has left cannot be told, so nothing leaves", checks.LATEST),
    Check("students", checks.students, "they cannot be taught on these records", f"set fewer teachers; {_MORE}"),
    Check("egress key", checks.egress_key, "it is missing or damaged", checks.EGRESS_KEYS, of_apps=True),
    Check(
        "egress log",
        checks.egress_log,
        "it cannot be proven without the public key",
        "put back keys/egress.pub",
        of_apps=True,
    ),
    Check("approval", checks.approval, "the egress log cannot be read", "fedct silo verify says more", of_apps=True),
    Check("file modes", checks.modes, of_apps=True),
    Check("link", checks.link, of_apps=True),
)

# Checks for the SuperNode. An agent in a container has no way out, no node key and no ca.crt.
NETWORK_CHECKS: Final = (
    Check("node key", checks.node_key, "it is missing or no ECDSA P-384 key", "put back the one of fedct silo init"),
    Check("certificates", checks.certificates, "ca.crt or client.crt is missing, or no certificate in PEM", NO_KIT),
    Check("coordinator", checks.coordinator, "ca.crt, or client.crt with its key, cannot be used", NO_KIT),
    Check("SuperNode", checks.supernode),
)


def check(
    folder: Folder = None,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="Leave out what only the SuperNode needs, and make no connection, as where the agent has no way out.",
        ),
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Say more about errors; this may quote files, so do not e-mail it.")
    ] = False,
    json_: Json = False,
) -> None:
    """Look at everything a silo needs, and say what to do where something is missing.

    The output names no record, no label as the file writes it and no path outside the silo's folder, and hides
    small counts: it is safe to e-mail. Exit code 3 if anything is bad.
    """
    out, silo, found = Output(as_json=json_), Silo(silo_file(folder)), list[CheckFinding]()
    for one in (
        *(one for one in CHECKS if one.of_apps or not silo.runs_app),
        *(() if offline else NETWORK_CHECKS),
    ):
        with out.doing(f"looking at: {one.title}"):
            findings = list(one.findings(silo))
        if not json_:
            for finding in findings:
                show(out.console, finding, details=details)
        found += findings
    wrong, open_ = (sum(finding.mark is mark for finding in found) for mark in (Mark.BAD, Mark.WARNING))
    said = [{"mark": one.mark.value, "said": one.message, "fix": one.fix, "code": one.code} for one in found]
    out.show(
        {"bad": wrong, "warnings": open_, "findings": said},
        f"\n{wrong or 'nothing'} to be put right, {open_ or 'nothing'} to be looked at",
    )
    if details:
        out.say("\nThis may quote files: do not e-mail it.")
    if wrong:
        raise typer.Exit(FOUND_BAD)
