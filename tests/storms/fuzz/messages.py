"""Messages to fuzz the codecs with: valid ones of every form, ones wrong by design, and both with bytes changed."""

import functools
import io
import json
import random
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.base import ARROW_STREAM, JSON, Delivery
from oracle.planning.features import Feature
from tests.storms.fuzz.mutate import mutated
from tests.storms.fuzz.ordered import arrow_column, json_value
from tests.support.arrow_types import any_array, any_type

_NUMBERS: Final = (
    "0", "-0", "-0.0", "1", "0.5", "1e-3", "2E2", "5e-324", "1.7976931348623157e308", "18446744073709551616", "0.1e+1",
)  # fmt: skip
_ODD: Final = (
    "1e999", "-1e400", "NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "0x1", "9" * 400, "9" * 5000, "null",
    "true", '"0.5"', "[0.5]", "{}", '"\\ud800"', "[" * 70 + "]" * 70, "[" * 3000, '{"a":' * 66 + "1" + "}" * 66,
    "1e-999", "1" + "0" * 308, "1" + "0" * 309,
)  # fmt: skip
_IDS: Final = (
    '"q1"', '"é\\n\\u00e9"', "17", "-3", "null", '""', "9223372036854775807", "-9223372036854775808",
    '"\\ud83d\\ude00"',
)  # fmt: skip
_ODD_IDS: Final = (
    "9223372036854775808", "1.0", "1e2", "true", "[1]",
    '{"a":1}', '"\\ud800"', '"' + "i" * 256 + '"', '"' + "i" * 257 + '"',
    '"' + "é" * 129 + '"', "9" * 4301, "-" + "9" * 256, '"\\u0000"', '"' + "\\u00e9" * 128 + '"',
)  # fmt: skip


def delivery(rng: random.Random, position: int, features: tuple[Feature, ...]) -> Delivery:
    """Return the next delivery: about half of them well formed, some JSON, some Arrow, some neither."""
    draw = rng.random()
    if draw < 0.03:
        return Delivery(position, None, rng.choice((JSON, ARROW_STREAM, "text/plain")))
    pool = _arrow_pool(features)
    if draw < 0.82:
        body, content = _json(rng, features), JSON
        others = [*pool[:3], b'{"id":"a","x":[0.5,0.5]}']
    else:
        body, content, others = rng.choice(pool), ARROW_STREAM, pool
    if rng.random() < 0.5:
        body = mutated(rng, body, others)
    if rng.random() < 0.02:
        content = rng.choice((JSON, ARROW_STREAM, "text/plain", ""))
    return Delivery(position, body, content)


def _json(rng: random.Random, features: tuple[Feature, ...]) -> bytes:
    """Return an object of one of the three forms, sometimes with fields changed, doubled, left out or added."""
    if rng.random() < 0.01:
        return rng.choice((b"", b"null", b"[]", b"1", b'"x"', b"\xef\xbb\xbf{}", b"{", b" ", b"x" * 70_000))
    form = rng.randrange(3)
    names = tuple(feature.name for feature in features)
    values = [_number(rng) if feature.kind == "number" else json_value(rng, feature) for feature in features]
    pairs: list[tuple[str, str]] = [("id", _identifier(rng))] if rng.random() < 0.9 else []
    named = [
        (json.dumps(name, ensure_ascii=rng.random() < 0.3)[1:-1], value)
        for name, value in zip(names, values, strict=True)
    ]
    if rng.random() < 0.2:
        rng.shuffle(named)
    if form == 0:
        pairs.append(("x", f"[{','.join(values)}]"))
    elif form == 1:
        pairs.append(("x", "{" + ",".join(f'"{name}":{value}' for name, value in named) + "}"))
    else:
        pairs += named
    if rng.random() < 0.25:
        _spoil(rng, pairs, names)
    if rng.random() < 0.1:
        rng.shuffle(pairs)
    text = "{" + rng.choice((",", ", ", " ,\n")).join(f'"{key}":{value}' for key, value in pairs) + "}"
    return text.encode()


