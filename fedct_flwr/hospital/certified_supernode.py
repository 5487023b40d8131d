"""Flower's SuperNode, which also shows a client certificate to the gateway: Flower 1.41 has no option for one.

``certified_supernode [--client-certificate FILE --client-key FILE]``, and Flower's own options. Needs Flower alone,
as it is also all that the image of a SuperNode has of ours; all of Flower's insides that it touches are in
``show_certificate``.
"""

import argparse
import importlib
import ssl
import sys
from typing import Any


def show_certificate(certificate: str, key: str) -> None:
    """From now on SuperNodes of this process show this certificate to their SuperLink, and to nobody else.

    Raises OSError or ssl.SSLError for files that are no certificate and its key, at once.
    """
    module: Any = importlib.import_module("flwr.supernode.fleet_http_connection")

    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)
    original = module.FleetHttpClient

    class Certified(original):  # type: ignore[misc, valid-type]
        def __init__(self, base_url: str, *, verify: Any, **others: Any) -> None:
            if not isinstance(verify, ssl.SSLContext):
                raise TypeError("a SuperNode with a client certificate needs --root-certificates")
            verify.load_cert_chain(certificate, key)
            super().__init__(base_url, verify=verify, **others)

    module.FleetHttpClient = Certified


def main() -> None:
    """Run ``flower-supernode``."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--client-certificate")
    parser.add_argument("--client-key")
    given, rest = parser.parse_known_args()
    files = (given.client_certificate, given.client_key)
    if any(files):
        if not all(files):
            sys.exit("--client-certificate and --client-key belong together: give both or neither")
        try:
            show_certificate(*files)
        except (OSError, ssl.SSLError) as error:
            sys.exit(
                f"cannot use the client certificate {files[0]} with the key {files[1]} "
                f"({error.strerror or type(error).__name__}): ask the coordinator for the kit of your silo"
            )
    sys.argv = ["flower-supernode", *rest]
    from flwr.supernode.cli import flower_supernode

    flower_supernode()


if __name__ == "__main__":
    main()
