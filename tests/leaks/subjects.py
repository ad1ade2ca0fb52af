"""The predictors that the leak test runs: their plans, what they learn from, what they are asked, and what is hidden.

What a *record* is, and what the transcript of a run is, differs (`worlds.py` has what they have in common):

* Boxes and stumps. A record is a training row or a query; the transcript is all labels but the hidden query's own, and
  when sides were armed afresh and phases ended. Stumps have all of this from the boxes that they are made of; which
  feature and direction were chosen, and how many rows are labelled 1, are private releases too, but shown nowhere.
  Boxes are run on two numbers, assigned by declared bounds or ("learned") by edges that are released but shown nowhere,
  and ("strings") on a text and a number; there the text is what is hidden.
* Ensembles. As boxes: rests are among the answers, and shares are declared, so that no count of rows is released. Where
  thresholds stand is a private release too, and shown nowhere. A blanked training row is another one, of class 0.
* Classical. What was learned is a release; a query goes through nothing, so nothing at all may follow from it but its
  own answer, and nothing that is kept: behind the hidden query even the private state is the same. Of training rows the
  transcript is the labels.
* Statistics, sparse vectors and distributions. A record is a training row; the transcript is all answers, and what the
  ledger says of paid ones and of marginals: public, like the questions. `coupling.py` makes it one in both worlds.
* Bisection. A record is a training row, and the transcript is the values: functions of the queries and of the bits that
  were asked for. Queries are *not* protected: what one of them taught shows in later answers. But it may show nowhere
  else, so where the hidden query is one that is asked about, the answers from it on are left out, and all the rest must
  be the same. A query outside [0,1]^D is never asked about: of it nothing shows and nothing is kept.

Of the last two nothing but answers follows from anything private: no phase, no moment, no size. So worlds that have
nothing in common but the kinds of their messages ("everything" differs) must look the same, if no answer is looked at.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.planning.attributes import Attribute
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.features import Feature
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan
from tests.predictors.plans import (
    feature,
    tiny_bisection_plan,
    tiny_classical_plan,
    tiny_distribution_plan,
    tiny_ensemble_plan,
    tiny_plan,
    tiny_sparse_plan,
    tiny_statistics_plan,
    tiny_stumps_plan,
)

Kind = Literal["training row", "query", "presence", "label", "everything"]
"""What differs: a training row that is there or blanked; the hidden query; whether it is there; its answer too; or all
but which messages are queries."""

BAD: str = "bad"
"""A message that is no query: it is rejected and takes no round."""

Message = tuple[float, float] | Literal["bad"] | None

_FEATURES: Final = (feature("a"), feature("b"))
_TEXTS: Final = (Feature(name="a", type="string", max_bytes=20), feature("b"))
_EXAMPLES: Final = 300
_EDGE: Final = 0.3
"""Where the labels of stumps change, along `a`."""

Rows = NDArray[np.float64]
Labels = NDArray[np.bool_]


@dataclass(frozen=True)
class Subject:
    """A predictor that the leak test runs.

    Attributes:
        make_plan: Makes its plan: one in form only, so short that there is something to see.
        settings: What its model file has beyond what all have.
        label: Returns the labels of training rows: float64[n, 2] to bool[n].
        nearness: Returns of labelled rows which is more likely to be the blanked one.
        ask: Draws so many queries: float64[n, 2].
        hide: Draws the hidden message of both worlds, by kind.
        kinds: What may differ.
        parts_from_hidden: Whether, where the kind is "query", the answers behind the hidden one are left out too.
    """

    make_plan: Callable[[], Plan]
    settings: str
    label: Callable[[Rows], Labels]
    nearness: Callable[[Rows, Labels], NDArray[np.float64]]
    ask: Callable[[np.random.Generator, int], Rows]
    hide: Callable[[Kind, np.random.Generator], tuple[Message, Message]]
    kinds: tuple[Kind, ...]
    parts_from_hidden: bool = False


@cache
def leak_plan(subject: str) -> Plan:
    """Return a subject's plan."""
    return SUBJECTS[subject].make_plan()


