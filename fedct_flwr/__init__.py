"""Federated co-training on Flower: silos share class labels on a public set, never their data or models."""

import logging

from fedct_flwr.text.printable import PrintableLogs

__version__ = "0.1.0"

# Here, as no module can log before this: there is no way past it.
logging.getLogger("flwr.fedct").addFilter(PrintableLogs())
