"""What answers in running predictors, beside what is due."""
