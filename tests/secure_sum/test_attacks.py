"""What a malicious coordinator tries, with the silos that collude with it; and that each attack works on a planted bug.

An attack that fails on silos as they are, and succeeds on silos with one check taken out, is a test of that check.
"""

from collections.abc import Callable

import numpy as np
import pytest

from fedct_flwr.secure_sum import coordinator as coordinator_module
from fedct_flwr.secure_sum import masks
from fedct_flwr.secure_sum import silo as silo_module
from fedct_flwr.secure_sum.coordinator import sum_securely
from fedct_flwr.secure_sum.messages import Step
from fedct_flwr.secure_sum.silo import SumClient
from fedct_flwr.secure_sum.terms import Fault
from tests.secure_sum.adversary import Adversary, all_places
from tests.secure_sum.silos import BITS, LENGTH, Federation, fault_of, federation, shape

Plant = Callable[[pytest.MonkeyPatch], None]
MODULUS = np.uint64(1 << BITS)


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


def is_opened(made: Federation, stripped: tuple[np.ndarray, set[int], bool]) -> bool:
    """Whether a vector without the masks that can be known is what the first silo added."""
    vector, unknown, masked = stripped
    return not unknown and not masked and np.array_equal(vector, made.numbers["silo-00"].vector_)


def earlier_vector(made: Federation) -> bool:
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
    return is_opened(made, opened.stripped(0, view, first["silo-00"].masked))


def seeds_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (masks, silo_module):
        monkeypatch.setattr(module, "pair_seed", lambda root, number: masks.derive(root, b"pair seed", size=16))


def both_opened(made: Federation) -> bool:
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
    return is_opened(made, adversary.stripped(0, view, answers["silo-00"].masked))


def forgets_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = SumClient._repeated_or

    def forgetful(self: SumClient, *about: object) -> bytes:
        if self.session is not None:
            self.session.replies.clear()
            if self.session.current is not None:
                self.session.current.list_signed = None
        return steps(self, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(SumClient, "_repeated_or", forgetful)


def too_small_a_sum(made: Federation) -> bool:
    """Tell each of six silos another list of four survivors, so that together they open a sum of three."""
    assert made.coordinator._terms.fewest(6) == 4
    adversary = Adversary(made, ["silo-05"])
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
            return False
        total += vector
    expected = sum(made.numbers[f"silo-{place:02d}"].vector_ for place in (0, 1, 2)) % MODULUS
    return np.array_equal(total % MODULUS, expected)


def unsigned_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SumClient, "_check_signatures", lambda *about: None)


def forked(made: Federation) -> bool:
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
    return is_opened(made, adversary.stripped(target, small, answers["silo-00"].masked))


def tags_of_any_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silo_module, "tag", lambda *about: bytes(16))
    monkeypatch.setattr("tests.secure_sum.adversary.tag", lambda *about: bytes(16))


ATTACKS: dict[str, tuple[Callable[[Federation], bool], int, Plant]] = {
    "a mask serves two sums": (same_masks, 4, one_mask_for_all),
    "a dropout opens an earlier sum": (earlier_vector, 4, seeds_of_the_session),
    "both shares of a silo": (both_opened, 4, forgets_what_it_said),
    "two lists of survivors": (too_small_a_sum, 6, unsigned_list),
    "a silo is told of another sum": (forked, 4, tags_of_any_sum),
}


@pytest.mark.parametrize("has_bug", [False, True])
@pytest.mark.parametrize(("attack", "silos", "plant"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_works_on_the_planted_bug_alone(
    monkeypatch: pytest.MonkeyPatch, attack: Callable[[Federation], bool], silos: int, plant: Plant, has_bug: bool
) -> None:
    if has_bug:
        plant(monkeypatch)
    assert attack(federation(silos)) == has_bug


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
