"""What a malicious coordinator tries, with the silos that collude with it; and that each attack works on a planted bug.

An attack that fails on silos as they are, and succeeds on silos with one check taken out, is a test of that check.
"""

from collections.abc import Callable

import numpy as np
import pytest

from fedct_flwr.secure_sum import coordinator as coordinator_module
from fedct_flwr.secure_sum import dealing
from fedct_flwr.secure_sum import silo as silo_module
from fedct_flwr.secure_sum.coordinator import sum_securely
from fedct_flwr.secure_sum.faults import Fault
from fedct_flwr.secure_sum.messages import Step
from fedct_flwr.secure_sum.silo import SumClient
from tests.secure_sum.adversary import Adversary, all_places
from tests.secure_sum.silos import BITS, LENGTH, Federation, fault_of, federation, shape

Plant = Callable[[pytest.MonkeyPatch], None]
MODULUS = np.uint64(1 << BITS)


def honest(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bug."""


def same_masks(made: Federation) -> bool:
    """Whether a silo that adds the same vector twice sends the same bytes twice."""
    sent = []
    for _ in range(2):
        sum_securely(made.coordinator, made.exchange, shape())
        reply = made.seen[Step.ASK, "silo-00"][1]
        sent.append(reply[25 : 25 + -(-LENGTH * BITS // 8)])
    return sent[0] == sent[1]


def one_mask_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silo_module, "derive", lambda *parts: bytes(32))
    monkeypatch.setattr(coordinator_module, "derive", lambda *parts: bytes(32))


@pytest.mark.parametrize(("plant", "found"), [(honest, False), (one_mask_for_all, True)])
def test_no_mask_serves_two_sums(monkeypatch: pytest.MonkeyPatch, plant: Plant, found: bool) -> None:
    plant(monkeypatch)
    assert same_masks(federation(4)) == found


def earlier_vector(made: Federation) -> np.ndarray | None:
    """Open a silo's pairwise seeds in a later sum, and take them off its vector of an earlier one."""
    opened = Adversary(made)
    everybody, view = list(made.silos), all_places(made)
    first = opened.asks(shape(), dict.fromkeys(everybody, view))
    for name in everybody:
        opened.open(name, view, view, first)
    made.coordinator._deals = {opened.places[name]: answer.deal for name, answer in first.items()}
    made.coordinator._number += 1
    later = Adversary(made)
    answers = later.asks(shape(), dict.fromkeys(everybody, view))
    survivors = view[1:]
    signatures = later.sign(survivors, everybody)
    for name in everybody:
        later.open(name, view, survivors, answers, signatures)
    assert later.secret(0, wraps=True) is not None
    opened.knows_pair = later.knows_pair  # type: ignore[method-assign]
    vector, unknown, masked = opened.stripped(0, view, first["silo-00"].masked)
    return None if unknown or masked else vector


def seeds_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (dealing, silo_module):
        monkeypatch.setattr(module, "pair_seed", lambda root, number: dealing.derive(root, b"pair seed", size=16))


@pytest.mark.parametrize(("plant", "found"), [(honest, False), (seeds_of_the_session, True)])
def test_a_dropout_opens_nothing_of_earlier_sums(monkeypatch: pytest.MonkeyPatch, plant: Plant, found: bool) -> None:
    plant(monkeypatch)
    made = federation(4)
    vector = earlier_vector(made)
    assert (vector is not None and np.array_equal(vector, made.numbers["silo-00"].vector_)) == found


def both_opened(made: Federation) -> np.ndarray | None:
    """Open a sum of all, then the same with a list of survivors that leaves one silo out."""
    adversary = Adversary(made)
    everybody, view = list(made.silos), all_places(made)
    answers = adversary.asks(shape(), dict.fromkeys(everybody, view))
    survivors = view[1:]
    signatures = adversary.sign(survivors, everybody)
    for name in everybody:
        adversary.open(name, view, survivors, answers, signatures)
    for name in everybody:
        adversary.open(name, view, view, answers)
    vector, unknown, masked = adversary.stripped(0, view, answers["silo-00"].masked)
    return None if unknown or masked else vector


def forgets_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = SumClient._repeated_or

    def forgetful(self: SumClient, *about: object) -> bytes:
        if self.session is not None:
            self.session.replies.clear()
            if self.session.current is not None:
                self.session.current.list_signed = None
        return steps(self, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(SumClient, "_repeated_or", forgetful)


@pytest.mark.parametrize(("plant", "found"), [(honest, False), (forgets_what_it_said, True)])
def test_never_both_shares_of_a_silo(monkeypatch: pytest.MonkeyPatch, plant: Plant, found: bool) -> None:
    plant(monkeypatch)
    made = federation(4)
    vector = both_opened(made)
    assert (vector is not None and np.array_equal(vector, made.numbers["silo-00"].vector_)) == found


def too_small_a_sum(made: Federation) -> np.ndarray | None:
    """Tell each of six silos another list of four survivors, so that together they open a sum of three."""
    colluder = "silo-05"
    adversary = Adversary(made, [colluder])
    view = all_places(made)
    answers = adversary.asks(shape(), dict.fromkeys(made.silos, view))
    extra = [3, 4, 5, 3, 4]
    for name, other in zip(list(made.silos)[:5], extra, strict=True):
        survivors = (0, 1, 2, other)
        signatures = adversary.sign(survivors, [name]) | adversary.collude_sign(view, survivors)
        adversary.open(name, view, survivors, answers, signatures)
    adversary.add_colluders_shares()
    total = np.zeros(LENGTH, dtype=np.uint64)
    for place in (0, 1, 2):
        vector, unknown, masked = adversary.stripped(place, view, answers[f"silo-{place:02d}"].masked)
        if masked or not unknown <= {0, 1, 2}:
            return None
        total += vector
    return total % MODULUS


def unsigned_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SumClient, "_check_signatures", lambda *about: None)


@pytest.mark.parametrize(("plant", "found"), [(honest, False), (unsigned_list, True)])
def test_silos_open_one_list_of_survivors_only(monkeypatch: pytest.MonkeyPatch, plant: Plant, found: bool) -> None:
    plant(monkeypatch)
    made = federation(6)
    assert made.coordinator._terms.fewest(6) == 4
    total = too_small_a_sum(made)
    expected = sum(made.numbers[f"silo-{place:02d}"].vector_ for place in (0, 1, 2)) % MODULUS
    assert (total is not None and np.array_equal(total, expected)) == found


def forked(made: Federation) -> np.ndarray | None:
    """Tell one silo of a sum with a colluder and a silo that will be missing, and the others of a sum of all."""
    colluder, missing, target = 3, 2, 0
    adversary = Adversary(made, ["silo-03"])
    view, small = all_places(made), (target, missing, colluder)
    answers = adversary.asks(shape(), {name: small if name == "silo-00" else view for name in made.silos})
    survivors = (target, 1, colluder)
    signers = ["silo-01", "silo-02"]
    signatures = adversary.sign(survivors, signers) | adversary.collude_sign(view, survivors)
    for name in signers:
        adversary.open(name, view, survivors, answers, dict(sorted(signatures.items())))
    adversary.add_colluders_shares()
    vector, unknown, masked = adversary.stripped(target, small, answers["silo-00"].masked)
    return None if unknown or masked else vector


def tags_of_any_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silo_module, "tag", lambda *about: bytes(16))
    monkeypatch.setattr("tests.secure_sum.adversary.tag", lambda *about: bytes(16))


