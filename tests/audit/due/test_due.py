"""The second accountant: mechanical mutants of plans before both, its mathematics, and own plans and states."""

import dataclasses
import json
import math
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import msgspec
import pytest
import scipy
from typer.testing import CliRunner

from oracle.accounting.race import race_log_delta
from oracle.accounting.stopper import log_overflow
from oracle.accounting.value_iteration import worst_log_delta
from oracle.audit.due.bounds import few_successes, laplace_bits, normal_bits, one_way, overflow, potential
from oracle.audit.due.game import Game, play
from oracle.audit.due.parts import as_check, at_least
from oracle.audit.due.plan import audit_plan
from oracle.audit.due.state import audit_state
from oracle.audit.games.ensembles import counted_plan
from oracle.audit.games.plans import TARGETS, small_plan
from oracle.cli.audit import own
from oracle.cli.main import app
from oracle.cli.states import newest_snapshot, state_plan
from oracle.errors import InputError, KeyFileError, PlanError, StateError
from oracle.mechanisms.noise.tables import edges
from oracle.mechanisms.thresholds import paid as questions
from oracle.planning.attributes import Attribute
from oracle.planning.boxes.model import side_names
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.kinds import KINDS, decode_plan
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.planner import plan_sufficient, verify_plan
from oracle.predictors import sides
from oracle.state.format import Snapshot
from tests.audit.due.plan_mutants import mutants

_A = (Feature(name="a"),)
_SIDED = (Feature(name="a", bounds=(0.0, 1.0)), Feature(name="b", bounds=(0.0, 1.0)))
_TABLE = (Attribute(name="x", categories=("a", "b", "c")), Attribute(name="y", categories=("a", "b")))


def _model(predictor: str, **fields: object) -> Plan:
    given = {"name": "m", "predictor": predictor, "epsilon": 1.0, "examples": 10_000, "features": _SIDED}
    return plan_sufficient(KINDS[predictor].model(**(given | fields)))


_PLANS: dict[str, Callable[[], Plan]] = {
    **{target.name: partial(small_plan, target, 4.0, 0.01) for target in TARGETS[:5]},
    "ensemble": partial(counted_plan, 4.0),
    "classical box": lambda: _model("classical"),
    "classical box, faces": lambda: _model("classical", slicing="faces"),
    "classical stump": lambda: _model("classical", concept="stump"),
    "bisection": lambda: _model("bisection", rounds=1_000),
    "bisection, normal": lambda: _model("bisection", rounds=1_000, noise="gaussian"),
    "distribution": lambda: _model("distribution", features=_A, rounds=1_000),
    "distribution, paper": lambda: _model("distribution", features=_A, rounds=1_000, profile="paper"),
    "statistics": lambda: _model("statistics", features=(), attributes=_TABLE, rounds=1_000, paid=12),
    "statistics, pure": lambda: _model("statistics", features=(), attributes=_TABLE, rounds=1_000, paid=2),
    "statistics, paper": lambda: _model("statistics", features=(), attributes=_TABLE, profile="paper"),
    "sparse vector": lambda: _model("sparse-vector", features=(), attributes=_TABLE, rounds=1_000, paid=20),
    "boxes, paper": lambda: _model("rectangles", profile="paper", slicing="rsc", epsilon=4.0),
    "stumps, paper": lambda: _model("stumps", profile="paper", epsilon=4.0),
}


@cache
def _plan(name: str) -> Plan:
    return _PLANS[name]()


def _short(plan: Plan) -> list[str]:
    """Return what the second accountant says is short of what privacy needs."""
    found = [one for one in audit_plan(plan) if not one.passed and one.target != "plan"]
    return [f"{one.target}: {one.name}: {one.says}" for one in found if "the promise does not hold" not in one.says]


def _verifies(plan: Plan) -> bool:
    try:
        verify_plan(plan)
    except PlanError:
        return False
    return True


_BOXES = [target.name for target in TARGETS[:5]]