def _spoil(rng: random.Random, pairs: list[tuple[str, str]], names: tuple[str, ...]) -> None:
    kind = rng.randrange(6)
    if kind == 0 and pairs:
        del pairs[rng.randrange(len(pairs))]
    elif kind == 1 and pairs:
        key, value = rng.choice(pairs)
        pairs.append((key, rng.choice((value, *_ODD, "0.25"))))
    elif kind == 2:
        pairs.append(
            (rng.choice(("note", "X", "label", "x.a", "", "\\u0078", *names[:1])), rng.choice((*_ODD, "0.5", '"s"')))
        )
    elif kind == 3 and pairs:
        index = rng.randrange(len(pairs))
        pairs[index] = (pairs[index][0], rng.choice(_ODD))
    elif kind == 4:
        count = rng.choice((0, 1, 3, 4, 100))
        pairs.append(("x", "[" + ",".join(["0.5"] * count) + "]"))
    else:
        pairs.append(("x", rng.choice(('{"zz":1}', '{"a":1,"a":2}', "{}", '{"a":0.5,"b":0.5,"c":1}', '[0.5,"s"]'))))


def _number(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.8:
        return repr(rng.uniform(-0.1, 1.1))
    return rng.choice(_NUMBERS if draw < 0.97 else _ODD)


def _identifier(rng: random.Random) -> str:
    return rng.choice(_IDS if rng.random() < 0.85 else _ODD_IDS)


@functools.cache
def _arrow_pool(features: tuple[Feature, ...]) -> list[bytes]:
    """Return Arrow messages with columns of all types, nulls, NaN, ids of all kinds, compressed or not."""
    rng = np.random.default_rng(7)
    kinds = [pa.int8(), pa.uint64(), pa.int64(), pa.float16(), pa.float32(), pa.float64()]
    pool = []
    for number in range(240):
        rows = int(rng.choice([0, 1, 2, 5, 12, 40]))
        columns: list[pa.Array] = []
        labels: list[str] = []
        for feature in features:
            labels.append(feature.name)
            if feature.kind != "number":
                columns.append(arrow_column(rng, feature, rows))
                continue
            values = rng.uniform(0.0, 1.1, rows)
            values[rng.random(rows) < 0.05] = rng.choice([np.nan, np.inf, -0.0])
            kind = kinds[int(rng.integers(len(kinds)))] if rng.random() < 0.4 else pa.float64()
            clean = values if pa.types.is_floating(kind) else np.nan_to_num(values, posinf=0.0)
            array = pa.array(clean, pa.float64(), mask=rng.random(rows) < 0.1, from_pandas=False)
            columns.append(array.cast(kind, safe=False))
        _spoil_columns(rng, columns, labels, rows)
        identifiers = [
            None,
            pa.array([f"r{row}" for row in range(rows)], pa.string()),
            pa.array([f"é{row}" for row in range(rows)], pa.large_string()),
            pa.array(range(rows), pa.int16()),
            pa.array(range(rows), pa.uint8()),
            pa.array(["i" * (250 + row) for row in range(rows)], pa.string()),
            pa.array([b"\xff"] * rows, pa.binary()),
        ][number % 7]
        if identifiers is not None:
            columns.append(identifiers)
            labels.append("id")
        pool.append(_stream(pa.table(columns, names=labels), rng, number))
    return pool


def _spoil_columns(rng: np.random.Generator, columns: list[pa.Array], labels: list[str], rows: int) -> None:
    if rng.random() < 0.15:
        odd = [
            pa.array(["s"] * rows),
            pa.nulls(rows),
            pa.array([True] * rows, pa.bool_()),
            pa.array([[1.0]] * rows, pa.list_(pa.float64())),
            pa.array(["s"] * rows, pa.string()).dictionary_encode(),
            pa.array([None] * rows, pa.float64()),
            pa.array([1] * rows, pa.decimal128(5, 2)),
            *_any_columns(rng, rows),
        ]
        columns[0] = odd[int(rng.integers(len(odd)))]
    if rng.random() < 0.1:
        columns.append(columns[0])
        labels.append(labels[0] if rng.random() < 0.5 else "note")
    if rng.random() < 0.05:
        del columns[0], labels[0]


def _any_columns(rng: np.random.Generator, rows: int) -> list[pa.Array]:
    """Return some columns of any type; of such as can have so many rows."""
    generator = random.Random(int(rng.integers(2**32)))  # noqa: S311  # test data
    columns = []
    for _ in range(9):
        try:
            column = any_array(generator, any_type(generator), rows)
            column.validate(full=True)
            columns.append(column)
        except (pa.ArrowException, ValueError):
            pass
    return columns


def _stream(table: pa.Table, rng: np.random.Generator, number: int) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=[None, None, "zstd", "lz4"][number % 4])
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=int(rng.choice([3, 1000])))
    return sink.getvalue()
