"""Plans of tables, where other parts read them: promises, what rows buy, memory, shards, model files."""

import math

import msgspec
import pytest

from oracle.errors import InputError
from oracle.planning.model_file import parse_model
from oracle.planning.planner import as_classical, plan_sufficient, quick_examples
from oracle.planning.promise import promise_of
from oracle.planning.serving import most_rows, serving
from oracle.planning.sharding import plan_shards
from oracle.planning.statistics.declared import declared_in_words, most_paid
from oracle.planning.statistics.model import StatisticsModel
from oracle.planning.suggest import lines_of, nearest, offer_of
from tests.planning.statistics.conftest import ONE_SCALE, TablePlanner, table_model


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({}, "theorem", ["first 10,000 questions", "at most 1% of the rows"]),
        ({"paid": 200, "alpha": 0.02}, "estimate", ["first 10,000 questions", "fewer than 200 were paid"]),
        ({"predictor": "sparse-vector", "paid": 5}, "theorem", ["fewer than 5 times", "budget-spent"]),
    ],
)
def test_a_promise_says_what_it_rests_on(table_plan: TablePlanner, changes, kind, says):
    """The bound is alpha, of any question."""
    plan = table_plan(**changes)
    promise = promise_of(plan)
    assert (promise.bound, promise.missed, promise.kind, promise.on) == (plan.alpha, plan.beta, kind, "any question")
    said = " ".join(promise.conditions)
    assert [word for word in says if word not in said] == []


@pytest.mark.parametrize("changes", [{}, {"paid": 200, "alpha": 0.02}, {"predictor": "sparse-vector", "paid": 5}])
def test_quick_rows_are_a_few_percent_more(table_plan: TablePlanner, changes):
    """Enough for a plan, as `perpetua suggest` takes them."""
    least = table_plan(**changes).declared
    assert least <= quick_examples(table_model(**changes)) <= 1.15 * least + 2


@pytest.mark.slow
def test_what_rows_buy():
    """One line, as no other predictor answers such questions; each figure put into the model has a plan."""
    model = table_model(examples=100_000, attributes=ONE_SCALE)
    (line,) = lines_of(model)
    assert lines_of(model, near=True) == [line]
    (offer,) = nearest([offer_of(line)])
    assert offer.enough
    assert offer.epsilon is not None
    assert offer.alpha is not None
    assert offer.examples is not None
    assert offer.epsilon < 1.0
    assert offer.alpha < 0.1
    for field in ("epsilon", "alpha", "examples"):
        changed = msgspec.structs.replace(model, **{field: getattr(offer, field)})
        assert plan_sufficient(changed).declared == changed.examples
    assert as_classical(model) is None


