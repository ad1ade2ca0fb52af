"""Kafka: exactly once, by one transaction a commit. The only folder that imports aiokafka."""
