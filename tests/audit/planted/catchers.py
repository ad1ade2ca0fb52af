"""Which part of the audit catches which planted bug, and the table of all of them."""

from typing import Final, NamedTuple

from oracle.audit.findings import Check, Finding
from oracle.audit.games.cells import Cell, run_cell
from oracle.audit.games.plans import TARGETS
from oracle.audit.structure.checks import run_check
from oracle.audit.timing.checks import run_timing
from tests.audit.planted.mutants import planted
from tests.audit.timing.workclock import counted_work

__all__ = ["CATCHERS", "MISS", "Catcher", "catch", "caught", "play"]

SEED: Final = bytes(range(16))
MISS: Final = 1e-3


class Catcher(NamedTuple):
    """One part of the audit, with as many games or epochs as a test has time for.

    Attributes:
        kind: "game", "structure" or "time".
        target: Whose.
        name: The adversary's or the check's.
        epsilon: Claimed; of games only.
        games: Or epochs.
    """

    kind: str
    target: str
    name: str
    epsilon: float = 4.0
    games: int = 0


_BESIDE: Final = "answers are those of a plain re-implementation"
_ONE_SIDE: Final = TARGETS[0].name
_BOX: Final = TARGETS[1].name
_MOVES: Final = "one record moves inputs as declared"
_PLAINLY: Final = Catcher("structure", "ensemble", _BESIDE)
_LADDER: Final = Catcher("structure", "distribution", _BESIDE)
_LADDER_NOISE: Final = Catcher("structure", "distribution", "comparisons have the plan's noise")

