"""A second accountant: what plans owe, by other mathematics than the planner's."""
