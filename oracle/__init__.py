"""Perpetua: private everlasting prediction.

`import oracle` loads nothing; a name of `__all__` is loaded when it is used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from connectors.base import Sink, Source
    from oracle.api.client import Client, Question
    from oracle.api.estimator import PerpetuaClassifier
    from oracle.api.online import OnlineClassifier
    from oracle.api.planning import plan
    from oracle.api.predictor import TrainedPredictor, load
    from oracle.api.serving import serve
    from oracle.api.sync_client import SyncClient
    from oracle.api.training import train

__all__ = [
    "Client",
    "OnlineClassifier",
    "PerpetuaClassifier",
    "Question",
    "Sink",
    "Source",
    "SyncClient",
    "TrainedPredictor",
    "load",
    "plan",
    "serve",
    "train",
]

_HOMES: Final = {
    "Client": "oracle.api.client",
    "OnlineClassifier": "oracle.api.online",
    "PerpetuaClassifier": "oracle.api.estimator",
    "Question": "oracle.api.client",
    "Sink": "connectors.base",
    "Source": "connectors.base",
    "SyncClient": "oracle.api.sync_client",
    "TrainedPredictor": "oracle.api.predictor",
    "load": "oracle.api.predictor",
    "plan": "oracle.api.planning",
    "serve": "oracle.api.serving",
    "train": "oracle.api.training",
}
"""The module of each name in `__all__`."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- mypy reads the imports above
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
