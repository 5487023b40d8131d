"""A run as a Research Object Crate: one archive that a reviewer or a repository can read.

S. Soiland-Reyes et al., "Packaging research artefacts with RO-Crate", Data Science 5(2), 2022; profile 1.1, by the
library ``rocrate``. In it are what the run was told, what silos and coordinator decided, its scores, and each file's
SHA-256. No record of a silo is in a run folder; what describes records (Table 1, the report) and models stay out.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fedct_flwr.files import write_atomically
from fedct_flwr.report.summary import Run
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, RunError

NAME: Final = "crate.zip"
_SETTINGS: Final = "config.json"
_SHEET: Final = "privacy-sheet.md"
_FILES: Final = {
    _SETTINGS: "Settings, versions, silos, and the fingerprint of the public set",
    "rounds.jsonl": "The run's log: a line for each round, with what each silo sent",
    "trust.jsonl": "How much each silo trusts each other one, round by round",
    "labels.csv": "The consensus: the final label of each public example",
    "values.csv": "The consensus: the final value of each public example",
    "scores.json": "Scores of the models, with 95% intervals",
    "verdict.json": "Silos that gained or lost, by an exact test",
    "result.json": "How the run ended",
    "audit.json": "Attacks on the run that were tried, and what they found",
    _SHEET: "What is promised about records, what was spent, and what is not covered",
}
_MODELS: Final = "models"
_STATUS: Final = {"completed": "Completed", "failed": "Failed"}
_SHA256: Final = "https://w3id.org/ro/terms/workflow-run#sha256"
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
    run = Run(folder)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            contents = _contents(folder) | ({_SHEET: sheet.encode()} if sheet else {})
            found = {name: contents[name] for name in _FILES if name in contents}
            found |= dict(_models(folder)) if models else {}
            archive = Path(temporary) / NAME
            _crate(run, found, Path(temporary)).write_zip(archive)
            write_atomically(target, archive.read_bytes())
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.filename or target}: {error.strerror}") from error


def _contents(folder: Path) -> dict[str, bytes]:
    """Contents of the files; of a path on this machine settings keep the last part alone. No link is followed."""
    found = {name: (folder / name).read_bytes() for name in _FILES if _is_plain(folder / name)}
    settings = RunFolder(folder).read_json(_SETTINGS)
    own = {key: _shortened(value) for key, value in settings["settings"].items()}
    return found | {_SETTINGS: json.dumps({**settings, "settings": own}, indent=1).encode()}


def _shortened(value: Any) -> Any:
    return Path(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def _models(folder: Path) -> Iterator[tuple[str, bytes]]:
    models = folder / _MODELS
    for path in () if models.is_symlink() else sorted(models.glob("*")):
        if _is_plain(path):
            yield f"{_MODELS}/{path.name}", path.read_bytes()


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _crate(run: Run, contents: Mapping[str, bytes], scratch: Path) -> Any:
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms["sha256"] = _SHA256
    settings = json.loads(contents[_SETTINGS])

    def context(place: str, kind: str, **facts: Any) -> Any:
        return crate.add(ContextEntity(crate, f"#{place}", properties={"@type": kind, **facts}))

    files = []
    for number, (name, content) in enumerate(contents.items()):
        copy = scratch / str(number)
        copy.write_bytes(content)
        about = _FILES.get(name, "A model of the run; it may reveal records that it was trained on")
        digest = hashlib.sha256(content).hexdigest()
        facts = {"name": name, "description": about, "contentSize": str(len(content)), "sha256": digest}
        files.append(crate.add_file(copy, name, properties={**facts, "encodingFormat": _format(name)}))
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
    root = crate.root_dataset
    root["name"], root["description"] = run.title, _ABOUT
    root["datePublished"] = datetime.now(UTC).isoformat(timespec="seconds")
    root["license"] = context("license", "CreativeWork", **_LICENSE)
    root["mentions"] = action
    return crate


def _format(name: str) -> str:
    known = {"json": "application/json", "jsonl": "application/jsonl", "csv": "text/csv", "md": "text/markdown"}
    return known.get(name.rpartition(".")[2], "application/octet-stream")