def model_file(subject: str) -> str:
    """Return the subject's model file; the plan is `leak_plan` all the same."""
    plan = leak_plan(subject)
    bounded = plan.predictor not in {"ensemble", "distribution"}
    inputs = "".join(_in_file(one, bounded=bounded) for one in plan.features)
    if isinstance(plan, DistributionPlan):
        inputs = f'data = "rows"\ndata_epsilon = 20.0\n{inputs}'
    if isinstance(plan, TablePlan):
        inputs = 'data = "rows"\ndata_epsilon = 20.0\nalpha = 0.2\n' + "".join(map(_attribute, plan.attributes))
    return (
        f'[model]\nname = "tiny"\npredictor = "{plan.predictor}"\nepsilon = 8.0\nexamples = {plan.declared}\n'
        f"{SUBJECTS[subject].settings}{inputs}"
    )


def _attribute(one: Attribute) -> str:
    if one.kind == "category":
        more = f"categories = {json.dumps(one.categories)}"
    else:
        more = f"bounds = [{one.edges[0]}, {one.edges[-1]}]\nbins = {one.declared}"
    return f'[[model.attributes]]\nname = "{one.name}"\n{more}\n'


def _in_file(one: Feature, *, bounded: bool) -> str:
    more = "bounds = [0.0, 1.0]\n" if bounded else ""
    more = f'type = "string"\nmax_bytes = {one.longest}\n' if one.kind == "string" else more
    return f'[[model.features]]\nname = "{one.name}"\n{more}'


# Boxes


def _box_plan(
    features: Sequence[Feature] = _FEATURES,
    slicing: Literal["faces", "sequential"] = "faces",
    *,
    learned: bool = False,
) -> Plan:
    """Return a plan with phases of some 120 rounds and sides that are armed afresh within them."""
    return tiny_plan(
        features,
        slicing=slicing,
        points=(12, 10, 11, 12, 10),
        rearmed=9,
        threshold=7,
        rounds=110,
        examples=_EXAMPLES,
        learned=learned,
    )


def _in_box(rows: Rows) -> Labels:
    return np.asarray(((rows > 0.03) & (rows < 0.97)).all(axis=1))


def _outwardness(rows: Rows, labels: Labels) -> NDArray[np.float64]:
    return np.where(labels, np.abs(rows - 0.5).max(axis=1), 0.0)


def _about_the_box(source: np.random.Generator, count: int) -> Rows:
    """Return queries of which most lie inside and a part near some side."""
    return source.uniform(-0.02, 1.02, (count, 2))


def _hide_from_box(kind: Kind, source: np.random.Generator) -> tuple[Message, Message]:
    along, depth, other = np.round(source.uniform((0.3, 0.02, 0.02), (0.7, 0.08, 0.08)), 6).tolist()
    if kind == "presence":
        return (along, depth), None
    if kind == "label":
        return (along, 0.3 + depth), (along, -other)
    return (along, depth), (other, along)


def _hide_text(kind: Kind, source: np.random.Generator) -> tuple[Message, Message]:
    """Return queries that differ in a text: a short one, and one of the longest (see `spelling.py`)."""
    depth, along, other = np.round(source.uniform((0.04, 0.3, 0.04), (0.08, 0.7, 0.08)), 3).tolist()
    if kind == "presence":
        return (depth, along), None
    if kind == "label":
        return (0.3 + depth, along), (1e-6 - other, along)
    return (depth, along), (1.0 - other + 1e-6, along)


# Stumps


def _stump_plan() -> Plan:
    """Return a plan of one side that is armed afresh about three times a phase."""
    return tiny_stumps_plan(
        _FEATURES, points=(12, 10, 11, 12, 10), rearmed=9, threshold=7, rounds=110, examples=_EXAMPLES
    )


