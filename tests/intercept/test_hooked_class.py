"""The subclass that a hooked module gets: made once, named like its base, inert without hooks."""

import inspect
import threading

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import hookline
from hookline.core import AFTER, ARGS, Hook
from hookline.errors import HookRefusedError, HookTypeError
from hookline.intercept.hooked_class import _shadow_forward, catch, catching, hooked_class, restore_class
from hookline.intercept.made import made_from
from hookline.intercept.module_site import attach
from hookline.intercept.state import has_sites, sites

FORWARD = frozenset({"forward"})
X = torch.ones(2, 4)


class Net(nn.Module):
    """A net."""

    def __init__(self, size: int = 4) -> None:
        """Take a size."""
        super().__init__()
        self.fc = nn.Linear(4, size)

    def encode(self, x):
        """Encode."""
        return x

    def forward(self, x, *, scale=1):
        """Run."""
        return self.fc(self.encode(x)) * scale


class Double(nn.Module):
    def forward(self, weight):
        return weight * 2


def hook(*_):
    return None


def plus_one(module, args, output):
    return output + 1


def test_one_class_is_made_for_a_base_and_its_methods() -> None:
    first, second, other = Net(), Net(), Net()
    hookline.register_forward_hook(first, hook)
    hookline.register_forward_pre_hook(second, hook)
    attach(other, Hook(AFTER, hook, ARGS), "encode")
    assert type(first) is type(second)
    assert type(first) is not type(other)
    assert type(first) is hooked_class(Net, FORWARD, frozenset())


@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__module__", "__doc__"])
def test_the_class_passes_for_its_base(name: str) -> None:
    module = Net()
    hookline.register_forward_hook(module, hook)
    assert getattr(type(module), name) == getattr(Net, name)
    assert isinstance(module, Net)
    assert issubclass(type(module), Net)
    assert repr(module) == repr(Net())


@pytest.mark.parametrize("name", ["forward", "encode", "__init__", "_call_impl"])
def test_its_methods_pass_for_those_of_the_base(name: str) -> None:
    """E22"""
    cls = hooked_class(Net, frozenset({"forward", "encode"}), frozenset())
    ours, theirs = getattr(cls, name), getattr(Net, name)
    assert ours is not theirs
    assert ours.__name__ == theirs.__name__
    assert ours.__qualname__ == theirs.__qualname__
    assert ours.__doc__ == theirs.__doc__
    assert inspect.signature(ours) == inspect.signature(theirs)


def test_each_class_has_code_of_its_own_for_the_compiler_to_count() -> None:
    """X3: torch.compile's limit of recompilations is for each code object."""
    linear, relu = (hooked_class(cls, FORWARD, frozenset()) for cls in (nn.Linear, nn.ReLU))
    assert linear.forward.__code__ is not relu.forward.__code__
    assert linear._call_impl.__code__ is not relu._call_impl.__code__


def test_an_instance_without_sites_is_left_alone() -> None:
    module, plain = Net(), Net()
    plain.load_state_dict(module.state_dict())
    module.__class__ = hooked_class(Net, FORWARD, frozenset())
    assert torch.equal(module(X, scale=3), plain(X, scale=3))
    assert torch.equal(module.forward(X), plain.forward(X))


def test_a_new_instance_of_a_hooked_class_is_born_unhooked() -> None:
    """E17: as nn.Sequential makes its slices."""
    module = Net()
    hookline.register_forward_hook(module, plus_one)
    other = type(module)(size=3)
    assert type(other) is Net
    assert other.fc.out_features == 3
    assert not has_sites(other)


def test_an_instance_of_a_subclass_of_a_hooked_class_keeps_its_class() -> None:
    """E20"""
    module = Net()
    hookline.register_forward_hook(module, plus_one)
    sub = type("Sub", (type(module),), {})
    other = sub(2)
    assert type(other) is sub
    assert other(X).shape == (2, 2)
    with hookline.register_forward_hook(other, plus_one):
        assert torch.equal(other(X), other.fc(X) + 1)
    assert type(other) is sub


def test_init_may_be_called_again_on_a_hooked_module_and_the_hooks_stay() -> None:
    module = nn.Linear(4, 4)
    seen = []
    hookline.register_forward_hook(module, lambda *_: seen.append(1))
    module.reset_parameters()
    type(module).__init__(module, 4, 2)
    assert module(X).shape == (2, 2)
    assert seen == [1]


def test_catching_a_second_time_changes_nothing() -> None:
    module = Net()
    catch(module, "forward")
    hooked = type(module)
    catch(module, "forward")
    assert type(module) is hooked
    assert catching(hooked, "forward", shadowed=False) is hooked
    assert made_from(catching(hooked, "forward", shadowed=True)).shadowed == FORWARD
    restore_class(module)
    assert type(module) is Net


