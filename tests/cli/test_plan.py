import msgspec
import pytest

from oracle.planning.kinds import decode_plan
from oracle.planning.plan import BoxPlan

pytestmark = pytest.mark.usefixtures("planned_once")


def test_plan_prints_what_an_owner_asks(cli, model):
    """Examples, epsilon, delta, error, memory, profile and the table of phases are there."""
    result = cli("plan", model())
    assert (result.code, result.err) == (0, "")
    words: tuple[str, ...]
    words = ("interval", "rectangles", "profile tight", "wanted", "6,000 declared", "epsilon = 8", "0.001 for ever")
    words += ("at most 0.3", "MiB in phase 1", "logistic", "Stopper epsilon", "phases", "re-armed", "noise scale")
    assert [word for word in words if word not in result.out] == []


def test_the_terms_of_the_table_are_explained(cli, model):
    """Each heading that is a word of the field has its line, and so has a re-arm."""
    lines = cli("plan", model()).out.splitlines()
    headings = next(line for line in lines if line.startswith("phase "))
    terms = {line.partition("  ")[0] for line in lines}
    for term in ("points/side", "mediums", "thresholds"):
        assert term in headings
        assert term in terms
    assert "re-armed" in terms


def test_a_promise_says_where_to_look_whether_it_is_kept(cli, model):
    """Its conditions are of data that `plan` does not see."""
    lines = cli("plan", model()).out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("rests on"))
    after = next(line for line in lines[first:] if line.startswith("serving"))
    assert "perpetua evaluate" in lines[lines.index(after) - 1]


def test_plan_as_json_is_the_plan(cli, model):
    """Every number of the plan is there, and it reads back as the plan that `init` binds the state to."""
    result = cli("plan", model(), "--json")
    assert (result.code, result.err) == (0, "")
    plan = msgspec.json.decode(result.out)
    assert decode_plan(result.out.encode()).encode() == msgspec.json.encode(decode_plan(result.out.encode()))
    assert {"examples", "declared", "epsilon", "delta", "alpha", "memory_bytes", "profile", "phases"} <= plan.keys()
    assert (plan["epsilon"], plan["declared"], plan["alpha"], plan["profile"]) == (8.0, 6_000, 0.4, "tight")
    assert plan["examples"] <= 6_000
    assert plan["memory_bytes"] == max(phase["memory_bytes"] for phase in plan["phases"])
    for number, phase in enumerate(plan["phases"], 1):
        assert phase["phase"] == number
        assert phase["rounds"] > 0
        assert 0 < phase["delta"] < plan["delta"]
        assert 0 < phase["stopper"]["epsilon"] < plan["epsilon"]
        for instance in (phase["start"], phase["rearmed"]):
            assert instance["points"] > instance["high"] >= instance["low"] > 0
            assert instance["mediums"] > 0
            assert instance["scale"] > 0
            assert instance["law"] == "logistic"
    spent = plan["declared"] * plan["phases"][0]["delta"]
    assert spent + sum(phase["rounds"] * phase["delta"] for phase in plan["phases"]) <= plan["delta"]


def test_compare_prints_both_profiles_and_marks_the_papers_epsilon(cli, model):
    """The same promises by the paper's constants, side by side, with the ratio; its epsilon is called nominal."""
    result = cli("plan", model(), "--compare", "paper")
    assert (result.code, result.err) == (0, "")
    table = result.out[result.out.index("tight  ") :]
    wanted = next(line for line in table.splitlines() if line.startswith("examples needed")).split()
    ours, theirs = (int(word.replace(",", "")) for word in wanted[2:4])
    assert theirs > 1000 * ours
    assert float(wanted[4].replace(",", "")) == pytest.approx(theirs / ours, rel=0.01)
    assert "8 (nominal)" in table
    assert "0.001 (nominal)" in table
    assert "The paper's epsilon and delta are nominal" in table


def test_compare_as_json_holds_both_plans(cli, model):
    """Each reads back as a plan."""
    result = cli("plan", model(), "--compare", "paper", "--json")
    plans = msgspec.json.decode(result.out)
    read = {name: decode_plan(msgspec.json.encode(plan)) for name, plan in plans.items()}
    assert {name: plan.profile for name, plan in read.items()} == {"tight": "tight", "paper": "paper"}
    assert (read["paper"].nominal, read["tight"].nominal) == (True, False)


def test_a_model_of_the_paper_profile(cli, refused, model):
    """Its own plan says nominal too, too few examples are refused, and it is not compared with itself."""
    path = model()
    path.write_text(path.read_text().replace("first_share = 0.5", 'profile = "paper"\nslicing = "rsc"'))
    result = cli("plan", path)
    assert result.code == 2
    assert "epsilon = 8 a record, sum of delta = 0.001: both nominal" in result.out
    assert "The paper's epsilon and delta are nominal" in result.out
    assert "too few training examples for this model; " in result.err
    assert refused(2, "plan", path, "--compare", "paper").startswith("--compare = 'paper': ")


def test_a_narrow_terminal_crops_no_number(cli, model, monkeypatch):
    """Every figure of the tables is there whole, however few columns there are."""
    monkeypatch.setenv("COLUMNS", "40")
    path = model()
    path.write_text(path.read_text().replace("first_share = 0.5", 'profile = "paper"\nslicing = "rsc"'))
    plan = decode_plan(cli("plan", path, "--json").out.encode())
    assert isinstance(plan, BoxPlan)
    shown = cli("plan", path).out.split()
    for phase in (*plan.phases[:6], plan.phases[-1]):
        for figure in (f"{phase.rounds:,}", f"{phase.delta:.2e}", f"{phase.start.base:,}", f"{phase.stopper.cap:,}"):
            assert figure in shown


def test_too_few_declared_examples(cli, model):
    """The plan for just enough is printed, and one line says how many there must be; that many do."""
    result = cli("plan", model(60))
    assert result.code == 2
    assert "60 declared" in result.out
    assert result.err.startswith("perpetua: model.examples = 60: too few training examples for this model; ")
    least = int(result.err.split("; ")[1].split()[0].replace(",", ""))
    assert cli("plan", model(least)).code == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilon = 8.0", "epsilon = -1.0", "model.epsilon = -1.0: must be from 0.05 to 50"),
        ("alpha = 0.4", "alpha = 0.0", "model.alpha = 0.0: must be from 1e-06 to 0.5"),
        ("alpha = 0.4", "alhpa = 0.4", "alhpa"),
        ("epsilon = 8.0", "", "epsilon"),
        ('"rectangles"', '"squares"', "squares"),
        ("bounds = [0.0, 1.0]", "bounds = [1.0, 0.0]", "model.features[0].bounds = [1.0, 0.0]: must be two finite"),
        ('name = "a"', 'name = "label"', "model.features[0].name = 'label'"),
        ("[model]", "[modle]", "unknown table"),
        ("epsilon = 8.0", "epsilon 8.0", "not TOML"),
    ],
)
def test_wrong_model_file(refused, model, old, new, message):
    """One line names field, value and bound."""
    path = model()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert message in refused(2, "plan", path)
