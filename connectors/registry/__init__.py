"""A Schema Registry, by the API that Confluent's has, and others have beside their own."""
