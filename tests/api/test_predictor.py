import copy
import json
import os
import pickle
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped] # it has no types

import oracle
from connectors.base import Delivery
from oracle.errors import DataError, InputError, PlanError, PlanExhaustedError, RefusedError, StateBusyError, StateError
from oracle.evaluation.trial import Table, run_trial
from oracle.state.folder import FolderStore
from oracle.state.keys import read_key_file
from tests.predictors.examples import example
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource

KEY = bytes(range(32))
FEATURES = ["mean radius", "mean texture"]


@cache
def rows():
    """Return two measures of 569 real tumours, and whether each is benign."""
    data = load_breast_cancer(as_frame=True)
    return data.data[FEATURES].to_numpy(), data.target.to_numpy()


def short_plan(predictor="rectangles"):
    """Return a plan of short phases that takes some hundred rows, in form only."""
    return example(predictor, phases=16, rounds=60)


def trained(predictor="rectangles", key=KEY, scale=1.0):
    """Return the predictor of the short plan, trained on the tumours as often as it takes."""
    plan = short_plan(predictor)
    features, labels = rows()
    repeats = -(-plan.declared // len(labels))
    return oracle.train(plan, np.tile(features * scale, (repeats, 1)), np.tile(labels, repeats), key=key)


def table(**changes):
    """Return a `[model]` table for the tumours."""
    features = [{"name": name} for name in FEATURES]
    return {"name": "t", "predictor": "classical", "epsilon": 8.0, "examples": 569, "features": features} | changes


def test_import_is_quick_and_loads_nothing():
    """`import oracle` brings in no library; every name of `__all__` is there when it is asked for."""
    code = (
        "import sys, oracle; assert not {'numpy', 'msgspec', 'sklearn'} & set(sys.modules); "
        "assert all(getattr(oracle, name) for name in oracle.__all__) and set(oracle.__all__) <= set(dir(oracle))"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_scikit_learn_is_optional():
    """All but the estimator works where scikit-learn is not installed."""
    code = (
        "import sys; sys.modules['sklearn'] = None; import oracle; "
        "[getattr(oracle, name) for name in oracle.__all__ if name != 'PerpetuaClassifier']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error():
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'forecast'"):
        oracle.forecast  # noqa: B018


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from(["rectangles", "stumps"]),
    st.lists(st.integers(0, 568), min_size=1, max_size=400),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_the_batch_cut_changes_no_answer(predictor, asked, cuts):
    """The same key, rows and queries give the same answers and the same state, however the queries are cut."""
    queries = rows()[0][asked]
    whole, parts = trained(predictor), trained(predictor)
    expected = whole.answer(queries)
    answers = [parts.answer(part) for part in np.split(queries, sorted(min(cut, len(asked)) for cut in cuts))]
    np.testing.assert_array_equal(np.concatenate(answers), expected)
    assert parts.facts == whole.facts
    np.testing.assert_array_equal(parts._tag, whole._tag)
    assert whole._tag.any()


def test_answers_are_those_of_a_trial():
    """They are what `perpetua evaluate` gets of the same plan, key, rows and queries."""
    plan, (features, labels) = short_plan(), rows()
    repeats = -(-plan.declared // len(labels))
    train = Table(np.tile(features, (repeats, 1)), np.tile(labels, repeats).astype(bool))
    order = np.arange(len(labels))
    trial = run_trial(plan, KEY, (train, Table(features, labels.astype(bool))), order)
    np.testing.assert_array_equal(trained().answer(features), trial.labels)


def test_keys_are_fresh():
    """Without a key two predictors have different ones."""
    first, second = trained(key=None), trained(key=None)
    assert first._predictor.export()["key"].tobytes() != second._predictor.export()["key"].tobytes()


@pytest.mark.parametrize("predictor", ["rectangles", "stumps", "bisection"])
def test_a_saved_state_goes_on(predictor, tmp_path):
    """A state that was saved, closed and loaded, phases later too, gives the answers that one without a stop gives."""
    features = rows()[0] * 0.01
    whole, stopped = trained(predictor, scale=0.01), trained(predictor, scale=0.01)
    expected = [whole.answer(part) for part in np.array_split(features, 4)]
    given = []
    with stopped:
        given.append(stopped.answer(features[: len(expected[0])]))
        stopped.save(tmp_path / "state")
        given.append(stopped.answer(features[len(given[0]) :][: len(expected[1])]))
        stopped.save()
    reached = len(given[0]) + len(given[1])
    with oracle.load(tmp_path / "state") as loaded:
        given.append(loaded.answer(features[reached:][: len(expected[2])]))
    with oracle.load(tmp_path / "state") as loaded:
        given.append(loaded.answer(features[reached + len(given[2]) :]))
        assert loaded.facts == whole.facts
    np.testing.assert_array_equal(np.concatenate(given), np.concatenate(expected))


async def test_a_saved_state_is_served(tmp_path):
    """The daemon goes on where the notebook stopped; from then on only the daemon may."""
    features = rows()[0]
    expected = trained().answer(features)
    with trained() as predictor:
        predictor.answer(features[:300])
        predictor.save(tmp_path / "state")
    queries = [json.dumps({"id": str(i), "x": x.tolist()}).encode() for i, x in enumerate(features[300:])]
    log = MemoryLog(Delivery(i + 1, body) for i, body in enumerate(queries))
    rounds = await oracle.serve(tmp_path / "state", MemorySource(log), MemorySink(log))
    replies = [json.loads(reply.body) for commit in log.commits for reply in commit.replies.rows()]
    assert rounds == len(features)
    assert [reply["label"] for reply in replies] == expected[300:].tolist()
    with pytest.raises(StateError, match="only `serve` may go on"):
        oracle.load(tmp_path / "state")


def test_a_state_has_one_holder_and_one_folder(tmp_path):
    """No second process, folder, copy or pickle can answer the same rounds."""
    predictor = trained()
    with pytest.raises(InputError, match="folder is not set"):
        predictor.save()
    predictor.save(tmp_path / "state")
    with pytest.raises(StateBusyError):
        oracle.load(tmp_path / "state")
    with pytest.raises(InputError, match="a second copy"):
        predictor.save(tmp_path / "other")
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="save its state"):
            copied(predictor)
    predictor.close()
    predictor.close()
    with pytest.raises(StateError, match="is closed"):
        predictor.answer([[1.0, 1.0]])
    with pytest.raises(StateError, match="nothing is ever overwritten"):
        trained().save(tmp_path / "state")


class Interrupted:
    """A predictor that somebody interrupts in its second batch."""

    def __init__(self, predictor):
        self._predictor, self._batches = predictor, 0

    def __getattr__(self, name):
        return getattr(self._predictor, name)

    def answer(self, features, present):
        """Answer, and be interrupted before the answers are out."""
        answers = self._predictor.answer(features, present)
        self._batches += 1
        if self._batches == 2:
            raise KeyboardInterrupt
        return answers

    def export(self):
        """Be interrupted."""
        raise KeyboardInterrupt


def test_an_interrupted_predictor_answers_no_more(tmp_path):
    """What it has in memory may be half done: it is neither asked nor saved again, and its state is behind it."""
    queries = rows()[0][:50]
    expected = trained().answer(queries)
    predictor = trained()
    predictor.save(tmp_path / "state")
    predictor._predictor = Interrupted(predictor._predictor)
    np.testing.assert_array_equal(predictor.answer(queries[:20]), expected[:20])
    with pytest.raises(KeyboardInterrupt):
        predictor.answer(queries[20:])
    for call in (lambda: predictor.answer(queries[20:]), predictor.save):
        with pytest.raises(StateError, match="was interrupted"):
            call()
    predictor.close()
    with pytest.raises(StateError, match="ended without saving"):
        oracle.load(tmp_path / "state")


def test_a_predictor_interrupted_while_it_is_saved_answers_no_more(tmp_path):
    """Bookkeeping is part of saving; the folder that was begun is no state."""
    predictor = trained()
    predictor._predictor = Interrupted(predictor._predictor)
    with pytest.raises(KeyboardInterrupt):
        predictor.save(tmp_path / "state")
    with pytest.raises(StateError, match="was interrupted"):
        predictor.answer([[1.0, 1.0]])
    predictor.close()
    with pytest.raises(StateError, match="no program has saved this state"):
        oracle.load(tmp_path / "state")


def test_a_state_left_behind_unsaved_is_opened_by_nobody(tmp_path):
    """Its rounds would be answered again, with other queries; saved once more it is as good as any."""
    state = tmp_path / "state"
    script = (
        "import os, sys, oracle; mine = oracle.load(sys.argv[1]); query = [0.5] * len(mine.plan.features); "
        "mine.answer([query] * 3); mine.save(); mine.answer([query]); os._exit(9)"
    )
    with trained() as first:
        first.save(state)
    assert subprocess.run([sys.executable, "-c", script, str(state)], check=False, timeout=240).returncode == 9
    with pytest.raises(StateError, match="ended without saving"):
        oracle.load(state)


def test_what_a_daemon_has_opened_is_a_daemons(tmp_path):
    """It may have answered rounds and died before it saved; a state that no program saved may be such a one."""
    with trained() as first:
        first.save(tmp_path / "state")
        plan = first.plan
    for _ in range(2):  # a program may go on from it, again and again
        oracle.load(tmp_path / "state").close()
    with FolderStore.open(tmp_path / "state", read_key_file(tmp_path / "state" / "key")) as store:
        assert store.load_latest(plan.digest) is not None  # as the daemon begins
    with pytest.raises(StateError, match="a daemon has opened it"):
        oracle.load(tmp_path / "state")


def test_a_forked_process_gets_no_answers():
    """Else parent and child would answer the same rounds."""
    predictor = trained()
    child = os.fork()
    if child == 0:
        try:
            predictor.answer([[1.0, 1.0]])
        except StateError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(predictor.answer([[1.0, 1.0]])) == 1


def test_a_key_is_put_into_no_open_folder(tmp_path):
    """A folder that others can read is refused before there is a key in it."""
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(StateError, match="open to others"):
        trained().save(tmp_path / "open")
    assert not list((tmp_path / "open").iterdir())


def test_a_refused_batch_takes_no_round():
    """Values, shapes and too many queries are refused before the first answer."""
    predictor = trained()
    for queries in ([[1.0, np.nan]], [[1.0, np.inf]], [1.0, 2.0], [[1.0]], [["a", "b"]]):
        with pytest.raises(InputError, match="queries"):
            predictor.answer(queries)
    with pytest.raises(PlanExhaustedError, match="left"):
        predictor.answer(np.zeros((predictor.plan.rounds + 1, 2)))
    assert predictor.facts.round == 0


def test_rows_are_checked():
    """Too few rows, one label and wrong values are named."""
    plan = oracle.plan(table(concept="stump", alpha=0.3))
    features, labels = rows()
    for wrong in ({"rows": features[:, :1]}, {"labels": labels[:5]}, {"labels": labels * 2}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            oracle.train(plan, **({"rows": features, "labels": labels} | wrong))
    with pytest.raises(DataError, match="same label"):
        oracle.train(plan, features, np.ones(len(labels)))
    with pytest.raises(DataError, match="fewer rows"):
        oracle.train(plan, features[:10], labels[:10])
    with pytest.raises(InputError, match="key length"):
        oracle.train(plan, features, labels, key=b"short")


def test_a_starving_box_is_refused_and_a_checked_one_recorded(tmp_path):
    """As `init` does: the count is noisy and paid for, and stands beside the state that was made after it."""
    features, labels = rows()
    box = table(predictor="rectangles", epsilon=50.0, alpha=0.5, beta=0.5, delta=0.1, features=[{"name": "radius"}])
    plan = oracle.plan(box)
    few = np.arange(len(labels)) < 5
    with pytest.raises(RefusedError, match=r"no predictor was made: .* The rows have paid epsilon = "):
        oracle.train(plan, features[:, :1], few)
    with oracle.train(plan, features[:, :1], labels) as predictor:
        predictor.save(tmp_path / "state")
    (line,) = (tmp_path / "state.starts.jsonl").read_text().splitlines()
    started = json.loads(line)
    assert (started["passed"], started["beyond"] >= started["least"]) == (True, True)


def test_what_only_the_command_line_does_is_refused():
    """Data sets with a ledger and features that are no numbers; a plan that wants more rows says how many."""
    with pytest.raises(InputError, match="only `perpetua init` enters"):
        oracle.plan(table(data="tumours"))
    with pytest.raises(InputError, match="must be number"):
        oracle.plan(table(features=[{"name": "day", "type": "date"}]))
    with pytest.raises(PlanError, match="would be enough"):
        oracle.plan(table(predictor="rectangles"))


def test_a_model_file_is_planned(tmp_path):
    """A path does what the table does."""
    file = tmp_path / "model.toml"
    file.write_text(
        '[model]\nname = "t"\npredictor = "classical"\nconcept = "stump"\nepsilon = 8.0\nalpha = 0.3\nexamples = 569\n'
        '[[model.features]]\nname = "mean radius"\n[[model.features]]\nname = "mean texture"\n'
    )
    assert oracle.plan(file) == oracle.plan(table(concept="stump", alpha=0.3))
