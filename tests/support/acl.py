"""The access rules that the commands of deploy/kafka/acls.md add."""

import itertools
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by their documentation
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

__all__ = ["RECIPE", "rules_of"]

RECIPE: Final = Path(__file__).resolve().parents[2] / "deploy" / "kafka" / "acls.md"
_KINDS: Final = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def rules_of(text: str, names: Mapping[str, str]) -> list[AclBinding]:
    """Return the rules that the recipe's commands add, with the recipe's names replaced."""
    found = []
    for line in re.findall(r"^kafka-acls .*", text.replace("\\\n", " "), re.MULTILINE):
        pairs = list(itertools.pairwise(shlex.split(line)))
        pattern = ResourcePatternType[dict(pairs).get("--resource-pattern-type", "literal").upper()]
        user = dict(pairs)["--allow-principal"]
        operations = [_operation(word) for option, word in pairs if option == "--operation"]
        resources = [(_KINDS[option], names.get(word, word)) for option, word in pairs if option in _KINDS]
        found += [
            AclBinding(kind, name, pattern, user, "*", operation, AclPermissionType.ALLOW)
            for kind, name in resources
            for operation in operations
        ]
    return found


def _operation(word: str) -> AclOperation:
    """Return an operation by its name in Kafka's tools, such as DescribeConfigs."""
    return AclOperation[re.sub("(?<=[a-z])(?=[A-Z])", "_", word).upper()]
