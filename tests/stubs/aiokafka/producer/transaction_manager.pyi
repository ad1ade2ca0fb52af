class TransactionManager:
    producer_id: int
    producer_epoch: int