def test_restoring_what_is_not_of_a_hooked_class_or_still_hooked_changes_nothing() -> None:
    module = Net()
    restore_class(module)
    _shadow_forward(module)
    assert type(module) is Net
    hookline.register_forward_hook(module, hook)
    hooked = type(module)
    restore_class(module)
    assert type(module) is hooked


# Somebody else changes the class: FSDP2, parametrizations, lazy modules, people.


def test_a_class_that_is_assigned_goes_underneath_ours() -> None:
    class Other(nn.Module):
        def forward(self, x):
            return x * 3

    module = nn.Identity()
    handle = hookline.register_forward_hook(module, plus_one)
    module.__class__ = Other
    assert isinstance(module, Other)
    assert module(1) == module.forward(1) == 4
    handle.remove()
    assert type(module) is Other
    assert module(1) == 3


def test_a_class_that_lacks_the_hooked_method_is_an_error_that_names_it() -> None:
    module = Net()
    handle = attach(module, Hook(AFTER, hook, ARGS), "encode")
    with pytest.raises(HookTypeError, match="Identity has no method 'encode' to hook"):
        module.__class__ = nn.Identity
    handle.remove()
    assert not has_sites(module)


def test_a_hook_on_each_layer_of_a_module_that_is_parametrized_step_by_step() -> None:
    """E18"""
    seen = []
    module = nn.Linear(4, 4)
    first = hookline.register_forward_hook(module, lambda *_: seen.append("first"))
    parametrize.register_parametrization(module, "weight", Double())
    second = hookline.register_forward_hook(module, lambda *_: seen.append("second"))
    parametrize.register_parametrization(module, "bias", Double())
    module(X)
    assert seen == ["first", "second"]
    first.remove()
    module(X)
    assert seen == ["first", "second", "second"]
    parametrize.remove_parametrizations(module, "weight")
    parametrize.remove_parametrizations(module, "bias")
    module(X)
    assert seen == ["first", "second", "second", "second"]
    second.remove()
    assert type(module) is nn.Linear
    assert vars(module).keys() == vars(nn.Linear(1, 1)).keys()


def test_an_inert_class_underneath_a_parametrized_one_wakes_for_the_next_hook() -> None:
    """E18"""
    seen = []
    module = nn.Linear(4, 4)
    handle = hookline.register_forward_hook(module, hook)
    parametrize.register_parametrization(module, "weight", Double())
    handle.remove()
    module(X)
    with hookline.register_forward_hook(module, lambda *_: seen.append(1)):
        module(X)
        module.forward(X)
    module(X)
    assert seen == [1, 1]
    parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    assert type(module) is nn.Linear


def test_a_class_underneath_another_s_is_woken_without_a_class_on_top() -> None:
    """FSDP2 makes its class of ours: one more on top would catch each call twice."""
    seen = []
    module = nn.Identity()
    handle = hookline.register_forward_hook(module, hook)
    above = type("FSDPIdentity", (type(module),), {})
    object.__dict__["__class__"].__set__(module, above)
    handle.remove()
    assert type(module) is above
    with hookline.register_forward_hook(module, lambda *_: seen.append(1)):
        assert type(module) is above
        module(1)
        module.forward(1)
    assert seen == [1, 1]
    assert not has_sites(module)


def test_dunder_class_tells_the_truth_but_to_parametrize_which_finds_its_own() -> None:
    """E18"""
    module = nn.Linear(4, 4)
    hookline.register_forward_hook(module, hook)
    assert module.__class__ is type(module)
    parametrize.register_parametrization(module, "weight", Double())
    assert module.__class__ is type(module)
    assert parametrize.type_before_parametrizations(module) is nn.Linear
    plain = nn.Linear(4, 4)
    parametrize.register_parametrization(plain, "weight", Double())
    hookline.register_forward_hook(plain, hook)
    assert parametrize.type_before_parametrizations(plain) is nn.Linear


# Classes that are hard to subclass.


def test_no_code_for_new_subclasses_is_run() -> None:
    """E20"""
    made = []

    class Registry(type):
        def __new__(mcs, name, bases, namespace, **options):
            made.append(name)
            return super().__new__(mcs, name, bases, namespace, **options)

        def __init__(cls, name, bases, namespace, **options):
            made.append(name)
            super().__init__(name, bases, namespace)

    class Base(nn.Module, metaclass=Registry):
        def __init_subclass__(cls, *, title, **more):
            made.append(title)

        def forward(self, x):
            return x

    class Leaf(Base, title="leaf"):
        pass

    module, before = Leaf(), list(made)
    with hookline.register_forward_hook(module, plus_one):
        assert module(1) == 2
        assert type(type(module)) is Registry
    assert made == before
    assert type(module) is Leaf


