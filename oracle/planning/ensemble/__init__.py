"""Plans of ensembles of any learner."""
