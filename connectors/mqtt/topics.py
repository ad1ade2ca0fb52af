"""Which topics that an asker names can be published to: within what brokers take, whatever the allow-list says."""

import re
from typing import Final

from connectors.mqtt.settings import MqttSettings

__all__ = ["publishable"]

_UNFIT: Final = re.compile(
    "[+#\\x00-\\x1f\\x7f-\\x9f\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
"""Wildcards; and what a broker may end the connection for (MQTT 5, section 1.5.4): controls and non-characters."""


def publishable(topic: str, settings: MqttSettings) -> bool:
    """Return whether brokers take a message on a topic: its form, its length and its levels; not the broker's own.

    Mosquitto ends the connection above 200 levels, EMQX above 128, others far below.
    """
    fits = topic.count("/") < settings.reply_levels and 0 < len(topic.encode()) <= settings.reply_bytes
    return fits and not topic.startswith("$") and _UNFIT.search(topic) is None