def _above_edge(rows: Rows) -> Labels:
    return np.asarray(rows[:, 0] >= _EDGE)


def _nearness_to_edge(rows: Rows, labels: Labels) -> NDArray[np.float64]:
    return np.where(labels, -np.abs(rows[:, 0] - _EDGE), -1.0)


def _about_the_edge(source: np.random.Generator, count: int) -> Rows:
    """Return queries of which half lie near the edge."""
    rows = source.uniform(0.0, 1.0, (count, 2))
    rows[::2, 0] = _EDGE + source.uniform(-0.01, 0.07, len(rows[::2]))
    return rows


def _hide_from_stump(kind: Kind, source: np.random.Generator) -> tuple[Message, Message]:
    along, other, near, next_to = np.round(source.uniform((0.2, 0.2, 0.01, 0.01), (0.8, 0.8, 0.04, 0.04)), 6).tolist()
    if kind == "presence":
        return (_EDGE + near, along), None
    if kind == "label":
        return (_EDGE + 0.05 + near, along), (_EDGE - 0.1 - near, along)
    return (_EDGE + near, along), (_EDGE + next_to, other)


# Ensembles


def _ensemble_plan() -> Plan:
    """Return a plan whose lives are spent about twice a phase, and rest."""
    plan = tiny_ensemble_plan(
        _FEATURES, rounds=(110, 110, 110, 110), examples=_EXAMPLES, threshold=9, least_rounds=30, keep=1.0
    )
    return msgspec.structs.replace(plan, share_slope=msgspec.UNSET, shares=(_EDGE, 1.0 - _EDGE))


# Classical


def _classical_plan(concept: Literal["box", "stump"], slicing: Literal["faces", "whole"]) -> Plan:
    return tiny_classical_plan(_FEATURES, concept=concept, slicing=slicing, examples=_EXAMPLES)


def _hide_from_classical(kind: Kind, source: np.random.Generator) -> tuple[Message, Message]:
    along, depth, other = np.round(source.uniform((0.45, 0.3, 0.3), (0.7, 0.6, 0.6)), 6).tolist()
    if kind == "presence":
        return (along, depth), None
    if kind == "label":
        return (along, depth), (-along, -other)
    return (along, depth), (other, along)


# Bisection


def _bisection_plan(profile: Literal["efficient", "paper"] = "efficient", warmup: int = 0) -> Plan:
    """Return a plan that learns for 150 rounds; with so much noise that a row seldom turns a bit round."""
    return msgspec.structs.replace(
        tiny_bisection_plan(150, 1000, profile=profile, scale=1.0, warmup=warmup), declared=_EXAMPLES
    )


def _most(rows: Rows) -> Labels:
    return np.asarray(rows.sum(axis=1) > 0.2)


def _labelled(_rows: Rows, labels: Labels) -> NDArray[np.float64]:
    return labels.astype(np.float64)


def _about_the_axes(source: np.random.Generator, count: int) -> Rows:
    """Return queries along the axes and between, a part of them out of range."""
    rows = source.uniform(0.0, 1.05, (count, 2))
    rows[::2] = source.permuted(np.tile([1.0, 0.0], (len(rows[::2]), 1)), axis=1)
    return rows


def _hide_from_bisection(kind: Kind, source: np.random.Generator) -> tuple[Message, Message]:
    along, beyond, other = np.round(source.uniform((0.1, 1.1, 0.1), (0.9, 1.9, 0.9)), 6).tolist()
    if kind == "presence":
        return (along, beyond), None
    if kind == "label":
        return (along, beyond), (1.0 + other, -other)
    return (1.0, 0.0), (other, along)


# Tables and distributions


def _about_a_table(source: np.random.Generator, count: int) -> Rows:
    """Return what `questions.py` makes questions of."""
    return source.random((count, 2))


