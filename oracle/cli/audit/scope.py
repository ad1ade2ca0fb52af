"""What an audit was of, and what it left out, in sentences."""

from collections.abc import Sequence
from typing import Final

from oracle.audit.report.contents import Scope
from oracle.audit.report.words import UNSEEN
from oracle.planning.plan import Plan, truth_of

__all__ = ["own_scope", "toys_scope"]

_FAMILIES: Final = {
    "structure": "checks of structure and restarts",
    "timing": "checks of time",
    "daemon": "games of daemons",
}
_ELSE: Final = (
    "What the same rows paid elsewhere: forks, older snapshots and copies, scores, other models (perpetua status and "
    "perpetua budget add up what was recorded)."
)
_LABELS: Final = "The folder of perpetua truth: what it holds, what was released, and whether it was ever set back."
_TARGETED: Final = ("structure", "predictor")


def toys_scope(chosen: Sequence[str], every: Sequence[str], epsilons: Sequence[float], daemon_games: int) -> Scope:
    """Return the scope of an audit of this software, which is played on plans of its own.

    Args:
        chosen: Names of the parts.
        every: Names of all parts that there are with these options, but for --only.
        epsilons: Claims that were attacked.
        daemon_games: Games of daemons, in each world.
    """
    targets = dict.fromkeys(name.split("|")[1] for name in chosen if name.startswith(_TARGETED))
    left = {name.partition("|")[0] for name in every if name not in chosen}
    left_out = [f"{_count(family, every, chosen)}." for family in sorted(left)]
    if not daemon_games:
        left_out.append("Daemons that are killed and started again (--daemon-games 0).")
    claims = " and ".join(f"{epsilon:g}" for epsilon in epsilons)
    names = f": {'; '.join(targets)}" if targets else ""
    return Scope(
        attacked=(
            "This software, on toys: small plans, states and data that were made for this audit. Nothing of yours.",
            f"{len(chosen)} parts{names}.",
        ),
        left_out=(
            *left_out,
            "Your plan and your state (--plan, --state).",
            f"In games: claims other than epsilon = {claims}, and plans of other sizes.",
            *UNSEEN,
        ),
        whole=not left and daemon_games > 0,
    )


def _count(family: str, every: Sequence[str], chosen: Sequence[str]) -> str:
    of = [name for name in every if name.partition("|")[0] == family]
    missing = sum(name not in chosen for name in of)
    return f"{missing} of {len(of)} {_FAMILIES.get(family, f'games of level {family}')} (--only)"


def own_scope(attacked: Sequence[str], plans: Sequence[Plan], *, state: bool) -> Scope:
    """Return the scope of an audit of somebody's own plan or state.

    Args:
        attacked: What was looked at, in sentences.
        plans: Of these.
        state: Whether a state was looked at.
    """
    answers = (
        "Answers of the state: none was asked for." if state else "A state: whatever answers by the plan (--state)."
    )
    return Scope(
        attacked=tuple(attacked) or ("Nothing yet.",),
        left_out=(
            answers,
            _ELSE,
            *((_LABELS,) if any(truth_of(plan) for plan in plans) else ()),
            "The software itself: no game was played, nothing was restarted, no time was taken (perpetua audit does).",
            *UNSEEN,
        ),
        nominal=any(plan.nominal for plan in plans),
    )
