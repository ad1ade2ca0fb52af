import numpy as np
import pytest

from oracle.errors import DataError
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.partition import Partition
from oracle.predictors.rectangles import RectanglesTrainer
from oracle.predictors.split import SplitTrainer
from tests.predictors.plans import feature, tiny_plan

SHARDS = 3
PLAN = tiny_plan([feature("a"), feature("b")], examples=250)
ONE_SIDE = tiny_plan([feature("a", "lower"), feature("b", "none")], examples=250)
KEY = PhaseKey(bytes(range(32)))
SECRETS = {shard: bytes([shard]) * 32 for shard in range(SHARDS)}


def _rows(count=SHARDS * 250, seed=1):
    features = np.random.default_rng(seed).random((count, 2))
    return features, np.asarray(((features > 0.1) & (features < 0.9)).all(axis=1))


def _train(features, labels, cuts=(), shards=tuple(SECRETS), plan=PLAN):
    """Return every shard's whole state as bytes."""
    trainer = SplitTrainer(plan, Partition(KEY, SHARDS), {shard: SECRETS[shard] for shard in shards})
    for rows in np.split(np.arange(len(features)), cuts):
        trainer.add(features[rows], labels[rows])
    return {shard: _bytes(predictor) for shard, predictor, _ in trainer.finish()}


def _bytes(predictor):
    return {name: array.tobytes() for name, array in predictor.export().items()}


def test_each_shard_is_trained_on_its_rows_alone():
    """Each is what a trainer of its own makes of the rows that the partition gives it, in their order."""
    features, labels = _rows()
    orders = Partition(KEY, SHARDS).orders(0, 250)
    trained = _train(features, labels)
    for shard, secret in SECRETS.items():
        rows = np.arange(250) * SHARDS + orders[:, shard]
        alone = RectanglesTrainer(PLAN, secret)
        alone.add(features[rows], labels[rows])
        assert _bytes(alone.finish()) == trained[shard]


@pytest.mark.parametrize("cuts", [[1], [7, 8, 300], list(range(1, 749)), [192, 384], [700]])
def test_batches_do_not_matter(cuts):
    """However the rows are cut, and however many shards are trained at once, the shards are the same."""
    features, labels = _rows()
    whole = _train(features, labels)
    assert _train(features, labels, cuts) == whole
    assert {**_train(features, labels, cuts, (2,)), **_train(features, labels, (), (0, 1))} == whole


@pytest.mark.parametrize("row", [0, 1, 2, 300, 749])
def test_one_record_touches_one_shard(row):
    """Blanking one outermost record changes the state of the shard that gets it; all others keep every bit."""
    features, labels = _rows()
    features[row], labels[row] = (-1.0, 0.5), True
    blanked, negative = features.copy(), labels.copy()
    blanked[row], negative[row] = 0.0, False
    one, other = _train(features, labels, plan=ONE_SIDE), _train(blanked, negative, plan=ONE_SIDE)
    changed = [shard for shard in SECRETS if one[shard] != other[shard]]
    block, place = divmod(row, SHARDS)
    assert changed == np.flatnonzero(Partition(KEY, SHARDS).orders(block, 1)[0] == place).tolist()


def test_rows_beyond_the_parts_are_not_used():
    """More rows change nothing, not even if they are not numbers."""
    features, labels = _rows(SHARDS * 250 + 70)
    features[SHARDS * 250 :] = np.nan
    assert _train(features, labels, [600]) == _train(features[: SHARDS * 250], labels[: SHARDS * 250])


def test_too_few_rows_are_refused():
    """One row less than the parts have."""
    with pytest.raises(DataError, match="fewer rows than 3 shards of 250 examples each want"):
        _train(*_rows(SHARDS * 250 - 1))


@pytest.mark.parametrize("row", range(SHARDS))
def test_a_bad_value_is_refused_whoever_gets_it(row):
    """Also if only one shard is trained, so what is refused says nothing of the partition."""
    features, labels = _rows()
    features[row, 1] = np.inf
    with pytest.raises(DataError, match="column b: every value must be a finite number"):
        _train(features, labels, (), (0,))