@pytest.mark.parametrize(
    ("name", "every"),
    [
        *((name, 29 if name in _BOXES else 7) for name in _PLANS),
        *(pytest.param(name, 2 if name in _BOXES else 1, marks=pytest.mark.slow) for name in _PLANS),
    ],
)
def test_no_mutant_that_is_short_verifies(name, every):
    """Whatever `verify` accepts of all mutants, the second accountant finds nothing short of what privacy needs."""
    plan = _plan(name)
    assert _verifies(plan)
    assert _short(plan) == []
    made = list(mutants(plan))
    assert len(made) > 60
    looked = made[::every]
    accepted = [(mutant, changed) for mutant, changed in looked if _verifies(changed)]
    assert len(accepted) < len(looked)
    wrong = {mutant: short for mutant, changed in accepted if (short := _short(changed))}
    assert wrong == {}


_MORE = (
    *((field, how) for field in ("epsilon", "delta") for how in ("x1.1", "x2", "x4")),
    *(("phases.0.stopper.threshold", how) for how in ("x0.5", "x0.9", "less")),
    *(("phases.0.rounds", how) for how in ("x0.5", "x0.9", "less")),
    *((f"phases.0.{kind}.scale", how) for kind in ("start", "rearmed") for how in ("x0.25", "x0.5", "x0.9")),
    *((f"{field}", how) for field in ("scale.scale", "check.epsilon") for how in ("x0.5", "x0.9")),
    *((f"selection.{field}", how) for field in ("scale", "cut_scale") for how in ("x0.5", "x0.9")),
)


@pytest.mark.parametrize("name", _BOXES)
def test_a_plan_with_more_privacy_verifies(name):
    """More noise, an earlier halt, fewer rounds, or less claimed: none of it is refused."""
    made = dict(mutants(_plan(name)))
    wanted = [f"{field} {how}" for field, how in _MORE if f"{field} {how}" in made]
    assert len(wanted) > 12
    assert [mutant for mutant in wanted if not _verifies(made[mutant])] == []


def _with(plan: BoxPlan, kind: str, **changes: object) -> BoxPlan:
    first = plan.phases[0]
    changed = msgspec.structs.replace(getattr(first, kind), **changes)
    return msgspec.structs.replace(plan, phases=(msgspec.structs.replace(first, **{kind: changed}), *plan.phases[1:]))


