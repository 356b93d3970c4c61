"""Hooks.gradient and Hooks.after_backward."""

import pytest
import torch
from torch import nn

import hookline
from hookline.errors import AddressError, HookResultError, HookTypeError, NeverFiredError, NeverFiredWarning, PartError


class Pair(nn.Module):
    def forward(self, x, mask=None, *rest, **more):
        return x * 2, {"masked": x * 3 if mask is None else x * mask}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(2, 2)
        self.pair = Pair()

    def forward(self, x):
        h = self.fc(x)
        double, nested = self.pair(h, mask=h + 1)
        return (double * 10 + nested["masked"] * 100).sum()


X = torch.tensor([[1.0, -2.0]])


def test_without_a_side_the_gradients_of_the_output_are_meant() -> None:
    model, leaves = Model(), []
    with hookline.Hooks(model) as hooks:
        hooks.gradient("pair", lambda call: leaves.append((call.leaf, call.path, call.paths, call.module)))
        model(X).backward()
    assert [leaf for leaf, *_ in leaves] == ["pair:output.1.masked", "pair:output.0"]
    assert leaves[0][1:] == ("pair", ("pair",), model.pair)


@pytest.mark.parametrize(
    ("where", "leaf"),
    [
        ("pair:output.0.grad", "pair:output.0"),
        ("pair:output.1", "pair:output.1.masked"),
        ("pair:output.1.masked.grad", "pair:output.1.masked"),
        ("pair:input.mask.grad", "pair:input.mask"),
        ("pair:input.0.grad", "pair:input.x"),
        ("pair:input.x", "pair:input.x"),
    ],
)
def test_an_address_of_a_part_means_the_tensors_in_it(where: str, leaf: str) -> None:
    model, leaves = Model(), []
    with hookline.Hooks(model) as hooks:
        hooks.gradient(where, lambda call: leaves.append(call.leaf))
        model(X).backward()
    assert leaves == [leaf]


def test_a_part_that_is_not_there_is_an_error_when_the_model_runs() -> None:
    model = Model()
    hooks = hookline.Hooks(model)
    hooks.gradient("pair:output.2", lambda call: None)
    with pytest.raises(PartError, match="no part 2"):
        model(X)
    hooks.remove()
    hooks = hookline.Hooks(model)
    hooks.gradient("pair:input.mass", lambda call: None)
    with pytest.raises(PartError, match="mass"):
        model(X)
    hooks.remove()


def test_a_gradient_is_replaced_by_what_is_returned_or_assigned() -> None:
    model = Model()

    def assign(call):
        call.grad = call.grad * 5

    with hookline.Hooks(model) as hooks:
        hooks.gradient("fc", lambda call: call.grad * 2)
        hooks.gradient("fc", assign)
        seen = []
        hooks.gradient("fc", lambda call: seen.append(call.grad))
        model(X).backward()
    plain = Model()
    h = plain.fc(X)
    (20 * h + 100 * h * (h + 1)).sum().backward()
    assert torch.allclose(model.fc.weight.grad, plain.fc.weight.grad * 10)
    # d/dh of 20 h + 100 (h^2 + h)
    assert torch.allclose(seen[0], (20 + 100 * (2 * h + 1)).detach() * 10)


def test_hooks_of_higher_priority_run_first_and_all_can_be_turned_off_and_on() -> None:
    model, order = Model(), []
    with hookline.Hooks(model) as hooks:
        hooks.gradient("fc", lambda call: order.append("low"), priority=-1)
        hooks.gradient("fc", lambda call: order.append("high"), priority=1)
        model(X).backward()
        hooks.disable()
        assert type(model.fc) is nn.Linear
        model(X).backward()
        hooks.enable()
        model(X).backward()
    assert order == ["high", "low"] * 2
    assert type(model.fc) is nn.Linear


def test_numbers_are_counted_from_when_the_hook_was_put_on() -> None:
    model, numbers = Model(), []
    with hookline.Hooks(model) as outer:
        outer.after("fc", lambda call: None)
        model(X)
        outer.gradient("fc", lambda call: numbers.append(call.number))
        (model(X) + model(X)).backward()
    assert sorted(numbers) == [0, 1]


def test_after_backward_has_what_the_pass_gave_each_parameter() -> None:
    model, calls = Model(), []
    with hookline.Hooks(model) as hooks:
        hooks.after_backward("fc", calls.append)
        hooks.after_backward(".", calls.append)
        model(X).backward()
        first = model.fc.weight.grad.clone()
        model(X).backward()
    assert [call.path for call in calls] == ["fc", ".", "fc", "."]
    assert [sorted(call.parameter_grads) for call in calls[:2]] == [["bias", "weight"], ["fc.bias", "fc.weight"]]
    assert torch.equal(calls[2].parameter_grads["weight"], first)  # of this pass, though .grad has the sum by now
    assert torch.equal(model.fc.weight.grad, 2 * first)
    assert [call.number for call in calls] == [0, 0, 1, 1]


