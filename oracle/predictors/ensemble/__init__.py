"""The ensemble: teachers of any learner vote, and are fitted anew to what was answered."""
