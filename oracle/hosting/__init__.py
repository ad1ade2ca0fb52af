"""From a configuration to a daemon that serves: the connectors, the store and the shards it names."""