def _table(make_plan: Callable[[], Plan], settings: str = "") -> Subject:
    return Subject(
        make_plan=make_plan,
        settings=settings,
        label=lambda rows: np.ones(len(rows), dtype=np.bool_),
        nearness=lambda rows, _labels: rows[:, 0],
        ask=_about_a_table,
        hide=_hide_from_box,  # of no use: questions are not hidden
        kinds=("training row",),
    )


_ANY_QUERY: Final[tuple[Kind, ...]] = ("training row", "query", "presence", "label")
_EVERYTHING: Final[tuple[Kind, ...]] = (*_ANY_QUERY, "everything")


def _classical(concept: Literal["box", "stump"], slicing: Literal["faces", "whole"] = "whole") -> Subject:
    return Subject(
        make_plan=lambda: _classical_plan(concept, slicing),
        settings=f'concept = "{concept}"\nslicing = "{slicing}"\n',
        label=_in_box if concept == "box" else _above_edge,
        nearness=_outwardness if concept == "box" else _nearness_to_edge,
        ask=_about_the_box,
        hide=_hide_from_classical,
        kinds=_EVERYTHING,
    )


def _bisection(profile: Literal["efficient", "paper"] = "efficient", warmup: int = 0) -> Subject:
    return Subject(
        make_plan=lambda: _bisection_plan(profile, warmup),
        settings=f'rounds = 150\nprofile = "{profile}"\n',
        label=_most,
        nearness=_labelled,
        ask=_about_the_axes,
        hide=_hide_from_bisection,
        kinds=_EVERYTHING,
        parts_from_hidden=True,
    )


SUBJECTS: Final[dict[str, Subject]] = {
    "rectangles": Subject(_box_plan, "", _in_box, _outwardness, _about_the_box, _hide_from_box, _ANY_QUERY),
    "rectangles, learned": Subject(
        lambda: _box_plan(learned=True), "", _in_box, _outwardness, _about_the_box, _hide_from_box, _ANY_QUERY
    ),
    "strings": Subject(
        make_plan=lambda: _box_plan(_TEXTS, "sequential"),
        settings='slicing = "sequential"\n',
        label=_in_box,
        nearness=_outwardness,
        ask=_about_the_box,
        hide=_hide_text,
        kinds=_ANY_QUERY,
    ),
    "stumps": Subject(_stump_plan, "", _above_edge, _nearness_to_edge, _about_the_edge, _hide_from_stump, _ANY_QUERY),
    "ensemble": Subject(
        make_plan=_ensemble_plan,
        settings='learner = "sklearn.tree.DecisionTreeClassifier"\nteacher_rows = 9\n',
        label=_above_edge,
        nearness=_nearness_to_edge,
        ask=_about_the_edge,
        hide=_hide_from_stump,
        kinds=_ANY_QUERY,
    ),
    "classical": _classical("box", "faces"),
    "classical, whole": _classical("box"),
    "classical, stump": _classical("stump"),
    "bisection": _bisection(),
    "bisection, window": _bisection(warmup=40),
    "bisection, paper": _bisection("paper"),
    "statistics": _table(lambda: tiny_statistics_plan(5000, paid=None, margins=(240, 300))),
    "statistics, spent": _table(
        lambda: tiny_statistics_plan(5000, paid=12, epsilon=8.0, margins=(10, 20)), "paid = 12\n"
    ),
    "statistics, marginals": _table(
        lambda: tiny_statistics_plan(5000, paid=20, epsilon=8.0, margins=(5, 22)), "paid = 20\n"
    ),
    "sparse vector": _table(lambda: tiny_sparse_plan(5000, paid=40), "paid = 40\n"),
    "sparse vector, spent": _table(lambda: tiny_sparse_plan(5000, paid=2), "paid = 2\n"),
    "distribution": _table(lambda: tiny_distribution_plan(5000)),
    "distribution, settled": _table(lambda: tiny_distribution_plan(5000, alpha=0.3)),
}
"""Every subject by its name: a predictor, and a variant of it."""
