"""What every predictor must do; each predictor's test class inherits it."""

import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, PhaseStarted, PlanEnded, SideRearmed
from oracle.errors import PlanExhaustedError
from oracle.planning.plan import Plan
from oracle.predictors.base import NO_LABEL, Answers, Labels, Predictor, StateArrays
from oracle.predictors.kinds import new_trainer, restore_predictor

SECRET = bytes(range(32))
OTHER_SECRET = bytes(range(1, 33))

Features = NDArray[np.float64]
Present = NDArray[np.bool_]


@dataclass(frozen=True)
class Run:
    """All that a stretch of answers says."""

    labels: list[int]
    values: list[str]
    first_round: int
    phases: list[int]
    tag: tuple[int, int]
    events: list[LedgerEvent]


def _run(parts: Sequence[Answers]) -> Run:
    """Put answers to consecutive batches together."""
    for before, after in itertools.pairwise(parts):
        assert after.first_round == before.first_round + len(before.labels)
    tag = np.bitwise_xor.reduce([part.tag for part in parts], axis=0)
    return Run(
        [int(label) for part in parts for label in part.labels],
        [value.hex() for part in parts if part.values is not None for value in part.values.tolist()],
        parts[0].first_round,
        [int(phase) for part in parts for phase in part.phases],
        (int(tag[0]), int(tag[1])),
        [event for part in parts for event in part.events],
    )


def answer_in_batches(predictor: Predictor, features: Features, present: Present, cuts: Sequence[int] = ()) -> Run:
    """Answer a stream cut into batches; a cut that is given twice makes an empty batch."""
    bounds = [0, *sorted(cuts), len(features)]
    return _run(
        [predictor.answer(features[start:stop], present[start:stop]) for start, stop in itertools.pairwise(bounds)]
    )


def train(plan: Plan, rows: Features, labels: Labels, secret: bytes = SECRET) -> Any:
    """Return a predictor trained on rows; of a table or a distribution, labels tell which of them are there."""
    trainer = new_trainer(plan, secret)
    trainer.add(rows, labels)
    return trainer.finish()


def assert_same_state(left: StateArrays, right: StateArrays) -> None:
    """Compare two states bit by bit."""
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert (array.dtype, array.shape) == (right[name].dtype, right[name].shape), name
        assert array.tobytes() == right[name].tobytes(), name


def same_state(left: StateArrays, right: StateArrays) -> bool:
    """Return whether two states of one shape hold the same bits."""
    return all(array.tobytes() == right[name].tobytes() for name, array in left.items())


def _shapes(state: StateArrays) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (array.dtype.str, array.shape) for name, array in state.items()}


