"""What the attacks on other programs' releases read and write: CSV with a header, or JSON lines."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

from oracle.audit.attacks.trace import Design
from oracle.errors import DataError, InputError, StorageError

__all__ = [
    "csv_lines",
    "json_lines",
    "read_bits",
    "read_design",
    "read_shares",
    "read_vectors",
    "write_bits",
    "write_design",
]

_T = TypeVar("_T", bound=msgspec.Struct)
_SUFFIXES: Final = (".csv", ".jsonl")
_FIELD_BYTES: Final = 1 << 30
_PAIR: Final = 2
_LARGEST: Final = 1e100
"""No share and no bit is as large, and of some such numbers squares are numbers too."""

_NEVER: Final = 1e-9
"""Fair coins fall so with this probability at most: the least there is of `--miss`."""


_RULES: Final = {
    "pair": "a whole number",
    "id": "a text",
    "bits": "a text of 0s and 1s",
    "question": "a whole number, from 0",
    "answer": "a finite number, or nothing where there was no answer",
    "bit": "0 or 1",
    "values": "a list of numbers",
}
"""Of fields."""


class _Candidate(msgspec.Struct):
    pair: int
    id: str
    bits: str


class _Row(msgspec.Struct):
    id: str
    bits: str


class _Share(msgspec.Struct):
    question: int
    answer: float | None = None


class _Bit(msgspec.Struct):
    id: str
    bit: int


class _Vector(msgspec.Struct):
    values: list[float]


def write_design(folder: Path, design: Design) -> None:
    """Write `candidates.csv` and `rows.csv`, which must not be there yet.

    Raises:
        StorageError: They cannot be written.
    """
    names = [[f"{pair}.{place}" for place in range(design.bits.shape[1])] for pair in range(len(design.bits))]
    every = [
        (pair, name, (bits + ord("0")).tobytes().decode(), there)
        for pair, part in enumerate(zip(names, design.bits, design.present, strict=True))
        for name, bits, there in zip(*part, strict=True)
    ]
    _write(folder / "candidates.csv", ("pair", "id", "bits"), (line[:3] for line in every))
    _write(folder / "rows.csv", ("id", "bits"), (line[1:3] for line in every if line[3]))


def write_bits(folder: Path, bits: NDArray[np.bool_]) -> None:
    """Write `bits.csv`, which must not be there yet.

    Raises:
        StorageError: It cannot be written.
    """
    _write(folder / "bits.csv", ("id", "bit"), enumerate(map(int, bits)))


def read_design(folder: Path) -> tuple[Design, NDArray[np.float64]]:
    """Read `candidates` and `rows`: the design, and the exact shares of all rows, also of those that are no candidates.

    Raises:
        StorageError: A file is missing or cannot be read.
        DataError: One is malformed, or they do not go together.
    """
    path, rows_path = _file(folder, "candidates"), _file(folder, "rows")
    pairs: dict[int, list[_Candidate]] = {}
    for one in _lines(path, _Candidate):
        pairs.setdefault(one.pair, []).append(one)
    sizes = {len(part) for part in pairs.values()}
    if len(sizes) != 1 or not sizes <= {1, _PAIR}:
        raise DataError(f"{path}: every pair must have two candidates, or every one a single candidate")
    every = [one for part in pairs.values() for one in part]
    if len({one.id for one in every}) < len(every):
        raise DataError(f"{path}: every id must be of one candidate only")
    bits = _bits(path, [one.bits for one in every])
    rows = list(_lines(rows_path, _Row))
    there = {row.id: row.bits for row in rows}
    if len(there) < len(rows):  # a coin would decide on several rows, and the claim is about one
        raise DataError(f"{rows_path}: every id must be of one row only")
    found = np.array([[one.id in there for one in part] for part in pairs.values()])
    if found.shape[1] == _PAIR and (found.sum(axis=1) != 1).any():
        raise DataError(f"{rows_path}: must have one candidate of each pair")
    if found.shape[1] == 1 and not rows:
        raise DataError(f"{rows_path}: must have rows")
    exact = _bits(rows_path, [row.bits for row in rows], bits.shape[1]).mean(axis=0, dtype=np.float64)
    if any(there.get(one.id, one.bits) != one.bits for one in every):
        raise DataError(f"{rows_path}: must have the bits that candidates of the same id have")
    _refuse_unfair(rows_path, found[:, -1])
    return Design(bits.reshape(*found.shape, -1), found[:, -1]), exact


def read_shares(path: Path, questions: int) -> NDArray[np.float64]:
    """Read answers to questions by their numbers, from 0: float64[k], NaN where there is none.

    Raises:
        StorageError: The file is missing or cannot be read.
        DataError: It is malformed.
    """
    answers = np.full(questions, np.nan)
    for one in _lines(path, _Share):
        if not 0 <= one.question < questions:
            raise DataError(f"{path}: question {one.question} must be from 0 to {questions - 1}, as candidates' bits")
        if not np.isnan(answers[one.question]):
            raise DataError(f"{path}: question {one.question} must be answered once")
        if one.answer is not None:
            answers[one.question] = _finite(path, one.answer)
    if np.isnan(answers).all():
        raise DataError(f"{path}: must have an answer")
    return answers


def read_bits(folder: Path) -> tuple[list[str], NDArray[np.bool_]]:
    """Read `bits`: the ids, and bool[n].

    Raises:
        StorageError: The file is missing or cannot be read.
        DataError: It is malformed.
    """
    path = _file(folder, "bits")
    lines = list(_lines(path, _Bit))
    if not lines or any(one.bit not in {0, 1} for one in lines):
        raise DataError(f"{path}: must have lines, each with bit 0 or 1")
    if len({one.id for one in lines}) < len(lines):
        raise DataError(f"{path}: every id must be of one bit only")
    bits = np.array([one.bit == 1 for one in lines])
    _refuse_unfair(path, bits)
    return [one.id for one in lines], bits


def read_vectors(path: Path, ids: Sequence[str]) -> NDArray[np.float64]:
    """Read answers that are vectors, float64[k, n]: JSON lists in the order of the bits, or CSV with a column for each.

    Raises:
        StorageError: The file is missing or cannot be read.
        DataError: It is malformed.
    """
    if path.suffix == ".csv":
        lines = [[line.get(name) or "" for name in ids] for _, line in csv_lines(path)]
        try:
            vectors = [[float(value) for value in line] for line in lines]
        except ValueError as exc:
            raise DataError(f"{path}: must have a column for each id of bits.csv, of numbers near 0 or 1") from exc
    else:
        vectors = [one.values for one in _lines(path, _Vector)]
    if not vectors or any(len(one) != len(ids) for one in vectors):
        raise DataError(f"{path}: must have lines, each of {len(ids)} values, one for each bit")
    for one in vectors:
        _finite(path, sum(one))
    return np.array(vectors)


def _write(path: Path, header: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(lines)
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc


def _file(folder: Path, name: str) -> Path:
    for suffix in _SUFFIXES:
        path = folder / f"{name}{suffix}"
        if path.exists():
            return path
    raise StorageError(f"{folder}: must hold {name}.csv or {name}.jsonl (--make writes what is to be released)")


def csv_lines(path: Path, wanted: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of each of a CSV file's lines, and the line without empty fields; the columns must be there."""
    csv.field_size_limit(_FIELD_BYTES)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or ()
            if not set(wanted) <= set(names):
                raise DataError(f"{path}: line 1 must name the columns {', '.join(wanted)}")
            if len(set(names)) < len(names):
                raise DataError(f"{path}: line 1 must name each column once")
            for line in reader:
                if None in line:  # a number with a comma in it would be read as another number
                    raise DataError(f"{path}: line {reader.line_num}: must have at most {len(names)} fields, as line 1")
                yield reader.line_num, {name: value for name, value in line.items() if isinstance(value, str) and value}
    except OSError as exc:
        raise _unread(path, exc) from exc
    except (csv.Error, UnicodeDecodeError) as exc:
        raise DataError(f"{path}: is no CSV file of UTF-8") from exc


