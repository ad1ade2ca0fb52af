from aiokafka.consumer import consumer as consumer
from aiokafka.consumer import fetcher as fetcher
