"""Hooks that change the forward pass, where activation checkpointing repeats it: HAZARDS G8."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import hookline
from hookline.errors import RecomputeError


class Model(nn.Module):
    def __init__(self, *, reentrant: bool | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.act = nn.Linear(3, 3), nn.Tanh()
        self.reentrant = reentrant

    def region(self, x):
        return self.act(self.fc(x))

    def forward(self, x):
        if self.reentrant is None:
            return self.region(x)
        return checkpoint(self.region, x, use_reentrant=self.reentrant)


def x() -> torch.Tensor:
    return torch.linspace(-1, 1, 3)[None].requires_grad_()


def gradients(model: nn.Module) -> list[torch.Tensor]:
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    return found


BOTH = pytest.mark.parametrize("reentrant", [False, True], ids=["frame", "reentrant"])
CHANGES = {
    "after": lambda hooks: hooks.after("fc", lambda call: call.output * 3),
    "after by assignment": lambda hooks: hooks.after("fc", lambda call: setattr(call, "output", call.output * 3)),
    "before": lambda hooks: hooks.before("act", lambda call: call.args[0] * 3),
    "before by assignment": lambda hooks: hooks.before("act", lambda call: setattr(call, "args", (call.args[0] * 3,))),
    "around": lambda hooks: hooks.around("fc", lambda call, proceed: proceed() * 3),
}


@BOTH
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_there_in_the_repetition_too(reentrant: bool, change) -> None:
    results = []
    for model in (Model(reentrant=reentrant), Model(reentrant=None)):
        with hookline.Hooks(model) as hooks:
            change(hooks)
            model(x()).sum().backward()
        results.append(gradients(model))
    assert all(torch.allclose(one, other) for one, other in zip(*results, strict=True))


@BOTH
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_that_is_taken_off_before_backward_is_an_error(reentrant: bool, change) -> None:
    model = Model(reentrant=reentrant)
    with hookline.Hooks(model) as hooks:
        change(hooks)
        loss = model(x()).sum()
    with pytest.raises(RecomputeError, match=r"has been taken off since.*inside its `with` block"):
        loss.backward()


@BOTH
def test_a_change_that_is_put_on_after_the_forward_pass_is_an_error(reentrant: bool) -> None:
    model = Model(reentrant=reentrant)
    with hookline.Hooks(model) as hooks:
        hooks.after("act", lambda call: call.output * 1)  # so that there are notes of the region
        loss = model(x()).sum()
        hooks.after("fc", lambda call: call.output * 3)
        with pytest.raises(RecomputeError, match=r"'fc'.*which was not there in the forward pass"):
            loss.backward()


@BOTH
@pytest.mark.parametrize("register", [hookline.register_forward_hook, hookline.register_forward_pre_hook])
def test_the_drop_in_functions_are_held_to_the_same(reentrant: bool, register) -> None:
    model = Model(reentrant=reentrant)
    handle = register(model.fc, lambda module, *values: values[-1][0] * 3 if len(values) == 1 else values[-1] * 3)
    loss = model(x()).sum()
    handle.remove()
    with pytest.raises(RecomputeError, match="a call of 'Linear'"):
        loss.backward()


@BOTH
def test_hooks_that_only_look_may_be_taken_off_before_backward(reentrant: bool) -> None:
    model, bare = Model(reentrant=reentrant), Model(reentrant=None)
    with hookline.Hooks(model) as hooks, hookline.capture(model, "fc", "act:input"):
        hooks.after("fc", lambda call: None)
        hooks.before("fc", lambda call: None)
        loss = model(x()).sum()
    loss.backward()
    bare(x()).sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(gradients(model), gradients(bare), strict=True))


def test_outside_of_regions_a_change_may_be_taken_off_before_backward() -> None:
    model = Model(reentrant=None)
    with hookline.Hooks(model) as hooks:
        hooks.after("fc", lambda call: call.output * 3)
        loss = model(x()).sum()
    loss.backward()
    assert model.fc.weight.grad.abs().sum() > 0
