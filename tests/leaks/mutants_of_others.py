"""Leaks planted on purpose in boxes on strings, stumps, ensembles, classical predictors and bisection."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from oracle.codec.json import messages as json_messages
from oracle.codec.json import values as json_values
from oracle.mechanisms.orders import text_digits
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle
from oracle.predictors.base import NO_LABEL
from oracle.predictors.bisection.predictor import Bisection
from oracle.predictors.classical import ClassicalPredictor
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.stumps import StumpsPERP
from oracle.telemetry.reporter import Reporter
from tests.leaks.levers import (
    Mutant,
    Patch,
    after,
    gauge,
    in_channels,
    in_status,
    log_reason,
    of_state,
    on_commit,
    ones,
    padded,
)


def metric_by_label(patch: Patch) -> None:
    """Plant a gauge of how often the answer was 1."""
    gauge(patch, "perpetua_answers_of_one", ones(patch))


def _gauge_of(read: Callable[[Any], float], patch: Patch) -> None:
    gauge(patch, "perpetua_leak", of_state(patch, read))


def _log_of(read: Callable[[Any], float], patch: Patch) -> None:
    log_reason(patch, of_state(patch, read))


def _kept(state: Any) -> int:
    """Return how many slots of an ensemble's next life have a query."""
    return int(np.count_nonzero(state["next_labels"] != NO_LABEL))


def _trimmed_keys(state: Any) -> int:
    """Return the bytes of the collected keys without the zeros behind a short text."""
    return sum(int(np.count_nonzero(state[name])) for name in state if name.startswith("collected_keys"))


def _text_lengths_logged(patch: Patch) -> None:
    real, lengths = text_digits, [0]

    def digits(text: bytes, count: int) -> list[float]:
        lengths.append(len(text))
        return real(text, count)

    patch.setattr(json_values, "text_digits", digits)
    on_commit(patch, lambda reporter: reporter._log.info("queries.rejected", count=sum(lengths)))


def _kept_queries(patch: Patch) -> None:
    """A classical predictor that keeps the queries that it answers with 1."""
    kept = ones(patch)
    padded(ClassicalPredictor, lambda _: kept(), patch)


def _edge_in_text(patch: Patch) -> None:
    """Log lines by the digits of the lower bounds."""

    def restored(reporter: Reporter, *_: Any) -> None:
        for _one in range(digits()):
            reporter._log.info("daemon.recovered")

    found: list[ClassicalPredictor] = []
    after(patch, ClassicalPredictor, "__init__", lambda self, *_, **__: found.append(self))

    def digits() -> int:
        return int(np.ascontiguousarray(found[-1]._hypothesis.lower).view(np.uint64).sum() % 7)

    after(patch, Reporter, "restored", restored)


def _threshold_logged(patch: Patch) -> None:
    sums = [0.0]

    def ask(_oracle: BinaryThresholdOracle, _queries: Any, thresholds: Any, _words: Any) -> None:
        sums.append(float(thresholds.sum()))

    after(patch, BinaryThresholdOracle, "ask", ask)
    log_reason(patch, lambda: f"{sums[-1]:.9f}")


def _cost_in_status(patch: Patch) -> None:
    in_status(patch, "spent", of_state(patch, lambda state: state["cost"].sum()))


def _unpadded_value(patch: Patch) -> None:
    patch.setattr(json_messages, "_VALUE_BYTES", 0)


_FILES: Final = in_channels("files", "metrics", "snapshot headers", "status")

MUTANTS_OF_OTHERS: Final[dict[str, Mutant]] = {
    "strings: a state's size by how long texts are": Mutant(
        partial(padded, RectanglesPERP, _trimmed_keys), "query", _FILES, subject="strings"
    ),
    "strings: how long texts are, logged": Mutant(_text_lengths_logged, "query", in_channels("log"), subject="strings"),
    "boxes: learned edges in a metric": Mutant(
        partial(_gauge_of, lambda state: state["edges"].sum() if "edges" in state else 0.0),
        "training row",
        in_channels("metrics"),
        subject="rectangles, learned",
    ),
    "stumps: a metric by label": Mutant(metric_by_label, "label", in_channels("metrics"), subject="stumps"),
    "stumps: a state's size by a window": Mutant(
        partial(padded, StumpsPERP, lambda state: int(state["collected_counts"].sum())),
        "presence",
        _FILES,
        subject="stumps",
    ),
    "stumps: where the edge's points lie, logged": Mutant(
        partial(_log_of, lambda state: state["points"][np.isfinite(state["points"])].sum()),
        "training row",
        in_channels("log"),
        subject="stumps",
    ),
    "ensembles: a metric by label": Mutant(metric_by_label, "label", in_channels("metrics"), subject="ensemble"),
    "ensembles: how many queries are kept, logged": Mutant(
        partial(_log_of, _kept), "presence", in_channels("log"), subject="ensemble"
    ),
    "ensembles: a state's size by its pool": Mutant(
        partial(padded, Ensemble, _kept), "presence", _FILES, subject="ensemble"
    ),
    "ensembles: which teachers, in /status": Mutant(
        lambda patch: in_status(patch, "teachers", of_state(patch, lambda state: float(state["teachers"][0]))),
        "training row",
        in_channels("status"),
        subject="ensemble",
    ),
    "classical: a metric by label": Mutant(metric_by_label, "label", in_channels("metrics"), subject="classical"),
    "classical: queries are kept": Mutant(_kept_queries, "label", _FILES, subject="classical"),
    "classical: log lines by an edge": Mutant(_edge_in_text, "training row", in_channels("log"), subject="classical"),
    "bisection: w* in a metric": Mutant(
        partial(_gauge_of, lambda state: state["database"].sum() if "database" in state else 0.0),
        "training row",
        in_channels("metrics"),
        subject="bisection",
    ),
    "bisection: a threshold, logged": Mutant(_threshold_logged, "query", in_channels("log"), subject="bisection"),
    "bisection: what the bits cost, in /status": Mutant(
        _cost_in_status, "query", in_channels("status"), subject="bisection"
    ),
    "bisection: a state's size by the hypothesis": Mutant(
        partial(padded, Bisection, lambda state: int(1000.0 * np.abs(state["raw"]).sum())),
        "everything",
        _FILES,
        subject="bisection",
    ),
    "bisection: a value's length": Mutant(_unpadded_value, "label", in_channels("answers"), subject="bisection"),
}
"""Every leak by what it is."""
