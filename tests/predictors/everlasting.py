"""What every predictor of armed sides must do beside what every predictor must."""

from abc import abstractmethod

import numpy as np

from oracle.accounting.ledger import PhaseEnded, PhaseStarted, SideRearmed
from oracle.planning.plan import BoxPlan
from oracle.predictors.base import NO_LABEL
from tests.predictors.suite import OTHER_SECRET, SECRET, PredictorSuite, Run, answer_in_batches, same_state


class EverlastingSuite(PredictorSuite):
    """Sides that are armed, exhausted and armed afresh. `stream` must bring several phases and re-arms in the plan."""

    @abstractmethod
    def plan(self) -> BoxPlan:
        """Return the plan."""

    def sides(self) -> int:
        """Return the number of sides."""
        return len(self.plan().sides)

    def check_run(self, run: Run) -> None:
        """Assert that there were re-arms and phases."""
        super().check_run(run)
        assert any(isinstance(event, SideRearmed) for event in run.events)
        assert sum(isinstance(event, PhaseStarted) for event in run.events) >= 2

    def test_stream_brings_what_the_suite_tests(self):
        """The stretch holds every phase change, re-arms in several phases, all labels: else the rest is empty."""
        run = answer_in_batches(self.train(), *self.whole())
        self.check_run(run)
        rearms = [event for event in run.events if isinstance(event, SideRearmed)]
        assert len({event.phase for event in rearms}) >= 2
        assert len(rearms) >= 4
        assert {event.phase for event in run.events if isinstance(event, PhaseEnded)} == set(
            range(1, len(self.plan().phases) + 1)
        )
        for phase in range(1, len(self.plan().phases) + 1):
            labels = [label for label, its in zip(run.labels, run.phases, strict=True) if its == phase]
            assert all(labels.count(label) > len(labels) / 50 for label in (NO_LABEL, 0, 1))

    def test_another_secret_gives_other_labels(self):
        """The same data and queries under another secret are answered with another noise."""
        stream = self.whole()
        runs = [answer_in_batches(self.train(secret), *stream) for secret in (SECRET, OTHER_SECRET)]
        assert runs[0].labels != runs[1].labels

    def test_noise_of_a_round_is_its_own(self):
        """Another query in one round: earlier labels stay, and later ones too wherever the state did."""
        features, present = self.whole()
        plain = self.train()
        expected = answer_in_batches(plain, features, present)
        unmoved = 0
        for row in range(3, len(features), len(features) // 12):
            base, change = features.copy(), features.copy()
            there = present.copy()
            there[row] = True
            base[row], change[row] = self.outside(2)
            runs, states = [], []
            for stream in (base, change):
                predictor = self.train()
                head = predictor.answer(stream[: row + 1], there[: row + 1])
                states.append(predictor.export())
                tail = answer_in_batches(predictor, stream[row + 1 :], there[row + 1 :])
                assert head.labels[:row].tolist() == expected.labels[:row]
                runs.append(tail)
            if same_state(*states):
                unmoved += 1
                assert runs[0] == runs[1]
        assert unmoved >= 6

    def test_twin_queries_have_their_own_noise(self):
        """The same query, asked over and over on the edge, is answered now so, now so: one draw serves one round."""
        features, present = self.stream(150)
        votes: dict[bytes, set[int]] = {}
        predictor = self.train()
        state = predictor.export()
        for query in features[present]:
            twin = self.restore(state)
            labels = twin.answer(np.tile(query, (40, 1)), np.ones(40, dtype=np.bool_)).labels
            votes[query.tobytes()] = set(labels.tolist())
        assert any(len(labels) == 2 for labels in votes.values())
