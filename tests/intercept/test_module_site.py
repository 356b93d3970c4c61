import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn.modules import module as every

import hookline
from hookline.core import AFTER, ARGS, AROUND, BEFORE, CALL, Hook
from hookline.errors import HookRefusedError, HookTypeError
from hookline.intercept.module_site import attach, release
from hookline.intercept.state import FAST_PATH, site_key, sites


class Coder(nn.Module):
    def encode(self, x):
        return x + 1

    def forward(self, x):
        return self.encode(x) * 2


def tenfold(module, args, output):
    return output * 10


def state_of(module: nn.Module):
    return type(module), {key: id(value) for key, value in vars(module).items()}, list(module._forward_hooks)


def test_hooks_on_several_methods_come_and_go_each_by_itself() -> None:
    module = Coder()
    before = state_of(module)
    encode = attach(module, Hook(AFTER, tenfold, ARGS), "encode")
    assert FAST_PATH in module._forward_hooks
    forward = attach(module, Hook(AFTER, tenfold, ARGS))
    assert module(1) == 400
    forward.remove()
    assert FAST_PATH in module._forward_hooks
    assert module(1) == 40
    assert module.encode(1) == 20
    encode.remove()
    assert module(1) == 4
    assert state_of(module) == before


def test_a_later_hook_takes_its_place_without_another_class() -> None:
    module = Coder()
    first = attach(module, Hook(AFTER, tenfold, ARGS))
    hooked = type(module)
    second = attach(module, Hook(BEFORE, lambda m, args: (args[0] + 1,), ARGS))
    assert type(module) is hooked
    assert module(1) == 60
    first.remove()
    assert type(module) is hooked
    assert module(1) == 6
    second.remove()
    assert type(module) is Coder


def test_a_hook_that_is_handed_a_call_may_run_around_it() -> None:
    module = Coder()
    with attach(module, Hook(AROUND, lambda call, proceed: (call.number, proceed(), call.module), CALL)):
        assert module(1) == (0, 4, module)
        assert module(1) == (1, 4, module)


@pytest.mark.parametrize(
    ("thing", "method", "error", "message"),
    [
        ("fc", "forward", HookTypeError, "The module comes first"),
        (nn.Linear.__new__(nn.Linear), "forward", HookRefusedError, "not initialised"),
        (nn.Identity(), "fly", HookTypeError, "Identity has no method 'fly'"),
    ],
    ids=["no module", "not initialised", "no method"],
)
def test_what_cannot_be_hooked_is_refused_and_left_as_it_was(thing, method: str, error, message: str) -> None:
    before = dict(vars(thing)) if isinstance(thing, nn.Module) else None
    with pytest.raises(error, match=message):
        attach(thing, Hook(AFTER, tenfold, ARGS), method)
    if before is not None:
        assert vars(thing) == before
        assert not hasattr(type(thing), "__hookline__")


def test_a_refused_method_leaves_the_hooks_on_others_alone() -> None:
    module = Coder()
    with attach(module, Hook(AFTER, tenfold, ARGS)):
        with pytest.raises(HookTypeError, match="no method 'fly'"):
            attach(module, Hook(AFTER, tenfold, ARGS), "fly")
        assert module(1) == 40
    assert type(module) is Coder


def test_releasing_a_hook_where_it_is_not_changes_nothing() -> None:
    hook = Hook(AFTER, tenfold, ARGS)
    plain, other = Coder(), Coder()
    before = state_of(plain)
    release(plain, hook)
    assert state_of(plain) == before
    handle = attach(other, Hook(AFTER, tenfold, ARGS))
    release(other, hook)
    release(other, hook, "encode")
    assert other(1) == 40
    handle.remove()
    assert state_of(other)[0] is Coder


NATIVE = {
    "pre": lambda module, note: module.register_forward_pre_hook(note),
    "forward": lambda module, note: module.register_forward_hook(note),
    "backward pre": lambda module, note: module.register_full_backward_pre_hook(note),
    "backward": lambda module, note: module.register_full_backward_hook(note),
    "every pre": lambda module, note: every.register_module_forward_pre_hook(note),
    "every forward": lambda module, note: every.register_module_forward_hook(note),
    "every backward pre": lambda module, note: every.register_module_full_backward_pre_hook(note),
    "every backward": lambda module, note: every.register_module_full_backward_hook(note),
}


@pytest.mark.parametrize("register", NATIVE.values(), ids=NATIVE.keys())
def test_each_kind_of_native_hook_beside_ours_fires_once(register) -> None:
    ours, theirs = [], []
    module = nn.Linear(4, 4)
    with hookline.register_forward_hook(module, lambda *_: ours.append(1)):
        native = register(module, lambda *_: theirs.append(1))
        try:
            module(torch.ones(1, 4, requires_grad=True)).sum().backward()
        finally:
            native.remove()
    assert (ours, theirs) == ([1], [1])


def test_a_handle_removes_from_its_own_module_after_a_replica_was_made() -> None:
    """E6"""
    module = Coder()
    handle = attach(module, Hook(AFTER, tenfold, ARGS))
    replica = module._replicate_for_data_parallel()
    handle.remove()
    assert type(module) is Coder
    assert site_key("forward") not in module.__dict__
    assert replica(1) == 4


def test_hooks_keep_neither_the_module_alive_nor_leave_its_class_behind() -> None:
    """E21"""
    module = Coder()
    handle = hookline.register_forward_hook(module, tenfold)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
    assert "something that is gone" in repr(handle)
    handle.remove()


def test_a_hook_lets_go_of_its_function_when_it_is_removed() -> None:
    """E21"""

    def hook(*_):
        return None

    module = Coder()
    handle = hookline.register_forward_hook(module, hook)
    gone = weakref.ref(hook)
    del hook
    handle.remove()
    gc.collect()
    assert gone() is None


def test_a_module_without_hooks_has_no_sites_whatever_was_tried() -> None:
    module = Coder()
    for method in ("forward", "encode"):
        attach(module, Hook(AFTER, tenfold, ARGS), method).remove()
    assert sites(module) == {}


def test_a_hook_on_train_alone_leaves_the_fast_path_on(mlp: nn.Sequential) -> None:
    on_train = attach(mlp[0], Hook(AFTER, lambda module, args, output: None, ARGS), "train")
    assert not mlp[0]._forward_hooks
    on_forward = attach(mlp[0], Hook(AFTER, lambda module, args, output: None, ARGS))
    assert mlp[0]._forward_hooks
    on_forward.remove()
    assert not mlp[0]._forward_hooks
    on_train.remove()
    assert type(mlp[0]) is nn.Linear
