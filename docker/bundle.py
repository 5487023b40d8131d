"""Put all that a hospital without internet needs into one file. Standard library alone.

    python3 docker/bundle.py SBOM IMAGES TAG BUNDLE     what `make bundle` does

BUNDLE is a tar file with one folder: the two images of a silo as Docker loads them, their IDs, SBOMs and licences, the
tutorial, what was tried and what was not, and SHA256SUMS of these.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
IMAGES_OF_A_SILO = ("agent", "supernode")
FOLDER = "fedct-bundle"
SAVED = "fedct-silo.tar"
_TEXTS = {
    "SUPPORTED.md": HERE / "supported.md",
    "hospital.md": HERE.parent / "docs" / "tutorials" / "hospital.md",
    "LICENSE": HERE.parent / "LICENSE",
}


class BundleError(Exception):
    """Why there is no bundle."""


def main(arguments: list[str]) -> int:
    """Run the command. Returns the exit code: 1 if anything is wrong, in one line on standard error."""
    sbom, images, tag, bundle = arguments
    try:
        digest = write(Path(sbom), images, tag, Path(bundle))
        print(f"{bundle}, SHA-256 {digest}: tell the hospitals this number by a second way")
    except BundleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def write(sbom: Path, images: str, tag: str, bundle: Path) -> str:
    """Write the bundle. Returns its SHA-256. Raises BundleError, and leaves no bundle then."""
    recorded = sbom / "images.txt"
    if not recorded.is_file():
        raise BundleError(f"{recorded} is not there: run 'make images' first")
    identities = dict(reversed(line.split()) for line in recorded.read_text("utf-8").splitlines())
    names = [f"{images}/{image}:{tag}" for image in IMAGES_OF_A_SILO]
    for name in names:
        if identities.get(name) != _docker("image", "inspect", "--format", "{{.Id}}", name).strip():
            raise BundleError(f"{name} is not the image that {recorded} describes: run 'make images' again")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=bundle.parent) as scratch:
        folder = Path(scratch) / FOLDER
        folder.mkdir()
        _docker("save", "--output", str(folder / SAVED), *names)
        (folder / "images.txt").write_text("".join(f"{identities[name]}  {name}\n" for name in names), "utf-8")
        for image in IMAGES_OF_A_SILO:
            for form in ("cdx.json", "licences.txt"):
                shutil.copy(sbom / f"{image}.{form}", folder)
        for name, path in _TEXTS.items():
            shutil.copy(path, folder / name)
        files = sorted(path.name for path in folder.iterdir())
        (folder / "SHA256SUMS").write_text("".join(f"{_digest(folder / name)}  {name}\n" for name in files), "utf-8")
        whole = Path(scratch) / "bundle"
        with tarfile.open(whole, "w") as archive:
            archive.add(folder, FOLDER, filter=_nobodys)
        whole.replace(bundle)
    return _digest(bundle)


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without whose and from when: the same files make the same bundle."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


def _docker(*arguments: str) -> str:
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True)  # noqa: S607 - as in make
    except FileNotFoundError:
        raise BundleError("there is no docker here: make the bundle where 'make images' has made the images") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["no word"])[-1]
        raise BundleError(f"'docker {arguments[0]}' failed ({said}): run 'make images' first") from None
    return done.stdout


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
