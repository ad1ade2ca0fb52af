"""The classical learner on the command line: beside the everlasting predictor, and served from init to replay."""

import json

import msgspec
import numpy as np
import pytest

from oracle.config.documents import read_toml
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.kinds import decode_plan
from oracle.planning.model_file import parse_model
from oracle.planning.planner import plan_sufficient
from tests.support.folders import write_config
from tests.support.shards import bodies

_MODEL = """
[model]
name = "pair"
predictor = "classical"
epsilon = 8.0
alpha = 0.4
examples = 2000
features = [{name = "a", bounds = [0.0, 1.0]}, {name = "b", bounds = [0.0, 1.0]}]
"""


@pytest.fixture
def classical(tmp_path):
    """Return the path of a classical model's file."""
    path = tmp_path / "classical.toml"
    path.write_text(_MODEL)
    return path


@pytest.mark.usefixtures("planned_once")
def test_plan_prints_it_beside_the_everlasting_one(cli, model):
    """One line with the examples that the same file would need, and when to take which; its own plan says the same."""
    path = model()
    result = cli("plan", path)
    assert (result.code, result.err) == (0, "")
    line = next(line for line in result.out.splitlines() if line.startswith("classical "))
    wanted = int(line.split("would need ")[1].split()[0].replace(",", ""))
    assert "for alpha = 0.4, with delta = 0; it releases its hypothesis" in line
    assert "no hypothesis may ever be released" in result.out
    text = path.read_text().replace("rectangles", "classical").replace("first_share = 0.5\n", "")
    path.write_text(text)
    own = cli("plan", path).out
    assert f"{wanted:,} wanted, 6,000 declared" in own
    assert "no hypothesis may ever be released" not in own
    path.write_text(text.replace("examples = 6000", f"examples = {wanted - 1}"))
    assert f"{wanted:,} would be enough" in cli("plan", path).err
    assert 15 * wanted < 6_000


@pytest.mark.usefixtures("planned_once")
@pytest.mark.parametrize("more", [(), ("--compare", "paper")])
def test_json_holds_it_too(cli, model, more):
    """Its whole plan stands in the everlasting one's, which reads back as before."""
    data = msgspec.json.decode(cli("plan", model(), "--json", *more).out)
    plan = data.get("tight", data)
    inner = decode_plan(msgspec.json.encode(plan["classical"]))
    assert isinstance(inner, ClassicalPlan)
    assert (inner.name, inner.epsilon, inner.alpha, inner.delta) == ("interval", 8.0, 0.4, 0.0)
    assert decode_plan(msgspec.json.encode(plan)).predictor == "rectangles"


def test_its_own_page(cli, classical):
    """Examples, epsilon, delta, error, what it learns and how it chooses are there, and nothing of honest queries."""
    result = cli("plan", classical)
    assert (result.code, result.err) == (0, "")
    words: tuple[str, ...]
    words = (
        "classical, profile tight",
        "2,000 declared",
        "epsilon = 8 a training row; delta sums to at most 0 for ever",
    )
    words += ("a box with sides a:lower, a:upper, b:lower, b:upper; whole", "cost nothing", "in 1 phase:")
    words += ("exponential, exact", "every float64", "released for ever")
    assert [word for word in words if word not in result.out] == []
    assert "honest share" not in result.out
    plan = plan_sufficient(parse_model(read_toml(classical)))
    assert decode_plan(cli("plan", classical, "--json").out.encode()) == plan
    classical.write_text(_MODEL.replace("alpha", 'concept = "stump"\nalpha'))
    assert "beyond the best stump's" in cli("plan", classical).out


@pytest.mark.parametrize(
    ("concept", "sides", "said"),
    [
        (
            "box",
            "both",
            "a box: one edge for each of 4 sides, all among the float64 numbers; the answer is 1 where no ",
        ),
        ("box", "lower", "a box: one edge for each of 3 sides, "),
        ("box", "none", "a box: one edge for each of 2 sides, "),
        ("stump", "both", "a stump: one of 4 pairs of feature and direction, and one edge among the float64 numbers; "),
    ],
)
def test_what_is_released_is_said_in_words(cli, classical, concept, sides, said):
    """Which hypothesis everybody may know, and on what grid it was chosen."""
    feature = f'{{name = "b", sides = "{sides}", bounds'
    classical.write_text(
        _MODEL.replace("alpha", f'concept = "{concept}"\nalpha').replace('{name = "b", bounds', feature)
    )
    lines = cli("plan", classical).out.splitlines()
    (line,) = (line for line in lines if line.startswith("releases "))
    assert line[14:].startswith(said)


def test_compare_is_refused(refused, classical):
    """No paper's profile goes with it."""
    assert refused(2, "plan", classical, "--compare", "paper").endswith("predictor classical has no such profile")


def test_from_init_to_replay(cli, classical, tmp_path):
    """Made of a file, served, looked at, verified, and run again on another log at no cost."""
    rows = np.random.default_rng(1).random((2000, 2))
    labels = np.asarray(((rows > 0.1) & (rows < 0.9)).all(axis=1))
    lines = [f"{a},{b},{int(label)}" for (a, b), label in zip(rows.tolist(), labels, strict=True)]
    data = tmp_path / "rows.csv"
    data.write_text("\n".join(["a,b,label", *lines[:-1]]) + "\n")
    arguments = (
        "init",
        classical,
        "--data",
        data,
        "--state",
        tmp_path / "state",
        "--keep-genesis",
        tmp_path / "genesis",
    )
    short = cli(*arguments)
    assert short.code == 2
    assert "fewer rows than model.examples = 2000 declares" in short.err
    data.write_text("\n".join(["a,b,label", *lines]) + "\n")
    made = cli(*arguments)
    assert made.code == 0
    assert "pair: epsilon = 8, sum of delta <= 0, 2,000 examples" in made.out
    queries = bodies(500)
    log = tmp_path / "q.jsonl"
    log.write_bytes(b"".join(query + b"\n" for query in queries))
    assert cli("serve", write_config(tmp_path)).code == 0
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    asked = np.array([json.loads(query)["x"] for query in queries])
    truth = ((asked > 0.1) & (asked < 0.9)).all(axis=1)
    given = np.array([answer["label"] for answer in answers]) == 1
    assert not (given & ~truth).any()
    assert (given != truth).mean() < 0.1
    status = json.loads(cli("status", tmp_path / "state", "--json").out)
    assert {"round": 500, "phase": 1, "epsilon": 8.0, "delta_spent": 0.0, "proved": True}.items() <= status.items()
    out = tmp_path / "out.jsonl"
    verified = cli("verify", log, "--from", tmp_path / "genesis", "--answers", out)
    assert (verified.code, verified.out[:10]) == (0, "identical:")
    forked = tmp_path / "fork.jsonl"
    replayed = cli("fork", log, "--from", tmp_path / "state", "--out", forked, "--accept-cost")
    assert replayed.code == 0, replayed.err
    again = [json.loads(line)["label"] for line in forked.read_text().splitlines()]
    assert again == [answer["label"] for answer in answers]
    status = json.loads(cli("status", tmp_path / "state", "--json").out)
    assert (status["forks"], status["epsilon_with_forks"], status["delta_of_forks"]) == (1, 8.0, 0.0)
