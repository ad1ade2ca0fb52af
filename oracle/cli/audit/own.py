"""`perpetua audit --plan` and `--state`: somebody's own plan and state, beside what is due."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from oracle import durable
from oracle.audit.findings import Check
from oracle.cli.audit.scope import own_scope
from oracle.cli.output import print_json, wide_console
from oracle.cli.progress import Progress
from oracle.cli.states import newest_snapshot, state_key_file, state_plan
from oracle.errors import InputError, PlanError, StorageError
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.state.shards import shard_folders

__all__ = ["audit_own", "refuse_inside", "run_own"]

if TYPE_CHECKING:
    from oracle.audit.report.contents import Report
    from oracle.audit.report.forms import Form
    from oracle.cli.audit.reporting import Reporter


def refuse_inside(out: Path | None, state: Path | None) -> None:
    """Refuse a report's folder in a state, which is only read.

    Raises:
        InputError: It is the state's, or in it.
    """
    if out is not None and state is not None and out.resolve().is_relative_to(state.resolve()):
        raise InputError("--out", str(out), "must be outside of --state: a state is only read")


def run_own(  # noqa: PLR0913 -- the command's options
    plan_file: Path | None,
    state: Path | None,
    key: Path | None,
    reporter: "Reporter",
    *,
    form: "Form | None",
    as_json: bool,
) -> NoReturn:
    """Audit somebody's own plan and state, report it, and exit: with 1 if something fails.

    Args:
        plan_file: As for `audit_own`.
        state: As well.
        key: As well.
        reporter: What writes the report; the scope is put in here.
        form: Form to be filled in and printed in place of the report.
        as_json: Whether to print JSON.
    """
    from oracle.cli.audit.reporting import print_report

    said: list[str] = []
    plans: dict[bytes, Plan] = {}

    def attacked(sentence: str, plan: Plan) -> None:
        said.append(sentence)
        plans[plan.digest] = plan

    def now() -> "Reporter":
        return reporter._replace(scope=own_scope(said, list(plans.values()), state=state is not None))

    results: list[Check] = []
    now().unfinished(results)
    try:
        results.extend(audit_own(plan_file, state, key, attacked))
    except BaseException:
        now().unfinished(results)
        raise
    report = now().finished(results)
    if form is not None:
        typer.echo(_form(form, list(plans.values()), report), nl=False)
    elif as_json:
        print_json(report)
    else:
        print_report(wide_console(), report, reporter.out)
    raise typer.Exit(1 if report.refuted else 0)


def _form(form: "Form", plans: Sequence[Plan], report: "Report") -> str:
    from oracle.audit.report.forms import filled_in

    if len(plans) != 1:
        raise InputError("--format", form, f"must be filled in from one plan: {len(plans)} were given")
    return filled_in(form, plans[0], report)


def audit_own(
    plan_file: Path | None,
    state: Path | None,
    key: Path | None,
    attacked: Callable[[str, Plan], None] = lambda _said, _plan: None,
) -> Iterator[Check]:
    """Yield what both accountants say of a plan, and what a state's live objects are.

    Args:
        plan_file: A plan as JSON: a state's plan.json, or what `perpetua plan --json` prints.
        state: A state folder, which is read and not held.
        key: Its key file; None for the one in it.
        attacked: Told what is looked at, in a sentence, and its plan, before it is.

    Raises:
        InputError: A key is given without a state, or the plan is none.
        StorageError: The plan cannot be read.
        StateError: The state is none, or the key is not its own.
    """
    from oracle.audit.due.plan import audit_plan
    from oracle.audit.due.state import audit_state
    from oracle.audit.live.checks import state_laws

    if key is not None and state is None:
        raise InputError("--key", str(key), "must go with --state")
    shards: list[tuple[Path, Plan, Path]] = []
    if state is not None:
        plans = [(shard, state_plan(shard)) for shard in shard_folders(state)]
        key_file = state_key_file(state, key)  # whoever has none need not wait for what is said of plans
        shards = [(*one, key_file) for one in plans]
    if plan_file is not None:
        plan = _read(plan_file)
        attacked(f"The plan {plan_file}: {_in_words(plan)}", plan)
        yield from _shown(audit_plan(plan), plan)
    audited: set[bytes] = set()
    for number, (shard, plan, key_file) in enumerate(shards):
        snapshot, _ = newest_snapshot(shard, key_file, plan)
        if plan.digest not in audited:  # mostly all shards have the same one
            attacked(f"The plan of state {state}: {_in_words(plan)}", plan)
            yield from _shown(audit_plan(plan), plan)
            audited.add(plan.digest)
        where = "state" if len(shards) == 1 else f"shard {number}"
        attacked(f"The newest snapshot of {where} {shard}: round {snapshot.round:,}, phase {snapshot.phase}.", plan)
        yield from audit_state(plan, snapshot, where)
        yield state_laws(plan, snapshot.phase, where)


def _shown(checks: Iterator[Check], plan: Plan) -> Iterator[Check]:
    """Yield checks of a plan, and show which of its phases they have come to."""
    come = 0
    with Progress("auditing", len(plan.phases), "phases") as progress:
        for one in checks:
            phase = re.match(r"phases\[(\d+)\]", one.target)
            come = max(come, int(phase[1]) if phase else 0)
            progress.at(come)
            yield one


def _in_words(plan: Plan) -> str:
    """Return which plan it is, and what it claims."""
    nominal = "; both are names that no proof bounds" if plan.nominal else ""
    claim = f"epsilon = {plan.epsilon:g}, delta = {plan.delta:g} {'in all' if plan.sums_delta else 'a row'}{nominal}"
    return f"{plan.name} ({plan.predictor}, profile {plan.profile}, SHA-256 {plan.digest.hex()}), {claim}."


def _read(path: Path) -> Plan:
    try:
        return decode_plan(durable.read(path))
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    except PlanError as exc:
        bound = f"must be a state's plan.json, or what `perpetua plan --json` prints; {exc}"
        raise InputError("--plan", str(path), bound) from exc
