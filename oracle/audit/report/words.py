"""An audit in plain words: what each part of it would have found, and what a failure means and asks for."""

from typing import Final, NamedTuple

from oracle.audit.findings import Check, Finding

__all__ = ["GLOSSARY", "LIMITS", "UNSEEN", "Meaning", "meaning"]


class Meaning(NamedTuple):
    """One part of an audit, in plain words.

    Attributes:
        finds: What it would have found; goes on from "It would have found".
        means: What a failure means.
        do: What to do then.
    """

    finds: str
    means: str
    do: str


_REPORT: Final = "Report it privately (SECURITY.md), with the version and the seed of this report."
_STOP: Final = f"Do not serve with it. Take what it answered for less protected than was stated. {_REPORT}"
_FAILURES: Final = {
    "broken": ("This software does not do what its privacy proof rests on: epsilon may not hold.", _STOP),
    "game": (
        "Somebody told more often than the claim allows, and than chance explains, whether a record was there.",
        _STOP,
    ),
    "nominal": (
        "Epsilon and delta of profile paper are names; this shows that they bound nothing.",
        'Plan with profile = "tight".',
    ),
    "untold": ("This run could not tell: nothing is said for or against it.", "Run it again on a quiet machine."),
    "timing": (
        "Who can time answers finely learns labels, or what decided them.",
        f"Run it again on a quiet machine. {_REPORT}",
    ),
    "plan": (
        "The plan has less noise, or pays for more answers, than its claim allows; or it is none that can be.",
        f"Make no state of it, and plan again with this version. {_STOP}",
    ),
    "verify": (
        (
            "The planner's own check refuses the figure that is named: the plan may have less noise than its claim "
            "allows. Where it is one of errors only (alpha, beta, gamma, share, error, examples), privacy is not "
            "touched."
        ),
        f"Make no state of it, and plan again with this version. {_STOP}",
    ),
    "promise": (
        "Privacy is not touched. What is promised about errors, or about how many rows suffice, does not hold.",
        "Declare more rows or a larger error, and plan again.",
    ),
    "state": (
        "What answers from this state is not what its plan says: the plan's guarantee is not this state's.",
        f"Stop serving it, keep a copy to look into, and make a new state. {_STOP}",
    ),
}

_SHARED: Final = "messages that share a round: whoever guesses an id would be given a hidden answer"
_FINDS: Final = {
    "answers are those of a plain re-implementation": "runs, whole or cut and restored, with other answers, events or "
    "noise than a second program has that was written from the proofs alone",
    "thresholds and noise are the plan's, exactly": "noise whose law is off by more than 2^-128, or other thresholds",
    "private choices have the law that is due": "a stump, cut, edge or count that is chosen more by the rows than is "
    "charged for, over many keys",
    "noise behind a restart has the law that is due": "noise of another law once sides were armed again or a state was "
    "restored, over many keys",
    "one record moves inputs as declared": "a record that moves what the noise hides by more than its proof allows",
    "all else follows from what mechanisms say": "something that is told or done by the rows and that no "
    "mechanism hides, on data of all kinds: a choice made without noise where it is clear, or work that is spared",
    "what a plan claims is due": "a planner whose plans have less noise, or pay for more, than their claims allow",
    "what a daemon tells is public": "labels, rows, values or texts of errors in logs, metrics, status, "
    "ledger, sizes of files or answers; or work, and time that is told, that follows from what is private",
    "what is released is priced as its noise has it": "a released score with less noise, or a score or a count "
    "of init at a lower price, than is stated",
    "a row that is too large is refused": "a row that is taken although it moves more than it is charged for",
    "one message, one round": _SHARED,
    "each message is a round": _SHARED,
    "a restored state answers on as before": "a restart that draws other noise: a second release that nobody counted",
    "the genesis key is let go": "a state that keeps the key of its own beginning, which opens what is over",
    "answers follow from the ledger": "an answer that tells more of the rows than was released and paid for",
    "what is released has the plan's noise": "releases whose noise or thresholds are not the plan's",
    "comparisons have the plan's noise": "comparisons whose noise or thresholds are not the plan's",
    "paid answers are counted up to K": "more paid answers than the plan pays for, or some that are not counted",
    "its figures are the proof's": "a plan that claims less than its proof charges",
    "a draw serves once only": "noise that is used twice: in the difference of two such answers there is none",
    "a kill where a side is armed or a phase ends changes nothing": "a daemon that was killed where sides are armed or "
    "phases end, and went on otherwise than without",
    "forks have noise of their own, and are paid for": "another log answered with noise that was used before, or at "
    "no cost",
    "no other log is answered behind a snapshot": "a restart that answers another log than was answered, so that one "
    "noise serves two queries",
    "sizes of states are public, and no key of before is kept": "a file whose length or clear text tells of records, "
    "or that still has what undoes older noise",
    "shards share no row": "a row in two shards, or shards that together pay more than the model says",
    "of a person as few rows are used as is said": "somebody with more rows in than is paid for",
    "what is told of epsilon and delta adds up": "ledgers and budgets that say less than records pay",
    "commands show nothing of the rows": "a file, its length, a line or a number that tells of rows, or what counts "
    "twice of rows, persons and draws, when init, serve, fork and status are run",
    "no round has a second noise": "a daemon that was killed and started again, and answered otherwise than without",
}
"""Of checks by name; any other is said by its name, so that a new one need not stand here."""

