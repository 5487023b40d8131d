"""A silo's folder as ``fedct silo init`` makes it, and a coordinator's certificates and server."""

import http.server
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from fedct_flwr.cli.demo import LABEL
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import Event, LogEntry
from tests.cli.runner import Outcome
from tests.hospitals import write_silo_folder
from tests.patience import PATIENCE

Fedct = Callable[..., Outcome]


@dataclass(frozen=True)
class Kit:
    """A silo that was made with ``init``, and the files that it was made from."""

    folder: Path
    source: Path

    @property
    def file(self) -> Path:
        return self.folder / "silo.toml"

    @property
    def config(self) -> SiloConfig:
        return SiloConfig.read_toml(self.file)

    @property
    def study(self) -> StudyFolder:
        return read_study(self.folder / "study")

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @contextmanager
    def log(self) -> Iterator[EgressLog]:
        config = self.config
        with EgressLog.open(config.state, config.silo, load_egress_key(config.egress_key)) as log:
            yield log

    def released(self, number: int, queries: int, size: int) -> LogEntry:
        """A line that says that labels left."""
        public = self.study.public.fingerprint.hex()
        return LogEntry(Event.RELEASED, self.study.name, public, 7, number, "hard", queries, size, "ab" * 32, "cd" * 32)

    def edit(self, old: str, new: str) -> None:
        """Change ``silo.toml``."""
        text = self.file.read_text("utf-8")
        assert old in text
        self.file.write_text(text.replace(old, new), "utf-8")


def lets_out_noisy_sums(kit: Kit, *, epsilon: float, agreed: bool = True) -> None:
    """Set a budget of noise in shares, for sums of three silos that the study knows, or does not."""
    kit.edit('kinds = ["hard"]', 'kinds = ["sum"]')
    kit.edit("sum-epsilon = 0.0", f"sum-epsilon = {epsilon}")
    if agreed:
        keys = {name: Ed25519PrivateKey.generate().public_key() for name in ("budapest", "zurich")}
        keys["cleveland"] = load_egress_key(kit.config.egress_key).public_key()
        lines = {
            name: b64encode(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
            for name, key in keys.items()
        }
        path = kit.folder / "study" / "study.toml"
        sums = "".join(f'{name} = "{line}"\n' for name, line in lines.items())
        path.write_text(f"{path.read_text('utf-8')}\n[sums.keys]\n{sums}", "utf-8")


def make_kit(fedct: Fedct, place: Path, **options: str) -> Kit:
    """``fedct silo init`` with the records of a hospital."""
    source, folder = place / "source", place / "silo"
    if not source.exists():
        write_silo_folder(source)
    given = {
        "silo": "cleveland",
        "study": str(source / "study"),
        "data": str(source / "data.csv"),
        "label": LABEL,
        "superlink": "localhost:1",
        **options,
    }
    outcome = fedct("silo", "init", folder, *(part for key, value in given.items() for part in (f"--{key}", value)))
    assert outcome.code == 0, outcome.err
    return Kit(folder, source)


# --- a coordinator


@dataclass(frozen=True)
class Authority:
    """A certificate authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, days: float = 365) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
        builder = _builder(name, name, key, days).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        return cls(key, builder.sign(key, hashes.SHA256()))

    def write(self, path: Path) -> None:
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def server(self, folder: Path, host: str = "localhost", days: float = 365, since: float = -30) -> ssl.SSLContext:
        """What a server of this name shows; valid from ``since`` days from now on."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        builder = _builder(name, self.certificate.subject, key, days, since)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        certificate = builder.add_extension(issuer, False).sign(self.key, hashes.SHA256())
        path = folder / "server.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float, since: float = -30
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=since))
        .not_valid_after(now + timedelta(days=days))
    )


@contextmanager
def https_server(context: ssl.SSLContext, ahead: float = 0.0, *, to: str = "", zone: str = "GMT") -> Iterator[int]:
    """A server on a free port of localhost that answers 404, its clock ``ahead`` seconds. Yields the port.

    ``to``: where it sends its callers instead; ``zone``: how it writes UTC.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response_only(302 if to else 404)
            now = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
            self.send_header("Date", now.replace("GMT", zone))
            if to:
                self.send_header("Location", to)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.HTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that does not like the certificate is what is tested."""

        def get_request(self) -> tuple[ssl.SSLSocket, object]:
            client, address = super().get_request()
            client.settimeout(PATIENCE)
            return context.wrap_socket(client, server_side=True), address

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