def test_what_was_trusted_is_derived_now():
    """K of a quarter, one instance for two, a Stopper's other scale or law, a noisy slice: each is refused by name."""
    plan = small_plan(TARGETS[3], 4.0, 0.01)
    first = plan.phases[0]
    for kind, changes, message in (
        ("start", {"mediums": first.start.mediums // 4}, r"start\.mediums = \d+: \d+ may pass"),
        ("rearmed", {"mediums": first.rearmed.mediums // 4}, r"rearmed\.mediums = \d+: \d+ may pass"),
        ("start", {"instances": 1, "mediums": first.stopper.cap}, r"start\.instances = 1: a record may sit in 2"),
        ("start", {"slice_scale": 4.0}, r"start\.slice_scale"),
        ("stopper", {"scale": 4.0 * first.stopper.epsilon}, r"stopper\.scale = .*: must be left out"),
        ("stopper", {"law": "laplace"}, r"stopper\.law = .*: must be left out"),
        ("stopper", {"delta_cap": first.stopper.delta_cap / 100.0}, r"stopper\.delta_cap = .* pass with probability"),
        ("start", {"delta_between": first.start.delta_between / 100.0}, r"start\.delta_between = .* is proved"),
        ("start", {"epsilon": 2.0 * plan.epsilon}, r"start\.epsilon = .*: must be above 0, and at most"),
    ):
        with pytest.raises(PlanError, match=message):
            verify_plan(_with(plan, kind, **changes))


_replaced = msgspec.structs.replace


def test_what_decides_who_is_shown_a_record_is_bounded():
    """Sides, coins, ranks and stripes that run, whatever is said of them: each is refused, by both accountants."""
    boxes, stumps = small_plan(TARGETS[2], 4.0, 0.01), small_plan(TARGETS[4], 4.0, 0.01)
    assert boxes.scale is not msgspec.UNSET
    assert boxes.check is not msgspec.UNSET
    features = tuple(Feature(name=f"x{number}", bounds=(0.0, 1.0)) for number in range(513))
    many = side_names(_replaced(boxes, features=features))
    for plan, message in (
        (_replaced(boxes, check=_replaced(boxes.check, stripe=-5)), r"check\.stripe = -5: must be at least 0"),
        (_replaced(boxes, scale=_replaced(boxes.scale, rank=0)), r"scale\.rank = 0: must be at least 1"),
        (_replaced(boxes, features=features, sides=many), r"sides = '1026 names': must be .*, from 1 to 1024"),
        (_replaced(boxes, sides=("b:lower", *boxes.sides[1:])), r"sides = '2 names': must be those of the features"),
        (_replaced(boxes, coin=1.0), r"coin = 1\.0: must be from 0 to below 1"),
        (_with(boxes, "start", low=0), r"start = .*: must be 0 < low <= high <= points"),
        (_with(boxes, "rearmed", high=boxes.phases[0].rearmed.points + 1), r"rearmed = .*: must be 0 < low"),
        (_replaced(stumps, sides=("a:lower", "a:upper")), r"sides = .*: must be one: what Theorem 10 is about"),
        (_replaced(stumps, check=boxes.check), r"check = .*: must be left out"),
    ):
        with pytest.raises(PlanError, match=message):
            verify_plan(plan)
    for short in (
        _replaced(boxes, check=_replaced(boxes.check, stripe=-5)),
        _replaced(boxes, scale=_replaced(boxes.scale, rank=0)),
    ):
        assert _short(short)


def test_a_classical_box_without_a_coin_shows_each_row_to_all_sides():
    """Whatever its slicing is called: the second accountant wants a choice for each side too."""
    plan = _model("classical", slicing="faces")
    assert _short(plan) == []
    assert any(
        "choices that one row is shown to: 1; at least 4 is due" in found for found in _short(_replaced(plan, coin=0.0))
    )


@pytest.mark.parametrize("name", ["boxes, faces", "stumps", "classical box", "classical stump"])
def test_more_than_the_whole_is_refused(name):
    """A side that is shown more than its stripe, or a stream that is more than honest, would make any error due."""
    plan = _plan(name)
    for field, values in (("share", (1.5, 0.0, -1.0, math.inf, math.nan)), ("gamma", (1.5, 0.0, -1.0, math.nan))):
        for value in values:
            with pytest.raises(PlanError, match=rf"plan\.{field} = .*: must be above 0, and at most 1"):
                verify_plan(_replaced(plan, **{field: value}))


def test_what_a_plan_says_beside_what_runs_is_refused():
    """An ensemble's Stopper has one law only; and of a person no row is used less often than once."""
    plan = _plan("ensemble")
    assert isinstance(plan, EnsemblePlan)
    first = plan.phases[0]
    other = _replaced(first, stopper=_replaced(first.stopper, law="laplace"))
    with pytest.raises(PlanError, match=r"stopper\.law = 'laplace': must be left out"):
        verify_plan(_replaced(plan, phases=(other, *plan.phases[1:])))
    with pytest.raises(PlanError, match=r"at_most = 0: must be at least 1"):
        verify_plan(_replaced(_plan("distribution"), at_most=0))


def test_the_game_is_the_exact_one():
    """Played, "above" reaches what value iteration proves, and "between" less than Theorem 26 and more than one way."""
    for slope, paid, epsilon in ((0.5, 1, 1.0), (0.5, 3, 1.5), (0.0499, 10, 1.0)):
        proved = math.exp(worst_log_delta(slope, paid, epsilon))
        assert 0.98 * proved < play(Game(slope, None, paid, epsilon)).delta < 1.002 * proved
    for slope, paid in ((0.0751, 1), (0.0465, 10), (0.0261, 50)):
        game = Game(slope, math.ceil(2.5 / slope), paid, 1.0)
        proved = math.exp(race_log_delta(slope, game.gap or 0, paid, 1.0))
        played = play(game)
        assert one_way(game) < played.delta < proved
        assert played.inside < 1.001
        assert play(game._replace(slope=1.1 * slope)).delta > proved


def test_what_was_told_before_is_played_too():
    """A count and an edge before the questions cost more, and less than all of their epsilon taken off."""
    bare = Game(0.05, 50, 8, 1.0)
    told = bare._replace(starts=((0.0, 0.06, 0.06), (0.04, 0.04, 0.08)))
    less = play(bare._replace(epsilon=1.0 - 0.1)).delta
    assert play(bare).delta < play(told).delta < less


def test_a_sum_of_floats_is_no_finding():
    """Plans of before say deltas that sum to delta but for rounding; a millionth more than delta is one."""
    plan = _model("bisection", rounds=1_000)
    first, second = plan.phases
    for part, short in ((1.0 + 2.0**-52, 0), (1.0 + 1e-6, 1)):
        phases = (_replaced(first, delta=part * plan.delta / plan.declared), second)
        assert sum(found.startswith("delta: all") for found in _short(_replaced(plan, phases=phases))) == short


def test_the_game_is_played_with_any_figures():
    """Where ratios are more than a float holds, nothing overflows, and little noise is found to be none."""
    for slope, paid, epsilon, least in ((30.0, 10, 2.0, 1.0 - 1e-6), (4.0, 12, 50.0, 0.0), (0.5, 100, 700.0, 0.0)):
        assert least <= play(Game(slope, 2, paid, epsilon)).delta <= 1.0 + 1e-9


def test_sums_and_integrals_agree_with_the_accountants():
    """Theorem 26 by thinning, overflow, binomial tails and bits, each beside another way to come by it."""
    for slope, gap, paid, epsilon in ((0.0465, 54, 10, 1.0), (0.00677, 370, 1_000, 1.0), (0.027, 12, 163, 3.8)):
        proved = math.exp(race_log_delta(slope, gap, paid + 1, epsilon))
        assert 0.95 * proved < potential(Game(slope, gap, paid, epsilon)) < 1.003 * proved
    for numbers in ((0.4, 1_500, 1_560), (0.1, 100, 200), (1.0, 5, 9)):
        assert overflow(*numbers) == pytest.approx(math.exp(log_overflow(*numbers)), rel=1e-6)
    assert few_successes(100_000, 0.02, 1_900) == pytest.approx(scipy.stats.binom.cdf(1_899, 100_000, 0.02), rel=1e-9)
    assert laplace_bits(0.5, 1, 0.2) == pytest.approx((math.exp(0.5) - math.exp(0.2)) / (1.0 + math.exp(0.5)))
    assert laplace_bits(0.01, 10_000, 2.0) == pytest.approx(normal_bits(0.01, 10_000, 2.0), rel=0.02)


def _written(path: Path, plan: Plan) -> str:
    path.write_bytes(plan.encode())
    return str(path)


def test_the_command_audits_a_plan(tmp_path):
    """It says what was checked and exits with 0; of a plan that is short it names field and bound, and exits with 1."""
    plan = _plan("distribution")
    assert isinstance(plan, DistributionPlan)
    runner = CliRunner()
    good = runner.invoke(app, ["audit", "--plan", _written(tmp_path / "plan.json", plan), "--json"])
    assert good.exit_code == 0, good.output
    report = json.loads(good.stdout)
    assert report["refuted"] == []
    assert any("best adversary" in one["name"] for one in report["results"])
    ladder = msgspec.structs.replace(plan.thresholds, slope=1.2 * plan.thresholds.slope)
    short = msgspec.structs.replace(plan, ladder=ladder)
    folder = tmp_path / "report"
    bad = runner.invoke(app, ["audit", "--plan", _written(tmp_path / "short.json", short), "--out", str(folder)])
    assert bad.exit_code == 1
    assert "FAILS" in bad.output
    assert "is due" in bad.output
    assert (folder / "audit.html").read_text().count("FAILS") >= 2


_NO_PLANS: tuple[tuple[str, str, object], ...] = (
    ("boxes, faces", "phases.0.stopper.cap", 10**13),
    ("boxes, faces", "phases", []),
    ("ensemble", "teacher_rows", 0),
    ("distribution", "features", []),
    ("distribution", "declared", 0),
    ("statistics", "noise.slope", 1e-300),
    ("bisection", "phases", []),
)


@pytest.mark.parametrize(("name", "field", "value"), _NO_PLANS)
def test_figures_that_no_plan_has_are_findings(name, field, value):
    """Nobody's plan ends the audit: both accountants say that they refuse it, and what they have found stays said."""
    tree = json.loads(_plan(name).encode())
    *path, last = (int(step) if step.isdigit() else step for step in field.split("."))
    part = tree
    for step in path:
        part = part[step]
    part[last] = value
    found = [one for one in audit_plan(decode_plan(json.dumps(tree).encode())) if not one.passed]
    assert found[0].name == "the planner's accountant proves every figure"
    assert len(found) > 1


def test_a_promise_that_does_not_hold_is_a_finding():
    """Toys promise nothing about errors: nothing of theirs is short of privacy, and the promise is refused."""
    found = [one for one in audit_plan(small_plan(TARGETS[0], 4.0, 0.01)) if not one.passed]
    assert found
    assert all(one.says.endswith("the promise does not hold") for one in found)


_TABLES = ("distribution", "sparse-vector")
_GOLDEN = Path(__file__).parents[2] / "golden"


def _copied(golden: Path, folder: Path) -> Path:
    shutil.copytree(golden, folder)
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.chmod(0o600)
    return folder


@pytest.fixture
def state(tmp_path):
    """Return a copy of a golden state: of boxes, restored in a later phase, with sides that were armed afresh."""
    return _copied(_GOLDEN / "version-2" / "rectangles-tight" / "state", tmp_path / "state")


def _opened(folder: Path) -> tuple[Plan, Snapshot]:
    plan = state_plan(folder)
    return plan, newest_snapshot(folder, folder / "key", plan)[0]


def _failed(plan: Plan, snapshot: Snapshot) -> list[str]:
    return [one.name for one in audit_state(plan, snapshot, "state") if not one.passed]


_STATES = sorted(path.parent for path in _GOLDEN.glob("version-[234]/*/state/plan.json"))


@pytest.mark.parametrize("folder", _STATES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_live_objects_are_what_the_plan_says(folder, tmp_path):
    """Of states of every kind and version, all that answers is as planned."""
    assert _failed(*_opened(_copied(folder, tmp_path / "state"))) == []


def test_the_command_looks_at_a_state_and_leaves_it(state):
    """It names what the plan lacks (golden ones are plans in form only), finds live objects sound, writes nothing."""
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in state.iterdir()}
    result = CliRunner().invoke(app, ["audit", "--state", str(state), "--json"])
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    live = [one for one in report["results"] if one["target"].startswith("state")]
    assert len(live) > 10
    assert all(one["passed"] for one in live)
    assert any(one["target"].startswith("phases[0]") and not one["passed"] for one in report["results"])
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in state.iterdir()} == before


def test_a_report_is_not_written_into_a_state(state, tmp_path, monkeypatch):
    """Neither into its folder nor below, by whatever name; nothing is made there."""
    monkeypatch.chdir(tmp_path)
    before = sorted(state.iterdir())
    (tmp_path / "link").symlink_to(state)
    for out in (str(state), "state/report", "link/report"):
        result = CliRunner().invoke(app, ["audit", "--state", str(state), "--out", out])
        assert isinstance(result.exception, InputError)
        assert "must be outside of --state: a state is only read" in str(result.exception)
    assert sorted(state.iterdir()) == before


def test_each_plan_of_a_sharded_state_is_accounted_for(tmp_path, monkeypatch):
    """Shards of one plan have it looked at once; a shard with another plan has that one looked at too."""
    kept = {name: _copied(_GOLDEN / "version-3" / name / "state", tmp_path / name) for name in _TABLES}
    for names, plans in ((_TABLES[:1] * 2, 1), (_TABLES, 2)):
        monkeypatch.setattr(own, "shard_folders", lambda _, names=names: [kept[name] for name in names])
        found = list(own.audit_own(None, tmp_path, kept[_TABLES[0]] / "key"))
        assert sum(one.cell == "plan|verify" for one in found) == plans
        assert {one.target for one in found} >= {"shard 0", "shard 1"}


def test_a_state_without_its_key_is_told_at_once(state):
    """Before anything is said of a plan, which can take minutes; and a folder that is no state, before its key."""
    (state / "key").unlink()
    with pytest.raises(KeyFileError, match="--key is not set: must name the key file of"):
        next(own.audit_own(state / "plan.json", state, None))
    with pytest.raises(KeyFileError, match="none: No such file"):
        next(own.audit_own(None, state, state / "none"))
    with pytest.raises(StateError, match="nothing: holds no state"):
        next(own.audit_own(None, state / "nothing", None))


def test_a_plan_that_is_none_is_named(tmp_path):
    """By its option and file, with what would have been one."""
    path = tmp_path / "model.toml"
    path.write_text("[model]\n")
    with pytest.raises(InputError, match=r"--plan = '.*model\.toml': must be a state's plan\.json, or what"):
        next(own.audit_own(path, None, None))


def test_it_shows_how_far_it_is(capsys, monkeypatch):
    """By the plan's phases: the checks of a long plan take half a minute."""
    monkeypatch.setattr("oracle.cli.progress._QUIET", 0.0)
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    found = [at_least(f"phases[{place}].start", "x", 1.0, 1.0) for place in range(len(plan.phases))]
    assert len(list(own._shown(map(as_check, found), plan))) == len(found) > 1
    assert f"auditing: 0 of {len(found)} phases" in capsys.readouterr().err


def test_a_key_without_a_state_is_refused(tmp_path):
    """There is nothing for it to open."""
    result = CliRunner().invoke(app, ["audit", "--key", str(tmp_path / "key")])
    assert result.exit_code != 0
    assert isinstance(result.exception, InputError) or "--state" in result.output


def test_sides_that_answer_otherwise_are_found(state, monkeypatch):
    """Armed with less noise than planned, with another threshold of the Stopper, or past K: each is named."""
    plan, snapshot = _opened(state)
    assert isinstance(plan, BoxPlan)
    counters = {name: array.copy() for name, array in snapshot.arrays.items()}
    counters["mediums"][0] = plan.phases[snapshot.phase - 1].stopper.cap + 1
    assert _failed(plan, dataclasses.replace(snapshot, arrays=counters)) == ["no more mediums were answered than K"]
    with monkeypatch.context() as broken:
        real = sides._thresholds
        broken.setattr(sides, "_thresholds", lambda one: real(msgspec.structs.replace(one, scale=4.0 * one.scale)))
        assert "it answers with the law and the thresholds of the plan" in _failed(plan, snapshot)
    with monkeypatch.context() as broken:
        late = sides._stopper
        broken.setattr(sides, "_stopper", lambda one: late(msgspec.structs.replace(one, threshold=2 * one.threshold)))
        assert "its Stopper has the plan's noise and threshold" in _failed(plan, snapshot)
    with monkeypatch.context() as broken:
        broken.setattr(questions, "edges", lambda law, scale, first, last: edges(law, 2.0 * scale, first, last))
        assert "its noise is the integer law's, to 128 bits" in _failed(plan, snapshot)
