"""A silo's folder as ``fedct silo init`` makes it, and a coordinator's server."""

import http.server
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import tomli_w
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedct_flwr.cli.certificates import create_authority, create_server_certificate
from fedct_flwr.cli.demo import LABEL
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.hospital.approval import current, terms_digest
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import Event, LogEntry, read_entries
from tests.cli.runner import Outcome
from tests.hospitals import write_silo_folder
from tests.patience import PATIENCE

Fedct = Callable[..., Outcome]
YES = ("--yes", "--reason", "a test")


def words(text: str) -> str:
    """A page as it was before it was wrapped."""
    return " ".join(text.split())


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

    @property
    def is_approved(self) -> bool:
        return current(read_entries(self.state)) == terms_digest(self.config, self.study)

    @property
    def events(self) -> list[Event]:
        return [entry.event for entry in read_entries(self.state)]

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

    def protect(self, protection: str = "dp-linear") -> None:
        self.edit('protection = "none"', f'protection = "{protection}"')

    def let_out(self, kind: str) -> None:
        self.edit('kinds = ["hard"]', f'kinds = ["{kind}"]')


def agree_on_sums(kit: Kit, **more: object) -> dict[str, Ed25519PublicKey]:
    """Put three silos' keys into the study, and what else they agree on."""
    keys = {name: Ed25519PrivateKey.generate().public_key() for name in ("lyon", "porto")}
    keys["cleveland"] = load_egress_key(kit.config.egress_key).public_key()
    lines = {
        name: b64encode(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
        for name, key in keys.items()
    }
    path = kit.config.study / "study.toml"
    path.write_text(path.read_text("utf-8") + "\n" + tomli_w.dumps({"sums": {"keys": lines}, **more}), "utf-8")
    return keys


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


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> bool:
    """Whether the two take each other's certificates, by a handshake in memory."""
    ends = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    parties = [
        client.wrap_bio(ends[0], ends[1], server_hostname=host),
        server.wrap_bio(ends[1], ends[0], server_side=True),
    ]
    done: set[int] = set()
    for _ in range(8):
        for number, party in enumerate(parties):
            try:
                party.do_handshake()
                done.add(number)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
    return done == {0, 1}


@contextmanager
def tls_server(context: ssl.SSLContext, answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[int]:
    """The port of an HTTP server behind TLS, whose answers to POST these are."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer(self)

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
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def coordinator_of(kit: Kit, *, to: str = "") -> Iterator[None]:
    """A server that the kit's ``silo.toml`` and ca.crt name; it answers 404, or sends its callers ``to`` a place."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response_only(302 if to else 404)
        handler.send_header("Date", format_datetime(datetime.now(UTC), usegmt=True))
        if to:
            handler.send_header("Location", to)
        handler.end_headers()

    authority, key = kit.folder / "connection" / "ca.crt", kit.source / "ca.key"
    create_authority(authority, key)
    create_server_certificate(kit.source / "server.pem", kit.source / "server.key", ["localhost"], authority, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kit.source / "server.pem", kit.source / "server.key")
    with tls_server(context, answer) as port:
        kit.edit("localhost:1", f"localhost:{port}")
        yield
