import contextlib
import json
import subprocess

import msgspec
import numpy as np
import pytest

from oracle.accounting.budget import charges, check_budget, person_bound, total
from oracle.accounting.ledger import DataUse, PhaseStarted, ScoreReleased, StartChecked, decode
from oracle.cli.data_ledger import enter, enter_start, read_ledger
from oracle.errors import InputError
from oracle.planning.kinds import decode_plan
from tests.faults import Faults, SimulatedCrash
from tests.support.folders import command, environment, write_config

pytestmark = pytest.mark.usefixtures("planned_once")


@pytest.fixture
def rows(tmp_path):
    """Labelled rows."""
    values = np.random.default_rng(1).random(6_050)
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + "".join(f"{x},{int(0.1 < x < 0.9)}\n" for x in values.tolist()))
    return path


@pytest.fixture
def named(model):
    """Return a function that writes a model of epsilon 8 that names its data."""

    def write(name="blue", **settings):
        path = model().with_name(f"{name}.toml")
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in {"data": "loans", **settings}.items())
        path.write_text(model().read_text().replace('name = "interval"\n', f'name = "{name}"\n{lines}'))
        return path

    return write


def _init(cli, model, rows, state):
    return cli("init", model, "--data", rows, "--state", state)


def test_models_of_one_data_set_share_its_budget(cli, refused, named, rows, tmp_path):
    """Two fit; the third is refused before anything is made, and says what was paid and by whom; retired ones count."""
    model = named(data_epsilon=16.0)
    assert _init(cli, model, rows, tmp_path / "blue").code == 0
    assert cli("retire", tmp_path / "blue").code == 0
    assert _init(cli, named("green", data_epsilon=16.0), rows, tmp_path / "green").code == 0
    said = refused(2, "init", named("red"), "--data", rows, "--state", tmp_path / "red")
    assert said == (
        "model.data_epsilon = 16.0: a row of loans has paid epsilon 16.0 for blue, green, and this would make "
        "it 24.0; take a smaller epsilon, or new data"
    )
    assert not (tmp_path / "red").exists()
    assert _init(cli, named("red", data="others"), rows, tmp_path / "red").code == 0
    ledger = tmp_path / "loans.budget.jsonl"
    found = json.loads(cli("budget", ledger, tmp_path / "blue", tmp_path / "green", "--json").out)
    assert (found["loans"]["epsilon"], found["loans"]["most_epsilon"], found["loans"]["passed"]) == (16.0, 16.0, False)
    delta = decode_plan((tmp_path / "green" / "plan.json").read_bytes()).phases[0].delta
    assert found["loans"]["delta"] == pytest.approx(2 * delta)
    shown = cli("budget", ledger, tmp_path / "red")
    assert shown.code == 0
    assert "data set loans" in shown.out
    assert "data set others" in shown.out
    assert "Queries share none of it" in shown.out
    status = json.loads(cli("status", tmp_path / "green", "--json").out)
    assert status["data"] == "loans"


def test_a_larger_budget_in_another_model_does_not_count(cli, refused, named, rows, tmp_path):
    """The least that any of them declares holds; so does one of delta."""
    assert _init(cli, named(data_epsilon=10), rows, tmp_path / "blue").code == 0
    assert "model.data_epsilon = 10.0" in refused(
        2, "init", named("green", data_epsilon=100.0), "--data", rows, "--state", tmp_path / "green"
    )
    low = named("red", data="x", data_delta=1e-12)
    assert "model.data_delta = 1e-12: a row of x has paid delta 0, and this would make it" in refused(
        2, "init", low, "--data", rows, "--state", tmp_path / "green"
    )


def test_the_daemons_ledger_names_the_data(cli, named, rows, tmp_path):
    """So `budget` needs no state folder: what is told by folder and ledger counts once."""
    assert _init(cli, named(data_epsilon=7.5e3), rows, tmp_path / "state").code == 0
    (tmp_path / "q.jsonl").write_text('{"a":0.5}\n' * 3)
    assert cli("serve", write_config(tmp_path)).code == 0
    found = json.loads(
        cli("budget", tmp_path / "ledger.jsonl", tmp_path / "state", tmp_path / "loans.budget.jsonl", "--json").out
    )
    assert found["loans"]["epsilon"] == 8.0
    assert len({charge["use"] for charge in found["loans"]["charges"]}) == 1


