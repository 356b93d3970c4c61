"""Outputs that share memory with an argument: identity modules, views, and changes in place behind them."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import hookline

W = torch.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])


class Returns(nn.Module):
    def __init__(self, run) -> None:
        super().__init__()
        self.run = run

    def forward(self, x):
        return self.run(x)


SHARING = {
    "the input itself": lambda x: x,
    "a view of it": lambda x: x.flatten(),
    "a part of it": lambda x: x[:, :2],
    "a transposed view": lambda x: x.t(),
}


@pytest.mark.parametrize("run", SHARING.values(), ids=SHARING.keys())
@pytest.mark.parametrize("argument", [lambda w: w * 1, lambda w: (w * 1)[:, :]], ids=["tensor", "view"])
def test_behind_such_a_module_a_change_in_place_is_seen_by_hooks_and_by_the_caller(run, argument) -> None:  # M6
    def run_once(*, hooked: bool):
        w = W.clone().requires_grad_()
        x, seen = argument(w), {}
        model = Returns(run)
        hooks = hookline.Hooks(model)
        if hooked:
            hooks.gradient(".", lambda call: seen.update(out=call.grad.clone()))
            hooks.gradient(".:input", lambda call: seen.update({"in": call.grad.clone()}))
        out = model(x)
        out.relu_()
        (out * 2).sum().add((x * 3).sum()).backward()
        hooks.remove()
        return w.grad, seen

    bare, _ = run_once(hooked=False)
    ours, seen = run_once(hooked=True)
    assert torch.equal(ours, bare)
    assert torch.equal(seen["out"], run(bare))  # of the value before the change: all of it goes by the change
    assert seen["in"].shape == W.shape


def test_a_gradient_that_comes_by_way_of_the_change_is_replaced_too() -> None:
    w = W.clone().requires_grad_()
    with hookline.Hooks(Returns(lambda x: x.flatten())) as hooks:
        hooks.gradient(".", lambda call: call.grad * 10)
        hooks.model(w * 1).relu_().sum().backward()
    assert torch.equal(w.grad, (W > 0) * 10.0)


def test_several_outputs_that_are_one_memory_have_a_gradient_each() -> None:
    model, seen = Returns(lambda x: (x, x[:, 0], x * 2)), {}
    w = W.clone().requires_grad_()
    with hookline.Hooks(model) as hooks:
        hooks.gradient(".", lambda call: seen.update({call.leaf: call.grad.clone()}))
        x = w * 1
        whole, column, double = model(x)
        (whole.sum() * 2 + column.sum() * 3 + double.sum() * 5 + x.sum() * 7).backward()
    assert {leaf: gradient.flatten()[0].item() for leaf, gradient in seen.items()} == {
        ".:output.0": 2.0,
        ".:output.1": 3.0,
        ".:output.2": 5.0,
    }
    assert w.grad[:, 0].tolist() == [2 + 3 + 10 + 7] * 2
    assert w.grad[:, 1].tolist() == [2 + 10 + 7] * 2


def test_outputs_that_a_hook_replaces_together_cannot_be_changed_behind_its_back() -> None:
    model = Returns(lambda x: (x, x * 2))
    hookline.register_full_backward_pre_hook(model, lambda module, grad: (grad[0] * 2, grad[1] * 3))
    w = W.clone().requires_grad_()
    same, double = model(w * 1)
    (same.sum() + double.sum()).backward()
    assert torch.equal(w.grad, torch.full_like(W, 2 + 6))
    same, double = model(w * 1)
    double.relu_()
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        same.relu_()


def test_a_parameter_that_is_returned_is_told_apart_from_its_other_uses() -> None:
    weight = nn.Parameter(W.clone())
    model, seen = Returns(lambda x: weight), []
    with hookline.Hooks(model) as hooks:
        hooks.gradient(".", lambda call: seen.append(call.grad[0, 0].item()))
        (model(W).sum() * 2 + weight.sum() * 3).backward()
    assert seen == [2.0]
    assert weight.grad[0, 0].item() == 5.0
    assert not weight._backward_hooks


def test_an_input_that_is_a_leaf_still_cannot_be_changed_in_place() -> None:
    model = nn.Identity()
    hookline.register_full_backward_hook(model, lambda *_: None)
    w = W.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=r"in-?place"):
        model(w).relu_()


def test_with_several_outputs_a_full_hook_has_all_their_gradients_at_once() -> None:  # B2
    model, seen = Returns(lambda x: (x * 2, x.exp())), []
    hookline.register_full_backward_hook(model, lambda module, gi, go: seen.append(go))
    first, second = model(W.clone().requires_grad_())
    (first.sum() * 3 + second.sum() * 5).backward()
    assert [gradient[0, 0].item() for gradient in seen[0]] == [3.0, 5.0]


def test_what_a_pass_does_not_reach_ends_with_it_the_inner_module_first() -> None:  # G7
    model, order = nn.Sequential(nn.Sequential(nn.Linear(3, 2))), []
    for name in ("", "0", "0.0"):
        hookline.register_full_backward_hook(model.get_submodule(name), lambda *_, name=name: order.append(name))
    x = W.clone().requires_grad_()
    torch.autograd.grad(model(x).sum(), model[0][0].weight)
    assert order == ["0.0", "0", ""]


def test_no_hook_stays_on_parameters_for_whose_gradients_autograd_was_asked() -> None:  # G7
    model, calls = nn.Linear(3, 2), []
    with hookline.Hooks(model) as hooks:
        hooks.after_backward(".", calls.append)
        torch.autograd.grad(model(W).sum(), [model.weight, model.bias])
    assert sorted(calls[0].parameter_grads) == ["bias", "weight"]
    assert not model.weight._backward_hooks
    assert not model.bias._backward_hooks


def test_a_list_that_the_module_extends_holds_the_callers_own_tensors_afterwards() -> None:
    class Remembers(nn.Module):
        def forward(self, states):
            states.append(states[0])
            return states[0] * 2

    model = Remembers()
    hookline.register_full_backward_hook(model, lambda *_: None)
    first = W.clone().requires_grad_() * 1
    states = [first]
    model(states)
    assert states[0] is first
    assert states[1] is first


def test_a_pass_that_fails_leaves_no_gradients_with_a_capture() -> None:
    model = Returns(lambda x: (x * 2, x * 3))

    def fail(_):
        raise ValueError("mine")

    with hookline.capture(model, ".:output.grad") as features:
        x = W.clone().requires_grad_()
        middle = x * 1
        middle.register_hook(fail)
        with pytest.raises(ValueError, match="mine"):
            sum(model(middle)).sum().backward()
        sum(model(x)).sum().backward()
    (log,) = features._session._logs
    assert log.gradients._open == {}
    assert len(features.calls(".:output.grad")) == 1


def test_a_region_that_is_repeated_twice_has_the_same_numbers_each_time() -> None:  # G7, G8
    cell, numbers = nn.Tanh(), []
    with hookline.Hooks(cell) as hooks:
        hooks.gradient(".", lambda call: numbers.append(call.number))
        x = W.clone().requires_grad_()
        loss = checkpoint(lambda x: cell(cell(x)), x, use_reentrant=True).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    assert numbers == [1, 0, 1, 0]
