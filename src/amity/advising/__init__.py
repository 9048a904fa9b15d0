"""Advice before anybody joins: whether to, with which method, and what to expect.

    advice = amity.advise(amity.Run(data="folder:clinics"))
    print(advice)          the answer, and the command to run
    advice.gain            points over training alone, with an interval
    advice.silos           the same for each silo

A short probe trains every silo alone, with FedAvg and with Accord, on a part of the training data, and judges by the
part that was left out. Test data are taken away first, so that nothing can depend on them.

    probe.py       the runs of a probe, and what each model says about the examples that were left out
    expected.py    differences of silos, and of all silos together, with intervals
    looking.py     what there is to see without training anything: sizes, classes, how labels differ
    answer.py      the advice, its words and its command
    asking.py      `advise`, from a run to its advice
"""

from amity.advising.answer import Advice
from amity.advising.asking import advise

__all__ = ["Advice", "advise"]
