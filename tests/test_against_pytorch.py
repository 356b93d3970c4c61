"""Random programs of registrations, calls and removals do the same with our functions as with PyTorch's."""

import copy
import warnings

import hypothesis
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import hookline


class Scale(nn.Module):
    def forward(self, x, factor=2):
        if factor == 0:
            raise ValueError("factor")
        return x * factor


class Twice(nn.Module):
    """Calls a shared child twice, once with a keyword."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.scale = Scale()

    def forward(self, x):
        return self.scale(self.inner(self.inner(x)), factor=3)


LEAVES = st.sampled_from([nn.Identity, nn.ReLU, nn.Tanh, Scale, lambda: nn.Linear(3, 3)]).map(lambda make: make())
MODELS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda each: nn.Sequential(*each)), inner.map(Twice)
    ),
    max_leaves=4,
)
PRE = {
    "keep": lambda log, name: lambda m, args, *kwargs: log(name),
    "replace": lambda log, name: lambda m, args: log(name) or (args[0] + 1, *args[1:]),
    "single": lambda log, name: lambda m, args: log(name) or args[0] * 2,
    "kwargs": lambda log, name: lambda m, args, kwargs: log(name, *kwargs) or ((args[0] - 1, *args[1:]), kwargs),
    "fail": lambda log, name: lambda m, args: log(name) or 1 / 0,
}
POST = {
    "keep": lambda log, name: lambda m, args, *rest: log(name, len(args)),
    "replace": lambda log, name: lambda m, args, out: log(name) or out + 10,
    "kwargs": lambda log, name: lambda m, args, kwargs, out: log(name, *kwargs) or out * 2,
    "fail": lambda log, name: lambda m, args, out: log(name) or 1 / 0,
}
KINDS = st.one_of(
    st.tuples(st.just("pre"), st.sampled_from(sorted(PRE))), st.tuples(st.just("post"), st.sampled_from(sorted(POST)))
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("register"), KINDS, st.integers(0, 20), st.booleans(), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 20)),
        st.tuples(st.just("call")),
    ),
    max_size=12,
)


class Runner:
    """Carries out the steps on its own copy of the model, with one of the two implementations."""

    def __init__(self, model: nn.Module, *, ours: bool) -> None:
        self.model = copy.deepcopy(model)
        self.ours = ours
        self.log: list[object] = []
        self.handles: list[object] = []

    def register(self, kind, which, prepend, always) -> None:
        phase, behaviour = kind
        modules = list(self.model.modules())
        module = modules[which % len(modules)]
        name = f"{phase} {behaviour} {len(self.handles)}"
        make = (PRE if phase == "pre" else POST)[behaviour]
        options = {"prepend": prepend, "with_kwargs": behaviour == "kwargs"}
        if phase == "post":
            options["always_call"] = always
        hook = make(lambda *each: self.log.append(each), name)
        if self.ours:
            register = hookline.register_forward_pre_hook if phase == "pre" else hookline.register_forward_hook
            self.handles.append(register(module, hook, **options))
        else:
            register = module.register_forward_pre_hook if phase == "pre" else module.register_forward_hook
            self.handles.append(register(hook, **options))

    def remove(self, which) -> None:
        if self.handles:
            self.handles[which % len(self.handles)].remove()

    def call(self) -> None:
        try:
            with warnings.catch_warnings(action="ignore"):  # about always_call hooks that fail
                self.log.append(self.model(torch.arange(6.0).reshape(2, 3)).tolist())
        except (ZeroDivisionError, ValueError) as error:
            self.log.append(type(error))

    def run(self, steps) -> list[object]:
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
        return self.log


def state_of(model: nn.Module) -> list[object]:
    x = torch.arange(6.0).reshape(2, 3)
    modules = [
        (id(module), type(module), {key: id(value) for key, value in vars(module).items()})
        for module in model.modules()
    ]
    native = [(list(module._forward_hooks), list(module._forward_pre_hooks)) for module in model.modules()]
    tensors = {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()}
    return [modules, native, repr(model), tensors, model(x).tolist()]


@hypothesis.settings(max_examples=150, deadline=None)
@given(MODELS, STEPS)
def test_a_random_program_runs_as_with_pytorch_s_own_hooks_and_leaves_no_trace(model: nn.Module, steps) -> None:
    native, ours = Runner(model, ours=False), Runner(model, ours=True)
    before = state_of(ours.model)
    assert ours.run(steps) == native.run(steps)
    for handle in ours.handles:
        handle.remove()
    assert state_of(ours.model) == before


def test_native_pre_hooks_run_outside_ours_and_native_forward_hooks_after_ours() -> None:
    log = []
    module = nn.Identity()
    hookline.register_forward_pre_hook(module, lambda *_: log.append("our pre"))
    hookline.register_forward_hook(module, lambda *_: log.append("our post"))
    module.register_forward_pre_hook(lambda *_: log.append("native pre"))
    module.register_forward_hook(lambda *_: log.append("native post"))
    module.register_full_backward_hook(lambda *_: log.append("native backward"))
    module(torch.ones(1, requires_grad=True)).sum().backward()
    assert log == ["native pre", "our pre", "our post", "native post", "native backward"]


def test_hooks_for_all_modules_run_outside_ours() -> None:
    log = []
    module = nn.Identity()
    hookline.register_forward_hook(module, lambda *_: log.append("ours"))
    everywhere = torch.nn.modules.module.register_module_forward_hook(lambda *_: log.append("everywhere"))
    try:
        module(1)
    finally:
        everywhere.remove()
    module(1)
    assert log == ["ours", "everywhere", "ours"]