def test_forks_are_entered_and_count(cli, refused, named, rows, tmp_path):
    """One more run of a state costs its rows once more; without the data set's ledger it is refused."""
    assert _init(cli, named(data_epsilon=16), rows, tmp_path / "state").code == 0
    (tmp_path / "other.jsonl").write_text('{"a":0.5}\n' * 3)
    fork = ["fork", tmp_path / "other.jsonl", "--from", tmp_path / "state", "--accept-cost"]
    assert "--data-ledger is not set: must name the ledger of data set loans" in refused(
        2, *fork, "--out", tmp_path / "a.jsonl"
    )
    ledger = ["--data-ledger", tmp_path / "loans.budget.jsonl"]
    assert cli(*fork, "--out", tmp_path / "a.jsonl", *ledger).code == 0
    assert "would make it 24.0" in refused(2, *fork, "--out", tmp_path / "b.jsonl", *ledger)
    for given in ([tmp_path / "state"], [tmp_path / "loans.budget.jsonl"], [tmp_path / "state", ledger[1]]):
        assert json.loads(cli("budget", *given, "--json").out)["loans"]["epsilon"] == 16.0


def test_passed_budgets_are_told_by_the_exit_code(cli, named, rows, tmp_path):
    """Ledgers of two places that did not know of each other: exit 1."""
    for name in ("a", "b"):
        model = named(name, data_epsilon=10.0, data_ledger=f"{name}/of.jsonl")
        (tmp_path / name).mkdir()
        assert _init(cli, model, rows, tmp_path / name / "state").code == 0
        assert (tmp_path / name / "of.jsonl").exists()
    result = cli("budget", tmp_path / "a" / "of.jsonl", tmp_path / "b" / "of.jsonl")
    assert result.code == 1
    assert "epsilon: more is spent than the budget declares" in result.out


@pytest.mark.parametrize(
    "refusal",
    [
        ({"data": None, "data_epsilon": 1.0}, "model.data is not set: must name the data set that data_epsilon is of"),
        ({"data": "a b"}, "model.data = 'a b': must be 1 to 64 letters"),
        ({"data": ".."}, "model.data = '..': must be 1 to 64 letters"),
        ({"data_ledger": "no/of.jsonl"}, "model.data_ledger = 'no/of.jsonl': must be in an existing folder"),
        ({"data_epsilon": 0.0}, "model.data_epsilon = 0.0: must be above 0 and at most 1000000"),
        ({"data_delta": 2.0}, "model.data_delta = 2.0: must be above 0 and at most 1"),
    ],
)
def test_what_a_data_set_may_be_called(refused, named, rows, tmp_path, refusal):
    """Names that are files, budgets that are some."""
    settings, said = refusal
    model = named(**settings)
    model.write_text(model.read_text().replace("data = null\n", ""))
    assert said in refused(2, "init", model, "--data", rows, "--state", tmp_path / "state")


def test_rows_from_standard_input_have_no_place_for_a_ledger(refused, named, tmp_path):
    """It must be named."""
    said = refused(2, "init", named(), "--data", "-", "--state", tmp_path / "state")
    assert said.startswith("model.data_ledger is not set: must name a file")


def _states(ledger):
    return sum(b'"kind":"phase-started"' in line for line in ledger.read_bytes().splitlines())


def test_an_init_that_was_cut_off_is_entered_once(cli, named, rows, tmp_path):
    """Wherever it died; the same command makes the state, and nothing is there that is not entered.

    What the first try had released before it died is paid for on top.
    """
    model = named(data_epsilon=16.0)
    for index in range(100):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / "rows.csv").symlink_to(rows)
        given = ["init", model, "--data", folder / "rows.csv", "--state", folder / "state"]
        ledger = tmp_path / "loans.budget.jsonl"
        ledger.unlink(missing_ok=True)
        with Faults(crash_at=index) as faults, contextlib.suppress(SimulatedCrash):
            cli(*given)
        made = (folder / "state").exists() and any((folder / "state").glob("snapshot-*"))
        assert not made or _states(ledger) == 1
        result = cli(*given)
        assert (result.code == 0) != made, result.err
        assert _states(ledger) == 1
        if not faults.reached:
            break
    assert index > 10


def test_two_at_once_do_not_pass_it_together(named, rows, tmp_path):
    """Of two processes that each would fit alone one is refused."""
    lines = [
        command("init", named(name, data_epsilon=8.0), "--data", rows, "--state", tmp_path / name) for name in "abc"
    ]
    running = [
        subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) for line in lines
    ]
    said = [process.communicate(timeout=600)[1] for process in running]
    assert sorted(process.returncode for process in running) == [0, 2, 2], said
    assert sum(any((tmp_path / name).glob("snapshot-*")) for name in "abc") == 1