def _lines(path: Path, kind: type[_T]) -> Iterator[_T]:
    """Yield what each line says."""
    if path.suffix not in _SUFFIXES:
        raise InputError("--answers", str(path), "must end in .csv or .jsonl")
    is_table = path.suffix == ".csv"
    documents: Iterable[tuple[int, object]] = csv_lines(path, kind.__struct_fields__) if is_table else json_lines(path)
    for number, document in documents:
        try:
            yield msgspec.convert(document, kind, strict=not is_table)
        except msgspec.ValidationError as exc:
            raise DataError(f"{path}: line {number}: {_rule(str(exc), kind)}") from exc


def _rule(said: str, kind: type[msgspec.Struct]) -> str:
    """Return what a line must be, from what msgspec says of it: "... `field`", or "... - at `$.field`"."""
    field = re.search(r"`(?:\$\.)?(\w+)(?:\[[^`]*)?`$", said)
    if field is None or field[1] not in _RULES:
        return f"must be an object with {', '.join(kind.__struct_fields__)}"
    return f"{field[1]} must be {_RULES[field[1]]}"


def json_lines(path: Path) -> Iterator[tuple[int, object]]:
    """Yield the number of each line of a file, and the JSON in it."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, msgspec.json.decode(line)
    except OSError as exc:
        raise _unread(path, exc) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise DataError(f"{path}: is no file of JSON lines") from exc


def _unread(path: Path, error: OSError) -> StorageError:
    hint = "; --answers names another file" if path.stem == "answers" else ""
    return StorageError(f"{path}: cannot be read: {error.strerror}{hint}")


def _bits(path: Path, texts: Sequence[str], questions: int | None = None) -> NDArray[np.uint8]:
    wanted = len(texts[0]) if questions is None and texts else questions
    if any(len(text) != wanted or text.strip("01") for text in texts) or not wanted:
        raise DataError(f"{path}: bits must be 0s and 1s, one for each question, as many in each line")
    return np.frombuffer("".join(texts).encode(), dtype=np.uint8).reshape(len(texts), -1) - ord("0")


def _refuse_unfair(path: Path, coins: NDArray[np.bool_]) -> None:
    """Refuse coins that are surely not fair: who guesses the same of all would be right too often."""
    heads = int(np.count_nonzero(coins))
    if 2.0 * float(special.bdtr(min(heads, len(coins) - heads), len(coins), 0.5)) < _NEVER:
        told = f"{heads:,} of {len(coins):,} are 1, there, or the second of a pair"
        raise DataError(f"{path}: no fair coins chose: {told}")


def _finite(path: Path, value: float) -> float:
    if not abs(value) <= _LARGEST:
        raise DataError(f"{path}: answers must be finite numbers, from -{_LARGEST:g} to {_LARGEST:g}")
    return value
