"""Copies and pickles of hooked modules are unhooked and of the original class (E1, E2, M5)."""

import copy
import io
import pickle
import types

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import hookline
from hookline.core import AFTER, ARGS, Hook
from hookline.intercept.module_site import attach
from hookline.intercept.state import FAST_PATH, has_sites

X = torch.ones(2, 4)


def pickled(protocol: int):
    return lambda value: pickle.loads(pickle.dumps(value, protocol))


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


TWINS = {"deepcopy": copy.deepcopy, "copy": copy.copy, "torch.save": saved}
TWINS |= {f"pickle {protocol}": pickled(protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)}
EVERY_TWIN = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def encode(self, x):
        return self.fc(x)

    def forward(self, x):
        return self.encode(x)


class NewArgs(Net):
    def __new__(cls, size):
        return super().__new__(cls)

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __getnewargs__(self):
        return (self.size,)


class NewArgsByName(NewArgs):
    def __new__(cls, *, size):
        return super().__new__(cls, size)

    def __init__(self, *, size):
        super().__init__(size)

    def __getnewargs_ex__(self):
        return (), {"size": self.size}


class StateMethods(Net):
    def __getstate__(self):
        return {"packed": self.__dict__}

    def __setstate__(self, state):
        super().__setstate__(state["packed"])


class ReducesByName(Net):
    def __reduce__(self):
        return "SHARED"


MAKERS = {"Net": Net, "NewArgs": lambda: NewArgs(3), "NewArgsByName": lambda: NewArgsByName(size=3)}
OLD = {TWINS["pickle 0"], TWINS["pickle 1"]}
SHARED = ReducesByName()


@EVERY_TWIN
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_a_twin_is_what_it_would_be_of_the_unhooked_module(make, twin) -> None:
    if make is not Net and twin in OLD:
        return  # pickle asks for __getnewargs__ from protocol 2 on: the plain module cannot be pickled either
    module = make()
    cls, plain, keys = type(module), module(X), list(module.__dict__)
    hookline.register_forward_hook(module, lambda m, args, out: out + 1)
    attach(module, Hook(AFTER, lambda m, args, out: out + 1, ARGS), "encode")
    other = twin(module)
    assert type(other) is cls
    assert list(other.__dict__) == keys
    assert FAST_PATH not in other._forward_hooks
    assert torch.equal(other(X), plain)
    assert torch.equal(module(X), plain + 2)  # and the original keeps its hooks


@EVERY_TWIN
def test_a_twin_is_clean_also_where_getstate_packs_the_dict_into_something_else(twin) -> None:
    """E2, E20"""
    module = StateMethods()
    hookline.register_forward_hook(module, lambda m, args, out: out + 1)
    other = twin(module)
    assert type(other) is StateMethods
    assert not has_sites(other)
    assert FAST_PATH not in other._forward_hooks


class PacksDeep(Net):
    """Its state is what `pack` makes of its __dict__."""

    def __getstate__(self):
        return self.pack(self.__dict__)

    def pack(self, state):
        return state


@pytest.mark.parametrize(
    "pack",
    [lambda state: ["v1", (1, state)], lambda state: (None, {"a": [state]}), lambda state: dict(state)],
    ids=["list", "slots and dicts", "a copy"],
)
def test_a_state_is_clean_wherever_plain_containers_hold_it(pack) -> None:
    """E2"""
    module = PacksDeep()
    module.__dict__["pack"] = pack
    with hookline.register_forward_hook(module, lambda *_: None):
        assert "hookline" in repr(module.__dict__)
        state = module.__reduce_ex__(4)[2]
        assert "hookline" not in repr(state)
    assert state == module.__reduce_ex__(4)[2]


def test_what_holds_nothing_of_ours_stays_the_same_object_in_a_state() -> None:
    """E2: other parts of the pickle may refer to it."""
    deep = [[[[[["far down"]]]]]]
    mine = {"list": deep, "tuple": (deep, 1), "dict": {"deep": deep}}
    module = PacksDeep()
    module.__dict__["pack"] = lambda state: mine
    with hookline.register_forward_hook(module, lambda *_: None):
        assert module.__reduce_ex__(4)[2] is mine
    module.__dict__["pack"] = lambda state: [state, mine]
    with hookline.register_forward_hook(module, lambda *_: None):
        assert module.__reduce_ex__(4)[2][1] is mine


