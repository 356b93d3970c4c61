import pytest
from torch import nn
from torch.nn.utils import parametrize

import hookline
from hookline.core import AFTER, ARGS, Hook
from hookline.errors import HookRefusedError
from hookline.intercept.made import caught_by, made_from, set_class
from hookline.intercept.module_site import attach


class Coder(nn.Module):
    def encode(self, x):
        return x

    def forward(self, x):
        return x


def hook(*_):
    return None


def test_only_a_hooked_class_itself_says_what_it_was_made_from() -> None:
    module = Coder()
    assert made_from(type(module)) is None
    hookline.register_forward_hook(module, hook)
    made = made_from(type(module))
    assert made.base is Coder
    assert made.methods == {"forward"}
    assert made.shadowed == frozenset()
    assert made.keys == ("hookline.forward",)
    assert made_from(type("Sub", (type(module),), {})) is None


def test_a_second_method_gives_a_class_of_the_same_base_that_catches_both() -> None:
    module = Coder()
    hookline.register_forward_hook(module, hook)
    attach(module, Hook(AFTER, hook, ARGS), "encode")
    assert made_from(type(module)).base is Coder
    assert made_from(type(module)).methods == {"forward", "encode"}
    assert type(module).__mro__[1] is Coder


def test_what_hooked_classes_in_the_ancestry_catch_is_known() -> None:
    module = Coder()
    assert caught_by(type(module)) == frozenset()
    attach(module, Hook(AFTER, hook, ARGS), "encode")
    module.weight = nn.Parameter()
    below = type(module)
    parametrize.register_parametrization(module, "weight", nn.Identity())
    above = next(cls for cls in type(module).__mro__ if made_from(cls) is None)
    assert caught_by(below) == {"encode"}
    assert caught_by(type(module)) == {"encode"}
    assert caught_by(above) <= {"encode"}


def test_the_class_is_set_past_the_module_s_own_setattr() -> None:
    class Mine(nn.Module):
        def __setattr__(self, name, value):
            raise TypeError("hands off")

    class Sub(Mine):
        pass

    module = Mine.__new__(Mine)
    set_class(module, Sub)
    assert type(module) is Sub


def test_a_class_with_another_layout_is_refused_in_words() -> None:
    class Slotted(nn.Module):
        __slots__ = ("extra",)

    module = nn.Identity()
    with pytest.raises(HookRefusedError, match="Identity cannot be hooked: Python does not let its instances change"):
        set_class(module, Slotted)
    assert type(module) is nn.Identity
