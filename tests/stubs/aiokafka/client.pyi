from aiokafka import AIOKafkaClient as AIOKafkaClient