def test_a_twin_keeps_the_native_hooks_that_torch_would_copy() -> None:
    module = Net()
    native = module.register_forward_hook(native_hook)
    hookline.register_forward_hook(module, lambda *_: None)
    assert list(copy.deepcopy(module)._forward_hooks.items()) == [(native.id, native_hook)]


def native_hook(*_):
    return None


def test_a_reduce_that_names_a_global_is_passed_on() -> None:
    handle = hookline.register_forward_hook(SHARED, lambda *_: None)
    assert SHARED.__reduce_ex__(4) == "SHARED"
    assert copy.deepcopy(SHARED) is SHARED
    handle.remove()


class CopiesItself(nn.Module):
    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return "no module"

    def forward(self, x):
        return x


def test_a_copy_method_that_gives_the_module_itself_or_no_module_is_passed_on() -> None:
    """E20"""
    module = CopiesItself()
    with hookline.register_forward_hook(module, lambda m, args, out: out + 1):
        assert copy.deepcopy(module) is module
        assert copy.copy(module) == "no module"
        assert module(1) == 2  # still hooked
    assert type(module) is CopiesItself


class CopiesByState(nn.Module):
    def __deepcopy__(self, memo):
        other = self.__class__.__new__(self.__class__)
        other.__dict__ = dict(self.__dict__)
        return other

    def forward(self, x):
        return x


def test_a_copy_method_that_copies_the_state_gives_an_unhooked_twin() -> None:
    """E20"""
    module = CopiesByState()
    hookline.register_forward_hook(module, lambda m, args, out: out + 1)
    other = copy.deepcopy(module)
    assert type(other) is CopiesByState
    assert not has_sites(other)
    assert other(1) == 1
    assert module(1) == 2


def test_a_copy_method_of_an_unhooked_module_of_a_hooked_class_gives_the_plain_class() -> None:
    """E18: the hooked class is underneath the parametrized one, inert."""
    module = CopiesItself()
    module.weight = nn.Parameter(torch.ones(1))
    handle = hookline.register_forward_hook(module, lambda m, args, out: out + 1)
    parametrize.register_parametrization(module, "weight", nn.Identity())
    handle.remove()
    assert copy.deepcopy(module) is module
    assert module(1) == 1


@EVERY_TWIN
def test_a_bound_forward_that_the_module_keeps_is_the_twin_s_own(twin) -> None:
    """E1, E7: a patch keeps the old forward as an attribute."""
    module = nn.Linear(4, 4, bias=False)
    hookline.register_forward_hook(module, lambda m, args, out: out + 1)
    module.kept = module.forward
    other = twin(module)
    if twin is not copy.copy:  # which shares the attribute, as it does everywhere
        assert other.kept.__self__ is other
        assert torch.equal(other.kept(X), other(X))


# An object in place of the closure would be copied with the module, but Dynamo can trace only the closure.
KEPT = pytest.mark.xfail(strict=True, reason="what a shadowed forward reads as is a closure over the original module")


@pytest.mark.parametrize("hooked", [False, pytest.param(True, marks=KEPT)], ids=["not hooked", "hooked"])
def test_a_deep_copy_has_no_tie_to_the_original_through_a_forward_that_was_kept(hooked: bool) -> None:
    """E1, E7: an attribute `forward` that is patched once more while hooked."""
    module = nn.Linear(4, 4, bias=False)
    module.forward = types.MethodType(nn.Linear.forward, module)
    if hooked:
        hookline.register_forward_hook(module, lambda *_: None)
        module(X)
    module.kept = module.forward
    other = copy.deepcopy(module)
    other.weight.data.zero_()
    assert not other.kept(X).any()
    assert module(X).any()


def test_a_twin_of_a_container_that_holds_hooked_modules_is_clean_at_every_level() -> None:
    model = nn.ModuleDict({"a": nn.Sequential(Net(), nn.ReLU()), "b": nn.ModuleList([Net()])})
    for module in model.modules():
        attach(module, Hook(AFTER, lambda *_: None, ARGS), "forward" if hasattr(module, "fc") else "train")
    other = copy.deepcopy({"model": model, "again": [model]})
    assert other["model"] is other["again"][0]
    for mine, theirs in zip(model.modules(), other["model"].modules(), strict=True):
        assert type(theirs) is type(mine).__mro__[1]
        assert not has_sites(theirs)
        assert has_sites(mine)
