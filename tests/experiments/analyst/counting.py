"""What as many Gaussian counts would err by, and cost: the plain way, which has to know how many questions come."""

import scipy.optimize

from oracle.planning.statistics.counts import counts_error, questions_to_win
from oracle.planning.statistics.model import TablePlan


def error_of(plan: TablePlan, questions: int) -> float:
    """Return what so many counts err by at most, but with probability beta, if they cost a row what the plan does."""
    return counts_error(questions, plan.declared, plan.epsilon, plan.phases[0].delta, plan.beta)


def epsilon_for(plan: TablePlan, questions: int, error: float) -> float:
    """Return what so many counts cost a row, at the plan's delta, that err by this at most, but with beta."""

    def beyond(epsilon: float) -> float:
        return counts_error(questions, plan.declared, epsilon, plan.phases[0].delta, plan.beta) - error

    return float(scipy.optimize.brentq(beyond, 1e-3, 100.0))


def first_lost(plan: TablePlan) -> int:
    """Return from how many questions on counts err by more than the plan."""
    return questions_to_win(plan.alpha, plan.declared, plan.epsilon, plan.phases[0].delta, plan.beta)
