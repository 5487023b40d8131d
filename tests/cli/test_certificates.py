"""The coordinator's certificates: TLS as silos speak it takes them, and nothing that another authority has signed."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from fedct_flwr.cli.certificates import create_authority, create_server_certificate, is_good_for, load_certificate
from tests.cli.silos import shake_hands

HOSTS = ["superlink", "gateway.example.org", "127.0.0.1", "::1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority and a server."""
    made = tmp_path_factory.mktemp("certificates")
    create_authority(made / "ca.crt", made / "ca.key")
    create_server_certificate(made / "server.pem", made / "server.key", HOSTS, made / "ca.crt", made / "ca.key")
    return made


@pytest.mark.parametrize(
    ("host", "believed"),
    [*((host, True) for host in HOSTS), ("superlink2", False), ("127.0.0.2", False), ("example.org", False)],
)
def test_a_server_is_believed_under_its_names_alone(folder: Path, host: str, believed: bool) -> None:
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    assert shake_hands(client, server, host) is believed


def test_the_servers_certificate_signs_nothing_and_is_good_for_its_hosts_alone(folder: Path) -> None:
    made = load_certificate(folder / "server.pem")
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not made.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert is_good_for(folder / "server.pem", HOSTS[:1], folder / "ca.crt")
    assert not is_good_for(folder / "server.pem", [*HOSTS, "another"], folder / "ca.crt")
