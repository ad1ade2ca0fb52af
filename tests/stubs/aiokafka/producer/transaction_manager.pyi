from aiokafka import TopicPartition

class TransactionManager:
    producer_id: int
    producer_epoch: int
    _pending_txn_partitions: set[TopicPartition]
