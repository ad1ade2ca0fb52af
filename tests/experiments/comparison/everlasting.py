"""Perpetua itself: the demo's model at another epsilon, planned, trained and asked as the daemon does it."""

import hashlib

import numpy as np

from oracle.demo.model import FIRST_SHARE, model
from oracle.planning.boxes.tight import plan_boxes
from oracle.predictors.rectangles import RectanglesTrainer
from tests.experiments.comparison.setting import Setting
from tests.experiments.comparison.task import Bools, Task


def perpetua(task: Task, epsilon: float) -> Setting:
    """Run the demo's model with the shares left to the planner, as an operator would."""
    return _planned(task, epsilon, None)


def short_phases(task: Task, epsilon: float) -> Setting:
    """Run the demo's model with the demo's short first phase, so that the queries reach a second one."""
    return _planned(task, epsilon, FIRST_SHARE)


def _planned(task: Task, epsilon: float, first_share: float | None) -> Setting:
    plan = plan_boxes(model(len(task.rows), epsilon=epsilon, first_share=first_share))

    def answer(seed: int) -> Bools:
        trainer = RectanglesTrainer(plan, hashlib.sha256(f"comparison {seed}".encode()).digest())
        trainer.add(task.rows, task.labels)
        predictor = trainer.finish()
        labels = predictor.answer(task.queries, np.ones(len(task.queries), dtype=np.bool_)).labels
        return np.asarray(labels == 1)

    enough = plan.declared <= len(task.rows)
    return Setting(answer if enough else None, plan.examples, plan.rounds, plan.phases[0].rounds)