CATCHERS: Final[dict[str, tuple[Catcher, ...]]] = {
    "noise scale halved": (
        Catcher("game", "discrete-laplace", "dynamic program", 1.0, 12_000),
        Catcher("structure", _ONE_SIDE, "thresholds and noise are the plan's, exactly"),
    ),
    "one draw for two rounds": (
        Catcher("game", _ONE_SIDE, "twins", 2.0, 300),
        Catcher("structure", _ONE_SIDE, _BESIDE),
    ),
    "noise drawn again after a restart": (Catcher("structure", _BOX, _BESIDE),),
    "Stopper without rho": (
        Catcher("structure", _ONE_SIDE, _BESIDE),
        Catcher("game", "discrete-laplace", "19 of 20 mediums held for 64 rounds", 1.0, 1_500),
        Catcher("structure", _ONE_SIDE, "thresholds and noise are the plan's, exactly"),
    ),
    "mediums not counted": (Catcher("structure", _ONE_SIDE, _BESIDE),),
    "a record twice in a side": (
        Catcher("structure", _BOX, _MOVES),
        Catcher("structure", "boxes, sequential", _MOVES),
        Catcher("structure", "boxes, learned edges", _MOVES),
        Catcher("structure", "stumps", _MOVES),
    ),
    "K never capped": (Catcher("structure", _BOX, _BESIDE),),
    "thresholds too close": (Catcher("structure", _BOX, "thresholds and noise are the plan's, exactly"),),
    "a query in two places": (
        Catcher("structure", _ONE_SIDE, _BESIDE),
        Catcher("structure", _ONE_SIDE, _MOVES),
        Catcher("structure", "boxes, sequential", _BESIDE),
    ),
    "noise that follows earlier data": (
        Catcher("structure", _ONE_SIDE, _BESIDE),
        Catcher("structure", _ONE_SIDE, _MOVES),
    ),
    "noise of the query alone": (Catcher("structure", _ONE_SIDE, _BESIDE),),
    "early exit": (Catcher("time", "a batch of 64", "", games=17),),
    "one answer by id": (Catcher("structure", _ONE_SIDE, "one message, one round"),),
    "float noise": (Catcher("structure", _ONE_SIDE, "thresholds and noise are the plan's, exactly"),),
    "key not ratcheted": (
        Catcher("structure", _ONE_SIDE, _BESIDE),
        Catcher("structure", "statistics", "the genesis key is let go"),
    ),
    "a side's choice pays once for two": (
        Catcher("structure", "classical box, one side", _BESIDE),
        Catcher("game", "classical box, one side", "row at the edge", 2.0, 3_000),
    ),
    "edges without noise": (
        Catcher("structure", "boxes, learned edges", _BESIDE),
        Catcher("game", "boxes, learned edges", "hammer", 1.0, 400),
    ),
    "a count without noise": (
        Catcher("structure", "boxes, learned edges", _BESIDE),
        Catcher("game", "boxes, learned edges", "hammer", 1.0, 400),
    ),
    "bits of a quarter of the noise": (
        Catcher("structure", "bisection, efficient", _BESIDE),
        Catcher("game", "bisection, efficient", "reader of bits", 2.0, 600),
    ),
    "a row weighs twice in the mean": (Catcher("structure", "bisection, paper", _MOVES),),
    "one draw for rounds r and r + 2": (Catcher("structure", _ONE_SIDE, _BESIDE),),
    "one draw for all sides": (Catcher("structure", _BOX, _BESIDE),),
    "draws of 32 bits": (
        Catcher("structure", _ONE_SIDE, _BESIDE),
        Catcher("structure", "classical stump", _BESIDE),
    ),
    "mediums twice in a side": (
        Catcher("structure", _ONE_SIDE, _BESIDE),
        Catcher("structure", _ONE_SIDE, _MOVES),
    ),
    "mediums kept over a life": (Catcher("structure", "stumps", _BESIDE),),
    "mediums forgotten between batches": (Catcher("structure", _BOX, _BESIDE),),
    "a value told with a free answer": (
        Catcher("structure", "statistics, complete", "answers follow from the ledger"),
    ),
    "noise of the question alone": (
        Catcher("structure", "sparse vector", _BESIDE),
        Catcher("structure", "sparse vector, few", _BESIDE),
    ),
    "K counted from nothing after a restart": (
        Catcher("structure", "statistics, complete", "paid answers are counted up to K"),
        Catcher("structure", "sparse vector", "paid answers are counted up to K"),
    ),
    "a hypothesis of true counts": (
        Catcher("structure", "statistics, complete", "answers follow from the ledger"),
        Catcher("structure", "statistics", "answers follow from the ledger"),
    ),
    "marginals without noise": (Catcher("game", "statistics", "reader of marginals", 4.0, 1_000),),
    "a row counted twice": (Catcher("structure", "statistics", _MOVES),),
    "one marginal without noise": (
        Catcher("structure", "statistics, three attributes", "what is released has the plan's noise"),
        Catcher("game", "statistics, three attributes", "reader of marginals", 4.0, 1_000),
    ),
    "one draw for all marginals": (
        Catcher("structure", "statistics, three attributes", "what is released has the plan's noise"),
        Catcher("structure", "statistics, three attributes", _BESIDE),
    ),
    "thresholds that follow the rows": (
        Catcher("structure", "statistics, complete", "what is released has the plan's noise"),
    ),
    "noise of twice the slope": (Catcher("structure", "sparse vector", "what is released has the plan's noise"),),
    "values with the noise of marginals": (
        Catcher("structure", "statistics, three attributes", "what is released has the plan's noise"),
    ),
    "K one more after a restart": (
        Catcher("structure", "statistics", "paid answers are counted up to K"),
        Catcher("structure", "sparse vector", "paid answers are counted up to K"),
    ),
    "one draw above and below": (Catcher("structure", "statistics, complete", _BESIDE),),
    "noise the other way round": (
        Catcher("structure", "statistics, complete", "what is released has the plan's noise"),
    ),
    "a hypothesis fitted to true marginals": (
        Catcher("structure", "statistics, three attributes", "answers follow from the ledger"),
    ),
    "repeats answered from the rows": (Catcher("structure", "statistics, complete", "answers follow from the ledger"),),
    "rows answer when K is spent": (Catcher("structure", "statistics", "answers follow from the ledger"),),
    "verified by the rows": (Catcher("structure", "statistics, complete", "answers follow from the ledger"),),
    "another noise after a restart": (
        Catcher("structure", "statistics, three attributes", "answers follow from the ledger"),
        Catcher("structure", "sparse vector", "answers follow from the ledger"),
    ),
    "one-sided thresholds without noise": (
        Catcher("structure", "sparse vector, few", "what is released has the plan's noise"),
    ),
    "rows 5 % too heavy in the mean": (Catcher("structure", "bisection, paper", _MOVES),),
    "a value with a free answer": (
        Catcher("game", "gumbel", "rarely above", 1.0, 4_000),
        Catcher("game", "logistic", "rarely above", 1.0, 4_000),
    ),
    "one draw for two questions": tuple(
        Catcher("game", law, "rarely above", 4.0, 1_000) for law in ("gumbel", "logistic", "exponential")
    ),
    "paid answers not counted": (
        Catcher("game", "gumbel", "rarely above", 1.0, 4_000),
        Catcher("game", "exponential", "rarely above", 1.0, 4_000),
    ),
    "one-sided noise on counts only": (Catcher("game", "exponential", "rarely above", 4.0, 12_000),),
    "a row in two teachers": (_PLAINLY, Catcher("structure", "ensemble", _MOVES)),
    "retrained on true votes": (_PLAINLY,),
    "votes with weights": (_PLAINLY, Catcher("structure", "ensemble", _MOVES)),
    "more paid than P": (_PLAINLY,),
    "K of a plan short": (Catcher("structure", "ensemble", "its figures are the proof's"),),
    "half the noise after a re-arm": (_PLAINLY,),
    "thresholds of true counts": (_PLAINLY,),
    "paid queries kept": (_PLAINLY, Catcher("structure", "ensemble", _MOVES)),
    "slots of queries": (Catcher("structure", "ensemble", _MOVES),),
    "a Stopper not reset": (_PLAINLY,),
    "a life without end": (_PLAINLY,),
    "a Stopper's level without noise": (_PLAINLY,),
    "a cap that is passed": (_PLAINLY,),
    "paid queries forgotten after a restart": (_PLAINLY,),
    "one draw for all classes": (Catcher("structure", "ensemble", "a draw serves once only"),),
    "blocks for nothing": (Catcher("structure", "ensemble", "its figures are the proof's"),),
    "rows dealt by their presence": (
        _PLAINLY,
        Catcher("structure", "ensemble", _MOVES),
    ),
    "a threshold that does not retire": (_LADDER,),
    "comparisons with half the noise": (
        _LADDER,
        _LADDER_NOISE,
    ),
    "one draw for all thresholds": (_LADDER, Catcher("structure", "distribution", "a draw serves once only")),
    "a free comparison's count told": (_LADDER,),
    "zones that follow the count": (_LADDER, _LADDER_NOISE),
    "true counts paid for": (_LADDER,),
    "one threshold not paid for": (Catcher("structure", "distribution", "its figures are the proof's"),),
    "a threshold open again after a restart": (_LADDER,),
    "a row that counts twice": (_LADDER,),
    "blanked rows counted": (_LADDER,),
    "comparisons forgotten after a restart": (_LADDER,),
}
"""By planted bug."""


def play(catcher: Catcher) -> Finding | Check:
    """Run one part of the audit."""
    if catcher.kind == "structure":
        return run_check(catcher.target, catcher.name, SEED)
    if catcher.kind == "time":
        with counted_work():
            return run_timing(catcher.target, SEED, MISS, looks=(catcher.games,), turns=1)
    level = {"dynamic program": "between-thresholds"}.get(catcher.name, "predictor")
    level = "stopper" if "mediums held" in catcher.name else level
    level = "paid-questions" if catcher.name.startswith("rarely") else level
    pure = level == "stopper" or catcher.target == "exponential" or catcher.target.startswith("classical")
    delta = 0.0 if pure else 0.01
    cell = Cell(level, catcher.target, catcher.name, catcher.epsilon, delta, catcher.games)  # type: ignore[arg-type]  # one of the four
    return run_cell(cell, SEED, MISS, limit=False)


def caught(result: Finding | Check) -> bool:
    """Return whether a part of the audit found something."""
    return result.refutes if isinstance(result, Finding) else not result.passed


def catch(mutant: str, catcher: Catcher) -> Finding | Check:
    """Run one part of the audit on a broken Perpetua."""
    with planted(mutant):
        return play(catcher)
