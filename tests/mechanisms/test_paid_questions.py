"""Paid questions: answers are comparisons of count + draw with the thresholds, until the last one is paid."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oracle.errors import InputError
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import geometric, sample
from oracle.mechanisms.thresholds.paid import CLOSED, HIGH, LOW, PAID, BetweenThresholds, PaidLaw, PaidQuestions

LAWS: tuple[PaidLaw, ...] = ("gumbel", "logistic", "exponential")


def instance(law: PaidLaw, slope: float, paid: int) -> PaidQuestions:
    """Return one instance; exponential noise gets its threshold slope."""
    return PaidQuestions(law, slope, paid, slope * 2.0 if law == "exponential" else None)


def words_for(count: int, seed: int) -> np.ndarray:
    """Return uniform words of a seed."""
    return np.random.default_rng(seed).integers(0, 2**64, size=(count, 2), dtype=np.uint64)


SETTINGS = settings(derandomize=True, max_examples=60, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


@SETTINGS
@given(
    st.sampled_from(LAWS),
    st.floats(0.01, 0.5),
    st.sampled_from([1, 5, 70]),
    st.integers(0, 9),
    st.integers(0, 50),
    SEEDS,
)
def test_answers_are_the_definition_on_the_same_words(  # noqa: PLR0913, PLR0917 -- an instance and its questions
    law: PaidLaw, slope: float, paid: int, spent: int, offset: int, seed: int
) -> None:
    """One after another: closed once K are spent, else paid from the threshold on, with c + Z as the value."""
    rng = np.random.default_rng(seed)
    counts, lows = rng.integers(-90, 90, size=60), rng.integers(-90, 90, size=60)
    words = words_for(60, seed)
    noise = geometric(slope, words) if law == "exponential" else sample(law, slope, words)
    wanted, left = [], paid - spent
    for noisy, low in zip((counts + noise - offset).tolist(), lows.tolist(), strict=True):
        if left <= 0:
            wanted.append((CLOSED, 0))
        elif noisy < low:
            wanted.append((LOW, 0))
        else:
            wanted.append((PAID, noisy))
            left -= 1
    found = instance(law, slope, paid).ask(counts, lows, words, spent=spent, offset=offset)
    assert list(zip(found.outcomes.tolist(), found.values.tolist(), strict=True)) == wanted
    assert found.spent == max(paid - left, spent)


@SETTINGS
@given(st.floats(0.02, 4.0), st.integers(1, 30), st.integers(0, 20), st.integers(0, 30), SEEDS)
def test_between_is_between_thresholds_and_the_value(slope: float, low: int, gap: int, beyond: int, seed: int) -> None:
    """Outcome by outcome what BetweenThresholds answers to the same words; of a paid one the value is in the zone."""
    points = low + gap + beyond
    counts, words = np.random.default_rng(seed).integers(0, points + 1, size=300), words_for(300, seed)
    lows, highs = np.full(300, low), np.full(300, low + gap)
    found = PaidQuestions("logistic", slope, 300).ask(counts, lows, words, spent=0, highs=highs)
    assert np.array_equal(
        found.outcomes, BetweenThresholds("logistic", slope, low, low + gap, points).answers(counts, words)
    )
    values = found.values[found.outcomes == PAID]
    assert ((low <= values) & (values <= low + gap)).all()
    assert not found.values[found.outcomes != PAID].any()
    assert set(found.outcomes.tolist()) <= {LOW, PAID, HIGH}


@SETTINGS
@given(st.sampled_from(LAWS), st.integers(1, 6), st.integers(0, 40), SEEDS)
def test_any_cut_of_the_questions_gives_the_same_answers(law: PaidLaw, paid: int, cut: int, seed: int) -> None:
    """Asked in one column, in two, or again: the same numbers, and the count of paid answers goes on."""
    asked, words = instance(law, 0.3, paid), words_for(40, seed)
    counts, lows = np.arange(40) % 7, np.full(40, 6)
    whole = asked.ask(counts, lows, words, spent=0)
    first = asked.ask(counts[:cut], lows[:cut], words[:cut], spent=0)
    second = asked.ask(counts[cut:], lows[cut:], words[cut:], spent=first.spent)
    assert np.array_equal(np.concatenate((first.outcomes, second.outcomes)), whole.outcomes)
    assert np.array_equal(np.concatenate((first.values, second.values)), whole.values)
    assert second.spent == whole.spent <= paid


@SETTINGS
@given(st.sampled_from(LAWS), SEEDS)
def test_a_closed_instance_answers_without_the_data(law: PaidLaw, seed: int) -> None:
    """Whatever the counts are."""
    rng = np.random.default_rng(seed)
    found = instance(law, 0.3, 5).ask(rng.integers(-99, 99, size=30), np.zeros(30, int), words_for(30, seed), spent=5)
    assert (found.outcomes == CLOSED).all()
    assert not found.values.any()
    assert found.spent == 5


@pytest.mark.parametrize("law", LAWS)
def test_values_follow_the_law(law: PaidLaw) -> None:
    """Noise under keyed addresses fits its law, at a threshold that all counts pass, and not one a tenth off."""
    rounds = np.arange(40_000, dtype=np.uint64)
    words = Addresses(PhaseKey(bytes(32)), 1).words(Purpose.DEPTH, rounds, np.zeros(1, dtype=np.uint64), None)[0]
    asked = instance(law, 0.25, 40_000)
    values = asked.ask(np.full(40_000, 1000), np.zeros(40_000, int), words, spent=0).values - 1000

    def p_value(slope: float) -> float:
        z = np.arange(-60, 90)
        below = {
            "gumbel": np.exp(-np.exp(-slope * z)),
            "logistic": 1.0 / (1.0 + np.exp(-slope * (z - 0.5))),
            "exponential": -np.expm1(-slope * np.maximum(z, 0)),
        }[law]
        middle = (below > 0.001) & (below < 0.999)
        cuts, law_there = z[middle], np.diff(np.concatenate(([0.0], below[middle], [1.0])))
        seen = np.bincount(np.searchsorted(cuts, values, side="right"), minlength=len(cuts) + 1)
        kept = law_there > 0
        return float(stats.chisquare(seen[kept], 40_000 * law_there[kept]).pvalue)

    assert p_value(0.25) > 1e-3
    assert p_value(0.275) < 1e-6


def test_the_offset_is_one_sided_and_belongs_to_exponential_noise() -> None:
    """The others have no noise on thresholds."""
    offsets = [instance("exponential", 0.2, 1).offset(words) for words in words_for(2000, 4)]
    assert min(offsets) == 0
    assert np.mean(offsets) == pytest.approx(1.0 / np.expm1(0.4), rel=0.1)
    assert PaidQuestions("gumbel", 0.2, 1).offset(words_for(1, 4)[0]) == 0


def test_what_has_no_proof_is_refused() -> None:
    """The message names the field, the value and what is wanted."""
    with pytest.raises(InputError, match="paid = 0: must be at least 1"):
        PaidQuestions("gumbel", 0.2, 0)
    for law, slope in (("gumbel", 0.1), ("exponential", None)):
        with pytest.raises(InputError, match="must be given for exponential noise, and only then"):
            PaidQuestions(law, 0.2, 1, slope)  # type: ignore[arg-type]
    one, words = np.array([5]), words_for(1, 1)
    with pytest.raises(InputError, match="law = 'gumbel': must be logistic for questions between two thresholds"):
        PaidQuestions("gumbel", 0.2, 1).ask(one, one, words, spent=0, highs=one)
    with pytest.raises(InputError, match="must satisfy low <= high"):
        PaidQuestions("logistic", 0.2, 1).ask(one, one, words, spent=0, highs=one - 1)
    for name, counts, lows in (("count", one << 61, one), ("threshold", one, -(one << 61))):
        with pytest.raises(InputError, match=f"{name}: must be from"):
            PaidQuestions("gumbel", 0.2, 1).ask(counts, lows, words, spent=0)
