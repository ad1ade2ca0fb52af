"""What many models of one process must not share, and what they must."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from oracle.config.kafka import KafkaSinkConfig, KafkaSourceConfig
from oracle.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from oracle.config.daemon import Config

__all__ = ["refuse_clashes"]

_SHARED: Final = (
    ("source", "group"),
    ("source", "instance"),
    ("source", "session_seconds"),
    ("sink", "marks"),
    ("sink", "transaction_seconds"),
)
"""Table and key of what says how the process takes part in the group, of which there is one."""


class _Use(NamedTuple):
    """What a model does with a topic.

    Attributes:
        field: Where that is said.
        common: What others must do with it too to have it in common; None where nobody may.
    """

    field: str
    topic: str
    common: str | None = None


def refuse_clashes(configs: Mapping[str, "Config"]) -> None:
    """Refuse models that are not all Kafka's, or would be in each other's way.

    Args:
        configs: By the models' names.

    Raises:
        InputError: Two have a topic, or a folder, that must be one's own, or are not of one group; both are named.
    """
    for name, config in configs.items():
        if config.source.kind != "kafka":
            bound = 'must be "kafka": a process serves many models on Kafka only'
            raise InputError(f"models.{name}.source.kind", config.source.kind, bound)
    _refuse_other_groups(configs)
    _refuse_same_folders(configs)
    _refuse_same_topics(configs)


def _refuse_other_groups(configs: Mapping[str, "Config"]) -> None:
    first, *others = configs
    for table, key in _SHARED:
        wanted = getattr(getattr(configs[first], table), key)
        if key == "group" and wanted is None:
            raise InputError("source.group", None, "must be set, at the top: [[models]] are in one consumer group")
        for name in others:
            given = getattr(getattr(configs[name], table), key)
            if given != wanted:
                shown = "is not set" if wanted is None else f"is {wanted!r}"
                bound = f"must be that of model {first}, which {shown}: set it once, in [{table}] at the top"
                raise InputError(f"models.{name}.{table}.{key}", given, bound)


def _refuse_same_folders(configs: Mapping[str, "Config"]) -> None:
    seen: list[tuple[Path, str, str]] = []
    for name, config in configs.items():
        own = [("state.folder", config.state.folder)]
        own += [] if config.truth is None else [("truth.folder", config.truth.folder)]
        for field, path in own:
            folder = path.resolve()
            for other, model, theirs in seen:
                if model != name and (folder.is_relative_to(other) or other.is_relative_to(folder)):
                    bound = f"must be a folder of its own, outside of {theirs} of model {model}, which is '{other}'"
                    raise InputError(f"models.{name}.{field}", str(path), bound)
            seen.append((folder, name, field))


def _refuse_same_topics(configs: Mapping[str, "Config"]) -> None:
    """Refuse a topic of two models, but for notes and events, which say whose they are, marks, and askers' topics."""
    seen: dict[str, tuple[str, _Use]] = {}
    for name, config in configs.items():
        for use in _uses(config):
            model, first = seen.setdefault(use.topic, (name, use))
            if model != name and (use.common is None or use.common != first.common):
                bound = f"must be a topic of its own: it is {first.field} of model {model}"
                raise InputError(f"models.{name}.{use.field}", use.topic, bound)


def _uses(config: "Config") -> Iterator[_Use]:
    source, sink = config.source, config.sink
    if not isinstance(source, KafkaSourceConfig) or not isinstance(sink, KafkaSinkConfig):
        return
    yield _Use("source.topic", source.topic)
    yield _Use("sink.topic", sink.topic)
    for field in ("ledger", "dead_letter"):
        topic = getattr(sink, field)
        if topic is not None:
            yield _Use(f"sink.{field}", topic, field)
    yield _Use("sink.marks", sink.marks or f"{source.group}.marks", "marks")
    for topic in sink.reply_topics:
        yield _Use("sink.reply_topics", topic, "replies")
    if config.truth is not None and config.truth.topic is not None:
        yield _Use("truth.topic", config.truth.topic)
