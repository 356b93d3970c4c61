"""A forward that is set on the instance (E7, E24): hooks run around it, once, and it stays what it was."""

import copy
import functools
import inspect
import types

import pytest
import torch
from torch import nn

import hookline
from hookline.core import AFTER, ARGS, Hook
from hookline.errors import HooklineWarning, HookRefusedError
from hookline.intercept.made import made_from
from hookline.intercept.module_site import attach


class Add(nn.Module):
    """Adds one."""

    def forward(self, x, *, by=1):
        """Add."""
        return x + by


class Coder(nn.Module):
    def encode(self, x):
        return x

    def forward(self, x):
        return self.encode(x)


def tenfold(module, args, output):
    return output * 10


def with_own_forward(forward=lambda x: x + 2) -> nn.Module:
    module = Add()
    module.forward = forward
    return module


def accelerate_patch(module: nn.Module) -> None:
    """Do what accelerate.hooks.add_hook_to_module does."""
    module._old_forward = module.forward

    def new_forward(module, *args, **kwargs):
        return module._old_forward(*args, **kwargs) + 100

    module.forward = functools.update_wrapper(functools.partial(new_forward, module), module._old_forward)


def accelerate_unpatch(module: nn.Module) -> None:
    """Do what accelerate.hooks.remove_hook_from_module does."""
    module.forward = module._old_forward
    del module._old_forward


def test_the_class_expects_the_attribute_from_registration_on_when_it_was_there_before() -> None:
    module = with_own_forward()
    with hookline.register_forward_hook(module, tenfold):
        assert made_from(type(module)).shadowed == {"forward"}
        assert module.forward(1) == 30
        assert module(1) == 30
    assert module(1) == 3


def test_the_class_expects_the_attribute_from_the_next_call_on_when_it_is_set_later() -> None:
    module = Add()
    with hookline.register_forward_hook(module, tenfold):
        module.forward = lambda x: x + 2
        assert module(1) == 30
        assert made_from(type(module)).shadowed == {"forward"}
        assert module.forward(1) == 30


def test_a_forward_set_after_hooking_is_caught_also_when_it_is_called_directly() -> None:
    """E7, M14"""
    module = Add()
    with hookline.register_forward_hook(module, tenfold):
        module.forward = lambda x: x + 2
        assert module.forward(1) == 30


def test_another_method_that_is_set_after_hooking_is_caught() -> None:
    """E7"""
    module = Coder()
    with attach(module, Hook(AFTER, tenfold, ARGS), "encode"):
        module.encode = lambda x: x + 2
        assert module.encode(1) == 30


def test_another_method_that_was_set_before_hooking_is_caught_and_stays() -> None:
    """E7"""
    module = Coder()
    module.encode = mine = lambda x: x + 2
    with attach(module, Hook(AFTER, tenfold, ARGS), "encode"):
        assert module.encode(1) == module(1) == 30
    assert module.__dict__["encode"] is mine
    assert module(1) == 3
    assert type(module) is Coder


def test_the_class_still_answers_with_a_function() -> None:
    """E22"""
    module = with_own_forward()
    with hookline.register_forward_hook(module, tenfold):
        assert inspect.signature(type(module).forward) == inspect.signature(Add.forward)
        assert type(module).forward.__doc__ == "Add."
        assert type(module).forward(module, 1) == 2  # without hooks: they are around the attribute


def test_reading_the_attribute_gives_its_name_signature_and_docstring() -> None:
    """E22"""

    def named(x, y=2):
        """Explain."""

    module = with_own_forward(named)
    with hookline.register_forward_hook(module, tenfold):
        assert (module.forward.__name__, module.forward.__doc__) == ("named", "Explain.")
        assert inspect.signature(module.forward) == inspect.signature(named)
        del module.forward
        assert module.forward.__doc__ == "Add."
        assert inspect.signature(module.forward) == inspect.signature(Add().forward)


def test_keyword_arguments_reach_the_attribute_and_the_hooks() -> None:
    seen = []
    module = with_own_forward(lambda x, *, by: x * by)
    with hookline.register_forward_hook(module, lambda m, a, kwargs, out: seen.append((a, kwargs)), with_kwargs=True):
        assert module(2, by=5) == module.forward(2, by=5) == 10
    assert seen == [((2,), {"by": 5})] * 2


