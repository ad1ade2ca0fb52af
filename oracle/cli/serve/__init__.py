"""`perpetua serve`: the daemon, on files, Kafka, MQTT or HTTP."""
