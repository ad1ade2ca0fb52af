"""deploy/REFERENCE.md says what the types say, and the types' ranges are what is enforced."""

import copy
import json
import math
import re
import tomllib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.config.daemon import Config, load_configs, tables_of
from oracle.errors import InputError
from oracle.planning.attributes import Attribute
from oracle.planning.kinds import KINDS
from oracle.planning.model import Feature, Limits, Truth
from oracle.planning.model_file import parse_model
from tests.reference.examples import FILES, Place, at, where
from tests.reference.keys import config_tables, model_tables, own_keys
from tests.reference.page import page
from tests.support.pages import ROOT

_TABLES = [*model_tables(), *config_tables()]
_MARKS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_RANGES = [
    pytest.param(table, key, id=f"{table.title} {key.name}".replace("`", ""))
    for table in _TABLES
    for key in table.keys
    if any(mark in key.schema for mark in _MARKS)
]
_TOGETHER = {"trim", "directions", "warmup"}
"""Keys whose greatest value depends on other keys, as their lines say."""


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Return what reads a parsed file as the commands do."""
    folder = tmp_path_factory.mktemp("files")

    def read(document):
        if "model" in document:
            return parse_model(document)
        path = folder / "serve.toml"
        path.write_text(_toml(document))
        configs = load_configs(path)
        return next(iter(configs.values()))

    return read


def _toml(tables, path=()):
    """Return a configuration as TOML."""
    lines = []
    for name, value in tables.items():
        if name == "models":
            for entry in value:
                own = (f"{key} = {_inline(inner)}" for key, inner in entry.items())
                lines += ["[[models]]", *own]
        elif isinstance(value, dict) and name not in {"first_offset", "stop_at"}:
            lines += [f"[{'.'.join((*path, name))}]", _toml(value, (*path, name))]
        elif isinstance(value, dict):
            lines.append(f"{name} = {{ {', '.join(f'{json.dumps(k)} = {v}' for k, v in value.items())} }}")
        elif isinstance(value, float) and not math.isfinite(value):
            lines.append(f"{name} = {value}")
        else:
            lines.append(f"{name} = {json.dumps(value)}")
    return "\n".join(lines)


def _inline(value):
    """Return a value as TOML has it within a line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_inline(inner)}' for key, inner in value.items())} }}"
    return json.dumps(value)


def _changed(place, name, value):
    """Return an example with another value."""
    document = copy.deepcopy(FILES[place.file])
    at(document, place.path)[name] = value
    return document


def _limits(schema):
    """Return the least and the greatest value of a range, as its JSON Schema has them, and whether they are in it."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        low = math.nextafter(schema["exclusiveMinimum"], math.inf)
    if "exclusiveMaximum" in schema:
        high = math.nextafter(schema["exclusiveMaximum"], -math.inf)
    return low, high


def _inside(schema):
    low, high = _limits(schema)
    if schema["type"] == "integer":
        return st.integers(low, 2**62 if high is None else high)
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


def _outside(schema):
    low, high = _limits(schema)
    if schema["type"] == "integer":
        below = st.integers(-(2**62), low - 1)
        return below if high is None else below | st.integers(high + 1, high + 2**61)
    beneath = st.floats(max_value=low, exclude_max=True) | st.just(math.nan)
    return beneath if high is None else beneath | st.floats(min_value=high, exclude_min=True)


def test_the_committed_page_is_the_types_own():
    """`make reference` would change nothing."""
    assert page() == (ROOT / "deploy" / "REFERENCE.md").read_text()


def test_every_key_of_every_type_is_on_the_page():
    """Counted without the page's own walk: what msgspec and pydantic take, table by table."""
    rows = {(table.path, *(tuple(values) for values in table.chosen.values())): table for table in _TABLES}
    shared = {key.name for key in rows[("model",),].keys}
    for name, kind in KINDS.items():
        own = {key.name for key in rows[("model",), (name,)].keys}
        assert shared | own == set(kind.model.__struct_fields__)
    assert {key.name for key in rows[("model", "features"),].keys} == set(Feature.__struct_fields__)
    assert {key.name for key in rows[("model", "attributes"),].keys} == set(Attribute.__struct_fields__)
    assert {key.name for key in rows[("model", "limits"),].keys} == set(Limits.__struct_fields__)
    assert {key.name for key in rows[("model", "truth"),].keys} == set(Truth.__struct_fields__)
    for place, table in tables_of(Config):
        found = [row for row in _TABLES if row.path == place or (row.path == place[:-1] and place[-1] in _kinds(row))]
        assert {key.name for row in found for key in row.keys} == set(table.model_fields) - {"kind"}
    assert {place[0] for place, _ in tables_of(Config)} == set(Config.model_fields)


