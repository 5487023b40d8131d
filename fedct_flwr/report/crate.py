"""A run as a Research Object Crate: one archive that a reviewer or a repository can read.

S. Soiland-Reyes et al., "Packaging research artefacts with RO-Crate", Data Science 5(2), 2022; profile 1.1, by the
library ``rocrate``. It has each file's SHA-256. Table 1, the report and, unless asked for, models stay out.
"""

import hashlib
import json
import mimetypes
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fedct_flwr.files import write_atomically
from fedct_flwr.integrations.monitor import FILES, contents, is_plain
from fedct_flwr.report.summary import RunSummary
from fedct_flwr.types import ConfigError, RunError

NAME: Final = "crate.zip"
_SHEET: Final = {"privacy-sheet.md": "What is promised about records, what was spent, and what is not covered"}
_MODEL: Final = "A model of the run; it may reveal records that it was trained on"
_STATUS: Final = {"completed": "Completed", "failed": "Failed"}
_ABOUT: Final = (
    "A federated co-training run: silos with private records sent labels of public examples. The crate has no records. "
    "Each silo's signed log stays at the silo; `fedct silo verify` prints its last hash."
)
_LICENSE: Final = {"name": "No licence stated", "description": "Ask the study's coordinator before you use the files."}


def check_extra() -> None:
    """Raise ConfigError without the extra ``crate``."""
    if not find_spec("rocrate"):
        raise ConfigError("a crate needs the extra 'crate': pip install -c constraints.txt -e '.[crate]'")


def write_crate(folder: Path, target: Path, sheet: str, *, models: bool = False) -> None:
    """Write the crate of a run with its privacy ``sheet`` (Markdown; empty: without), whole or not at all.

    ``models`` adds the models of silos and coordinator, which may reveal records. Raises RunError for a folder that
    holds no run, or a file that cannot be read or written.
    """
    run = RunSummary(folder)
    try:
        found = contents(folder) | ({name: sheet.encode() for name in _SHEET} if sheet else {})
        if models and not (folder / "models").is_symlink():
            kept = (path for path in sorted((folder / "models").glob("*")) if is_plain(path))
            found |= {f"models/{path.name}": path.read_bytes() for path in kept}
        with tempfile.TemporaryDirectory() as temporary:
            archive = Path(temporary) / NAME
            _crate(run, found, Path(temporary)).write_zip(archive)
            write_atomically(target, archive.read_bytes())
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.filename or target}: {error.strerror}") from error


def _crate(run: RunSummary, found: Mapping[str, bytes], scratch: Path) -> Any:
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate

    crate, files = ROCrate(version="1.1"), []
    crate.metadata.extra_terms["sha256"] = "https://w3id.org/ro/terms/workflow-run#sha256"

    def context(place: str, kind: str, **facts: Any) -> Any:
        return crate.add(ContextEntity(crate, f"#{place}", properties={"@type": kind, **facts}))

    for number, (name, content) in enumerate(found.items()):
        copy = scratch / str(number)
        copy.write_bytes(content)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        about = (FILES | _SHEET).get(name, _MODEL)
        facts = {"name": name, "description": about, "contentSize": str(len(content)), "encodingFormat": kind}
        facts["sha256"] = hashlib.sha256(content).hexdigest()
        files.append(crate.add_file(copy, name, properties=facts))
    settings = json.loads(found["config.json"])
    software = [
        context(package, "SoftwareApplication", name=package, version=version, softwareVersion=version)
        for package, version in settings["versions"].items()
    ]
    public = context(
        "public-set", "Dataset", name="The public set", identifier=f"sha256:{settings['public_fingerprint']}",
        description=f"{settings['num_public']} unlabeled public examples, known to all silos; not in the crate",
    )  # fmt: skip
    action = context("run", "CreateAction", name=run.title, description=run.status)
    action["actionStatus"] = f"http://schema.org/{_STATUS.get(run.status, 'Active')}ActionStatus"
    action["instrument"], action["object"], action["result"] = software[0], public, files
    software[0]["softwareRequirements"] = software[1:]
    facts = {"name": run.title, "description": _ABOUT, "datePublished": datetime.now(UTC).isoformat(timespec="seconds")}
    for key, value in {**facts, "license": context("license", "CreativeWork", **_LICENSE), "mentions": action}.items():
        crate.root_dataset[key] = value
    return crate
