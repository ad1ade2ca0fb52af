"""The report of an audit, for whoever is no expert: one verdict, its scope, plain words, a signature, others' forms."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from oracle.audit.findings import Check
from oracle.audit.games.plans import TARGETS, small_plan
from oracle.audit.report.contents import Scope, make_report
from oracle.audit.report.forms import filled_in
from oracle.audit.report.page import page
from oracle.audit.report.words import LIMITS, meaning
from oracle.audit.runner import Job, Settings, run_jobs
from oracle.audit.structure.checks import structure_names
from oracle.cli.audit import own
from oracle.cli.audit.reporting import print_report
from oracle.cli.audit.scope import own_scope, toys_scope
from oracle.cli.main import app
from oracle.errors import RefusedError
from oracle.planning.kinds import KINDS
from oracle.planning.model import Feature, Truth
from oracle.planning.plan import Plan
from oracle.planning.planner import plan_sufficient
from oracle.planning.promise import promise_of
from tests.audit.report.test_audit_command import finding, report
from tests.support.browser import _TOO_PALE, chromium

_SETTINGS = Settings(version="1", software="ab", seed="00", miss=0.0, jobs=())
_SCOPE = Scope(attacked=("toys",), left_out=("what was left out",))
_GOOD = "class='banner good'"


def check(**fields: object) -> Check:
    """Return a check."""
    usual: dict[str, object] = {
        "cell": "structure|boxes|x", "target": "boxes", "name": "x", "passed": True, "says": "seen", "seconds": 0.1,
    }  # fmt: skip
    return Check(**{**usual, **fields})  # type: ignore[arg-type]  # as written above


_STRONG = finding(ceiling=3.0)
_BROKEN, _OPEN = check(passed=False), check(passed=False, unsure=True)
_SHORT = check(cell="plan|declared|x", passed=False, promise=True)


@pytest.mark.parametrize(
    ("results", "scope", "verdict"),
    [
        ([_STRONG, check()], {}, "nothing-found"),
        ([check()], {"whole": False}, "in-part"),
        ([finding(ceiling=1.9), check()], {}, "in-part"),
        ([finding(ceiling=1.9, level="daemon"), check()], {}, "nothing-found"),
        ([check()], {"nominal": True, "whole": False}, "nominal"),
        ([check(), _OPEN], {"nominal": True}, "undecided"),
        ([check(), _OPEN], {"ended": False}, "interrupted"),
        ([check()], {"ended": False}, "interrupted"),
        ([], {}, "interrupted"),
        ([check(), _SHORT, _OPEN], {}, "promise-fails"),
        ([check(), _SHORT, _BROKEN], {}, "refuted"),
        ([finding(lowest=2.1), check()], {"ended": False}, "refuted"),
    ],
)
def test_the_worst_that_can_be_said_is_the_verdict(results, scope, verdict):
    """Only a whole audit that ended, found nothing and could have found something has a green banner; there is one."""
    made = make_report(results, _SETTINGS, msgspec.structs.replace(_SCOPE, **scope))
    assert made.verdict == verdict
    text = page(made)
    assert text.count("role=status") == 1
    assert (_GOOD in text) == (verdict == "nothing-found")
    assert ("had not ended" in made.banner) == (scope.get("ended") is False or not results)


def test_page_json_and_terminal_have_the_same_words():
    """Banner, scope, limits, each sentence, and of a failure what it means and what to do; machine, date and seed."""
    made = report([_STRONG, check(), _BROKEN, _SHORT, _OPEN])
    told = io.StringIO()
    print_report(Console(file=told, width=2000, markup=False, highlight=False), made, Path("out"))
    texts = (page(made), json.dumps(msgspec.to_builtins(made)), told.getvalue())
    said = [made.banner, *made.scope.attacked, *made.scope.left_out, *LIMITS, made.made, *made.machine.values()]
    said += [part for line in made.lines for part in (line.finds, line.result)]
    said += [part for one in made.failures for part in (one.means, one.do, *one.seen)]
    for one in said:
        assert [one.replace("'", "&#x27;") in texts[0], one in texts[1], one in texts[2]] == [True] * 3, one
    assert [one.seen for one in made.failures] == [
        ("boxes: x: FAILS (seen)",),
        ("boxes: x: FAILS (seen)",),
        ("boxes: x: could not tell (seen)",),
    ]


def test_the_terminal_counts_checks_part_by_part():
    """The verdict comes first and last; all phases of a plan are one part, each column says what it counts."""
    told = io.StringIO()
    phases = [check(target=f"phases[{place}].start", passed=place != 7) for place in range(30)]
    made = report([check(target="delta"), *phases, _OPEN])
    print_report(Console(file=told, width=2000, markup=False, highlight=False), made, None)
    lines = told.getvalue().splitlines()
    assert lines[0] == lines[-1] == made.banner
    head = next(place for place, line in enumerate(lines) if line.split()[:1] == ["part"])
    assert [line.split() for line in lines[head : head + 4]] == [
        ["part", "checks", "hold", "could", "not", "tell", "FAIL"],
        ["delta", "1", "1", "0", "0"],
        ["phases[*].start", "30", "29", "0", "1"],
        ["boxes", "1", "0", "1", "0"],
    ]
    assert "phases[7].start: x: FAILS (seen)" in lines
    assert "<th>result" in page(made)
    assert not any(line.endswith(" ") for line in lines)


def test_of_many_failures_the_first_are_named():
    """The sentence below the banner stays one that can be read; what was seen of each part follows it."""
    made = report([check(cell=f"c{place}", passed=False) for place in range(5)])
    assert made.outcome == "5 of 5 parts failed: c0; c1; c2; and 2 more."
    assert [len(one.seen) for one in made.failures] == [5]


def test_each_check_has_a_plain_sentence():
    """Of structure each one its own (say a new one in `oracle.audit.report.words`); any other is said by its name."""
    names = {name for _, name in structure_names()}
    said = {name: meaning(check(name=name)).finds for name in names}
    assert {name for name, finds in said.items() if name in finds} == set()
    assert meaning(check(name="a new one holds")).finds.endswith(": a new one holds")
    kinds = {
        meaning(one).means
        for one in (_BROKEN, _SHORT, _OPEN, finding(), finding(nominal=True), check(cell="timing|x", passed=False),
                    check(cell="plan|x|y"), check(cell="plan|verify"), check(cell="plan|state|y", target="state: a"))
    }  # fmt: skip
    assert len(kinds) == 9
    assert "of errors only" in meaning(check(cell="plan|verify")).means


def test_what_was_left_out_is_listed():
    """By --only, without daemons, and always: your own plan and state; then it is an audit of a part."""
    every = ["structure|boxes|a", "structure|stumps|a", "predictor|boxes|twins|4.0", "timing|one message", "daemon|100"]
    whole = toys_scope(every, every, (2.0, 4.0), 100)
    assert whole.whole
    assert "toys" in whole.attacked[0]
    assert "boxes; stumps" in whole.attacked[1]
    assert any("--plan, --state" in one for one in whole.left_out)
    assert not any("--only" in one for one in whole.left_out)
    part = toys_scope(every[:1], every[:-1], (3.0,), 0)
    assert not part.whole
    assert [one for one in part.left_out if "--" in one][:4] == [
        "1 of 1 games of level predictor (--only).",
        "1 of 2 checks of structure and restarts (--only).",
        "1 of 1 checks of time (--only).",
        "Daemons that are killed and started again (--daemon-games 0).",
    ]


def test_what_others_see_and_rows_paid_elsewhere_is_not_looked_at():
    """Neither of a plan nor of a state: buses and HTTP are not played; forks are added up by other commands."""
    for state in (False, True):
        said = " ".join(own_scope(["a plan"], [], state=state).left_out)
        assert "forks" in said
        assert "each asker should see its own only" in said
        assert "perpetua status" in said


def test_a_broken_off_audit_tells_what_it_had(tmp_path):
    """Before anything is run, and when a part is interrupted; what had ended by then is told."""

    def interrupted(_seed: bytes, _miss: float) -> tuple[Check]:
        raise KeyboardInterrupt

    told: list[list[object]] = []
    jobs = [Job("one", lambda _seed, _miss: (check(),)), Job("two", interrupted)]
    settings = msgspec.structs.replace(_SETTINGS, jobs=("one", "two"))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_jobs(
                jobs, settings, workers=1, kept=tmp_path / "kept", unfinished=lambda so_far: told.append([*so_far])
            )
    assert told == [[], [check()], [check()], [check()]]


def _model(predictor: str, **fields: object) -> Plan:
    given = {"name": "m", "predictor": predictor, "epsilon": 1.0, "examples": 10_000, "features": (Feature(name="a"),)}
    return plan_sufficient(KINDS[predictor].model(**(given | fields)))


@pytest.fixture
def plan_file(tmp_path):
    """Return a plan of a classical learner, as a file."""
    path = tmp_path / "plan.json"
    path.write_bytes(_model("classical", concept="stump").encode())
    return path


def test_a_signed_report_is_checked_by_its_receipt(plan_file, tmp_path):
    """It holds with the key that signed it, and not with another one, nor where page or statement was changed."""
    out, runner = tmp_path / "out", CliRunner()
    key = tmp_path / "receipt-key"
    ran = runner.invoke(app, ["audit", "--plan", str(plan_file), "--out", str(out), "--receipt-key", str(key)])
    assert ran.exit_code == 0, ran.output
    receipt, document = out / "audit.receipt.json", (out / "audit.html").read_text()
    digest = json.loads((out / "audit.json").read_bytes())["scope"]["attacked"][0].split("SHA-256 ")[1][:64]
    assert all(text in document for text in (_GOOD, digest, key.with_name("receipt-key.pub").read_text().split()[-1]))

    def checked(*arguments: str) -> tuple[int, str]:
        result = runner.invoke(app, ["audit", "receipt", str(receipt), *arguments])
        return result.exit_code, result.output

    code, said = checked("--public-key", f"{key}.pub")
    assert code == 0, said
    assert all(text in said for text in ("by the key you gave", "NO FAULT FOUND", digest, "are the files"))
    assert "anybody may have put there" in checked()[1]
    runner.invoke(app, ["audit", "--plan", str(plan_file), "--out", str(tmp_path), "--receipt-key", f"{key}-2"])
    assert checked("--public-key", f"{key}-2.pub")[0] == 1
    ledger = runner.invoke(app, ["audit", "receipt", str(receipt), "--ledger", "ledger.jsonl"])
    assert "it is of an audit" in str(ledger.exception)
    sealed = receipt.read_bytes()
    receipt.write_bytes(sealed.replace(b"NO FAULT FOUND", b"NO FAULT FUOND"))
    assert "DOES NOT HOLD: the signature" in checked()[1]
    receipt.write_bytes(sealed)
    (out / "audit.html").write_text(document.replace("NO FAULT", "NO FAULTS"))
    assert checked()[0] == 1
    assert "audit.html is not the file that was signed" in checked()[1]


def test_an_interrupted_audit_of_a_plan_leaves_no_green_banner(plan_file, tmp_path, monkeypatch):
    """Nor what an earlier one left: page, JSON and receipt of that are gone before anything is looked at."""
    arguments = ["audit", "--plan", str(plan_file), "--out", str(tmp_path), "--receipt-key", str(tmp_path / "key")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert _GOOD in (tmp_path / "audit.html").read_text()

    def broken_off(_plan: Plan) -> Iterator[Check]:
        text = (tmp_path / "audit.html").read_text()  # what is there if nothing ever runs again
        assert "NO VERDICT" in text
        assert _GOOD not in text
        yield check()
        raise KeyboardInterrupt

    monkeypatch.setattr("oracle.audit.due.plan.audit_plan", broken_off)
    assert CliRunner().invoke(app, arguments).exit_code != 0
    text = (tmp_path / "audit.html").read_text()
    assert "NO VERDICT: it had not ended; results so far: 1." in text
    assert _GOOD not in text
    assert [path.name for path in tmp_path.glob("audit.*")] == ["audit.html"]


_ENUMS = {
    "data_product_type": {"Machine learning model", "Interactive API"},
    "variant_name": {"Pure DP", "Approximate DP"},
    "model_name": {"Central"},
    "release_type": {"Many releases"},
    "data_source_type": {"Static", "Dynamic"},
    "access_type": {"Interactive"},
}
_SECTIONS = {
    "basic": "name data_curators intended_use data_product_type data_product_region description publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name actors release_type release_type_details data_source_type data_source_type_details "
    "access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "notes registry_authors",
}
"""Fields and values of the registry's schema at commit 3e9c812 that we use."""