def _event(use, epsilon, delta, budget=1e5):
    data = {"name": "d", "model": "m", "use": use, "epsilon": budget}
    body = {"kind": "phase-started", "round": 0, "phase": 1, "rounds": 9, "epsilon": epsilon, "delta": delta}
    event = decode(msgspec.json.encode({**body, "delta_spent": 0.1, "data": data}))
    assert isinstance(event, PhaseStarted)
    return event


def test_sums_are_those_of_the_figures_as_printed():
    """Three times 0.1 is 0.3, and a little more is too much."""
    three = [_event(str(number), 0.1, 1e-9, 0.3) for number in range(3)]
    assert total(charges(three)).passed is None
    check_budget(three[:2], three[2])
    with pytest.raises(InputError, match=r"model.data_epsilon = 0.3: .* has paid epsilon 0.3 for m.* make it 0.300001"):
        check_budget(three, _event("4", 0.000001, 0.0))
    assert total(charges([*three, *three])).epsilon == total(charges(three)).epsilon


def test_a_nominal_epsilon_fits_no_budget():
    """No proof bounds it."""
    event = msgspec.structs.replace(_event("1", 1.0, 1e-9), nominal=True)
    with pytest.raises(InputError, match="would make it Infinity"):
        check_budget([], event)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows"), [(0.5, 1e-9, 3), (8.0, 1e-7, 2), (1.0, 0.0, 50), (50.0, 1e-9, 99)]
)
def test_a_person_pays_by_group_privacy(epsilon, delta, rows):
    """The sum over the rows, term by term, is never above what is said."""
    bound = person_bound(epsilon, delta, rows)
    assert bound.epsilon == rows * epsilon
    whole = sum(delta * np.exp(min(epsilon * step, 700)) for step in range(rows))
    assert min(whole, 1.0) <= bound.delta <= min(whole * (1 + 1e-9), 1.0)


def test_released_scores_of_the_data_count():
    """Each release is a run of its own; one that is told of twice is one."""
    names = {name: "d" if name == "data" else "m" for name in ("model", "data", "trial")}
    numbers = dict.fromkeys(ScoreReleased.__struct_fields__[len(names) :], 0)
    body = {"kind": "score-released", **numbers, **names, "wrong": 3, "epsilon": 0.5}
    score = decode(msgspec.json.encode(body))
    other = decode(msgspec.json.encode({**body, "wrong": 4}))
    assert float(total(charges([_event("1", 1.0, 1e-9), score, other, score])).epsilon) == 2.0


def _check(use, shard=0, beyond=0, epsilon=0.5, start="0"):
    data = DataUse("loans", "blue", use, 2.2)
    return StartChecked(0, "blue", shard, beyond, 9, 0.1, beyond > 9, epsilon, 1e-9, data, start)


@pytest.mark.parametrize(
    ("checks", "states", "extra"),
    [
        ([_check("a")], [], 1),
        ([_check("a", beyond=20)], [], 1),
        ([_check("a", beyond=20)], ["a"], 0),
        ([_check("a"), _check("b", beyond=20)], ["b"], 1),
        ([_check("a"), _check("a", beyond=20)], ["a"], 1),
        ([_check("a", shard) for shard in (0, 1, 2)], [], 1),
        ([*(_check("a", shard) for shard in (0, 1)), *(_check("a", shard, 20) for shard in (0, 1, 2))], ["a"], 1),
    ],
)
def test_a_check_that_no_state_has_in_it_is_a_charge(checks, states, extra):
    """Of the checks of each shard one is in its state's guarantee, and shards are of different rows."""
    made = [
        PhaseStarted(
            round=0, phase=1, epsilon=2.0, delta=1e-6, delta_spent=1e-6, rounds=9, data=DataUse("loans", "blue", use)
        )
        for use in states
    ]
    found = charges([*checks, *made])
    assert sum(one.epsilon for one in found) == 2.0 * len(states) + 0.5 * extra
    assert {one.data for one in found} == {"loans"}


def test_tries_of_one_use_are_told_apart():
    """That they released the same number does not make them one; a state has the cheapest in it."""
    first, second, made = _check("a", start="1"), _check("a", start="2"), _event("a", 2.0, 1e-6)
    assert [one.epsilon for one in charges([first, second, first])] == [0.5, 0.5]
    assert [one.epsilon for one in charges([first, made, second])] == [2.0, 0.5]
    dear = _check("a", epsilon=0.75)
    for tries in ([dear, first], [first, dear]):
        assert sorted(one.epsilon for one in charges(tries)) == [0.5, 0.75]
        assert sorted(one.epsilon for one in charges([*tries, made])) == [0.75, 2.0]


