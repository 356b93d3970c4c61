"""PyTorch's contract for full backward hooks: where CONTRACT says keep, both implementations run the same scenario."""

import copy
import dataclasses
import gc
import pickle
import warnings
import weakref

import pytest
import torch
from torch import nn

import hookline
from hookline.errors import HookRefusedError, HookResultError, HookTypeError


class Native:
    """PyTorch's functions with the module first."""

    @staticmethod
    def pre(module, hook, prepend=False):
        return module.register_full_backward_pre_hook(hook, prepend)

    @staticmethod
    def full(module, hook, prepend=False):
        return module.register_full_backward_hook(hook, prepend)


class Ours:
    pre = staticmethod(hookline.register_full_backward_pre_hook)
    full = staticmethod(hookline.register_full_backward_hook)


BOTH = pytest.mark.parametrize("hooks", [Native, Ours])


class Affine(nn.Module):
    """a * 2 + b * 3, and what else it is given back."""

    def forward(self, a, b, other=None, **kwargs):
        return a * 2 + b * 3


class Pair(nn.Module):
    def forward(self, x):
        return x * 2, x * 3


def leaf(*values):
    return torch.tensor(values or (1.0, 2.0), requires_grad=True)


@BOTH
def test_a_backward_hook_is_handed_module_and_gradients_in_and_out(hooks) -> None:  # R1
    model, seen = Affine(), []
    hooks.pre(model, lambda module, grad_output: seen.append((module, grad_output)))
    hooks.full(model, lambda module, grad_input, grad_output: seen.append((module, grad_input, grad_output)))
    (model(leaf(), leaf()) * 5).sum().backward()
    (first, pre), (second, grad_input, grad_output) = seen
    assert first is second is model
    assert [g.tolist() for g in pre] == [g.tolist() for g in grad_output] == [[5.0, 5.0]]
    assert [g.tolist() for g in grad_input] == [[10.0, 10.0], [15.0, 15.0]]


@BOTH
def test_there_is_a_slot_for_each_positional_argument(hooks) -> None:  # B1
    seen = []
    model = Affine()
    hooks.full(model, lambda module, grad_input, grad_output: seen.append(grad_input))
    model(leaf(), 4, "other").sum().backward()
    assert [gradient is None for gradient in seen[0]] == [False, True, True]


def test_a_tensor_that_needs_no_gradient_has_none_in_its_slot() -> None:  # B1; PyTorch 2.13 computes one all the same
    seen = []
    model = Affine()
    hookline.register_full_backward_hook(model, lambda module, grad_input, grad_output: seen.append(grad_input))
    model(leaf(), torch.ones(2)).sum().backward()
    assert [gradient is None for gradient in seen[0]] == [False, True]


@BOTH
def test_there_is_a_slot_for_each_output_and_none_for_one_that_is_not_used(hooks) -> None:  # B2
    seen = []
    model = Pair()
    hooks.pre(model, lambda module, grad_output: seen.append(grad_output))
    hooks.full(model, lambda module, grad_input, grad_output: seen.append(grad_output))
    _, second = model(leaf())
    second.sum().backward()
    for grad_output in seen:
        assert grad_output[0] is None
        assert grad_output[1].tolist() == [1.0, 1.0]


