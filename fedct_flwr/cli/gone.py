"""Commands that are gone: what serves now, by what follows ``fedct``. Help hides them; calling one ends with code 2."""

from typing import Final

_ARCHIVE: Final = "stop the services, pack or unpack the folder with tar, start them: docs/operations.md"
_STATUS: Final = "'fedct silo status FOLDER' shows it, and --json prints it for your monitoring: docs/operations.md"
_TEXTFILE: Final = "write what it prints into a file for node_exporter's textfile collector: docs/operations.md"
GONE: Final[dict[str, str]] = {
    "coordinator backup": _ARCHIVE,
    "coordinator restore": _ARCHIVE,
    "coordinator tidy": "stop the SuperLink, remove its database, start it and register the silos: docs/operations.md",
    "silo overview": _STATUS,
    "silo page": _STATUS,
    "silo notify": _STATUS,
    "budget": "docs/privacy.md has the noise by mechanism and number of labels; try a protection with 'fedct simulate'",
    "coordinator start": "run the coordinator with docker/coordinator/compose.yaml or the units in docker/systemd",
    "silo metrics --listen": _TEXTFILE,
    "coordinator metrics --listen": _TEXTFILE,
    "silo status --watch": "'watch fedct silo status FOLDER' repeats it",
    "coordinator list": "'fedct coordinator status FOLDER' shows the same",
    "audit --canaries": "add the made-up records to a silo's table and simulate: 'fedct audit' draws from all records",
    "compare --resume": "give the command of the comparison again, with --run-dir FOLDER",
    "compare --package": "name the learner with --learners: its package is trusted then",
    "demo --owner": "give the folder to another user with chown -R",
    "watch": "'fedct simulate' serves the page while it runs; 'fedct report RUN' writes that of any run",
}
