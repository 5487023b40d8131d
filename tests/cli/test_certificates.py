"""The coordinator's certificates: TLS as silos speak it takes them, and nothing that another authority has signed."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509

from fedct_flwr.cli.certificates import (
    create_authority,
    create_server_certificate,
    is_good_for,
    load_certificate,
)
from tests.patience import PATIENCE

HOSTS = ["superlink", "gateway.example.org", "127.0.0.1", "::1"]


@dataclass(frozen=True)
class Files:
    """An authority and a server, in a folder of their own."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def server(self) -> Path:
        return self.folder / "server.pem"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"


def make(folder: Path, hosts: list[str] = HOSTS) -> Files:
    folder.mkdir()
    files = Files(folder)
    create_authority(files.ca, files.ca_key)
    create_server_certificate(files.server, files.server_key, hosts, files.ca, files.ca_key)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make(tmp_path_factory.mktemp("certificates") / "ours")


@contextmanager
def server(files: Files) -> Iterator[int]:
    """Shows its certificate to one caller; gives the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server, files.server_key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            raw, _ = listener.accept()
            with raw:
                try:
                    with context.wrap_socket(raw, server_side=True) as encrypted:
                        encrypted.recv(1)
                except (ssl.SSLError, OSError):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(PATIENCE)


def call(port: int, host: str, authority: Path) -> None:
    """Speak TLS as strictly as Python can. Raises ssl.SSLError."""
    context = ssl.create_default_context(cafile=str(authority))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw,
        context.wrap_socket(raw, server_hostname=host) as encrypted,
    ):
        encrypted.send(b"x")


@pytest.mark.parametrize("host", HOSTS)
def test_a_server_is_believed_under_every_name_that_it_was_made_for(files: Files, host: str) -> None:
    with server(files) as port:
        call(port, host, files.ca)


@pytest.mark.parametrize("host", ["superlink2", "127.0.0.2", "example.org"])
def test_a_server_is_not_believed_under_another_name(files: Files, host: str) -> None:
    with server(files) as port, pytest.raises(ssl.SSLCertVerificationError):
        call(port, host, files.ca)


def test_the_servers_certificate_signs_nothing(files: Files) -> None:
    certificate = load_certificate(files.server)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_certificate_is_good_for_its_hosts_and_no_others(files: Files) -> None:
    assert is_good_for(files.server, HOSTS, files.ca)
    assert is_good_for(files.server, HOSTS[:1], files.ca)
    assert not is_good_for(files.server, [*HOSTS, "another"], files.ca)