@pytest.mark.parametrize("rows", [3_000, 8_000, 60_000, 10**7])
def test_what_declaring_paid_takes(rows):
    """In one line: as many answers as the rows buy, or half of those that the bound takes; it has a plan."""
    model = table_model(examples=rows, attributes=ONE_SCALE)
    assert isinstance(model, StatisticsModel)
    paid, needed = most_paid(model)
    assert declared_in_words(model) == (
        f"`paid = {paid}` declared takes about {needed:,} rows; that so many last is then an estimate"
    )
    declared = msgspec.structs.replace(model, paid=paid)
    assert plan_sufficient(declared).declared <= max(needed, rows)
    assert needed <= max(min(rows, quick_examples(model) // 2), quick_examples(msgspec.structs.replace(model, paid=1)))
    more = quick_examples(msgspec.structs.replace(model, paid=paid + 1))
    assert more > min(rows, quick_examples(model) // 2)
    assert declared_in_words(declared) is None


def test_nothing_is_said_of_what_has_no_bound_to_declare_away():
    """Sparse vectors declare it always, and the lecture's profile never."""
    assert declared_in_words(table_model(predictor="sparse-vector", paid=5)) is None
    assert declared_in_words(table_model(profile="paper")) is None


def test_memory_is_bounded(table_plan: TablePlanner):
    """By the cells, the rows and the largest message; a short question makes a long row."""
    small = table_plan()
    assert small.memory_bytes >= 8 * 4**10 + 8 * small.declared
    assert small.cache_bytes == 2 * 8 * 5**10
    wide = table_plan(
        attributes=[{"name": "v", "bounds": [0.0, 1.0], "bins": 60_000}], predictor="sparse-vector", paid=1
    )
    assert wide.width == math.ceil(60_001 / 52) + 1
    assert wide.segment_rows * wide.working_bytes <= 80 << 20
    for plan in (small, wide):
        assert most_rows(plan) * 8 * plan.width <= 64 << 20
        assert serving(plan).daemon > plan.memory_bytes + plan.cache_bytes


def test_one_shard_knows_all_rows():
    """Of several none could answer."""
    with pytest.raises(InputError, match="--shards = 2: must be 1"):
        plan_shards(table_model(examples=10**6), 2)


_DAYS = {"name": "d", "type": "date", "bins": 365}


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"name": "d", "bounds": [0.0, 1.0], "bins": 0}, "model.attributes[0].bins = 0: must be from 1 to 65536"),
        ({"name": "d", "bounds": [0.0, 1.0], "bins": 4.0}, "[0].bins = 4.0: must be a whole number, written without"),
        (
            {"name": "d", "bounds": [0.0, 1.0], "bin": 4},
            "[0].bin: unknown setting of a model file; did you mean",
        ),
        ({"name": "d", "bounds": [0.0, 1.0]}, "[0].bins is not set: must be set, or categories"),
        ({"name": "d"}, "[0].bounds is not set: must be set, or categories"),
        ({"categories": ["a"]}, "[0].name is not set"),
        ({"name": "d", "categories": ["a", 3]}, "[0].categories[1] = 3: must be text"),
        (
            {"name": "d", "bounds": ["2013-01-01", "2014-01-01"], "bins": 365},
            "where 'd' is a date, add type = \"date\"",
        ),
        ({**_DAYS, "bounds": ["2013-01-01", "x"]}, "[0].bounds: must be two dates, as YYYY-MM-DD; write"),
        ({**_DAYS, "bounds": ["2014-01-01", "2013-01-01"]}, "[0].bounds: must be two dates, the earlier one"),
        (
            {**_DAYS, "bounds": ["2013-01-01", "2013-12-31"]},
            "[0].bins = 365: must divide the 364 days between the bounds: 364",
        ),
        (
            {**_DAYS, "bins": 50, "bounds": ["2013-01-01", "2014-01-01"]},
            "[0].bins = 50: must divide the 365 days between the bounds: 5 or 73",
        ),
        (
            {"name": "d", "type": "nmber", "bounds": [0.0, 1.0], "bins": 2},
            "[0].type = 'nmber': must be one of number, date",
        ),
        ({"name": "id", "categories": ["a"]}, "[0].name = 'id': must not be used twice, nor be"),
    ],
)
def test_a_wrong_attribute_is_named_with_its_bound(attribute, message):
    """Its field and what would be accepted; no value of a text."""
    table = {"name": "s", "predictor": "statistics", "epsilon": 1.0, "examples": 9, "attributes": [attribute]}
    with pytest.raises(InputError) as caught:
        parse_model({"model": table})
    assert message in str(caught.value)


def test_dates_are_bounds():
    """As days since 1970-01-01."""
    model = table_model(attributes=[{**_DAYS, "bounds": ["2013-01-01", "2014-01-01"]}])
    (attribute,) = model.attributes
    assert attribute.bounds == (15_706.0, 16_071.0)
    assert attribute.edges[1] == 15_707.0


@pytest.mark.parametrize(
    "attributes", [[], "text", [{"name": str(number), "categories": ["a"]} for number in range(65)]]
)
def test_there_are_some_attributes(attributes):
    """From 1 to 64, in a list."""
    with pytest.raises(InputError, match=r"^model\.attributes = .*: must be (1 to 64 attributes|a list)"):
        table_model(attributes=attributes)
