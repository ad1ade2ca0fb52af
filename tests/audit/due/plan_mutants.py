"""Mutants of plans, made mechanically: each number scaled, zeroed, moved by one, or changed for its neighbour."""

import json
from collections.abc import Iterator
from typing import Any

from oracle.errors import PlanError
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan

__all__ = ["mutants"]

_PUBLIC = {"limits", "features", "attributes", "memory_bytes"}
"""Fields that say how large things may be, and what everybody declares."""

_FACTORS = (0.25, 0.5, 0.9, 1.1, 2.0, 4.0)

_Path = tuple[str | int, ...]


def mutants(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield every mutant of a plan that can be read, by its name; of its phases the first, the second and the last."""
    tree = json.loads(plan.encode())
    kept = {0, 1, len(plan.phases) - 1}
    numbers = [
        (path, value)
        for path, value in _numbers(tree)
        if not {path[0], path[-1]} & _PUBLIC and (path[0] != "phases" or path[1] in kept)
    ]
    for number, (path, value) in enumerate(numbers):
        changed = {f"x{factor:g}": type(value)(value * factor) for factor in _FACTORS}
        changed |= {"zero": type(value)(0), "less": value - 1, "more": value + 1}
        for how, other in changed.items():
            if other != value:
                yield from _decoded(f"{_named(path)} {how}", tree, {path: other})
        following = numbers[number + 1] if number + 1 < len(numbers) else (path, value)
        if following[0][:-1] == path[:-1] and following[1] != value:
            yield from _decoded(f"{_named(path)} swapped", tree, {path: following[1], following[0]: value})


def _decoded(name: str, tree: Any, changes: dict[_Path, Any]) -> Iterator[tuple[str, Plan]]:
    tree = json.loads(json.dumps(tree))
    for path, value in changes.items():
        node = tree
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = value
    try:
        yield name, decode_plan(json.dumps(tree).encode())
    except PlanError:  # where a whole number must be
        return


def _numbers(tree: Any, path: _Path = ()) -> Iterator[tuple[_Path, float]]:
    if isinstance(tree, dict | list):
        for step, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _numbers(part, (*path, step))
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield path, tree


def _named(path: _Path) -> str:
    return ".".join(map(str, path))
