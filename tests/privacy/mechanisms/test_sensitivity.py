"""What may be relied on, and what says that it may not."""

from fedct_flwr.privacy.mechanisms.on_labels import NO_GUARANTEE, proposition_2, worst_case


def test_a_changed_label_is_two_bits() -> None:
    assert worst_case(50_000).bits == 100_000
    assert worst_case(50_000).formal


def test_proposition_2_on_a_napkin() -> None:
    # n e = 50, P = 1.6449: 50 + 1.6449 sqrt(47.5) + 0.9019 = 62.24
    assert proposition_2(1000, stability=0.05, delta=0.05).bits == 2 * 63
    assert proposition_2(10, stability=1.0, delta=0.01).bits == 20


def test_estimates_carry_their_reservation_wherever_they_are_printed() -> None:
    estimate = proposition_2(1000, 0.05, 0.05)
    assert not estimate.formal
    assert NO_GUARANTEE in str(estimate)