@BOTH
@pytest.mark.parametrize("make", [tuple, list])
def test_a_returned_sequence_replaces_the_gradients_of_the_inputs(hooks, make) -> None:  # B3
    a, b = leaf(), leaf()
    model = Affine()
    hooks.full(model, lambda module, grad_input, grad_output: make([grad_input[0] * 10, grad_input[1] * 100]))
    model(a, b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([20.0, 20.0], [300.0, 300.0])


def test_none_in_a_returned_sequence_keeps_that_gradient() -> None:  # B3; in PyTorch it takes the gradient away
    a, b = leaf(), leaf()
    model = Affine()
    hookline.register_full_backward_hook(model, lambda module, grad_input, grad_output: (None, grad_input[1] * 100))
    model(a, b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [300.0, 300.0])


@BOTH
def test_a_returned_sequence_replaces_the_gradients_of_the_output(hooks) -> None:  # B3
    x = leaf()
    model = Pair()
    hooks.pre(model, lambda module, grad_output: (grad_output[0] * 10, grad_output[1] * 100))
    first, second = model(x)
    (first + second).sum().backward()
    assert x.grad.tolist() == [320.0, 320.0]


@BOTH
def test_each_hook_sees_what_the_one_before_it_returned(hooks) -> None:  # O3
    x, seen = leaf(), []
    model = nn.Tanh()
    for factor in (2, 3):
        hooks.pre(model, lambda module, grad, factor=factor: seen.append(grad[0][0].item()) or (grad[0] * factor,))
        hooks.full(
            model, lambda module, grad, out, factor=factor: seen.append(grad[0][0].item()) or (grad[0] * factor,)
        )
    model(x).sum().backward()
    slope = 1 - torch.tanh(torch.tensor(1.0)).item() ** 2
    assert seen == pytest.approx([1, 2, 6 * slope, 12 * slope])
    assert x.grad[0].item() == pytest.approx(36 * slope)


@BOTH
def test_hooks_run_in_the_order_of_registration_and_prepended_ones_first(hooks) -> None:  # O1
    order: list[str] = []
    model = nn.Tanh()
    for name, prepend in (("a", False), ("b", False), ("c", True), ("d", True)):
        hooks.pre(model, lambda *_, name=name: order.append("pre " + name), prepend)
        hooks.full(model, lambda *_, name=name: order.append(name), prepend)
    model(leaf()).sum().backward()
    assert order == ["pre d", "pre c", "pre a", "pre b", "d", "c", "a", "b"]


@BOTH
def test_backward_goes_from_the_outer_module_in_and_from_the_inner_out(hooks) -> None:  # O2
    order: list[str] = []
    model = nn.Sequential(nn.Sequential(nn.Tanh(), nn.Tanh()))
    for name, module in model.named_modules():
        hooks.pre(module, lambda *_, name=name: order.append(f"pre {name or 'root'}"))
        hooks.full(module, lambda *_, name=name: order.append(name or "root"))
    model(leaf()).sum().backward()
    assert order == ["pre root", "pre 0", "pre 0.1", "0.1", "pre 0.0", "0.0", "0", "root"]


@BOTH
@pytest.mark.parametrize("requires_grad", [False, True])
def test_without_a_graph_no_hook_is_called(hooks, requires_grad: bool) -> None:  # B4
    model, seen = nn.Tanh(), []
    hooks.pre(model, lambda *gradients: seen.append(gradients))
    hooks.full(model, lambda *gradients: seen.append(gradients))
    x = torch.ones(2, requires_grad=requires_grad)
    with torch.set_grad_enabled(not requires_grad):
        out = model(x)
    assert not out.requires_grad
    assert seen == []


@BOTH
def test_a_shared_module_has_one_call_for_each_use(hooks) -> None:  # B5
    inner, seen = nn.Linear(2, 2), []
    hooks.full(inner, lambda module, grad_input, grad_output: seen.append(grad_output[0].sum().item()))
    (inner(leaf()).sum() * 2 + inner(leaf()).sum() * 3).backward()
    assert sorted(seen) == [4.0, 6.0]


@BOTH
def test_the_handle_removes_its_hook_alone_and_twice_is_fine(hooks) -> None:  # H1, H2, R2
    model, seen = nn.Tanh(), []

    def count(*_):
        seen.append(1)

    first = hooks.full(model, count)
    with hooks.full(model, count), hooks.pre(model, count):
        model(leaf()).sum().backward()
    assert len(seen) == 3
    first.remove()
    first.remove()
    model(leaf()).sum().backward()
    assert len(seen) == 3
    assert type(model) is nn.Tanh


def test_a_hook_that_is_removed_between_forward_and_backward_does_not_fire() -> None:  # M4
    model, seen = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), []
    handles = [
        register(module, lambda *_: seen.append(1))
        for module in model
        for register in (hookline.register_full_backward_hook, hookline.register_full_backward_pre_hook)
    ]
    loss = model(leaf()).sum()
    for handle in handles:
        handle.remove()
    loss.backward()
    assert seen == []


def test_copies_and_pickles_carry_no_backward_hooks() -> None:  # M5
    model = nn.Tanh()
    seen: list[int] = []
    hookline.register_full_backward_hook(model, lambda *_: seen.append(1))
    for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is nn.Tanh
        other(leaf()).sum().backward()
    assert seen == []