_ATTACKED: Final = {
    "between-thresholds": "the answers of one mechanism, BetweenThresholds,",
    "paid-questions": "the answers of one mechanism, paid questions,",
    "stopper": "when one mechanism, the Stopper, halts",
    "predictor": "a whole predictor's answers",
    "daemon": "the answers of a daemon that is killed and started again",
}


def meaning(one: Finding | Check) -> Meaning:
    """Return what a part of an audit would have found, and what it means if it failed or could not tell."""
    if isinstance(one, Finding):
        how = " (profile paper: no proof bounds it)" if one.nominal else ""
        finds = f"somebody who tells from {_ATTACKED.get(one.level, one.level)} whether a record was there"
        return Meaning(f"{finds}, beyond the claim{how}", *_FAILURES["nominal" if one.nominal else "game"])
    kind = one.cell.partition("|")[0]
    if kind == "plan" and one.target.startswith(("state", "shard ")):
        kind = "state"
    kind = "verify" if one.cell == "plan|verify" else kind
    kind = "untold" if one.unsure else "promise" if one.promise else kind if kind in _FAILURES else "broken"
    return Meaning(_finds(one, kind), *_FAILURES[kind])


def _finds(one: Check, kind: str) -> str:
    if one.cell == "plan|verify":
        return "a figure of the plan that the planner's accountant cannot prove"
    if one.cell.startswith("timing|"):
        return "answers whose time tells their label, or the side that decided"
    general = {
        "state": "live objects of the state that are not what its plan says",
        "plan": "a figure of the plan that gives less privacy than a second accountant says is due",
        "promise": "a promise about errors, or a number of rows, that the plan's figures do not keep",
    }
    return general.get(kind) or _FINDS.get(one.name, f"that this does not hold: {one.name}")


LIMITS: Final = (
    "An audit can refute a claim of privacy; it cannot prove one. The proofs are in PRIVACY.md.",
    "The attacks are those listed here. Another adversary, another size or other data may show what these do not.",
    "What an attack proved is a lower bound: little proved is no sign of strength.",
    "The claim is about one record. Somebody with m records has m times epsilon only, and a larger delta.",
)
"""Of every audit."""

UNSEEN: Final = (
    "Who is given whose answers, over HTTP (tokens) or a bus (topics): each asker should see its own only.",
    "Who may read keys, states and backups, and who is on the machine.",
    "Whether the plan was declared without a look at the data, and how many records one person has.",
    "Caches, power, where random keys come from, and how long anything takes but the answers of boxes.",
    "Whether answers are right: perpetua evaluate measures that.",
)
"""What no audit here looks at."""

GLOSSARY: Final = (
    ("claim", "an (epsilon, delta) that the software states, and that an attack tries to refute"),
    ("delta", "the probability with which epsilon may fail to bound what a record adds"),
    (
        "epsilon",
        "that a record is there changes the chance of what others see by a factor of e^epsilon at most, but for delta",
    ),
    (
        "game",
        "an attack: in one world a record is there, in the other it is not; an adversary tries to tell",
    ),
    ("K", "how many answers, or answers near an edge, are paid for at most; a Stopper counts them, with noise"),
    ("life, phase", "a number of rounds after which other records answer; to re-arm is to begin with these"),
    ("nominal", "of an epsilon that is a name only, and that no proof bounds (profile paper)"),
    ("plan", "every number that a run is bound to, fixed and public before any data is read"),
    ("predictor", "the algorithm that answers; BetweenThresholds, Stopper and paid questions are parts of some"),
    ("proved", "of an attack: epsilon is at least this, but with the probability of error that is named"),
    ("provable", "the most that so many games could have proved, had there been no privacy at all"),
    ("record", "one training row or one query: what is protected"),
    ("seed", "what all randomness of the audit follows from: with it, and the same software, it can be repeated"),
    ("state", "what a daemon (perpetua serve) answers from: secret, and stored under a key"),
)
