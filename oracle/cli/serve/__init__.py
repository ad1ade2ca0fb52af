"""`perpetua serve`: the daemon, on files, Kafka or MQTT."""