class Calls:
    """Writes down every call of a function, Python's or not, between entry and exit."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            self.made.append(frame.f_code.co_qualname)
        elif event == "c_call":
            self.made.append(getattr(arg, "__qualname__", ""))


class PredictorSuite(ABC):
    """Any predictor's contract (`oracle.predictors.base.Predictor`)."""

    counting: frozenset[str] = frozenset({"counters"})
    """Arrays of a state that a round with no query may change: its place in the stream."""

    @abstractmethod
    def plan(self) -> Plan:
        """Return the plan, a small one: it is run to its end many times."""

    @abstractmethod
    def train(self, secret: bytes = SECRET, seed: int = 1) -> Any:
        """Return a new predictor of the plan, trained on the data of a seed."""

    def restore(self, state: StateArrays) -> Any:
        """Return a new predictor over an exported state."""
        return restore_predictor(self.plan(), state)

    @abstractmethod
    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return queries with some rounds absent; absent rows hold NaN."""

    @abstractmethod
    def outside(self, rows: int) -> Features:
        """Return different queries, each almost surely answered without a trace in the state."""

    def sides(self) -> int:
        """Return how many sides can be armed afresh; 0 where there are none."""
        return 0

    def check_run(self, run: Run) -> None:
        """Assert that a run over the whole plan brought what the suite tests."""
        assert {NO_LABEL, 0, 1} == set(run.labels)
        assert isinstance(run.events[-1], PlanEnded)

    def whole(self, seed: int = 1) -> tuple[Features, Present]:
        """Return a stream that lasts as long as the plan."""
        return self.stream(self.plan().rounds, seed)

    def marks(self) -> list[int]:
        """Return the rounds of the whole stream before which something happened, and those around."""
        run = answer_in_batches(self.train(), *self.whole())
        rounds = {event.round + shift for event in run.events for shift in (-1, 0, 1)}
        return sorted(mark for mark in rounds if 0 <= mark <= self.plan().rounds)

    def test_answers_do_not_depend_on_the_batches(self):
        """Any cuts, empty batches too: labels, rounds, phases, tag, events and state are the same."""

        @settings(max_examples=15, deadline=None, derandomize=True, database=None)
        @given(seed=st.integers(0, 2), cuts=st.lists(st.integers(0, self.plan().rounds), max_size=40))
        def check(seed: int, cuts: list[int]) -> None:
            features, present = self.whole(seed)
            whole, parts = self.train(), self.train()
            expected = answer_in_batches(whole, features, present)
            self.check_run(expected)
            assert answer_in_batches(parts, features, present, cuts) == expected
            assert_same_state(parts.export(), whole.export())
            assert parts.facts() == whole.facts()

        check()

    def test_single_rounds_are_a_batch_cut_too(self):
        """One round a batch, the whole plan through."""
        features, present = self.whole()
        whole, parts = self.train(), self.train()
        expected = answer_in_batches(whole, features, present)
        assert answer_in_batches(parts, features, present, range(1, len(features))) == expected
        assert_same_state(parts.export(), whole.export())

    def test_cuts_at_every_event(self):
        """A batch that ends just before, at or just after a re-arm or a phase change."""
        features, present = self.whole()
        whole, parts = self.train(), self.train()
        expected = answer_in_batches(whole, features, present)
        assert answer_in_batches(parts, features, present, self.marks()) == expected
        assert_same_state(parts.export(), whole.export())

    def test_restored_predictor_answers_on(self):
        """From any round: export, restore, and both the answers and the state go on alike."""
        features, present = self.whole()
        rearmed_after = set()

        def check(point: int) -> None:
            first = self.train()
            first.answer(features[:point], present[:point])
            state = first.export()
            second, before = self.restore(state), first.facts().rearms
            assert_same_state(second.export(), state)
            assert second.facts() == first.facts()
            if point < len(features):
                expected = answer_in_batches(first, features[point:], present[point:])
                assert answer_in_batches(second, features[point:], present[point:]) == expected
                assert_same_state(second.export(), first.export())
                phases = {event.phase for event in expected.events if isinstance(event, SideRearmed)}
                rearmed_after.add((first.facts().rearms > before, expected.phases[0] in phases))

        for mark in self.marks():
            check(mark)
        settings(max_examples=10, deadline=None, derandomize=True, database=None)(
            given(point=st.integers(0, len(features)))(check)
        )()
        assert (True, True) in rearmed_after or not self.sides()

    def test_restored_at_every_few_rounds(self):
        """A predictor that lives through many restores is the one that lived through none."""
        features, present = self.whole()
        plain, expected = self.train(), []
        predictor, parts = self.train(), []
        for start in range(0, len(features), 29):
            rows = slice(start, start + 29)
            expected.append(plain.answer(features[rows], present[rows]))
            predictor = self.restore(predictor.export())
            parts.append(predictor.answer(features[rows], present[rows]))
        assert _run(parts) == _run(expected)
        assert_same_state(predictor.export(), plain.export())

    def test_work_does_not_depend_on_labels(self):
        """Before `answer` returns, one batch takes the very calls that any other batch of its size takes."""
        features, present = self.stream(400)
        rows = features[present]
        labels = self.train().answer(rows, np.ones(len(rows), dtype=np.bool_)).labels
        size = 12
        batches = [np.resize(rows[labels == label], (size, rows.shape[1])) for label in (0, 1)]
        works = []
        for batch in (*batches, self.outside(size)):
            predictor = self.train()
            with Calls() as calls:
                answers = predictor.answer(batch, np.ones(size, dtype=np.bool_))
            assert not any(event.round for event in answers.events)  # such moments are public
            works.append(calls.made)
            predictor.settle()
        assert works[0] == works[1] == works[2]
        assert works[0]

    def test_export_is_a_copy_and_changes_nothing(self):
        """A state once exported stays what it was; exporting, and overwriting the copy, leave no trace."""
        features, present = self.stream(150)
        plain, predictor = self.train(), self.train()
        state = predictor.export()
        copy = {name: array.copy() for name, array in state.items()}
        expected = answer_in_batches(plain, features, present)
        assert answer_in_batches(predictor, features, present) == expected
        assert_same_state(state, copy)
        for array in predictor.export().values():
            array.view(np.uint8).fill(0xA5)
        assert_same_state(predictor.export(), plain.export())

    def test_restore_does_not_share_memory(self):
        """What is done to the arrays after a restore does not matter."""
        features, present = self.whole()
        first = self.train()
        first.answer(features[:200], present[:200])
        state = {name: array.copy() for name, array in first.export().items()}
        second = self.restore(state)
        for array in state.values():
            array.view(np.uint8).fill(0xA5)
        expected = answer_in_batches(first, features[200:], present[200:])
        assert answer_in_batches(second, features[200:], present[200:]) == expected

    def test_queries_are_not_changed(self):
        """The caller's arrays are left as they were."""
        features, present = self.stream(100)
        features[3], present[3] = -0.0, True
        before = features.tobytes(), present.tobytes()
        self.train().answer(features, present)
        assert (features.tobytes(), present.tobytes()) == before

    def test_export_has_one_size_for_all_data(self):
        """At the same round, other training data and other queries make a state of the same names, shapes, types."""
        predictors = [self.train(seed=1), self.train(seed=2), self.train(seed=2)]
        streams = [self.whole(1), self.whole(2), (self.outside(self.plan().rounds), np.zeros(self.plan().rounds, bool))]
        start, seen = 0, []
        for stop in (0, 1, *np.cumsum([phase.rounds for phase in self.plan().phases])):
            states = []
            for predictor, (features, present) in zip(predictors, streams, strict=True):
                predictor.answer(features[start:stop], present[start:stop])
                states.append(predictor.export())
            assert _shapes(states[0]) == _shapes(states[1]) == _shapes(states[2])
            assert not same_state(states[0], states[1])
            seen.append(_shapes(states[0]))
            start = stop
        assert seen[0] == seen[1]

    def test_absent_rounds_count_and_get_no_label(self):
        """A round with no query is a round: it has no label, moves the phase on, and its row is not looked at."""
        features, present = self.whole()
        run = answer_in_batches(self.train(), features, present)
        assert [label == NO_LABEL for label in run.labels] == [not there for there in present]
        filled = features.copy()
        filled[~present] = np.resize(features[present], (int((~present).sum()), features.shape[1]))
        assert answer_in_batches(self.train(), filled, present) == run
        silent = self.train()
        nobody = np.zeros(self.plan().rounds, dtype=np.bool_)
        quiet = answer_in_batches(silent, features, nobody)
        assert quiet.labels == [NO_LABEL] * self.plan().rounds
        assert quiet.phases == run.phases
        assert silent.facts().round == self.plan().rounds

    def test_absent_rounds_leave_no_record(self):
        """Silence within a phase changes counters, and nothing that later answers of other rounds depend on."""
        rounds = 40
        predictor, before = self.train(), self.train().export()
        predictor.answer(self.outside(rounds), np.zeros(rounds, dtype=np.bool_))
        after = predictor.export()
        changed = {name for name in before if before[name].tobytes() != after[name].tobytes()}
        assert changed == self.counting

    def test_minus_zero_is_zero(self):
        """The sign of a zero changes nothing: not the label, the tag or the state."""
        features, present = self.whole()
        features[::3] = np.where(np.arange(features.shape[1]) == 0, 0.0, features[::3])
        features[1::7] = 0.0
        negative = np.where(features == 0.0, -0.0, features)
        assert np.signbit(negative[present]).any()
        plus, minus = self.train(), self.train()
        assert answer_in_batches(minus, negative, present) == answer_in_batches(plus, features, present)
        assert_same_state(minus.export(), plus.export())

    def test_exhausted_plan_answers_no_row(self):
        """A batch past the plan's end is refused whole; what is left can still be asked, to the last round."""
        features, present = self.whole()
        predictor, plain = self.train(), self.train()
        expected = answer_in_batches(plain, features, present)
        head = answer_in_batches(predictor, features[:-50], present[:-50])
        state = predictor.export()
        extra = np.vstack([features[-50:], self.outside(1)]), np.append(present[-50:], True)
        with pytest.raises(PlanExhaustedError):
            predictor.answer(*extra)
        assert_same_state(predictor.export(), state)
        tail = answer_in_batches(predictor, features[-50:], present[-50:])
        assert head.labels + tail.labels == expected.labels
        assert isinstance(tail.events[-1], PlanEnded)
        assert tail.events[-1].round == self.plan().rounds
        for last in (predictor, self.restore(predictor.export())):
            with pytest.raises(PlanExhaustedError):
                last.answer(self.outside(1), np.ones(1, dtype=np.bool_))
            nothing = last.answer(features[:0], present[:0])
            assert (len(nothing.labels), len(nothing.events), nothing.tag.tolist()) == (0, 0, [0, 0])

    def test_facts_are_what_the_events_say(self):
        """Round, phase, length and re-arms can be computed from the plan, the rows and the events."""
        features, present = self.whole()
        predictor, rearms, ended, started = self.train(), 0, 0, 0
        lengths = [phase.rounds for phase in self.plan().phases]
        ends = np.cumsum(lengths)
        for start in range(0, len(features), 37):
            stop = min(start + 37, len(features))
            answers = predictor.answer(features[start:stop], present[start:stop])
            phases = np.minimum(np.searchsorted(ends, np.arange(start, stop), side="right") + 1, len(ends))
            assert answers.first_round == start
            arrays = (answers.labels, answers.phases, answers.tag)
            assert [array.dtype.name for array in arrays] == ["int8", "int64", "uint64"]
            assert answers.phases.tolist() == phases.tolist()
            for event in answers.events:
                assert start <= event.round <= stop
                if isinstance(event, SideRearmed):
                    rearms += 1
                    assert 0 <= event.side < self.sides()
                    assert event.round < stop
                    assert event.phase == phases[event.round - start]
                elif isinstance(event, PhaseEnded):
                    ended, rearms_before = ended + 1, started
                    assert (event.phase, event.round) == (ended, ends[ended - 1])
                    assert event.rearms == rearms - rearms_before
                    started = rearms
                elif isinstance(event, PhaseStarted):
                    current = self.plan().phases[event.phase - 1]
                    assert (event.phase, event.round) == (ended + 1, ends[ended - 1])
                    assert (event.rounds, event.delta) == (current.rounds, current.delta)
                    assert event.epsilon == self.plan().epsilon
            facts = predictor.facts()
            done = min(ended, len(ends) - 1)
            begun = int(ends[done - 1]) if done else 0
            assert (facts.round, facts.phase, facts.phase_round) == (stop, done + 1, stop - begun)
            assert (facts.phase_rounds, facts.rearms) == (lengths[done], rearms)
        assert ended == len(ends)

    def test_another_secret_is_another_noise(self):
        """The same data and queries under another secret get another tag and another state."""
        features, present = self.whole()
        one, other = self.train(SECRET), self.train(OTHER_SECRET)
        left = answer_in_batches(one, features, present)
        right = answer_in_batches(other, features, present)
        assert left.tag != right.tag
        assert not same_state(one.export(), other.export())
        assert answer_in_batches(self.train(SECRET), features, present) == left

    def test_tag_tells_streams_apart(self):
        """One query changed, dropped, moved or put into a round that had none: another tag, in every phase."""
        features, present = self.whole()
        expected = answer_in_batches(self.train(), features, present).tag
        tags = {expected}
        changes = 0
        asked = np.flatnonzero(present)
        for row in asked[5 :: len(asked) // 9].tolist():
            absent = int(np.flatnonzero(~present)[row % int((~present).sum())])
            changed = features.copy()
            changed[row, -1] = np.nextafter(changed[row, -1], np.inf)
            swapped = features.copy(), present.copy()
            for array in swapped:
                array[[row, row - 1]] = array[[row - 1, row]]
            silent, filled = present.copy(), (features.copy(), present.copy())
            silent[row] = False
            filled[0][absent], filled[1][absent] = 0.0, True
            moved = filled[0].copy(), filled[1].copy()
            moved[0][absent], moved[1][row] = features[row], False
            for stream in ((changed, present), swapped, (features, silent), filled, moved):
                tags.add(answer_in_batches(self.train(), *stream).tag)
                changes += 1
        assert len(tags) == changes + 1
