import msgspec
import numpy as np
import pyarrow.parquet
import pytest

from oracle.cli.models import read_model
from oracle.demo.data import prepare
from oracle.demo.model import EPSILON, FIRST_SHARE, allowed, least_flights, model, model_text
from oracle.demo.report import STRICTER_EPSILON
from oracle.planning.boxes.tight import plan_tight
from oracle.predictors.rectangles import RectanglesTrainer

EXAMPLES = 252_042
ASKED = 83_100


def test_the_model_file_is_read_back_as_the_model(tmp_path):
    """The written file parses to what the functions promise, with and without first_share."""
    path = tmp_path / "flights.toml"
    path.write_text(model_text(EXAMPLES), encoding="utf-8")
    free = model(EXAMPLES, epsilon=2.0, first_share=None)

    assert read_model(path) == model(EXAMPLES)
    assert (model(EXAMPLES).epsilon, model(EXAMPLES).first_share) == (EPSILON, FIRST_SHARE)
    assert (free.epsilon, free.first_share, free.examples) == (2.0, None, EXAMPLES)


@pytest.mark.parametrize(("visibility", "wind", "answer"), [(3.0, 12.0, True), (2.5, 0.0, False), (10.0, 13.0, False)])
def test_the_rule_includes_its_limits(visibility, wind, answer):
    """Exactly 3 miles and exactly 12 knots are allowed."""
    assert allowed(np.array([visibility]), np.array([wind])).tolist() == [answer]


def test_the_plan_is_accepted_and_the_box_is_learned(tmp_path):
    """A phase ends within the log, and before and after it the error is far below alpha and the baseline."""
    prepared = prepare(tmp_path)
    plan = plan_tight(model(prepared.examples))
    train = pyarrow.parquet.read_table(prepared.train)
    rows = np.column_stack([train["visibility"].to_numpy(), train["wind"].to_numpy()])
    asked = np.array([msgspec.json.decode(line)["x"] for line in prepared.queries.read_bytes().splitlines()])
    truth = pyarrow.parquet.read_table(prepared.truth)["label"].to_numpy()
    trainer = RectanglesTrainer(plan, bytes(range(32)))
    trainer.add(rows, train["label"].to_numpy())

    answers = trainer.finish().answer(asked, np.ones(len(asked), dtype=np.bool_))

    wrong = (answers.labels == 1) != truth
    baseline = min(truth.mean(), 1.0 - truth.mean())
    assert (prepared.examples, prepared.asked) == (EXAMPLES, ASKED)
    assert plan.phases[0].rounds < ASKED - 10_000
    assert set(answers.phases) == {1, 2}
    assert wrong[answers.phases == 1].mean() < 0.01
    assert wrong[answers.phases == 2].mean() < plan.alpha / 2
    assert wrong.mean() < baseline / 10


@pytest.mark.slow
def test_what_the_demo_says_about_other_epsilons_is_true():
    """These flights are enough for the stricter epsilon and a phase of millions, and not for epsilon 1."""
    stricter = plan_tight(model(EXAMPLES, epsilon=STRICTER_EPSILON, first_share=None))

    assert stricter.phases[0].rounds > 2_000_000
    assert least_flights(EXAMPLES) > EXAMPLES