def test_after_backward_comes_when_the_gradients_of_the_inputs_are_there_too() -> None:
    order: list[str] = []
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    x = X.clone().requires_grad_()
    with hookline.Hooks(model) as hooks:
        hooks.after_backward("1", lambda call: order.append("done 1"))
        hooks.gradient("1:input", lambda call: order.append("input of 1"))
        hooks.after_backward("0", lambda call: order.append("done 0"))
        hooks.gradient("0:input", lambda call: order.append("input of 0"))
        model(x).sum().backward()
    assert order == ["input of 1", "done 1", "input of 0", "done 0"]


def test_after_backward_leaves_out_parameters_that_got_nothing_and_frozen_ones() -> None:
    model, calls = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), []
    model[0].bias.requires_grad_(requires_grad=False)
    with hookline.Hooks(model) as hooks:
        hooks.after_backward(".", calls.append)
        torch.autograd.grad(model(X).sum(), model[1].weight)
    assert list(calls[0].parameter_grads) == ["1.weight"]


def test_repr_of_what_a_hook_is_handed_says_what_it_is() -> None:
    model, shown = Model(), []
    with hookline.Hooks(model) as hooks:
        hooks.gradient("fc", lambda call: shown.append(repr(call)))
        hooks.after_backward("fc", lambda call: shown.append(repr(call)))
        model(X).backward()
    assert shown[0] == "<gradient of fc:output, call 0, shape (1, 2)>"
    assert "end of the backward pass of 'fc', call 0" in shown[1]


def test_the_report_and_the_listing_have_hooks_on_gradients() -> None:
    model = Model()
    with hookline.Hooks(model) as hooks:
        hooks.gradient("fc:input.grad", lambda call: None)
        made = hooks.gradient("fc", lambda call: None)
        hooks.after_backward("fc", lambda call: None)
        with pytest.warns(NeverFiredWarning, match="no tensor in its arguments"):
            model(X).backward(), hooks.__exit__(None, None, None)
        assert made.kind == "gradient"
    rows = hooks.report().rows
    assert [(row.kind, row.fired) for row in rows] == [("gradient", 0), ("gradient", 1), ("after backward", 1)]
    assert rows[1].milliseconds >= 0
    again = hookline.Hooks(model)
    again.gradient("fc", lambda call: None)
    (info,) = hookline.hooks_on(model)
    assert (info.path, info.owner, info.kind) == ("fc", "hookline.Hooks", "gradient")
    again.remove()


def no_backward(model):
    model(X)


def without_autograd(model):
    with torch.no_grad():
        model(X)


def frozen(model):
    model.fc.requires_grad_(requires_grad=False)
    model(X)


REASONS = {
    "backward() was not run": (no_backward, "no gradient arrived: backward\\(\\) has to run inside"),
    "no autograd": (without_autograd, "ran without autograd"),
    "nothing requires a gradient": (frozen, "no tensor in its output requires a gradient"),
    "never called": (lambda model: None, "was the model run inside"),
}


@pytest.mark.parametrize(("run", "reason"), REASONS.values(), ids=REASONS.keys())
def test_a_hook_on_gradients_that_never_ran_says_why(run, reason: str) -> None:
    model = Model()
    hooks = hookline.Hooks(model, strict=True)
    hooks.gradient("fc", lambda call: None)
    run(model)
    with pytest.raises(NeverFiredError, match=reason):
        hooks.__exit__(None, None, None)


def test_a_context_group_sees_the_backward_of_its_own_calls_only() -> None:  # E12
    import threading

    model, seen = Model(), []
    with hookline.Hooks(model, scope="context") as hooks:
        hooks.gradient("fc", lambda call: seen.append(call.number))
        thread = threading.Thread(target=lambda: model(X).backward())
        thread.start()
        thread.join()
        assert seen == []
        model(X).backward()
    assert len(seen) == 1


def test_a_group_that_ends_before_backward_does_not_fire() -> None:  # M4
    model, seen = Model(), []
    hooks = hookline.Hooks(model)
    hooks.gradient("fc", lambda call: seen.append(1))
    hooks.gradient("fc:input", lambda call: seen.append(1))
    hooks.after_backward("fc", lambda call: seen.append(1))
    loss = model(X.clone().requires_grad_())
    hooks.remove()
    loss.backward()
    assert seen == []


BAD = {
    "shape": (lambda call: call.grad[0], r"fc:output: expected a gradient of shape \(1, 2\).* shape \(2,\)"),
    "no tensor": (lambda call: 5, "fc:output.*the hook gave a int"),
}


@pytest.mark.parametrize(("hook", "message"), BAD.values(), ids=BAD.keys())
def test_a_gradient_that_does_not_fit_names_address_expected_and_got(hook, message: str) -> None:
    model = Model()
    with pytest.raises(HookResultError, match=message), hookline.Hooks(model) as hooks:
        hooks.gradient("fc", hook)
        model(X).backward()