def test_an_attribute_that_is_replaced_or_deleted_is_followed() -> None:
    """E24"""
    module = with_own_forward()
    with hookline.register_forward_hook(module, tenfold):
        kept = module.forward
        module.forward = lambda x: x + 5
        assert module(1) == module.forward(1) == 60
        assert kept(1) == 3  # bare: hooks are around its successor now
        del module.forward
        assert "forward" not in module.__dict__
        assert module(1) == module.forward(1) == 20
        with pytest.raises(AttributeError, match="forward"):
            del module.forward
        module.forward = lambda x: x
        assert module(1) == module.forward(1) == 10
    assert module(1) == 1


def test_putting_back_what_was_read_restores_the_attribute_itself() -> None:
    mine = types.MethodType(Add.forward, Add())
    module = with_own_forward(mine)
    with hookline.register_forward_hook(module, tenfold):
        read = module.forward
        assert read is not mine
        module.forward = lambda x: read(x) - 1
        assert module(1) == 10
        module.forward = read
        assert module.__dict__["forward"] is mine
        assert module(1) == 20
    assert module.__dict__["forward"] is mine


def test_putting_back_what_was_read_when_there_was_no_attribute_leaves_none() -> None:
    module = Add()
    with hookline.register_forward_hook(module, tenfold):
        bound = module.forward  # a method of ours
        module.forward = lambda x: bound(x)
        assert module(1) == 20
        module.forward = bound
        assert "forward" not in module.__dict__
        read = module.forward  # now from the descriptor
        module.forward = lambda x: read(x)
        assert module(1) == 20
        module.forward = read
        assert "forward" not in module.__dict__
        assert module(1) == 20


def test_a_wrapper_of_what_was_read_is_an_attribute_of_its_own() -> None:
    """functools.wraps copies all attributes of the function that it wraps."""
    module = with_own_forward()
    with hookline.register_forward_hook(module, tenfold):
        read = module.forward

        @functools.wraps(read)
        def wrapper(x):
            return read(x) + 1

        module.forward = wrapper
        assert module.__dict__["forward"] is wrapper
        assert module(1) == 40


def test_what_was_read_from_one_module_is_an_ordinary_attribute_of_another() -> None:
    for first, plain in ((with_own_forward(), 3), (Add(), 2)):
        second = with_own_forward(lambda x: x)
        with hookline.register_forward_hook(first, tenfold), hookline.register_forward_hook(second, tenfold):
            second.forward = first.forward
            assert second(1) == plain * 100  # first's hooks, then second's
        assert second(1) == plain


@pytest.mark.parametrize("hook_first", [True, False], ids=["hooked first", "patched first"])
@pytest.mark.parametrize("unhook_first", [True, False], ids=["unhooked first", "unpatched first"])
def test_a_patch_as_accelerate_makes_it_goes_on_and_off_in_every_order(hook_first: bool, unhook_first: bool) -> None:
    """E7"""
    calls = []
    module = Add()

    def hook():
        return hookline.register_forward_hook(module, lambda m, args, out: calls.append(out))

    if hook_first:
        handle = hook()
        accelerate_patch(module)
    else:
        accelerate_patch(module)
        handle = hook()
    assert module(1) == 102
    assert calls == [102]
    if unhook_first:
        handle.remove()
        assert module(1) == 102
        accelerate_unpatch(module)
    else:
        accelerate_unpatch(module)
        assert module(1) == 2
        assert calls == [102, 2]
        calls.pop()
        handle.remove()
    assert module(1) == 2
    assert calls == [102]
    assert type(module) is Add
    assert not any("hookline" in key for key in (*module.__dict__, *module._forward_hooks))


