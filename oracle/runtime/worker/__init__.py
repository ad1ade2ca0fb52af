"""A predictor in a process of its own, so that answering and talking to a bus do not wait for each other."""
