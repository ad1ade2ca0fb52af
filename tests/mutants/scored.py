"""The score of `perpetua audit`, kept where its report looks for it."""

import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from oracle.audit.report.score import SCORES, Score, read_scores
from oracle.cli.version import version
from tests.mutants.attacks import Verdict
from tests.mutants.mutants import Mutant

_ROOT: Final = Path(__file__).parents[2]


def write_score(name: str, mutants: Sequence[Mutant], verdicts: Sequence[Verdict]) -> bool:
    """Keep a list's score in place of the one before, unless fewer were found; return whether it was kept.

    Of what was missed it tells the kind, and no more. An audit that ended with an error has found nothing; how many did
    is told, and they are as good as found only beside the score before, which may not have told them apart.
    """
    pairs = list(zip(mutants, verdicts, strict=True))
    broken = sum(verdict.outcome == "broken" for verdict in verdicts)
    missed = Counter(one.kind for one, verdict in pairs if verdict.outcome not in {"found", "broken"})
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=_ROOT, capture_output=True, check=True)
    score = Score(
        date=datetime.now(UTC).date().isoformat(),
        version=version(),
        commit=commit.stdout.decode().strip(),
        found=len(mutants) - missed.total() - broken,
        of=len(mutants),
        missed=dict(sorted(missed.items())),
        broken=broken,
    )
    scores = read_scores()
    if name in scores and _noticed(scores[name]) * score.of > _noticed(score) * scores[name].of:
        return False
    kept = msgspec.json.encode({**scores, name: score}, order="sorted")
    SCORES.write_bytes(msgspec.json.format(kept, indent=2) + b"\n")
    return True


def _noticed(score: Score) -> int:
    return score.found + score.broken
