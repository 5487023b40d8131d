"""Makes the demonstration's folders and hands each service what it needs, and nothing of what it does not need.

``fedct demo`` writes the folders of a coordinator and of four silos, as they would lie on five machines. Here each
service gets its part of them in a volume of its own: no agent sees a node key, no SuperNode sees records, the SuperExec
sees no key, and those of the authorities stay in a volume that no service has. Run again, it changes nothing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Where the coordinator's services see their folder, too: Flower's config names files by their whole path.
MADE = Path("/app")
SHARES = Path("/shares")
TLS = ("certificates/ca.crt", "certificates/server.pem", "certificates/server.key")
FEDCT = Path(sys.executable).with_name("fedct")


def make() -> None:
    """The folders, once."""
    if not (MADE / ".complete").exists():
        for left_over in MADE.iterdir():
            shutil.rmtree(left_over) if left_over.is_dir() else left_over.unlink()
    subprocess.run([FEDCT, "demo", MADE, *sys.argv[1:]], check=True)
    coordinator = MADE / "coordinator"
    if not (coordinator / "certificates" / "clients.crt").exists():
        # One of before the gateway asked for certificates.
        subprocess.run([FEDCT, "coordinator", "init", coordinator, "--gateway", "gateway:8443"], check=True)


def give(source: Path, target: Path) -> None:
    """Copy a file or a folder, but for what is there already."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        for entry in sorted(source.iterdir()):
            give(entry, target / entry.name)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(target.name + ".partial")
        shutil.copy2(source, partial)
        partial.replace(target)


def hand_out() -> None:
    """Each service's part of the folders."""
    coordinator = MADE / "coordinator"
    for name in TLS:
        for share in ("superlink", "gateway"):
            give(coordinator / name, SHARES / share / Path(name).name)
    give(coordinator / "certificates" / "clients.crt", SHARES / "gateway" / "clients.crt")
    give(coordinator / "secret", SHARES / "superlink" / "secret")
    for name in ("certificates/ca.crt", "secret", "study", "silos", "flwr"):
        give(coordinator / name, SHARES / "coordinator" / name)
    (SHARES / "coordinator" / "runs").mkdir(exist_ok=True)
    for silo in sorted((MADE / "silos").iterdir()):
        for name in ("ca.crt", "node.key", "secret"):
            give(silo / "connection" / name, SHARES / f"supernode-{silo.name}" / name)
        for name in ("client.crt", "client.key"):
            give(coordinator / "kits" / silo.name / name, SHARES / f"supernode-{silo.name}" / name)
        agent = SHARES / f"agent-{silo.name}"
        for entry in sorted(silo.iterdir()):
            if entry.name not in ("connection", "state"):
                give(entry, agent / entry.name)
        give(silo / "connection" / "secret", agent / "connection" / "secret")
        # Where the volume with the silo's state goes.
        (agent / "state").mkdir(exist_ok=True)
        give(silo / "state", SHARES / f"state-{silo.name}")


if __name__ == "__main__":
    os.umask(0o077)
    make()
    hand_out()
