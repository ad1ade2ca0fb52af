from aiokafka import AIOKafkaConsumer as AIOKafkaConsumer
from aiokafka.consumer.fetcher import Fetcher as Fetcher
