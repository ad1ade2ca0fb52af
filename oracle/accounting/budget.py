"""What several models cost the rows that all of them were trained on, and what a row's guarantee is for a person."""

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec

from oracle.accounting.ledger import (
    DataUse,
    LedgerEvent,
    PersonBound,
    PhaseStarted,
    ReplayForked,
    ScoreReleased,
    StartChecked,
    encode,
)
from oracle.errors import InputError

__all__ = ["Charge", "Total", "charges", "check_budget", "person_bound", "total"]

_LARGEST = 700.0
"""exp of more is no float; the bound on delta is 1 long before."""


class Charge(NamedTuple):
    """What one model, or one more run of it, costs a row.

    Attributes:
        data: What its owner calls the data set.
        model: The model's name.
        use: Tells states of one name apart.
        epsilon: In nats; infinite where no proof bounds it.
        delta: Of one row.
        most_epsilon: What a row may pay for all models, as this one declares; infinite if it does not.
        most_delta: The same, of delta.
    """

    data: str
    model: str
    use: str
    epsilon: float
    delta: float
    most_epsilon: float = math.inf
    most_delta: float = math.inf


class Total(NamedTuple):
    """What a row of one data set pays for all models, and the least that any of them says it may."""

    epsilon: Decimal
    delta: Decimal
    most_epsilon: Decimal
    most_delta: Decimal

    @property
    def passed(self) -> str | None:
        """Which of the two passes its budget, if one does."""
        if self.epsilon > self.most_epsilon:
            return "epsilon"
        return "delta" if self.delta > self.most_delta else None


def charges(*ledgers: Iterable[LedgerEvent]) -> list[Charge]:
    """Return what the events of ledgers cost the rows of the data that they name; what is told twice counts once.

    The first phase's guarantee covers the training rows. A fork names no data: it counts for all that its ledger names.
    A checked start is in the guarantee of the state it was made for; each one more of a shard is a charge of its own.
    """
    found: list[Charge] = []
    forked: list[Charge] = []
    starts: dict[StartChecked, DataUse] = {}
    for events in ledgers:
        named, forks = set(), []
        for event in events:
            data = getattr(event, "data", None)
            if isinstance(event, ReplayForked):
                forks.append(event)
            elif isinstance(event, StartChecked) and isinstance(data, DataUse):
                starts[event] = data
                named.add((data.name, data.model))
            elif isinstance(event, PhaseStarted) and isinstance(data, DataUse):
                found.append(_charge(data, data.use, math.inf if event.nominal is True else event.epsilon, event.delta))
                named.add((data.name, data.model))
            elif isinstance(event, ScoreReleased):
                use = hashlib.sha256(encode(event)).hexdigest()
                found.append(Charge(event.data, event.model, use, event.epsilon, event.delta))
                named.add((event.data, event.model))
        forked += [Charge(*name, one.fork, one.epsilon, one.delta) for one in forks for name in sorted(named)]
    return list(dict.fromkeys([*found, *_extra_starts(starts, {one.use for one in found}), *forked]))


def _charge(data: DataUse, use: str, epsilon: float, delta: float) -> Charge:
    budget = [math.inf if most is msgspec.UNSET else most for most in (data.epsilon, data.delta)]
    return Charge(data.name, data.model, use, epsilon, delta, *budget)


def _extra_starts(starts: Mapping[StartChecked, DataUse], made: set[str]) -> Iterator[Charge]:
    """Yield a charge for each start that no state's guarantee has in it; shards compose in parallel.

    Tries of one use may cost differently, as the model file may have changed. Which one a state has in it is not told:
    the cheapest one is taken.
    """
    shards: dict[str, dict[int, list[StartChecked]]] = {}
    for event, data in starts.items():
        shards.setdefault(data.use, {}).setdefault(event.shard, []).append(event)
    for use, tries in shards.items():
        left = [
            sorted(mine, key=lambda one: one.epsilon, reverse=True)[: len(mine) - (use in made)]
            for mine in tries.values()
        ]
        for number, beside in enumerate(itertools.zip_longest(*left)):
            there = [one for one in beside if one is not None]
            epsilon, delta = max(one.epsilon for one in there), max(one.delta for one in there)
            yield _charge(starts[there[0]], f"{use}-start-{number}", epsilon, delta)