def _kinds(table):
    return table.chosen.get("kind", ())


@pytest.mark.parametrize("name", FILES)
def test_every_example_is_read(read, name):
    """As a whole file, by what reads the user's."""
    assert read(FILES[name]) is not None


def test_every_line_has_an_example_that_stands_in_a_whole_file():
    """What is shown of a key is TOML, and its value comes from a file that is read; passwords are never in one."""
    for table in _TABLES:
        for key in table.keys:
            if key.schema.get("writeOnly"):
                continue
            assert next(where(table.path, key.name, table.chosen))
    for line in page().splitlines():
        example = line.rsplit(" | ", 1)[-1].removesuffix(" |").strip("`")
        if line.startswith("| `") and not example.startswith("PERPETUA_"):
            assert tomllib.loads(example) is not None


@pytest.mark.parametrize(("file", "name"), [("kafka", "kafka.sasl"), ("mqtt", "mqtt.login")])
def test_a_password_comes_from_the_environment_as_shown(read, monkeypatch, file, name):
    """And is refused in the file."""
    variable = f"PERPETUA_{name.replace('.', '__')}__PASSWORD".upper()
    assert f"`{variable}=...`" in page()
    monkeypatch.setenv(variable, "secret")
    table = at(vars(read(FILES[file])), (name.split(".")[0],))
    assert getattr(table, name.split(".")[1]).password.get_secret_value() == "secret"


def _field(place, name):
    """Return what a refusal calls a key."""
    return re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, (*place.path, name))))


def _places(table, key):
    """Return every example that a key can be set in: of what predictors have in common, those of all predictors."""
    if table.path != ("model",) or table.chosen:
        return list(where(table.path, key.name, table.chosen))
    models = {file: document["model"]["predictor"] for file, document in FILES.items() if "model" in document}
    own = {name: own_keys(kind.model) for name, kind in KINDS.items()}
    return [Place(file, table.path) for file, predictor in models.items() if key.name not in own[predictor]]


@pytest.mark.parametrize(("table", "key"), _RANGES)
def test_a_range_is_the_one_that_is_enforced(read, table, key):
    """Outside, every example is refused by the key's name; inside, nothing is said of this key, nor at the ends."""
    places = _places(table, key)

    def refused(value, place):
        field = _field(place, key.name)
        try:
            read(_changed(place, key.name, value))
        except InputError as error:
            return error.field == field and str(error).startswith(f"{field} ") and error.bound
        return False

    @settings(max_examples=30)
    @given(_outside(key.schema))
    def outside(value):
        assert all(refused(value, place) for place in places)

    @settings(max_examples=30)
    @given(_inside(key.schema) | st.sampled_from([limit for limit in _limits(key.schema) if limit is not None]))
    def inside(value):
        assert not any(refused(value, place) for place in places)

    outside()
    if table.path == ("model", "truth") and key.name == "epsilon":  # it must leave some of the model's
        assert not any(refused(key.schema["minimum"], place) for place in places)
    elif key.name in _TOGETHER:
        kind = KINDS[table.chosen["predictor"][0]].model
        assert msgspec.convert(_changed(places[0], key.name, key.schema["minimum"])["model"], kind)
    else:
        inside()


def test_texts_are_refused_as_the_page_says():
    """What has a rule in words is held to it, and the refusal has the same words."""
    seen = 0
    for table in _TABLES:
        for key in table.keys:
            if key.schema.get("type") != "string" or "bound" not in key.schema or table.path[0] != "model":
                continue
            place = next(where(table.path, key.name, table.chosen))
            for value in ("", "a" * 65, 'quo"te'):
                with pytest.raises(InputError) as caught:
                    parse_model(_changed(place, key.name, value))
                assert key.schema["bound"] in str(caught.value)
                seen += 1
    assert seen == 18


@pytest.mark.parametrize(
    ("table", "key"),
    [
        pytest.param(table, key, id=f"{table.title} {key.name}".replace("`", ""))
        for table in config_tables()
        for key in table.keys
        if "bound" in key.schema or key.schema.get("minLength")
    ],
)
def test_names_and_addresses_are_refused_by_name(read, table, key):
    """No topic, server or name is empty."""
    place = next(where(table.path, key.name, table.chosen))
    with pytest.raises(InputError) as caught:
        read(_changed(place, key.name, [""] if key.schema.get("type") == "array" else ""))
    assert caught.value.field.startswith(_field(place, key.name))