@pytest.mark.parametrize(
    ("predictor", "fields", "hides", "pure"),
    [
        ("classical", {}, False, True),
        ("bisection", {"rounds": 1_000}, False, False),
        ("boxes, one side", {}, True, False),
    ],
)
def test_forms_are_filled_in_from_the_plan(predictor, fields, hides, pure):
    """The registry's record is YAML with the registry's fields, numbers are numbers; what is the owner's is open."""
    box = next((target for target in TARGETS if target.name == predictor), None)
    plan = small_plan(box, 4.0, 0.01) if box else _model(predictor, **fields)
    made = report([check()])
    record = yaml.safe_load(filled_in("registry", plan, made))
    assert set(record) == {"url_slug", "status", "tier", "deployment"}
    deployment = record["deployment"]
    assert {name: set(node) for name, node in deployment.items()} == {
        name: set(words.split()) for name, words in _SECTIONS.items()
    }
    leaves = {name: text for node in deployment.values() for name, text in node.items()}
    assert all(leaves[name] in values for name, values in _ENUMS.items())
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    delta = max(phase.delta for phase in plan.phases)
    assert parameters["epsilon"] == plan.epsilon
    assert delta <= parameters["delta"] <= 1.001 * delta  # rounded up
    assert len(f"{parameters['delta']!r}".partition("e")[0].replace("0.", "").lstrip("0")) <= 5
    assert isinstance(parameters["delta"], float)
    assert (parameters["delta"] == 0.0) == (leaves["variant_name"] == "Pure DP") == pure
    assert (leaves["data_source_type"] == "Dynamic") == hides
    assert "TO BE SAID BY THE OWNER" in leaves["intended_use"]
    assert made.banner in leaves["notes"]
    text = filled_in("nist", plan, made)
    assert "$" not in text
    assert max(map(len, text.splitlines())) <= 100
    lines = text.replace("\n  ", " ").splitlines()
    assert {"TO BE SAID BY THE OWNER" in line for line in lines if line.startswith("- [ ]")} == {True}
    assert {"TO BE SAID BY THE OWNER" in line for line in lines if line.startswith("- [x]")} == {False}
    assert ("training row or one query" in text) == hides
    assert ("what queries say is not protected" in text) == (predictor == "bisection")
    promise = promise_of(plan)
    assert ("missed with probability" in leaves["justification"]) == (promise.missed is not None)
    assert all(condition in leaves["justification"] for condition in promise.conditions)


