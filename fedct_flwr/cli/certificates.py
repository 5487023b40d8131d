"""The coordinator's own certificate authorities: one for its server, one for its silos' way through the gateway.

Silos trust what the first has signed and nothing else, so no certificate is to be bought. The gateway lets in what the
second has signed. They are two, so that the first one's key can stay offline while silos join.
"""

import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedct_flwr.files import write_atomically
from fedct_flwr.hospital.keys import loaded
from fedct_flwr.types import ConfigError

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
LIFETIME: Final = timedelta(days=825)
RENEW_BEFORE: Final = timedelta(days=30)
# A silo whose clock is somewhat behind shall not take a new certificate for one that is not valid yet.
_CLOCK_SKEW: Final = timedelta(hours=1)
_FOR_ALL: Final = 0o644
_LONGEST_NAME: Final = 64


def create_authority(certificate: Path, key: Path, name: str = "fedct coordinator") -> None:
    """Make an authority, valid for ten years: a certificate for everybody, and a key (mode 600) that signs."""
    private = ec.generate_private_key(ec.SECP384R1())
    _create(certificate, key, name, private, (_name(name), private))


def create_server_certificate(
    certificate: Path, key: Path, hosts: Sequence[str], authority: Path, authority_key: Path
) -> None:
    """Make a server's key (mode 600) and its certificate, valid for 825 days, for these host names and IP addresses.

    Raises ConfigError for a host that is neither, or an authority that cannot be read.
    """
    names = x509.SubjectAlternativeName(list(map(_host, hosts)))
    use = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), names)
    _create(certificate, key, hosts[0], ec.generate_private_key(ec.SECP256R1()), _signer(authority, authority_key), use)


def create_client_certificate(certificate: Path, key: Path, silo: str, authority: Path, authority_key: Path) -> None:
    """Make a silo's key (mode 600) and the certificate with which the gateway lets it in, valid for 825 days.

    Raises ConfigError for an authority that cannot be read.
    """
    use = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),)
    _create(certificate, key, silo, ec.generate_private_key(ec.SECP256R1()), _signer(authority, authority_key), use)


def _create(
    certificate: Path,
    key: Path,
    name: str,
    private: ec.EllipticCurvePrivateKey,
    signer: tuple[x509.Name, ec.EllipticCurvePrivateKey],
    use: Sequence[x509.ExtensionType] = (),
) -> None:
    """Write a key and its certificate, which says what it is for; without that it is an authority's."""
    issuer, signing = signer
    authority, now = not use, datetime.now(UTC)
    usages = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
         "decipher_only"), False,
    )  # fmt: skip
    usage = x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **usages)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + (AUTHORITY_LIFETIME if authority else LIFETIME))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    for extension in use:
        builder = builder.add_extension(extension, critical=False)
    # Only the owner may read what is written like this.
    write_atomically(key, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write_atomically(certificate, builder.sign(signing, hashes.SHA384()).public_bytes(Encoding.PEM))
    certificate.chmod(_FOR_ALL)


def is_good_for(certificate: Path, hosts: Sequence[str], authority: Path) -> bool:
    """Whether a server's certificate is this authority's, for all these hosts, and for a month to come.

    Raises ConfigError for a file that holds no certificate, or an invalid host.
    """
    return lasts(certificate, authority) and {*hosts_of(certificate)} >= {str(_host(host).value) for host in hosts}


def lasts(certificate: Path, authority: Path) -> bool:
    """Whether a certificate is this authority's, and valid for a month to come. Raises ConfigError."""
    public = load_certificate(certificate)
    try:
        public.verify_directly_issued_by(load_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return public.not_valid_after_utc - datetime.now(UTC) > RENEW_BEFORE


def days_left(certificate: Path) -> int:
    """Whole days until a certificate expires; negative once it has. Raises ConfigError."""
    return (load_certificate(certificate).not_valid_after_utc - datetime.now(UTC)).days


def days_of(certificate: Path) -> int | None:
    """The same; None for a certificate that is not there, or cannot be read."""
    with suppress(ConfigError):
        return days_left(certificate)
    return None


def hosts_of(certificate: Path) -> list[str]:
    """The host names and IP addresses that a server's certificate is for. Raises ConfigError."""
    names = load_certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def load_certificate(path: Path) -> x509.Certificate:
    """The certificate in PEM. Raises ConfigError."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read the certificate {path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path} holds no certificate in PEM: put back the one that was there") from None


def _signer(authority: Path, path: Path) -> tuple[x509.Name, ec.EllipticCurvePrivateKey]:
    wrong = "holds no key that signs certificates: put back the one that was there"
    key = loaded(path, partial(load_pem_private_key, password=None), ec.EllipticCurvePrivateKey, wrong)
    return load_certificate(authority).subject, key


def check_hosts(hosts: Sequence[str]) -> None:
    """Raise ConfigError for what no certificate can name."""
    for host in hosts:
        _host(host)


def _host(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    labels = host.removeprefix("*.").split(".")
    if not all(label.replace("-", "").replace("_", "").isalnum() and label.isascii() for label in labels):
        raise ConfigError(f"{host!r} is no host name and no IP address: write one without scheme and port")
    return x509.DNSName(host)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_LONGEST_NAME])])
