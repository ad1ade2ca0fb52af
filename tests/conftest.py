"""Settings of all tests, and their three speeds.

`make test` runs what is not `slow`: every feature, every bus on its real broker, every kind of crash once. The rest is
for `make test-all`, but for what is `long`: that is for `make test-long`, each night. A test is slow or long by its own
mark, or by the lists below.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, or making one up, says something about the machine only.
settings.register_profile("any speed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")

_HERE: Final = Path(__file__).parent

collect_ignore = ["support/apicurio/fetch.py"]  # a program, for the Python of the system

SLOW: Final = (
    "accounting/test_theorem_b_prime.py::test_a_choice_before_is_paid_by_its_rho",
    "audit/crashes/test_daemons.py",
    "audit/games/test_games.py",
    "audit/planted/test_mutants.py",
    "audit/report/test_audit_command.py",
    "benchmarks",
    "cli/test_budget.py::test_two_at_once_do_not_pass_it_together",
    "cli/test_evaluate.py",
    "cli/test_flights_data.py",
    "cli/test_flights_report.py::test_the_plot_is_the_same_bytes_each_time",
    "cli/test_init_check.py::test_remedies_help",
    "cli/test_init_shards.py::test_interrupted_init_can_be_run_again",
    "connectors/kafka/test_acl.py",
    "connectors/kafka/test_bridge.py",
    "connectors/kafka/test_many_models.py",
    "connectors/kafka/test_broker.py",
    "connectors/kafka/test_broker_security.py",
    "connectors/kafka/test_closing.py",
    "connectors/kafka/test_cut_over.py",
    "connectors/kafka/test_failures_broker.py",
    "connectors/kafka/test_failures_crash.py",
    "connectors/kafka/test_failures_shards.py",
    "connectors/kafka/test_fencing.py",
    "connectors/kafka/test_leaks_kafka.py",
    "connectors/kafka/test_log_changes.py",
    "connectors/kafka/test_log_markers.py",
    "connectors/kafka/test_monitored.py",
    "connectors/kafka/test_moving.py::test_a_crash_between_any_two_steps_answers_nothing_twice",
    "connectors/kafka/test_moving.py::test_a_place",
    "connectors/kafka/test_moving.py::test_old_and_new",
    "connectors/kafka/test_moving.py::test_there_and_back_again",
    "connectors/kafka/test_moving.py::test_what_is_refused",
    "connectors/kafka/test_oauth.py",
    "connectors/kafka/test_renewal.py",
    "connectors/kafka/test_replay_kafka.py",
    "connectors/kafka/test_reply_topics.py",
    "connectors/kafka/test_same_instance.py",
    "connectors/kafka/test_resharding.py::test_it_moves",
    "connectors/kafka/test_security.py",
    "connectors/kafka/test_standby_kafka.py::test_a_killed_owner",
    "connectors/kafka/test_states.py",
    "connectors/kafka/test_strangers.py",
    "connectors/kafka/test_tables_kafka.py::test_a_model_from_questions_to_its_end[s",
    "connectors/mqtt/test_failures.py",
    "connectors/mqtt/test_renewal_mqtt.py",
    "connectors/mqtt/test_security.py",
    "connectors/mqtt/test_states.py",
    "experiments",
    "leaks",
    "planning/test_suggest.py",
    "predictors/distribution/test_suites.py::TestPaper",
    "predictors/ensemble/test_ensemble.py::TestFiveClasses",
    "predictors/statistics/test_suites.py::TestCompleteStatistics",
    "predictors/test_strings.py::TestTextAndNumber",
    "runtime/test_peaks.py",
    "storms",
)
"""Folders, files and tests of `tests`."""

LONG: Final = (
    "audit/planted/test_mutants.py::test_planted_bugs_are_caught",
    "audit/planted/test_mutants.py::test_the_real_thing_passes[boxes, faces, answers",
    "audit/planted/test_mutants.py::test_the_real_thing_passes[boxes, faces, one",
    "audit/planted/test_mutants.py::test_the_real_thing_passes[boxes, learned edges, one",
    "audit/planted/test_mutants.py::test_the_real_thing_passes[boxes, sequential, one",
    "audit/planted/test_mutants.py::test_the_real_thing_passes[ensemble, answers",
    "audit/planted/test_mutants.py::test_the_real_thing_passes[ensemble, one",
    "audit/planted/test_mutants.py::test_the_real_thing_passes[sparse vector, few",
    "audit/planted/test_mutants.py::test_the_real_thing_passes[sparse vector, what",
    "cli/test_evaluate_ensemble.py::test_a_line_that_was_printed_fits_when_it_is_evaluated_again",
    "cli/test_evaluate_ensemble.py::test_contested_votes_are_measured_and_the_line_is_said",
    "cli/test_suggest.py::test_an_ensemble_is_refused_once_and_not_told_of_figures_that_are_none",
    "cli/test_suggest.py::test_many_sides_do_not_take_minutes",
    "connectors/kafka/test_ensembles_kafka.py",
    "connectors/kafka/test_leaks_kafka.py::test_nothing_shows_on_kafka[bisection",
    "connectors/kafka/test_leaks_kafka.py::test_nothing_shows_on_kafka[ensemble",
    "connectors/kafka/test_many_models.py::test_a_topic_that_is_deleted_or_grows",
    "connectors/kafka/test_moving.py::test_a_crash_between_any_two_steps_answers_nothing_twice[saved",
    "connectors/kafka/test_moving.py::test_a_crash_between_any_two_steps_answers_nothing_twice[unrecorded",
    "connectors/kafka/test_moving.py::test_a_crash_between_any_two_steps_answers_nothing_twice[unsaved",
    "connectors/kafka/test_renewal.py::test_all_of_them_are_exchanged",
    "connectors/kafka/test_security.py::test_password_of_the_environment",
    "connectors/kafka/test_states.py::test_drill_broker",
    "connectors/mqtt/test_leaks_mqtt.py::test_nothing_shows_on_mqtt[sparse",
    "experiments/adversaries/test_compressed.py",
    "experiments/adversaries/test_distributions.py",
    "experiments/adversaries/test_ensembles.py",
    "experiments/adversaries/test_streams.py",
    "experiments/adversaries/test_stumps.py",
    "experiments/analyst",
    "experiments/bisection",
    "experiments/comparison",
    "experiments/distributions",
    "experiments/ensemble",
    "experiments/peers",
    "experiments/separations",
    "experiments/statistics",
    "leaks/test_leaks.py::test_nothing_shows_outside[bisection-query",
    "leaks/test_leaks.py::test_nothing_shows_outside[classical-label",
    "leaks/test_leaks.py::test_nothing_shows_outside[distribution",
    "leaks/test_leaks.py::test_nothing_shows_outside[ensemble-presence",
    "leaks/test_leaks.py::test_nothing_shows_outside[ensemble-training",
    "leaks/test_leaks.py::test_nothing_shows_outside[rectangles-label",
    "leaks/test_leaks.py::test_nothing_shows_outside[sparse vector",
    "leaks/test_leaks.py::test_nothing_shows_outside[statistics, spent",
    "leaks/test_leaks.py::test_nothing_shows_outside[stumps-training",
    "planning/ensemble/test_tight.py::test_what_no_rows_are_enough_for_is_refused",
    "planning/test_suggest.py::test_a_searched_figure_has_a_plan_and_a_tenth_better_has_none[few rows",
    "planning/test_suggest.py::test_a_searched_figure_has_a_plan_and_a_tenth_better_has_none[stumps",
    "predictors/ensemble/test_memory.py::test_the_plans_memory_is_what_is_held",
    "predictors/test_strings.py::TestTextAndNumber",
    "runtime/test_peaks.py::test_messages_on_mqtt",
    "storms/files/test_chaos.py::test_killed_init_can_be_run_again",
    "storms/files/test_chaos.py::test_no_kill_shows[bisection]",
    "storms/files/test_chaos.py::test_no_kill_shows[stumps",
    "storms/kafka/test_chaos_kafka.py::test_no_kill_and_no_restart_shows[statistics]",
)
"""What is for `make test-long`: most of the experiments behind published figures, and what takes longest."""

FIRST: Final = (
    "audit/crashes/test_daemons.py::test_noise_that_is_drawn_again_is_found",
    "audit/games/test_games.py::test_a_whole_predictor_stays_below_its_claim_and_comes_near",
    "cli/test_evaluate.py::test_a_released_score",
    "cli/test_evaluate.py::test_refusals",
    "connectors/kafka/test_acl.py::test_recipe_is_enough_and_keeps_askers_apart",
    "connectors/kafka/test_failures_crash.py::test_killed_at_any_time[rectangles]",
    "connectors/kafka/test_fencing.py::test_a_process_that_slept_through_its_session_answers_nothing_twice[one",
    "connectors/kafka/test_many_models.py::test_a_broken_state_and_a_missing_topic_stop_no_other_model",
    "connectors/kafka/test_replay_kafka.py::test_answers_on_the_topic_are_proved",
    "connectors/kafka/test_reply_topics.py::test_a_reply_topic_that_was_never_made_does_not_stop_a_start",
    "connectors/kafka/test_security.py::test_who_does_not_is_refused_at_once_with_the_reason",
    "connectors/kafka/test_strangers.py::test_what_others_do_to_the_groups_offsets_ends_no_model",
    "connectors/mqtt/test_failures.py::test_paused_broker_is_like_a_cut_network",
    "connectors/mqtt/test_security.py::test_daemon_serves_over_mutual_tls_and_no_secret_is_printed",
    "connectors/mqtt/test_states.py::test_wrong_password_at_the_start_is_the_configurations",
    "leaks/test_leaks.py::test_nothing_shows_inside",
    "leaks/test_leaks.py::test_worlds_are_neighbours_with_one_transcript",
    "planning/test_suggest.py::test_every_predictor_and_slicing_is_there_once",
    "planning/test_suggest.py::test_what_cannot_be_says_why",
    "storms/files/test_chaos.py::test_a_few_kills_do_not_show",
    "storms/fuzz",
    "storms/power/test_calls.py",
    "storms/power/test_power.py::test_power_is_lost",
)
"""What of these is not slow: one of each kind."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow, or long, what the lists say."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            place = item.nodeid.removeprefix("tests/")
            if place.startswith(SLOW) and not place.startswith(FIRST):
                item.add_marker(pytest.mark.slow)
            if place.startswith(LONG):
                item.add_marker(pytest.mark.slow)
                item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def _libraries_log_nowhere_else() -> Iterator[None]:
    """Give libraries' loggers back: a command hands them to a handler whose stream ends with its test."""
    yield
    for name in ("aiokafka", "kafka", "mqtt", "asyncio", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
