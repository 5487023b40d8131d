"""Keys: private ones are readable by their owner alone, and none is ever overwritten."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedct_flwr.hospital.keys import (
    create_egress_key,
    create_node_key,
    load_egress_key,
    load_public_key,
    public_key_path,
)
from fedct_flwr.types import ConfigError


def test_what_the_egress_key_signs_its_public_half_proves(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "egress.key"
    create_egress_key(path)
    signature = load_egress_key(path).sign(b"labels")
    load_public_key(tmp_path / "keys" / "egress.pub").verify(signature, b"labels")
    assert public_key_path(path) == tmp_path / "keys" / "egress.pub"


@pytest.mark.parametrize(("create", "public"), [(create_egress_key, "node.pub"), (create_node_key, "node.key.pub")])
def test_a_key_is_its_owners_alone_and_stays(create: Callable[[Path], None], public: str, tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"node\.key exists: it is not overwritten"):
        create(path)
    assert path.read_bytes() == before
    path.unlink()
    with pytest.raises(ConfigError, match=public):
        create(path)
    assert not path.exists()


def test_the_node_key_is_one_that_flowers_supernode_takes(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    create_node_key(path)
    # As flower-supernode --auth-supernode-private-key and flwr supernode register read them.
    private = load_ssh_private_key(path.read_bytes(), None)
    public = load_ssh_public_key((tmp_path / "node.key.pub").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(private.curve, ec.SECP384R1)
    assert private.public_key() == public


@pytest.mark.parametrize("load", [load_egress_key, load_public_key])
@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff" * 99, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]
)
def test_a_file_that_holds_no_key_is_one_sentence(
    load: Callable[[Path], object], content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "egress.key").write_bytes(content)
    with pytest.raises(ConfigError, match="Ed25519"):
        load(tmp_path / "egress.key")
