"""What all releases under a promise share: noise that nobody predicts, and a ledger that may refuse."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedct_flwr.privacy.ledger import BudgetExceeded
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.text.log import logger
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.refusal import Refusal, Refused


def check_secure(noise: Noise) -> None:
    """Raise ConfigError for noise that can be predicted."""
    if not noise.secure:
        raise ConfigError(
            "this noise can be predicted, so it protects nobody: at a silo with real records only the operating "
            "system's random numbers will do"
        )


@contextmanager
def ledger_refusals() -> Iterator[None]:
    """Raise Refused (PRIVACY_BUDGET, LEDGER) for what the ledger refuses, after its sentence is in the silo's log."""
    try:
        yield
    except BudgetExceeded as error:
        logger.error("%s", error)
        raise Refused(Refusal.PRIVACY_BUDGET) from error
    except LedgerError as error:
        logger.error("%s", error)
        raise Refused(Refusal.LEDGER) from error
