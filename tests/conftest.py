"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# How long an example takes, or making one up, says something about the machine only.
settings.register_profile("any speed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")