MISTAKES = {
    "before": (lambda hooks: hooks.before("fc:input.grad", print), AddressError, r"hooks\.gradient"),
    "after": (lambda hooks: hooks.after("fc:output.grad", print), AddressError, r"hooks\.gradient"),
    "side": (lambda hooks: hooks.after_backward("fc:output", print), AddressError, "use the path"),
    "signature": (lambda hooks: hooks.gradient("fc", lambda: None), HookTypeError, "does not fit"),
    "unscale": (lambda hooks: hooks.gradient("fc", print, unscale="no"), HookTypeError, "a GradScaler or a number"),
}


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_refused_before_anything_is_hooked(mistake, error, message: str) -> None:
    model = Model()
    with pytest.raises(error, match=message):
        mistake(hookline.Hooks(model))
    assert type(model.fc) is nn.Linear


def test_gradients_of_another_method_are_hooked_by_its_name() -> None:
    class Coder(nn.Module):
        def encode(self, x):
            return x * 2

        def forward(self, x):
            return self.encode(x) * 3

    model, leaves = Coder(), []
    x = X.clone().requires_grad_()
    with hookline.Hooks(model) as hooks:
        hooks.gradient("encode():output.grad", lambda call: leaves.append((call.leaf, call.grad.tolist())))
        hooks.gradient("encode():input.grad", lambda call: leaves.append((call.leaf, call.grad.tolist())))
        model(x).sum().backward()
    assert leaves == [("encode():output", [[3.0, 3.0]]), ("encode():input.x", [[6.0, 6.0]])]


def test_captured_gradients_are_in_the_order_of_the_forward_calls_and_in_structure() -> None:
    model = Model()
    x = X.clone().requires_grad_()
    addresses = ("pair:output.grad", "pair:input.grad", "fc:input.grad", "pair:input.mask.grad", "pair:output.1.grad")
    with hookline.capture(model, *addresses) as features:
        (model(x) + model(2 * x)).backward()
    assert all(len(features.calls(address)) == 2 for address in addresses)
    for call, h in enumerate((model.fc(x), model.fc(2 * x))):
        double, nested = features.calls("pair:output.grad")[call]
        assert double.tolist() == [[10.0, 10.0]]
        assert nested["masked"].tolist() == [[100.0, 100.0]]
        inputs = features.calls("pair:input.grad")[call]
        assert inputs.keys() == {"x", "mask"}
        assert torch.allclose(inputs["x"], 20 + 100 * (h + 1))
        assert torch.equal(features.calls("pair:input.mask.grad")[call], inputs["mask"])
        assert features.calls("pair:output.1.grad")[call].keys() == {"masked"}
        assert len(features.calls("fc:input.grad")[call]) == 1


def test_an_output_that_nothing_uses_has_none_in_the_captured_structure() -> None:
    model = Pair()
    x = X.clone().requires_grad_()
    with hookline.capture(model, ".:output.grad") as features:
        double, _ = model(x)
        double.sum().backward()
    assert features[".:output.grad"][1] == {"masked": None}


def test_statistics_and_functions_reduce_gradients() -> None:
    model = nn.Linear(2, 3)
    with hookline.capture(model, ".:output.grad", reduce=hookline.stats) as statistics:
        for factor in (1, 3):
            (model(X) * factor).sum().backward()
    with hookline.capture(model, ".:output.grad", reduce=lambda grad: grad.norm()) as norms:
        model(X).sum().backward()
    assert statistics[".:output.grad"].mean.tolist() == [2.0, 2.0, 2.0]
    assert norms[".:output.grad"].item() == pytest.approx(3**0.5)


def test_of_gradients_the_last_is_that_of_the_last_call() -> None:
    model = nn.Tanh()
    x = torch.zeros(1, requires_grad=True)
    with hookline.capture(model, ".:output.grad", keep="last") as features:
        (model(x) * 2 + model(x) * 3).backward()
    assert features[".:output.grad"].item() == 3.0


def test_captured_gradients_are_saved_and_loaded(tmp_path) -> None:
    model = nn.Linear(2, 3)
    with hookline.capture(model, ".:output.grad") as features:
        model(X).sum().backward()
    features.save(tmp_path / "gradients.safetensors")
    loaded = hookline.load_features(tmp_path / "gradients.safetensors")
    assert torch.equal(loaded[".:output.grad"], torch.ones(1, 3))


def test_a_captured_gradient_keeps_its_value_when_the_parameter_gradient_is_changed() -> None:  # C1
    model = nn.Linear(2, 3, bias=False)
    with hookline.capture(model, ".:output.grad", ".:input.grad") as features:
        x = X.clone().requires_grad_()
        model(x).sum().backward()
        before = x.grad.clone()
        x.grad.mul_(0)
    assert torch.equal(features[".:input.grad"][0], before)
