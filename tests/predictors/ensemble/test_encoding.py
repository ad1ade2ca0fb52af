"""The code that learners read."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.predictors.ensemble.encoding import Encoder

_FLOAT32 = float(np.finfo(np.float32).max)
_FEATURES = (
    Feature(name="kind", categories=("a", "b")),
    Feature(name="u"),
    Feature(name="day", type="date"),
    Feature(name="one", categories=("x",)),
    Feature(name="sum", type="decimal", places=2),
)
_NUMBER = st.one_of(st.just(MISSING), st.floats(allow_nan=False, allow_infinity=False))
_ROW = st.tuples(
    st.sampled_from([0.0, 1.0, 2.0, MISSING]), _NUMBER, _NUMBER, st.sampled_from([0.0, 1.0, MISSING]), _NUMBER
)


def _code(row: tuple[float, ...]) -> list[float]:
    """Return a row's code, as `Encoder` says it."""
    numbers = [row[1], row[2], row[4]]
    code = [0.0 if value == MISSING else min(max(value, -_FLOAT32), _FLOAT32) for value in numbers]
    code += [float(value == MISSING) for value in numbers]
    for value, known in ((row[0], 2), (row[3], 1)):
        names = [float(value == name) for name in range(known + 1)]
        code += [*names, float(value == MISSING)]
    return code


@given(st.lists(_ROW, max_size=5))
def test_a_row_s_code_is_its_own(rows):
    """It is what the documentation says, and no other row changes it."""
    encoder = Encoder(_FEATURES)
    code = encoder.encode(np.array(rows, dtype=np.float64).reshape(-1, len(_FEATURES)))
    assert code.shape == (len(rows), encoder.width) == (len(rows), 3 + 3 + 4 + 3)
    assert code.tolist() == [_code(row) for row in rows]
    assert np.isfinite(code.astype(np.float32)).all()


def test_one_kind_of_feature_is_enough():
    """There may be no numbers, or no categories."""
    assert Encoder(_FEATURES[:1]).encode(np.array([[2.0], [MISSING]])).tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert Encoder(_FEATURES[1:2]).encode(np.array([[2.0], [MISSING]])).tolist() == [[2, 0], [0, 1]]