@pytest.mark.parametrize(("plant", "found"), [(honest, False), (tags_of_any_sum, True)])
def test_no_silo_is_told_of_another_sum(monkeypatch: pytest.MonkeyPatch, plant: Plant, found: bool) -> None:
    plant(monkeypatch)
    made = federation(4)
    vector = forked(made)
    assert (vector is not None and np.array_equal(vector, made.numbers["silo-00"].vector_)) == found


def test_nothing_of_a_sum_that_failed_can_be_opened() -> None:
    made = federation(4)
    adversary = Adversary(made, ["silo-03"])
    view = all_places(made)
    answers = adversary.asks(shape(), dict.fromkeys(made.silos, view))
    made.coordinator._deals = {adversary.places[name]: answer.deal for name, answer in answers.items()}
    made.coordinator._number += 1
    sum_securely(made.coordinator, made.exchange, shape())
    replies = [adversary.open(name, view, view, answers) for name in made.silos]
    assert {fault_of(reply) for reply in replies} == {Fault.NUMBER}
    adversary.add_colluders_shares()
    for place in (0, 1, 2):
        _, unknown, masked = adversary.stripped(place, view, answers[f"silo-{place:02d}"].masked)
        assert masked
        assert unknown == {0, 1, 2} - {place}


def test_a_vector_that_comes_late_stays_closed() -> None:
    made = federation(4)
    adversary = Adversary(made, ["silo-03"])
    view, survivors = all_places(made), (1, 2, 3)
    answers = adversary.asks(shape(), dict.fromkeys(made.silos, view))
    signatures = adversary.sign(survivors, made.silos)
    for name in made.silos:
        assert fault_of(adversary.open(name, view, survivors, answers, signatures)) is None
    adversary.add_colluders_shares()
    _, unknown, masked = adversary.stripped(0, view, answers["silo-00"].masked)
    assert not unknown
    assert masked
