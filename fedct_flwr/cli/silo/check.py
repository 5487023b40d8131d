"""``fedct silo check``: what is ready and what is not, safe to e-mail."""

from typing import Annotated, Final

import typer

from fedct_flwr.cli.doctor import required, this_python
from fedct_flwr.cli.findings import Check, run_checks
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo import checks
from fedct_flwr.cli.silo import checks_records as records
from fedct_flwr.cli.silo.checks import Silo
from fedct_flwr.cli.silo.connect import NO_KIT
from fedct_flwr.cli.silo.folder import Folder, silo_file

_PACKAGES: Final = ("flwr", "numpy", "scikit-learn", "pyarrow", "torch", "xgboost-cpu")
_MORE: Final = "fedct silo check --details says what is wrong"
_NOT_A_TABLE: Final = "save it as CSV UTF-8 with a header and no column twice, or tell its form under [data.tables]"
_MEANT: Final = (
    "fill them in, correct them, or say under [data.mapping] which class each means; of images, name folders like that"
)

CHECKS: Final = (
    Check[Silo]("Python", lambda _: this_python()),
    Check[Silo]("packages", lambda _: required(_PACKAGES)),
    Check("settings", checks.settings),
    Check("disk", checks.disk),
    Check("study", records.study, "its folder cannot be read", "ask the coordinator for the study's folder again"),
    Check("records", records.records, "the file cannot be read as a table", _NOT_A_TABLE),
    Check("labels", records.labels, "some are missing, no class of the study, or outside of its range", _MEANT),
    Check("data", records.inspection),
    Check("classes", records.class_counts),
    Check("duplicates", records.duplicates),
    Check("package", records.package, fix="use a short name, or add its package to packages in silo.toml"),
    Check("learner", records.learner, "it cannot be trained on these records", f"correct [learner]; {_MORE}"),
    # These errors tell of settings and the study alone.
    Check("effects", records.effects, fix="correct silo.toml: what is written there and does nothing misleads"),
    Check("promises", checks.promises, fix="install it where the agent runs, or correct silo.toml or study.toml"),
    Check("protection", checks.protection, "it cannot be set up for these records", f"correct [privacy]; {_MORE}"),
    Check("privacy", checks.privacy, "the ledger cannot be used, so nothing leaves", "fedct privacy-sheet says more"),
    Check("shared limits", checks.shared_limits, "what has left cannot be told, so nothing leaves", checks.LATEST),
    Check("students", checks.students, "they cannot be taught on these records", f"set fewer teachers; {_MORE}"),
    Check("egress key", checks.egress_key, "it is missing or damaged", checks.EGRESS_KEYS),
    Check("egress log", checks.egress_log, "it cannot be proven without the public key", "put back keys/egress.pub"),
    Check("approval", checks.approval, "the egress log cannot be read", "fedct silo verify says more"),
    Check("file modes", checks.modes),
    Check("link", checks.link),
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
    out = Output(as_json=json_)
    chosen = CHECKS if offline else (*CHECKS, *NETWORK_CHECKS)
    subject = Silo(silo_file(folder))
    code = run_checks(out, chosen, subject, more="fedct silo check --details", details=details)
    if details:
        out.say("\nThis may quote files: do not e-mail it.")
    if code:
        raise typer.Exit(code)
