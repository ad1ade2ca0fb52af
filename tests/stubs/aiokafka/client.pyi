from enum import Enum

from aiokafka import AIOKafkaClient as AIOKafkaClient

class CoordinationType(Enum):
    TRANSACTION = ...
