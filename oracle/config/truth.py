"""`[truth]` of the configuration: where labels that come later are sent, and what `perpetua truth` keeps of them."""

from typing import Any

from pydantic_core import PydanticCustomError

from oracle.config.addresses import Topic
from oracle.config.base import ConfigTable, LocalPath
from oracle.config.web import WebConfig

__all__ = ["TruthConfig", "check_truth_place"]


class TruthConfig(ConfigTable):
    """`[truth]`: labels that come later, for `perpetua truth`; `serve` does not look at it.

    Attributes:
        folder: Its own state, sealed with the model's key; made at the first start. One model, one folder.
        topic: With Kafka: the topic of true labels, with as many partitions as the answers have.
        path: With JSONL files: the file of true labels, one message a line.
        web: Its metrics and health over HTTP; see `[truth.web]`.
    """

    folder: LocalPath
    topic: Topic | None = None
    path: LocalPath | None = None
    web: WebConfig | None = None


def check_truth_place(truth: TruthConfig, source: Any, sink: Any) -> None:  # noqa: ANN401 -- tables of any bus
    """Refuse what cannot be joined: answers that nobody can read again, labels elsewhere, a topic with two uses.

    Raises:
        PydanticCustomError: It cannot.
    """
    if sink.kind not in {"kafka", "jsonl"}:
        raise PydanticCustomError("truth", f'is for sink.kind "kafka" and "jsonl" (it is "{sink.kind}")')
    wanted, other = ("topic", "path") if sink.kind == "kafka" else ("path", "topic")
    if getattr(truth, wanted) is None or getattr(truth, other) is not None:
        raise PydanticCustomError("truth", f'must have {wanted}, and no {other}: sink.kind is "{sink.kind}"')
    used = {str(value) for table in (source, sink) for value in table.model_dump().values() if isinstance(value, str)}
    used |= set(getattr(sink, "reply_topics", ()))
    used |= {str(path) for path in (getattr(source, "path", ""), getattr(sink, "path", ""))}
    if str(getattr(truth, wanted)) in used:
        raise PydanticCustomError("truth", f"{wanted} must be one of its own: nothing else may be written there")
