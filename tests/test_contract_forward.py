"""PyTorch's contract for forward hooks: where CONTRACT says keep, both implementations run the same scenario."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch import nn

import hookline
from hookline.errors import HooklineWarning, HookResultError, HookTypeError


class Native:
    """PyTorch's functions with the module first."""

    @staticmethod
    def pre(module, hook, **options):
        return module.register_forward_pre_hook(hook, **options)

    @staticmethod
    def post(module, hook, **options):
        return module.register_forward_hook(hook, **options)


class Ours:
    pre = staticmethod(hookline.register_forward_pre_hook)
    post = staticmethod(hookline.register_forward_hook)


BOTH = pytest.mark.parametrize("hooks", [Native, Ours])


class Echo(nn.Module):
    """Returns what it was given."""

    def forward(self, *args, **kwargs):
        return args, kwargs


class Nest(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.child = Echo()

    def forward(self, *args):
        return self.child(*args)


X = torch.ones(1, 4)


@BOTH
def test_each_hook_is_called_with_its_signature(hooks) -> None:
    """R1"""
    seen = []
    module = Echo()
    hooks.pre(module, lambda *each: seen.append(each))
    hooks.pre(module, lambda *each: seen.append(each), with_kwargs=True)
    hooks.post(module, lambda *each: seen.append(each))
    hooks.post(module, lambda *each: seen.append(each), with_kwargs=True)
    out = module(1, k=2)
    assert seen == [
        (module, (1,)),
        (module, (1,), {"k": 2}),
        (module, (1,), out),
        (module, (1,), {"k": 2}, out),
    ]


@BOTH
def test_a_function_registered_twice_runs_twice(hooks) -> None:
    """R2"""
    seen = []

    def hook(*_):
        seen.append(1)

    module = Echo()
    hooks.post(module, hook)
    hooks.post(module, hook).remove()
    hooks.post(module, hook)
    module()
    assert seen == [1, 1]


@BOTH
@pytest.mark.parametrize("kind", ["pre", "post"])
def test_hooks_run_in_the_order_of_registration_prepended_ones_first(hooks, kind: str) -> None:
    """O1"""
    seen = []
    module = Echo()
    for name, prepend in [("a", False), ("b", True), ("c", False), ("d", True)]:
        getattr(hooks, kind)(module, lambda *_, name=name: seen.append(name), prepend=prepend)
    module()
    assert seen == ["d", "b", "a", "c"]


@BOTH
def test_hooks_nest_as_modules_do(hooks) -> None:
    """O2"""
    seen = []
    model = Nest()
    for name, module in [("root", model), ("child", model.child)]:
        hooks.pre(module, lambda *_, name=name: seen.append(f"pre {name}"))
        hooks.post(module, lambda *_, name=name: seen.append(f"post {name}"))
    model(1)
    assert seen == ["pre root", "pre child", "post child", "post root"]


@BOTH
def test_each_hook_sees_the_previous_one_s_replacement(hooks) -> None:
    """O3"""
    seen = []
    module = Echo()
    hooks.pre(module, lambda m, args: (args[0] + 1,))
    hooks.pre(module, lambda m, args: (args[0] * 10,))
    hooks.post(module, lambda m, args, out: seen.append(args) or "first")
    hooks.post(module, lambda m, args, out: seen.append(out))
    assert module(1) == "first"
    assert seen == [(20,), "first"]


@BOTH
@pytest.mark.parametrize(
    ("returned", "args"),
    [(None, (1, 2)), ((5,), (5,)), ((), ()), (5, (5,)), ([5, 6], ([5, 6],)), (False, (False,)), (((1, 2),), ((1, 2),))],
    ids=repr,
)
def test_what_a_pre_hook_returns_replaces_the_arguments(hooks, returned, args) -> None:
    """P1, P2"""
    module = Echo()
    hooks.pre(module, lambda *_: returned)
    assert module(1, 2) == (args, {})


@BOTH
def test_a_plain_pre_hook_does_not_see_kwargs(hooks) -> None:
    """P3"""
    seen = []
    module = Echo()
    hooks.pre(module, lambda m, args: seen.append(args))
    assert module(k=1) == ((), {"k": 1})
    assert seen == [()]


@BOTH
def test_a_pre_hook_with_kwargs_replaces_both_or_edits_its_own_dict(hooks) -> None:
    """P4"""
    module, given = Echo(), {"k": 1}
    hooks.pre(module, lambda m, args, kwargs: kwargs.update(k=2), with_kwargs=True)
    assert module(0, **given) == ((0,), {"k": 2})
    assert given == {"k": 1}
    hooks.pre(module, lambda m, args, kwargs: ((7,), {**kwargs, "z": 3}), with_kwargs=True)
    assert module(0, **given) == ((7,), {"k": 2, "z": 3})


@BOTH
@pytest.mark.parametrize("returned", [5, (1,), (1, 2, 3)], ids=repr)
def test_a_pre_hook_with_kwargs_that_returns_anything_else_is_an_error(hooks, returned) -> None:
    """P4"""
    module = Echo()
    hooks.pre(module, lambda *_: returned, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or"):
        module(1)


def test_the_error_about_a_wrong_result_is_one_of_ours() -> None:
    """P4"""
    module = Echo()
    Ours.pre(module, lambda *_: 5, with_kwargs=True)
    with pytest.raises(HookResultError, match="it returned 5"):
        module(1)


@BOTH
@pytest.mark.parametrize("returned", [False, 0, (), [], "", {}], ids=repr)
def test_a_forward_hook_keeps_the_output_only_with_none(hooks, returned) -> None:
    """F1"""
    module = Echo()
    handle = hooks.post(module, lambda *_: returned)
    assert module(1) == returned
    handle.remove()
    hooks.post(module, lambda *_: None)
    assert module(1) == ((1,), {})


@BOTH
@pytest.mark.parametrize("kind", ["pre", "post", "forward"])
def test_an_error_propagates_and_always_call_hooks_still_run(hooks, kind: str) -> None:
    """F2, A1"""
    seen = []

    def fail(*_, **__):
        raise ValueError("no")

    module = Echo() if kind != "forward" else nn.Module()
    if kind == "forward":
        type(module)
        module = type("Fails", (nn.Module,), {"forward": fail})()
    hooks.post(module, lambda m, args, out: seen.append(out), always_call=True)
    hooks.post(module, lambda m, args, kwargs, out: seen.append((kwargs, out)), with_kwargs=True, always_call=True)
    if kind != "forward":
        getattr(hooks, kind)(module, fail)
    with pytest.raises(ValueError, match="no"):
        module(1, k=2)
    out = ((1,), {"k": 2}) if kind == "post" else None
    assert seen == [out, ({"k": 2}, out)]


@BOTH
def test_always_call_hooks_run_once_and_cannot_swallow_and_their_own_error_is_a_warning(hooks) -> None:
    """A1"""
    seen = []

    def broken(*_):
        seen.append("broken")
        raise OSError("disk")

    module = type("Fails", (nn.Module,), {"forward": lambda self: 1 / 0})()
    hooks.post(module, broken, always_call=True)
    hooks.post(module, lambda m, args, out: seen.append("next") or "result", always_call=True)
    with pytest.raises(ZeroDivisionError), pytest.warns(UserWarning, match="disk"):
        module()
    assert seen == ["broken", "next"]


@BOTH
def test_a_handle_may_be_removed_twice_and_after_the_module_is_gone(hooks) -> None:
    """H1"""
    module = Echo()
    handle = hooks.post(module, lambda *_: "changed")
    handle.remove()
    handle.remove()
    assert module() == ((), {})
    handle = hooks.post(module, lambda *_: "changed")
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
    handle.remove()


@BOTH
def test_dropping_the_handle_removes_nothing(hooks) -> None:
    """H1"""
    module = Echo()
    hooks.post(module, lambda *_: "changed")
    gc.collect()
    assert module() == "changed"


@BOTH
def test_a_with_block_removes_the_hook_also_on_an_error(hooks) -> None:
    """H2"""
    module = Echo()
    with pytest.raises(ZeroDivisionError), hooks.post(module, lambda *_: "changed"):
        assert module() == "changed"
        1 / 0
    assert module() == ((), {})


@BOTH
def test_a_hook_added_by_a_forward_hook_runs_from_the_next_call_on(hooks) -> None:
    """H3"""
    seen = []
    module = Echo()

    def adds(*_):
        seen.append("adds")
        hooks.post(module, lambda *_: seen.append("added"))

    handle = hooks.post(module, adds)
    module()
    handle.remove()
    module()
    assert seen == ["adds", "added"]


@BOTH
def test_hooks_are_no_parameters_and_stay_through_to(hooks) -> None:
    """D1"""
    module = nn.Linear(4, 4)
    keys = list(module.state_dict())
    hooks.post(module, lambda *_: "changed")
    assert list(module.state_dict()) == keys
    assert len(list(module.parameters())) == 2
    assert module.to(torch.float64)(X.double()) == "changed"


def method_hook(self, module, args): ...


MISFITS = {
    "not callable": ("pre", 5, {}, r"hook\(module, args\), got int: 5"),
    "nothing": ("post", None, {}, r"hook\(module, args, output\), got NoneType"),
    "too few": ("post", lambda module: None, {}, r"called as hook\(module, args, output\), .*signature \(module\)"),
    "too many": ("pre", lambda a, b, c: None, {}, r"signature \(a, b, c\): missing a required argument: 'c'"),
    "kwargs missing": ("pre", lambda a, b: None, {"with_kwargs": True}, r"hook\(module, args, kwargs\)"),
    "kwargs unasked": ("post", lambda a, b, c, d: None, {}, r"hook\(module, args, output\)"),
    "keyword only": ("pre", lambda a, b, *, c: None, {}, "'c'"),
    "a class": ("pre", type("Hook", (), {"__init__": lambda self, only: None}), {}, "Hook"),
}


@pytest.mark.parametrize(("kind", "hook", "options", "message"), MISFITS.values(), ids=MISFITS.keys())
def test_a_hook_that_cannot_be_called_so_is_refused_at_registration(kind, hook, options, message) -> None:
    """M1"""
    module = Echo()
    with pytest.raises(HookTypeError, match=message):
        getattr(Ours, kind)(module, hook, **options)
    assert type(module) is Echo


class Bound:
    def hook(self, module, args): ...
    def __call__(self, module, args, extra=None): ...


FITTING = [Bound().hook, Bound(), lambda *args: None, lambda a, b, c=1: None, print, lambda a, b, *, c=1: None]


@pytest.mark.parametrize("hook", FITTING)
def test_a_hook_that_can_be_called_so_is_taken(hook, capsys) -> None:
    """M1"""
    module = Echo()
    Ours.pre(module, hook)
    module(1)


@pytest.mark.parametrize("victim", ["pre", "post"])
@pytest.mark.parametrize("with_kwargs", [True, False])
def test_a_hook_removed_during_the_call_does_not_run_in_it(victim: str, with_kwargs: bool) -> None:
    """M2"""
    seen = []
    module = Echo()
    getattr(Ours, victim)(module, lambda *_: handle.remove())
    handle = getattr(Ours, victim)(module, lambda *each: seen.append(each), with_kwargs=with_kwargs)
    module(1, k=2)
    assert seen == []


@pytest.mark.parametrize("had_hooks", [True, False])
def test_a_hook_added_inside_the_forward_runs_from_the_next_call_on(had_hooks: bool) -> None:
    """M3"""
    seen = []

    class Adds(nn.Module):
        def forward(self):
            if not self.__dict__.setdefault("added", False):
                self.added = True
                Ours.post(self, lambda *_: seen.append("added"))

    module = Adds()
    if had_hooks:
        Ours.pre(module, lambda *_: None)
    module()
    assert seen == []
    module()
    assert seen == ["added"]


@pytest.mark.parametrize(
    "twin", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "copy", "pickle"]
)
def test_copies_and_pickles_carry_no_hooks(twin) -> None:
    """M5"""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    plain = model(X)
    for module in model.modules():
        Ours.post(module, lambda m, args, out: out + 1)
    other = twin(model)
    if twin is not copy.copy:
        assert torch.equal(other(X), plain)
        assert type(other[0]) is nn.Linear
    assert type(other) is nn.Sequential
    assert not any("hookline" in key for key in (*other.__dict__, *other._forward_hooks))
    assert not torch.equal(model(X), plain)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("how", ["torch.compile", "module.compile"])
def test_a_hook_on_a_module_that_was_compiled_before_fires(how: str) -> None:
    """M13"""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    if how == "torch.compile":
        run = torch.compile(model, backend="eager")
    else:
        model.compile(backend="eager")
        run = model
    plain = run(X)
    with Ours.post(model[0], lambda m, args, out: out + 1):
        assert torch.equal(run(X), model[1](model[0](X)))
        assert not torch.equal(run(X), plain)
    assert torch.equal(run(X), plain)


def test_a_direct_call_of_forward_is_seen() -> None:
    """M14"""
    module = Echo()
    Ours.pre(module, lambda *_: (5,))
    Ours.post(module, lambda m, args, out: (out, "seen"))
    assert module.forward(1) == ((((5,), {})), "seen")


def test_always_call_hooks_run_on_keyboard_interrupt() -> None:
    """M16"""
    seen = []

    def interrupted(self):
        raise KeyboardInterrupt

    module = type("Long", (nn.Module,), {"forward": interrupted})()
    Ours.post(module, lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(KeyboardInterrupt):
        module()
    assert seen == [None]


def test_the_warning_about_a_clean_up_hook_is_one_of_ours() -> None:
    """A1"""
    module = type("Fails", (nn.Module,), {"forward": lambda self: 1 / 0})()
    Ours.post(module, lambda *_: 1 / 0, always_call=True)
    with pytest.raises(ZeroDivisionError), pytest.warns(HooklineWarning, match="raised ZeroDivisionError"):
        module()
