"""What states and plans that exist are made of: these figures were taken before there was a second predictor."""

import hashlib

import numpy as np

from oracle.planning.kinds import decode_plan
from oracle.planning.plan import BoxPlan
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from tests.predictors.plans import feature, tiny_plan

_STATE = "436bd02dd2b2f5370b8a86563ca27ed11a337d281a6a4222ff0225945e237ba8"

_PLAN = (
    b'{"version":1,"name":"m","predictor":"rectangles","profile":"tight","features":[{"name":"a","sides":"lower",'
    b'"bounds":[0.0,1.0]}],"sides":["a:lower"],"slicing":"faces","coin":0.0,"share":1.0,"epsilon":1.0,"delta":0.001,'
    b'"alpha":0.1,"beta":0.05,"gamma":1.0,"examples":9,"declared":10,"expected_error":0.1,"deep_error":0.01,'
    b'"stopper_share":0.1,"first_share":0.8,"contamination":0.9,"limits":{"body_bytes":65536,"batch_bytes":67108864,'
    b'"id_bytes":256,"rows":131072},"phases":[{"phase":1,"rounds":400,"delta":1e-6,"delta_noise":1e-9,"alpha":0.1,'
    b'"beta":0.1,"margin":3.0,"start":{"law":"logistic","scale":2.5,"low":3,"high":6,"points":12,"trim":0,'
    b'"mediums":1000,"instances":1,"epsilon":1.0,"delta_between":0.1},"rearmed":{"law":"logistic","scale":2.5,"low":2,'
    b'"high":4,"points":8,"trim":0,"mediums":1000,"instances":1,"epsilon":1.0,"delta_between":0.1},"stopper":'
    b'{"epsilon":1.5,"threshold":8,"cap":100,"delta_cap":1e-8},"memory_bytes":0}],"memory_bytes":0}'
)
_DIGEST = "f5da247bb7d6a8494f6e24d803ea2f0d03ca56fad6d277f0fc48c0fea7ae3f92"


def test_old_plans_keep_their_digest():
    """A plan as it was written reads back to the same bytes, and its digest is the one that snapshots are bound to."""
    plan = decode_plan(_PLAN)
    assert isinstance(plan, BoxPlan)
    assert plan.encode() == _PLAN
    assert plan.digest.hex() == hashlib.sha256(_PLAN).hexdigest() == _DIGEST


def test_old_states_are_read():
    """Names, types, shapes and bits of a box predictor's state, and its answers, are what they were."""
    plan = tiny_plan([feature("a"), feature("b")])
    rows = np.random.default_rng(1).random((plan.declared, 2))
    trainer = RectanglesTrainer(plan, bytes(range(32)))
    trainer.add(rows, np.asarray(((rows > 0.05) & (rows < 0.95)).all(axis=1)))
    predictor = trainer.finish()
    queries = np.random.default_rng(2).uniform(-0.1, 1.1, (900, 2))
    answers = predictor.answer(queries, np.ones(900, dtype=np.bool_))
    state = predictor.export()
    digest = hashlib.sha256()
    for name in sorted(state):
        array = state[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    digest.update(answers.labels.tobytes())
    digest.update(answers.tag.tobytes())
    assert digest.hexdigest() == _STATE
    assert RectanglesPERP.restore(plan, state).facts() == predictor.facts()
