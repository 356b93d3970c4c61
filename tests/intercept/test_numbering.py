import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch._guards import TracingContext, tracing
from torch.utils.checkpoint import checkpoint

from hookline.core import AFTER, CALL, Hook
from hookline.core.numbering import Calls
from hookline.intercept.module_site import attach
from hookline.intercept.numbering import _number_in_trace

X = torch.ones(2, 4)


def test_the_calls_of_each_site_are_counted_from_zero_in_each_trace() -> None:
    mine, other = Calls(), Calls()
    for _ in range(2):
        with tracing(TracingContext(None)):
            assert [_number_in_trace(mine), _number_in_trace(other), _number_in_trace(mine)] == [0, 0, 1]


def test_a_recomputed_call_has_the_number_of_the_call_it_repeats_and_says_so() -> None:
    """C12"""
    seen = []
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())  # the recomputation stops early: in the Tanh, for its output
    attach(model[0], Hook(AFTER, lambda call: seen.append((call.number, call.recomputed)), CALL))
    for _ in range(2):
        checkpoint(model, X, use_reentrant=False).sum().backward()
    assert seen == [(0, False), (0, True), (1, False), (1, True)]


@pytest.mark.usefixtures("fresh_compiler")
def test_calls_in_compiled_code_are_told_apart_without_a_recompile_for_each() -> None:
    """E9, X3"""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(x) + self.act(x)

    def add_number(call):
        return call.output + call.number

    model, counter = Twice(), CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    attach(model.act, Hook(AFTER, add_number, CALL))
    for _ in range(3):
        assert torch.equal(compiled(X), 2 * X + 1)
    assert counter.frame_count == 1
