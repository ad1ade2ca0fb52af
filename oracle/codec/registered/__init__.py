"""Messages in Avro or Protobuf behind the id of a schema in a registry: Confluent's wire format."""