def test_a_class_whose_metaclass_closes_it_is_subclassed_all_the_same() -> None:
    """E20"""
    made = []

    class Closed(type):
        def __setattr__(cls, name, value):
            raise TypeError("this class is closed")

    class Base(nn.Module, metaclass=Closed):
        def __init_subclass__(cls):
            made.append(cls)

        def forward(self, x):
            return x

    module = Base()
    with hookline.register_forward_hook(module, plus_one):
        assert module(1) == 2
    assert made == []


def test_slots_of_the_class_stay_usable_while_hooked() -> None:
    """E20"""

    class Slotted(nn.Module):
        __slots__ = ("extra",)

        def forward(self, x):
            return x + self.extra

    class Deeper(Slotted):
        __slots__ = ("more",)

    for cls in (Slotted, Deeper):
        module = cls()
        module.extra = 5
        with hookline.register_forward_hook(module, plus_one):
            assert module(1) == 7
            module.extra = 6
        assert module(1) == 7
        assert type(module) is cls


def test_a_class_that_python_cannot_subclass_for_us_is_refused_in_words() -> None:
    """E20: slots demand an ordinary subclass, and that the class demands arguments for."""

    class Demands(nn.Module):
        __slots__ = ("extra",)

        def __init_subclass__(cls, *, title): ...

        def forward(self, x):
            return x

    module = Demands()
    with pytest.raises(HookRefusedError, match=r"Demands cannot be hooked.*Hook the module that contains it"):
        hookline.register_forward_hook(module, hook)
    assert type(module) is Demands
    assert not has_sites(module)
    assert module(1) == 1


def test_a_forward_that_does_not_bind_to_the_instance_is_hooked_or_refused() -> None:
    """E20: built-in functions and objects are no descriptors."""

    class Function(nn.Module):
        forward = torch.relu

    module = Function()
    try:
        handle = hookline.register_forward_hook(module, plus_one)
    except HookRefusedError:
        return
    assert torch.equal(module(X), torch.relu(X) + 1)
    handle.remove()


def test_a_class_with_its_own_call_impl_is_called_through_it() -> None:
    """E20"""

    class Own(nn.Module):
        def _call_impl(self, *args, **kwargs):
            return "own", super()._call_impl(*args, **kwargs)

        __call__ = _call_impl

        def forward(self, x):
            return x

    module = Own()
    with hookline.register_forward_hook(module, plus_one):
        assert module(1) == ("own", 2)
    assert module(1) == ("own", 1)


def test_a_module_without_a_forward_fails_as_torch_says() -> None:
    """E20"""
    module = nn.ModuleList([nn.ReLU()])
    with hookline.register_forward_hook(module, hook), pytest.raises(NotImplementedError, match="missing the required"):
        module(X)
    assert type(module) is nn.ModuleList


# Graph modules write to their class.


def graph_module() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))


def test_a_recompiled_graph_module_runs_its_new_graph_under_its_hooks() -> None:
    """E20"""
    module = graph_module()
    cls, plain = type(module), module(X)
    with hookline.register_forward_hook(module, plus_one):
        hooked = type(module)
        module.graph.output_node().args = (next(iter(module.graph.nodes)),)
        module.recompile()
        assert type(module) is hooked
        assert torch.equal(module(X), X + 1)
    assert type(module) is cls
    assert torch.equal(module(X), X)
    assert not torch.equal(plain, X)


def test_a_graph_module_that_cannot_be_recompiled_stays_hooked() -> None:
    """E4"""
    module = graph_module()
    with hookline.register_forward_hook(module, plus_one):
        hooked = type(module)
        module.graph.python_code = None
        with pytest.raises(TypeError):
            module.recompile()
        assert type(module) is hooked


def test_a_subclass_of_a_hooked_graph_module_class_recompiles_as_itself() -> None:
    """E18"""
    module = graph_module()
    module.bias = nn.Parameter(torch.ones(1))
    handle = hookline.register_forward_hook(module, plus_one)
    above = type("Above", (type(module),), {})
    object.__dict__["__class__"].__set__(module, above)
    module.recompile()
    assert type(module) is above
    assert "forward" in vars(above)  # written there, not to a class of ours
    handle.remove()


def test_threads_that_hook_and_call_a_patched_module_agree_on_its_class() -> None:
    """E11, E7"""
    module = nn.Identity()
    failed, done = [], threading.Event()

    def call():
        while not done.is_set():
            try:
                if module(1) not in (1, 2, 10, 11):
                    failed.append("output")
            except BaseException as error:
                failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(500):
            with hookline.register_forward_hook(module, plus_one):
                module.forward = lambda x: x * 10
                assert module(1) == 11
                del module.forward
    finally:
        done.set()
        thread.join()
    assert failed == []
    assert type(module) is nn.Identity
    assert sites(module) == {}
