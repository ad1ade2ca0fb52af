"""Which codec reads a plan's messages."""

from oracle.codec.batches import BatchCodec
from oracle.codec.guarded import Codec
from oracle.codec.questions import QuestionCodec
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan

__all__ = ["codec_of"]


def codec_of(plan: Plan) -> Codec:
    """Return the codec of a plan: its queries have features, or are public questions."""
    return QuestionCodec(plan) if isinstance(plan, QuestionPlan) else BatchCodec(plan)