def test_a_start_is_not_released_beyond_the_budget(tmp_path):
    """Of two tries at once, which both fit alone, the second finds what the first has entered."""
    ledger = tmp_path / "loans.budget.jsonl"
    data = DataUse("loans", "blue", "a", 2.2)
    enter(ledger, msgspec.structs.replace(_event("a", 2.0, 1e-6), data=data))
    with pytest.raises(InputError, match=r"model.data_epsilon = 2.2: .* has paid epsilon 2.0 .* make it 2.5"):
        enter_start(ledger, _check("b"), _event("b", 0.5, 1e-6))
    assert len(read_ledger(ledger)) == 1


def test_a_start_that_two_ledgers_tell_counts_once(cli, named, rows, tmp_path):
    """That of the data set and the one beside the state."""
    assert _init(cli, named(), rows, tmp_path / "blue").code == 0
    starts = tmp_path / "blue.starts.jsonl"
    for given in ([tmp_path / "loans.budget.jsonl"], [tmp_path / "blue"]):
        for order in ([*given, starts], [starts, *given]):
            assert json.loads(cli("budget", *order, "--json").out)["loans"]["epsilon"] == 8.0


def test_shards_that_starve_have_paid_for_the_check_only(cli, refused, named, tmp_path):
    """No state is entered, its remedy fits the budget, and no shard's rows are left in a genesis file."""
    values = np.random.default_rng(1).random(16_000)
    rows, model = tmp_path / "rows.csv", named(data_epsilon=10.0)
    model.write_text(model.read_text().replace("examples = 6000", "examples = 16000"))
    given = ["init", model, "--data", rows, "--state", tmp_path / "state", "--shards", "2"]
    given += ["--keep-genesis", tmp_path / "genesis"]

    def write(part):
        rows.write_text("a,label\n" + "".join(f"{x},{int(0.5 - part < x < 0.5)}\n" for x in values.tolist()))

    write(0.001)
    assert "shard 0: no state was made" in refused(2, *given)
    assert not list((tmp_path / "genesis").iterdir())
    ledger = [tmp_path / "loans.budget.jsonl", "--json"]
    spent = _spent(tmp_path / "state.starts.jsonl")
    assert json.loads(cli("budget", *ledger).out)["loans"]["epsilon"] == pytest.approx(spent)
    write(0.4)
    assert cli(*given).code == 0
    assert json.loads(cli("budget", *ledger).out)["loans"]["epsilon"] == pytest.approx(8.0 + spent)


def test_scores_keep_within_the_budget(cli, refused, named, rows, tmp_path):
    """Also the first of all, in a ledger that no state has written to; and under no other name."""
    test = tmp_path / "test.csv"
    test.write_text("a,label\n" + "".join(f"{x / 300},{int(0.1 < x / 300 < 0.9)}\n" for x in range(300)))

    def given(most, *more):
        asked = ["--train", rows, "--test", test, "--release", "0.1", "--yes", *more]
        return ["evaluate", named(data_epsilon=most), *asked]

    result = cli(*given(8.0))
    assert result.code == 2
    assert "model.data_epsilon = 8.0: a row of loans has paid epsilon 0, and this would make it 8.1" in result.err
    assert not (tmp_path / "loans.budget.jsonl").read_bytes()
    assert "--data-name = 'other': must be loans" in refused(2, *given(8.0, "--data-name", "other"))
    assert cli(*given(9.0, "--data-name", "loans")).code == 0


def test_a_refused_start_is_in_the_data_ledger(cli, named, tmp_path):
    """Rows that leave a side short have paid for the check: the data set's ledger counts it, and the next try adds."""
    values = np.random.default_rng(1).random(6_050)
    rows = tmp_path / "rows.csv"
    rows.write_text("a,label\n" + "".join(f"{x},{int(0.499 < x < 0.5)}\n" for x in values.tolist()))
    for tries in (1, 2):
        result = _init(cli, named(data_epsilon=16.0), rows, tmp_path / "blue")
        assert result.code == 2
        assert "no state was made" in result.err
        found = json.loads(cli("budget", tmp_path / "loans.budget.jsonl", "--json").out)["loans"]
        assert found["epsilon"] == pytest.approx(tries * _spent(tmp_path / "blue.starts.jsonl"))


def _spent(path):
    return json.loads(path.read_bytes().splitlines()[0])["epsilon"]
