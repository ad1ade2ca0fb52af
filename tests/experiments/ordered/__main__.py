"""How well a private range of strings tells the Airbus among real aircraft: `python -m tests.experiments.ordered`."""

import sys

from tests.experiments.ordered.aircraft import run

for epsilon, alpha in ((1.0, 0.3), (2.0, 0.2), (4.0, 0.1)):
    figures = run(epsilon, alpha)
    sys.stdout.write(
        f"epsilon {epsilon:g}, alpha {alpha:g}: wants {figures.wanted:,} of {figures.rows:,} rows; of "
        f"{figures.queries:,} flights {figures.error:.2%} wrong, {figures.rarer:.1%} by always giving one answer\n"
    )