def total(found: Sequence[Charge]) -> Total:
    """Add up what a row of a data set pays, by basic composition.

    Formal guarantees:
        Let each state be (e_i, d_i)-DP for one row of the data set, and draw its noise by a key of its own. Then all
        that is ever seen of all of them is (sum e_i, sum d_i)-DP for the row:

        * *One after another*: each may be chosen, trained and asked by what was seen of those before (Dwork and Roth,
          2014, Theorem B.1: adaptive basic composition of approximate differential privacy).
        * *At the same time*: they answer interleaved streams, and queries to one may be chosen by answers of another;
          the sums hold for interactive mechanisms too (Vadhan and Zhang, 2023, "Concurrent composition theorems for
          differential privacy").
        * *Shards and slices*: a row that is in one shard only pays that shard's guarantee, which is counted once.
        * *Retired models* count: what was seen stays seen. A fork is one more run (`oracle.runtime.fork`).

        Queries are no rows of the data set. A query pays in each model that answers it, by that model's own guarantee.

    Sums are of the shortest decimals that the figures are printed as, so that three times 0.1 is 0.3.

    Args:
        found: All charges of one data set, at least one; those with equal first five fields count once.
    """
    *_, epsilons, deltas = zip(*dict.fromkeys(one[:5] for one in found), strict=True)
    most = [[Decimal(str(one[i])) for one in found] for i in (5, 6)]
    epsilons, deltas = ([Decimal(str(one)) for one in values] for values in (epsilons, deltas))
    return Total(sum(epsilons, Decimal(0)), sum(deltas, Decimal(0)), min(most[0]), min(most[1]))


def check_budget(
    events: Iterable[LedgerEvent],
    new: PhaseStarted | ScoreReleased | StartChecked,
    most: tuple[float, float] = (math.inf, math.inf),
) -> None:
    """Refuse one more model, checked start or score, where a row of its data would pay more than is declared.

    Args:
        events: What the data's ledger has.
        new: The new model's event or its start's, with its data; or the score's.
        most: Epsilon and delta that a row may pay, where the event itself does not say.

    Raises:
        InputError: It would pass the least budget that it or any model before it declares.
    """
    told = list(events)
    (ours,) = charges([new])
    limit = ours._replace(most_epsilon=most[0], most_delta=most[1])
    after = total([limit, *(one for one in charges([*told, new]) if one.data == ours.data)])
    word = after.passed
    if word is None:
        return
    before = [one for one in charges(told) if one.data == ours.data and not one.use.startswith(ours.use)]
    paid = sum((Decimal(str(getattr(one, word))) for one in before), Decimal(0))
    by = f" for {', '.join(sorted({one.model for one in before}))}" if before else ""
    bound = (
        f"a row of {ours.data} has paid {word} {paid:f}{by}, and this would make it {getattr(after, word):f}; "
        f"take a smaller {word}, or new data"
    )
    raise InputError(f"model.data_{word}", float(getattr(after, f"most_{word}")), bound)


def person_bound(epsilon: float, delta: float, rows: int) -> PersonBound:
    """Return the guarantee of all rows of a person, of which at most M are used, from that of one row.

    Formal guarantees:
        *Group privacy*: D and D' differ in the contents of at most M rows, so there are D = D_0, ..., D_M = D' with
        one row between neighbours. P(D_i in S) <= e^eps P(D_(i+1) in S) + delta; put into each other,
        P(D in S) <= e^(M eps) P(D' in S) + delta (1 + e^eps + ... + e^((M-1) eps)), and the sum of that geometric
        series is (e^(M eps) - 1)/(e^eps - 1). Of rows in several shards the same holds, as the series of M rows is at
        least that of its parts together.

    Queries of a person are no part of it: a person who asks k of them pays for each.

    Args:
        epsilon: Of a row (nats).
        delta: Of a row.
        rows: M, at least 1.
    """
    whole = rows * epsilon
    if delta == 0.0 or rows == 1:
        return PersonBound(rows, whole, delta)
    factor = math.inf if whole > _LARGEST else math.expm1(whole) / math.expm1(epsilon)
    return PersonBound(rows, whole, min(math.nextafter(delta * factor * (1 + 1e-12), math.inf), 1.0))
