"""Which codec reads a plan's messages."""

from oracle.codec.batches import BatchCodec
from oracle.codec.guarded import Codec
from oracle.codec.questions import QuestionCodec
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan

__all__ = ["codec_of"]


def codec_of(plan: Plan) -> Codec:
    """Return the codec of a plan: its queries have features, or ask about a table."""
    return QuestionCodec(plan) if isinstance(plan, TablePlan) else BatchCodec(plan)
