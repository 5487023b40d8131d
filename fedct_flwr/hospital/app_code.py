"""The code of a silo's own Flower app: its files, their digest, and its ClientApp. Never what a coordinator sent."""

import hashlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fedct_flwr.files import digest_of
from fedct_flwr.types import ConfigError

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp


class AppError(ConfigError):
    """An app cannot be found or imported. The message names modules, and quotes no text of the app."""


def files_of(client: str) -> dict[str, Path]:
    """Files of the package, or the module, that an app is in, by their places; imports nothing. Raises AppError.

    ``client`` is 'module:attribute'. Files of other packages that the app imports are not among them.
    """
    top = client.partition(":")[0].partition(".")[0]
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    folders = [*map(Path, (spec and spec.submodule_search_locations) or ())]
    found = {
        f"{number}/{path.relative_to(folder).as_posix()}": path
        for number, folder in enumerate(folders)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if not folders and spec and spec.origin and Path(spec.origin).is_file():
        found[Path(spec.origin).name] = Path(spec.origin)
    if not found:
        raise _cannot(client, f"there is no module {top!r}")
    return found


def fingerprint(client: str) -> str:
    """SHA-256 over these files and their places, in hex digits. Raises AppError."""
    lines = (f"{digest_of(path)} {place}\n" for place, path in sorted(files_of(client).items()))
    return hashlib.sha256(b"fedct app 1\n" + "".join(lines).encode()).hexdigest()


def load(client: str) -> "ClientApp":
    """Import the app by its name. Raises AppError."""
    from flwr.clientapp import ClientApp

    module, _, attribute = client.partition(":")
    files_of(client)
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        raise _cannot(client, f"there is no module {error.name!r}") from None
    except (Exception, SystemExit) as error:
        raise _cannot(client, type(error).__name__) from None
    if (found := getattr(imported, attribute, None)) is None:
        raise _cannot(client, f"the module has no {attribute!r}")
    if not isinstance(found, ClientApp):
        raise _cannot(client, f"{attribute!r} is no ClientApp of flwr.clientapp")
    return found


def _cannot(client: str, why: str) -> AppError:
    return AppError(
        f"the app {client!r} under [app] cannot be imported ({why}): install it where the agent runs, or correct client"
    )