@pytest.mark.parametrize("position", [0, 1, 2], ids=["before", "on", "behind"])
def test_in_place_modules_take_part_like_others(position: int) -> None:  # M6
    def gradients(*, hooked: bool, inplace: bool):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=inplace), nn.Linear(4, 2))
        seen = []
        if hooked:
            hookline.register_full_backward_hook(model[position], lambda module, gi, go: seen.extend((gi[0], go[0])))
        x = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        model(x).square().sum().backward()
        return [x.grad, *(p.grad for p in model.parameters())], seen

    expected, _ = gradients(hooked=False, inplace=True)
    got, seen = gradients(hooked=True, inplace=True)
    _, not_in_place = gradients(hooked=True, inplace=False)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    assert [torch.equal(a, b) for a, b in zip(seen, not_in_place, strict=True)] == [True, True]


def test_a_hook_that_does_nothing_changes_nothing() -> None:  # M7
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU(inplace=True)
            self.attention = nn.MultiheadAttention(4, 2)

        def forward(self, x):
            y = self.relu(x)
            same = y is x
            return self.attention(y, y, y)[0], same

    torch.manual_seed(0)
    model = Model()
    bare = copy.deepcopy(model)
    branches = []
    original = nn.functional.multi_head_attention_forward
    for module in model.modules():
        hookline.register_full_backward_hook(module, lambda *_: None)
        hookline.register_full_backward_pre_hook(module, lambda *_: None)

    def noticing(query, key, value, *args, **kwargs):
        branches.append(query is key and key is value)
        return original(query, key, value, *args, **kwargs)

    x = torch.randn(3, 1, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "multi_head_attention_forward", noticing)
        out, same = model(x.clone().requires_grad_() * 1)
    expected, _ = bare(x.clone().requires_grad_() * 1)
    assert branches == [True]
    assert same
    assert not out._is_view() or expected._is_view()
    assert torch.equal(out, expected)
    out.sum().backward()
    expected.sum().backward()
    for ours, theirs in zip(model.parameters(), bare.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


@dataclasses.dataclass
class Out:
    first: torch.Tensor
    rest: dict


class Nested(nn.Module):
    """Its output has the tensors x * 1, x * 2, ... in any structure."""

    def __init__(self, build) -> None:
        super().__init__()
        self.build = build

    def forward(self, x):
        return self.build(lambda factor: x * factor)


STRUCTURES = {
    "dict": (lambda t: {"a": t(1), "b": t(2)}, lambda o: (o["a"], o["b"]), lambda g: (g[0], g[1])),
    "list": (lambda t: [t(1), t(2)], lambda o: (o[0], o[1]), lambda g: (g[0], g[1])),
    "nested tuple": (lambda t: (t(1), (t(2), "x")), lambda o: (o[0], o[1][0]), lambda g: (g[0], g[1][0])),
    "dataclass": (
        lambda t: Out(t(1), {"k": [t(2)]}),
        lambda o: (o.first, o.rest["k"][0]),
        lambda g: (g[0], g[1]["k"][0]),
    ),
}


@pytest.mark.parametrize(("build", "tensors", "slots"), STRUCTURES.values(), ids=STRUCTURES.keys())
def test_tensors_are_found_in_any_structure_of_the_output(build, tensors, slots) -> None:  # M8, G4
    model, seen = Nested(build), []
    x = leaf()
    hookline.register_full_backward_pre_hook(model, lambda module, grad_output: seen.append(slots(grad_output)))
    hookline.register_full_backward_hook(model, lambda module, grad_input, grad_output: seen.append(slots(grad_output)))
    first, second = tensors(model(x))
    (first * 10 + second * 100).sum().backward()
    for grad_output in seen:
        assert [g.tolist() for g in grad_output] == [[10.0, 10.0], [100.0, 100.0]]
    assert x.grad.tolist() == [210.0, 210.0]


def test_the_gradient_of_a_nested_output_is_replaced_in_its_structure() -> None:  # B3, M8
    model, x = Nested(lambda t: (t(1), {"k": [t(2), None]})), leaf()
    hookline.register_full_backward_pre_hook(model, lambda module, grad: (None, {"k": [grad[1]["k"][0] * 7, None]}))
    first, nested = model(x)
    (first + nested["k"][0]).sum().backward()
    assert x.grad.tolist() == [15.0, 15.0]


def test_gradients_of_keyword_arguments_come_after_the_positional_ones() -> None:  # M9
    model, seen = Affine(), []
    hookline.register_full_backward_hook(model, lambda module, grad_input, grad_output: seen.append(grad_input))
    a, b, unused = leaf(), leaf(), leaf()
    model(a, other=unused, b=b, flag=True).sum().backward()
    assert len(seen[0]) == 4
    assert seen[0][0].tolist() == [2.0, 2.0]
    assert seen[0][2].tolist() == [3.0, 3.0]
    assert seen[0][1] is seen[0][3] is None


def test_one_tensor_is_taken_where_there_is_one_slot() -> None:  # M10
    x, model = leaf(), nn.Tanh()
    hookline.register_full_backward_pre_hook(model, lambda module, grad: grad[0] * 0 + 1)
    hookline.register_full_backward_hook(model, lambda module, grad, out: torch.full((2,), 7.0))
    (model(x) * 5).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_one_tensor_for_two_slots_is_an_error_even_if_its_length_fits() -> None:  # M10
    model = Affine()
    hookline.register_full_backward_hook(model, lambda module, grad, out: torch.ones(2))
    with pytest.raises(HookResultError, match=r"a tuple of 2.*it returned a Tensor"):
        model(leaf(), leaf()).sum().backward()


def test_without_gradients_for_inputs_a_hook_fires_after_the_parameters() -> None:  # M11, G6
    order: list[str] = []
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    for name in ("0", "1"):
        hookline.register_full_backward_hook(
            model.get_submodule(name), lambda m, gi, go, name=name: order.append(f"{name} {gi[0] is None}")
        )

    def outer(module, grad_input, grad_output):
        order.append(f"outer {grad_input}")
        assert model[0].weight.grad is not None

    hookline.register_full_backward_hook(model, outer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.ones(3, 2)).sum().backward()
    assert order == ["1 False", "0 True", "outer (None,)"]


def test_a_second_backward_pass_fires_too() -> None:  # M12, G7
    x, seen = leaf(), []
    model = nn.Tanh()
    hookline.register_full_backward_hook(model, lambda module, gi, go: seen.append(go[0].detach().tolist()))
    out = model(x)
    (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    assert seen == [[1.0, 1.0]]
    first.sum().backward()
    # y = tanh x, and the second pass has d(sum y')/dy = -2 y by way of the module's output.
    assert seen[1] == pytest.approx((-2 * torch.tanh(x)).tolist())
    t = torch.tanh(x.detach())
    assert torch.allclose(x.grad, -2 * t * (1 - t**2))


def test_a_module_that_is_compiled_already_takes_a_hook() -> None:  # M13
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    compiled, x, seen = torch.compile(model, backend="aot_eager"), torch.randn(3, 2), []
    compiled(x).sum().backward()
    expected = model[0].weight.grad.clone()
    model.zero_grad()
    with hookline.register_full_backward_hook(model[1], lambda module, gi, go: seen.append(gi[0])):
        compiled(x).sum().backward()
    assert torch.allclose(model[0].weight.grad, expected)
    assert torch.equal(seen[0], (model[0](x) > 0).float())


def test_a_call_of_forward_itself_is_seen() -> None:  # M14
    model, seen = nn.Tanh(), []
    hookline.register_full_backward_hook(model, lambda *_: seen.append(1))
    model.forward(leaf()).sum().backward()
    assert seen == [1]


def test_the_old_backward_hook_is_refused_with_what_to_use() -> None:  # M17
    with pytest.raises(HookRefusedError, match="register_full_backward_hook"):
        hookline.register_backward_hook(nn.Tanh(), lambda *_: None)


@pytest.mark.parametrize("register", [hookline.register_full_backward_hook, hookline.register_full_backward_pre_hook])
def test_what_cannot_be_a_hook_is_refused_when_it_is_registered(register) -> None:  # M1
    with pytest.raises(HookTypeError, match="does not fit its signature"):
        register(nn.Tanh(), lambda: None)
    with pytest.raises(HookTypeError, match="expected a hook"):
        register(nn.Tanh(), 5)
    with pytest.raises(HookTypeError, match="it has: prepend"):
        register(nn.Tanh(), lambda *_: None, with_kwargs=True)
    with pytest.raises(HookTypeError, match="Module"):
        register("no module", lambda *_: None)


BAD = {
    "length": (lambda g: (g[0],), "a tuple of 2, .* it returned 1"),
    "type": (lambda g: "x", "it returned a str"),
    "shape": (lambda g: (g[0][:1], g[1]), r"expected a gradient of shape \(2,\).* gave shape \(1,\)"),
    "dtype": (lambda g: (g[0].double(), g[1]), "torch.float32.*gave .*torch.float64"),
    "device": (lambda g: (g[0].to("meta"), g[1]), "on cpu; the hook gave .*on meta"),
    "no tensor": (lambda g: (5, g[1]), "gave a int"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD.keys())
def test_a_gradient_that_does_not_fit_is_an_error_at_that_hook(change, message: str) -> None:
    def badly(module, grad_input, grad_output):
        return change(grad_input)

    model = Affine()
    hookline.register_full_backward_hook(model, badly)
    with pytest.raises(HookResultError, match=message) as caught:
        model(leaf(), leaf()).sum().backward()
    assert "badly" in str(caught.value)
    assert "test_contract_backward.py" in str(caught.value)


def test_a_gradient_for_what_gets_none_is_an_error() -> None:
    model = Affine()
    hookline.register_full_backward_hook(model, lambda module, gi, go: (gi[0], torch.ones(2)))
    with pytest.raises(HookResultError, match="entry 1: what is here gets no gradient"):
        model(leaf(), torch.ones(2)).sum().backward()


def test_another_structure_than_the_one_given_is_an_error() -> None:
    model = Nested(lambda t: (t(1), {"k": t(2)}))
    hookline.register_full_backward_pre_hook(model, lambda module, grad: (None, [torch.ones(2)]))
    first, nested = model(leaf())
    with pytest.raises(HookResultError, match=r"parts \['k'\].*\['0'\]"):
        (first + nested["k"]).sum().backward()


def test_an_error_in_a_hook_is_raised_by_backward_with_a_note() -> None:  # F2
    def failing(module, grad_input, grad_output):
        raise ValueError("mine")

    model = nn.Tanh()
    hookline.register_full_backward_hook(model, failing)
    with pytest.raises(ValueError, match="mine") as caught:
        model(leaf()).sum().backward()
    assert "failing" in caught.value.__notes__[0]
    assert "on the input's gradients of Tanh" in caught.value.__notes__[0]


def test_neither_module_nor_tensors_are_kept_alive_by_the_handle_or_after_backward() -> None:  # H1
    model = nn.Linear(2, 2)
    handle = hookline.register_full_backward_hook(model, lambda *_: None)
    x = leaf()
    out = model(x)
    loss = out.sum()
    kept = [weakref.ref(each) for each in (model, out, x)]
    loss.backward()
    del model, out, loss, x
    gc.collect()
    assert [ref() for ref in kept] == [None] * 3
    handle.remove()


@BOTH
def test_a_module_behind_an_output_that_is_not_used_is_not_told_of_it(hooks) -> None:  # B2, B4
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.Tanh()

        def forward(self, x):
            hidden = x * 2
            return hidden, self.pool(hidden)

    model, seen = Pooled(), []
    x = leaf()
    for module in model.modules():
        hooks.pre(module, lambda module, grad: seen.append(("pre", type(module).__name__)))
        hooks.full(module, lambda module, gi, go: seen.append(("full", type(module).__name__)))
    model(x)[0].sum().backward()
    assert ("pre", "Pooled") in seen
    assert ("full", "Pooled") in seen
    assert x.grad.tolist() == [2.0, 2.0]


def test_nothing_arrives_at_a_module_whose_output_is_not_used() -> None:
    model, seen = nn.Sequential(nn.Tanh()), []
    hookline.register_full_backward_hook(model[0], lambda *_: seen.append(1))
    outer = Nested(lambda t: (t(1), model(t(2))))
    hookline.register_full_backward_pre_hook(outer, lambda *_: None)  # takes its outputs together
    first, _ = outer(leaf())
    first.sum().backward()
    assert seen == []
