"""What ``--json`` prints of a coordinator: its silos, its state and its runs."""

from typing import Any, TypedDict


class Registration(TypedDict):
    """``fedct coordinator register``: by silo, whether its key is ``new`` to the SuperLink."""

    registered: list[dict[str, Any]]


class Invited(TypedDict):
    """``fedct coordinator invite``. ``expires``: ISO 8601; ``fingerprint``: of the key that signed the file."""

    silo: str
    file: str
    expires: str
    fingerprint: str
    new_certificate: bool


class ListedSilo(TypedDict):
    """A silo. ``state``: online, offline, waiting (never seen), unregistered, invited (no key yet) or unknown.

    ``seen``: when the SuperLink last heard from it, to within a minute (ISO 8601); ``seconds``: how long ago.
    """

    silo: str
    state: str
    seen: str | None
    seconds: float | None


class Silos(TypedDict):
    """``fedct coordinator list``. ``others``: keys that the SuperLink knows and that are not in ``silos/``."""

    silos: list[ListedSilo]
    others: int


class CoordinatorsSilo(ListedSilo):
    """The same with ``former_keys`` that are still good, and how many days its client certificate lasts."""

    former_keys: int
    certificate_days: int | None


class CoordinatorStatus(TypedDict):
    """``fedct coordinator status``. ``trouble``: why the SuperLink is not ``reachable``, empty if it is.

    ``rotating``: old and new authorities are good. ``database_bytes``: of the SuperLink; ``free_bytes``: of the disk of
    the folder, its database or its runs, the fullest of them.
    """

    version: str
    superlink: str
    reachable: bool
    trouble: str
    silos: list[CoordinatorsSilo]
    others: int
    certificate_days: dict[str, int | None]
    rotating: bool
    database_bytes: int
    free_bytes: int


class Departed(TypedDict):
    """``fedct coordinator unregister``."""

    departed: list[str]


class Stopped(TypedDict):
    """``fedct coordinator stop``: Flower's numbers of the runs that were stopped."""

    stopped: list[int]
