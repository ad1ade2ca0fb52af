"""Values that are no numbers to fuzz the codecs with, in JSON and as Arrow columns: most of them good."""

import datetime as dt
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.planning.features import Feature

_CHARACTERS: Final = '\x00\x01 aZ~"\\/\x7fé\u0301€\U0001f600\U0010ffff'
_DATES: Final = (
    "0001-01-01", "9999-12-31", "1970-01-01", "1969-12-31", "2024-02-29", "1582-10-10",
)  # fmt: skip
_NO_DATES: Final = (
    "2023-02-29", "0000-12-31", "10000-01-01", "-001-01-01", "2013-7-04", "20130704", "2013-07-04T00:00", "",
    "2013-07-04 ", "\uff12013-07-04", "2013-13-01", "2013-07-00", "+013-07-04", "NaT", "2013-W01-1", "today",
)  # fmt: skip
_DECIMALS: Final = (
    "0", "-0", "-0.00", "0.01", "-0.01", "1e2", "1E+2", "1.5e0", "120e-1", "0e-999999999", "0E999999999",
    "9999999999999.99", "-9999999999999.99", "12.3000", "0.0000000000000000000000",
)  # fmt: skip
_NO_DECIMALS: Final = (
    "10000000000000", "-10000000000000", "0.001", "1e13", "1e-3", "1e999999999", "1e-999999999", "1e9999999999",
    "12.3000000000000000000001", "9" * 400, "9999999999999.999",
)  # fmt: skip
_NO_DECIMAL_TEXTS: Final = (
    "",
    " 1",
    "1 ",
    "+1",
    ".5",
    "1.",
    "1_0",
    "0x1",
    "NaN",
    "Infinity",
    "\uff11",
    "1e",
    "--1",
    "1,5",
)
_OTHERS: Final = ("null", "true", "5", "-1.5", "[]", '["a"]', "{}", '{"a":"b"}', '""', '"\\ud800"', '"\\ud83d\\ude00"')
_ROUGH: Final = 0.04


def json_value(rng: random.Random, feature: Feature) -> str:
    """Return JSON for a feature that is no number; in a few cases it is a value that the feature does not accept."""
    good = rng.random() >= _ROUGH
    if not good and rng.random() < 0.3:
        return rng.choice(_OTHERS)
    if feature.kind == "category":
        return "null" if rng.random() < 0.2 else json.dumps(_category(rng, feature), ensure_ascii=rng.random() < 0.3)
    if feature.kind == "string":
        return json.dumps(_text(rng, feature, good=good), ensure_ascii=rng.random() < 0.3)
    if feature.kind == "date":
        day = dt.date.fromordinal(rng.randint(1, dt.date.max.toordinal())).isoformat()
        return json.dumps(rng.choice((*_DATES, day, day, day)) if good else rng.choice(_NO_DATES))
    number = f"{rng.uniform(-60.0, 60.0):.{rng.randint(0, feature.decimals)}f}"
    if not good:
        text = rng.choice((*_NO_DECIMALS, *_NO_DECIMAL_TEXTS))
        return text if text in _NO_DECIMALS and rng.random() < 0.5 else json.dumps(text)
    text = rng.choice((*_DECIMALS, *[number] * len(_DECIMALS)))
    return text if rng.random() < 0.5 else json.dumps(text)


def _category(rng: random.Random, feature: Feature) -> str:
    """Return a category, one in another spelling, or any other text."""
    known = rng.choice(feature.categories or ("",))
    other = "".join(rng.choice(_CHARACTERS) for _ in range(rng.choice((0, 1, 3, 40))))
    return rng.choice((known, known, known, known.upper(), known + " ", other))


def _text(rng: random.Random, feature: Feature, *, good: bool) -> str:
    """Return a text that is as long as it may be at most, or longer."""
    text = ""
    length = rng.choice((0, rng.randint(0, feature.longest), feature.longest))
    while True:
        longer = text + rng.choice(_CHARACTERS)
        if len(longer.encode()) > length:
            break
        text = longer
    return text if good else text.ljust(feature.longest + rng.choice((1, 2, 100)), "z")


def arrow_column(rng: np.random.Generator, feature: Feature, rows: int) -> pa.Array:
    """Return a column for a feature that is no number, of any type that it may have, with nulls and bad values."""
    generator = random.Random(int(rng.integers(2**32)))  # noqa: S311  # test data
    missing = rng.random(rows) < 0.05
    if feature.kind == "category":
        names = [_category(generator, feature) for _ in range(rows)]
        return pa.array(_with_nulls(names, missing), generator.choice((pa.string(), pa.string(), pa.large_string())))
    if feature.kind == "string":
        texts = [_text(generator, feature, good=generator.random() >= _ROUGH) for _ in range(rows)]
        return pa.array(_with_nulls(texts, missing), generator.choice((pa.string(), pa.string(), pa.large_string())))
    if feature.kind == "date":
        first, last = (-719_162, 2_932_896) if generator.random() < 0.8 else (-800_000, 3_500_000)
        days = [generator.randint(first, last) for _ in range(rows)]
        if generator.random() < 0.7:
            return pa.array(_with_nulls(days, missing), pa.int32()).cast(pa.date32())
        return pa.array(_with_nulls([day * 86_400_000 for day in days], missing), pa.int64()).view(pa.date64())
    return _decimals(generator, feature.decimals, missing)


def _decimals(generator: random.Random, places: int, missing: NDArray[np.bool_]) -> pa.Array:
    scale = generator.choice((places, places, 0, places + 2))
    most = 10 ** generator.choice((4, 14, 14, 17))
    units = [generator.randint(-most, most) for _ in missing]
    if scale == 0 and generator.random() < 0.5:
        return pa.array(_with_nulls(units, missing), pa.int64())
    exact = [unit - unit % 100 if scale > places and generator.random() >= _ROUGH else unit for unit in units]
    values = [Decimal(unit).scaleb(-scale) for unit in exact]
    kind = pa.decimal256(60, scale) if generator.random() < 0.2 else pa.decimal128(30, scale)
    return pa.array(_with_nulls(values, missing), kind)


def _with_nulls(values: Sequence[object], missing: NDArray[np.bool_]) -> list[object]:
    return [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]