@pytest.mark.slow
def test_counts_of_true_labels_are_named():
    """Where a plan pays for them, forms name mechanism and cost, and an audit of it says that it read none of them."""
    for truth in (None, Truth(epsilon=0.5, rounds=2_000, lag=10)):
        plan = _model("stumps", **({} if truth is None else {"truth": truth}))
        for form in ("registry", "nist"):
            text = " ".join(filled_in(form, plan, report([check()])).split())
            assert ("each 2,000 rounds" in text and "0.5 of a query's epsilon" in text) == (truth is not None)
        said = " ".join(own_scope(["a plan"], [plan], state=True).left_out)
        assert ("perpetua truth" in said) == (truth is not None)


def test_forms_are_of_one_plan_that_claims_something(plan_file):
    """Nominal figures are no entry of a registry, and a checklist says that they are nominal; two plans are refused."""
    plan = _model("stumps", profile="paper", epsilon=4.0)
    with pytest.raises(RefusedError, match="names, and no guarantee"):
        filled_in("registry", plan, report([check()]))
    assert "4.0 a record (nominal: no proof bounds it)" in filled_in("nist", plan, report([check()]))
    runner = CliRunner()
    shown = runner.invoke(app, ["audit", "--plan", str(plan_file), "--format", "nist"])
    assert shown.exit_code == 0
    assert shown.stdout.startswith("# m: a checklist along NIST SP 800-226")
    for arguments in (["--format", "nist"], ["--plan", str(plan_file), "--format", "nist", "--json"]):
        assert "--format" in str(runner.invoke(app, ["audit", *arguments]).exception)
    assert "--receipt-key" in str(runner.invoke(app, ["audit", "--receipt-key", "key"]).exception)
    with pytest.raises(RefusedError, match="one plan: 2"):
        own._form("nist", [plan, plan], report([check()]))


def test_the_page_can_be_read_by_day_by_night_on_a_phone_and_on_paper(tmp_path):
    """No text is pale, nothing is wider than the window, and a browser finds nothing to complain about."""
    path = tmp_path / "page.html"
    path.write_text(page(report([_STRONG, finding(lowest=2.5), check(), _BROKEN, _SHORT, _OPEN])))
    with chromium(tmp_path / "profile") as browser:
        for width, scheme, media in (
            (1000, "light", ""),
            (1000, "dark", ""),
            (390, "light", ""),
            (700, "light", "print"),
        ):
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
            browser.get(path.as_uri())
            assert browser.execute_script(_TOO_PALE, 4.5)["pale"] == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.get_log("browser") == []