@pytest.mark.parametrize("native", ["pre", "forward", "backward"])
@pytest.mark.parametrize("before", [True, False], ids=["set before", "set after"])
def test_native_hooks_beside_ours_fire_once_around_the_attribute(native: str, before: bool) -> None:
    """E7"""
    ours, theirs = [], []
    module = Add()
    register = {
        "pre": module.register_forward_pre_hook,
        "forward": module.register_forward_hook,
        "backward": module.register_full_backward_hook,
    }[native]
    register(lambda *_: theirs.append(1))
    if before:
        module.forward = mine = lambda x: x * 7
    handle = hookline.register_forward_hook(module, lambda *_: ours.append(1))
    if not before:
        module.forward = mine = lambda x: x * 7
    x = torch.ones(1, requires_grad=True)
    module(x).sum().backward()
    assert x.grad == 7
    assert (ours, theirs) == ([1], [1])
    handle.remove()
    assert module.__dict__["forward"] is mine
    assert type(module) is Add


def test_a_copy_of_a_module_with_its_own_forward_has_it_without_hooks() -> None:
    """E1"""
    module = with_own_forward()
    hookline.register_forward_hook(module, tenfold)
    module(1)
    other = copy.deepcopy(module)
    assert type(other) is Add
    assert other(1) == 3
    assert other.forward is module.__dict__["forward"]


def test_a_replica_of_a_module_with_its_own_forward_runs_the_hooks() -> None:
    """E6"""
    seen = []
    module = with_own_forward()
    with hookline.register_forward_hook(module, lambda m, args, out: seen.append(m)):
        replica = module._replicate_for_data_parallel()
        assert replica(1) == 3
    assert seen == [replica]
    assert seen[0] is replica


def class_on_top(module: nn.Module) -> None:
    """Do what FSDP2's fully_shard does."""
    object.__dict__["__class__"].__set__(module, type(f"FSDP{type(module).__name__}", (type(module),), {}))


def test_a_forward_attribute_under_another_s_class_on_top_of_ours_is_refused() -> None:
    """E7: the hook could not be made to fire once, so it is not taken."""
    module = Add()
    handle = hookline.register_forward_hook(module, lambda *_: None)
    class_on_top(module)
    handle.remove()
    module.forward = lambda x: x + 2
    with pytest.raises(HookRefusedError, match="'forward' was set on the module, which hides the method"):
        hookline.register_forward_hook(module, tenfold)
    assert module(1) == 3
    del module.forward
    with hookline.register_forward_hook(module, tenfold):
        assert module(1) == 20


def test_a_forward_attribute_that_is_set_under_another_s_class_says_that_the_hook_stops() -> None:
    """E7"""
    module = Add()
    with hookline.register_forward_hook(module, tenfold):
        class_on_top(module)
        with pytest.warns(HooklineWarning, match="its hooks do not run any more"):
            module.forward = lambda x: x + 2


def test_a_forward_attribute_from_before_stays_caught_when_another_s_class_goes_on_top_of_ours() -> None:
    """E7"""
    module = with_own_forward()
    with hookline.register_forward_hook(module, tenfold):
        class_on_top(module)
        assert module(1) == module.forward(1) == 30
    assert module(1) == 3


def test_a_hook_that_is_removed_during_a_call_of_the_attribute_is_gone() -> None:
    """E10"""
    module = with_own_forward(lambda x: handle.remove() or x)
    handle = hookline.register_forward_hook(module, tenfold)
    assert module(1) == 1
    assert type(module) is Add
    assert list(module.__dict__["forward"].__code__.co_varnames) == ["x"]


def test_what_was_read_while_hooked_runs_without_hooks_when_they_are_gone() -> None:
    module = with_own_forward()
    handle = hookline.register_forward_hook(module, tenfold)
    read = module.forward
    assert read(1) == 30
    handle.remove()
    assert read(1) == 3


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.xfail(strict=True, reason="Dynamo guards on what the instance holds, and finds the descriptor's answer")
def test_a_module_with_its_own_forward_compiles_whole_while_hooked() -> None:
    """E7, X1: with fullgraph the unhooked module compiles too."""
    model = nn.Sequential(with_own_forward(), nn.ReLU())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    hookline.register_forward_hook(model[0], tenfold)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 30.0))


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning")
def test_a_module_with_its_own_forward_is_right_in_compiled_code_that_may_break() -> None:
    """E7, X1"""
    model = nn.Sequential(with_own_forward(), nn.ReLU())
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(2))
    with hookline.register_forward_hook(model[0], tenfold):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 30.0))
        model[0].forward = lambda x: x + 3
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 40.0))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
