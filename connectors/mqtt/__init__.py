"""MQTT 5: queries are journalled before they are acknowledged, answers come at least once. Nothing else has aiomqtt."""
