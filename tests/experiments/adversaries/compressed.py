"""A simulator of the box predictor that is exact in law, but works on stretches of rounds instead of rounds.

Between two halts of Stoppers, and while the adversary's mix stays, rounds are independent and alike. So a stretch is
drawn in this order:

1. honest queries in some side's outer tail: how many (binomial), where, and what each side says;
2. how many of the other rounds are medium at each side (multinomial: the mix and the laws are known);
3. where in the stretch these fall, if a Stopper could halt in it; at the first halt the stretch is cut;
4. which queries the mediums and the others before the cut were (multinomial again).

What comes after a halt is independent of what came before it, and is drawn afresh. Rounds that leave no trace are
only counted, so a phase of 1e10 rounds takes seconds.

Two liberties, both against the predictor: a query further inside than the tails is given the least depth that one can
have there; and it never enters the next phase's points, which is checked (`TailsTooNarrowError`).

One limit: records go to sides by declared bounds, as in plans without `scale`, whatever the plan says. Here the
bounds are right, but this is not the rule of learned edges; only the real predictor (`real`) plays that.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.planning.plan import BoxPlan, PhasePlan
from oracle.predictors.sides import Geometry
from tests.experiments.adversaries.figures import PhaseFigures
from tests.experiments.adversaries.groups import Groups
from tests.experiments.adversaries.halting import can_halt, draw_level, first_halt
from tests.experiments.adversaries.harvest import Tails, box_edges, trained
from tests.experiments.adversaries.honest import HIGH, LOW, Law
from tests.experiments.adversaries.views import Adversary, View
from tests.experiments.adversaries.weighted import Armed, Laws, Pile, outermost

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Start(NamedTuple):
    """What the first phase begins with.

    Attributes:
        geometry: Where the sides look.
        slices: Each side's points: sorted keys with multiplicities.
        edges: float64[S], the outermost key of each side that is no contamination.
    """

    geometry: Geometry
    slices: list[tuple[Floats, Counts]]
    edges: Floats


@dataclass
class _Stretch:
    """A stretch of rounds, drawn but not yet kept.

    Attributes:
        rounds: Its length.
        keys: float64[S, n], the honest outer queries' keys.
        decider: int64[n], the first side that did not say high, or S.
        medium: bool[n], whether that side said medium.
        grouped: int64[S], mediums of the other queries at each side.
    """

    rounds: int
    keys: Floats
    decider: Counts
    medium: NDArray[np.bool_]
    grouped: Counts


class Compressed:
    """Drives one plan against one adversary.

    Args:
        plan: The plan; its real thresholds, scales, sizes, Stopper and lengths are used.
        law: The honest queries.
        adversary: The rest of the stream.
        seed: Of all randomness.
        flipped: Part of the training labels that is wrong.
        start: What a trainer of another kind made; None trains boxes.
        blocks: How often a phase the adversary is asked.
        tail: Tails are this much wider than the next phase's points are expected to need.
    """

    def __init__(  # noqa: PLR0913 -- each is one thing that runs vary
        self,
        plan: BoxPlan,
        law: Law,
        adversary: Adversary,
        seed: int,
        *,
        flipped: float = 0.0,
        start: Start | None = None,
        blocks: int = 200,
        tail: float = 1.35,
    ) -> None:
        self._tail = tail
        self._plan = plan
        self._law = law
        self._adversary = adversary
        self._generator = np.random.default_rng(seed)
        self._blocks = blocks
        self._geometry, self._slices, self._edges = start or self._train(flipped)
        self._sides = self._geometry.sides

    def _train(self, flipped: float) -> Start:
        """Train boxes."""
        self._geometry = Geometry(self._plan)
        rows = self._plan.declared
        positives = rows * (1.0 - self._law.negatives) * (1.0 - flipped)
        self._open_tails(np.zeros(self._geometry.sides), self._plan.phases[0], positives)
        slices = trained(self._tails, self._law, rows, flipped, self._generator)
        return Start(self._geometry, slices, box_edges(self._geometry.sides))

    def run(self, phases: int) -> list[PhaseFigures]:
        """Run so many phases from the first."""
        return [self._phase(phase) for phase in self._plan.phases[:phases]]

    def _open_tails(self, starts: Floats, phase: PhasePlan, positives: float) -> None:
        """Open each side's tail: beyond `starts` (mass), the harvest for `phase` out of so many positives."""
        wanted = self._tail * (phase.start.points + phase.start.trim) / (positives * self._plan.share)
        self._tails = Tails(self._geometry, self._law, self._generator, phase, starts, wanted)

    def _phase(self, phase: PhasePlan) -> PhaseFigures:
        self._figures = PhaseFigures(phase.phase, phase.rounds)
        self._current = phase
        self._start_laws, self._laws = Laws.of(phase.start), Laws.of(phase.rearmed)
        self._armed = [Armed(phase.start, self._start_laws, *cut) for cut in self._slices]
        self._lasts = [armed.last for armed in self._armed]
        starts = np.clip(np.array(self._lasts) - box_edges(self._sides), 0.0, 1.0)
        following = self._plan.phases[min(phase.phase, len(self._plan.phases) - 1)]
        honest = self._plan.gamma * phase.rounds * (1.0 - self._law.negatives)
        self._open_tails(starts / (HIGH - LOW), following, honest)
        self._collected = [Pile(phase.rearmed.points) for _ in self._armed]
        self._mediums = [0] * self._sides
        self._fresh = [True] * self._sides
        self._rearms = [0] * self._sides
        self._rates = np.zeros(self._sides)
        self._levels = [self._level() for _ in self._armed]
        for side in range(self._sides):
            self._see(side)
        left = phase.rounds
        while left:
            block = min(left, max(phase.rounds // self._blocks, 1))
            left -= self._block(block, left)
        self._slices = self._tails.cut()
        return self._figures

    def _level(self) -> int:
        return draw_level(self._generator, self._current.stopper.epsilon, self._current.stopper.threshold)

    def _see(self, side: int) -> None:
        self._figures.see_armed(self._plan, self._armed[side], float(self._edges[side]), self._lasts[side])

    def _block(self, rounds: int, left: int) -> int:
        """Run up to so many rounds with one mix; stop early where a side is armed afresh. Return how many."""
        view = View(self._current, left, 1.0 - self._plan.gamma, self._armed, self._mediums, self._rearms)
        groups = Groups.of(self._plan, self._geometry, self._law, self._adversary.mix(view), self._inner_keys())
        groups.decide(self._armed, 1.0 - self._tails.mass * self._plan.gamma * (1.0 - self._law.negatives))
        done = 0
        while done < rounds:
            stretch = self._draw(groups, self._length(groups, rounds - done))
            reached, halted = self._halt(stretch)
            done += reached
            self._keep(groups, stretch, reached)
            if halted:
                figures = self._figures
                figures.first_rearm = figures.first_rearm or figures.rounds - left + done
                for side in halted:
                    self._rearm(side)
                self._fresh = [True] * self._sides  # before the next query all have been asked already
                break
        return done

    def _inner_keys(self) -> tuple[Floats, float]:
        """Return the outermost keys of a query inside all tails, and the mass of these."""
        return self._tails.keys, 0.0 if self._law.atoms() is not None else 1.0 - self._tails.mass

    def _length(self, groups: Groups, rounds: int) -> int:
        """Choose a stretch: long while no halt is near, then a short one. Any choice is exact; some are quicker."""
        reach = 45.0 / self._current.stopper.epsilon
        best = rounds
        for side, level in enumerate(self._levels):
            rate = max(float(groups.medium_rates[side]), float(self._rates[side]))
            if rate > 0.0:
                slack = level - self._mediums[side]
                mediums = 0.97 * (slack - 1.2 * reach) if slack > 2.0 * reach else 2.0 * reach
                best = min(best, max(int(mediums / rate), 1))
        return max(min(best, rounds), min(rounds, 64))

    def _draw(self, groups: Groups, rounds: int) -> _Stretch:
        outer = int(self._generator.binomial(rounds, groups.outer_rate(self._tails.mass)))
        keys = self._tails.draw(outer)
        decider, medium = self._outcomes(keys)
        rates = groups.medium_rates
        grouped = self._generator.multinomial(rounds - outer, np.append(rates, max(1.0 - rates.sum(), 0.0)))[:-1]
        return _Stretch(rounds, keys, decider, medium, grouped)

    def _outcomes(self, keys: Floats) -> tuple[Counts, NDArray[np.bool_]]:
        """Let the sides answer points, in order, until one does not say high."""
        count = keys.shape[1]
        decider = np.full(count, self._sides, dtype=np.int64)
        medium = np.zeros(count, dtype=np.bool_)
        for side, armed in enumerate(self._armed):
            near = np.flatnonzero((keys[side] < armed.last) & (decider == self._sides))
            depths = armed.depth(keys[side, near])
            noise = self._generator.random(len(near))
            decider[near[noise >= armed.laws.high[depths]]] = side
            medium[near[noise >= armed.laws.high[depths] + armed.laws.low[depths]]] = True
            deep = (keys[side] >= armed.last) & (decider == self._sides)
            high, low = float(armed.laws.high[armed.fill]), float(armed.laws.low[armed.fill])
            failures = int(self._generator.binomial(np.count_nonzero(deep), 1.0 - high))
            if failures:
                failed = self._generator.choice(np.flatnonzero(deep), failures, replace=False)
                decider[failed] = side
                medium[failed] = self._generator.random(failures) * (1.0 - high) >= low
        return decider, medium

    def _halt(self, stretch: _Stretch) -> tuple[int, list[int]]:
        """Place the stretch's mediums where a Stopper could halt; cut it at the first halt.

        Returns:
            How many rounds stand, and the sides that are to be armed afresh after them.
        """
        epsilon = self._current.stopper.epsilon
        mediums = np.flatnonzero(stretch.medium)
        mine = [mediums[stretch.decider[mediums] == side] for side in range(self._sides)]
        totals = [int(group) + len(own) for group, own in zip(stretch.grouped, mine, strict=True)]
        self._rates = np.array(totals) / stretch.rounds
        possible = [
            side
            for side, total in enumerate(totals)
            if can_halt(epsilon, self._levels[side], self._mediums[side] + total, stretch.rounds)
        ]
        if not possible:
            return stretch.rounds, []
        outer = len(stretch.decider)
        events = outer + int(stretch.grouped.sum())
        positions = self._generator.choice(stretch.rounds, events, replace=False)
        bounds = outer + np.concatenate([[0], np.cumsum(stretch.grouped)])
        halts = {}
        for side in possible:
            own = np.concatenate([positions[:outer][mine[side]], positions[bounds[side] : bounds[side + 1]]])
            halt = first_halt(
                self._generator,
                epsilon,
                self._levels[side],
                self._mediums[side],
                np.sort(own),
                stretch.rounds,
                self._fresh[side],
            )
            if halt is not None:
                halts[side] = halt
        if not halts:
            return stretch.rounds, []
        reached = min(halts.values())
        stands = positions < reached
        stretch.grouped = np.array(
            [np.count_nonzero(stands[bounds[side] : bounds[side + 1]]) for side in range(self._sides)], dtype=np.int64
        )
        stretch.keys = stretch.keys[:, stands[:outer]]
        stretch.decider, stretch.medium = stretch.decider[stands[:outer]], stretch.medium[stands[:outer]]
        return reached, [side for side, halt in halts.items() if halt == reached]

    def _keep(self, groups: Groups, stretch: _Stretch, rounds: int) -> None:
        """Put the rounds that stand where they belong."""
        figures, count = self._figures, len(stretch.decider)
        figures.honest += count
        figures.misses += int(np.count_nonzero(stretch.decider < self._sides))
        self._tails.add(stretch.keys[:, np.flatnonzero(stretch.decider == self._sides)])
        mediums = np.flatnonzero(stretch.medium)
        for side in range(self._sides):
            own = stretch.keys[side, mediums[stretch.decider[mediums] == side]]
            self._collected[side].add(own, np.ones(len(own), dtype=np.int64))
            self._mediums[side] += len(own) + int(stretch.grouped[side])
            if stretch.grouped[side]:
                counts = groups.draw_mediums(self._generator, side, int(stretch.grouped[side]))
                self._collect(groups, side, counts)
                figures.honest += int(counts[groups.honest].sum())
                figures.misses += int(counts[groups.positive].sum())
        if rounds:
            self._fresh = [False] * self._sides
        rest = rounds - count - int(stretch.grouped.sum())
        asked, ones = groups.draw_rest(self._generator, rest)
        figures.honest += int(asked[groups.honest].sum())
        figures.misses += int((asked - ones)[groups.positive].sum())
        figures.false_ones += int(ones[groups.negative].sum())
        figures.outside_ones += int(ones[groups.hostile_outside].sum())
        known = groups.known
        self._tails.add_groups(groups.queries[known], ones[known])

    def _collect(self, groups: Groups, side: int, counts: Counts) -> None:
        known = groups.known
        self._collected[side].add(groups.keys[side, known], counts[known])
        deep = int(counts[~known].sum())
        if deep:
            inner = self._tails.edges[side] + (HIGH - LOW) * self._generator.uniform(self._tails.cuts[side], 0.9, deep)
            self._collected[side].add(inner, np.ones(deep, dtype=np.int64))

    def _rearm(self, side: int) -> None:
        phase = self._current
        keys, counts = self._collected[side].ordered()
        self._armed[side] = Armed(phase.rearmed, self._laws, *outermost(keys, counts, phase.rearmed.points))
        self._collected[side] = Pile(phase.rearmed.points)
        self._mediums[side], self._fresh[side] = 0, True
        self._rearms[side] += 1
        self._levels[side] = self._level()
        self._figures.rearms += 1
        self._see(side)
