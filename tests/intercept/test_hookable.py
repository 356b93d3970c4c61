import pytest
import torch
from torch import nn

from hookline.errors import HooklineError, HookRefusedError, HookTypeError
from hookline.intercept.hookable import check_hookable, check_module


def test_an_initialised_module_and_its_methods_pass() -> None:
    check_module(nn.Linear(1, 1))
    check_hookable(nn.Linear, "forward")
    check_hookable(nn.Linear, "extra_repr")


@pytest.mark.parametrize("thing", [None, "fc", nn.Linear, torch.ones(1), [nn.ReLU()], lambda x: x])
def test_what_is_no_module_is_named_and_the_order_of_arguments_told(thing) -> None:
    with pytest.raises(HookTypeError, match=f"got {type(thing).__name__}: .*The module comes first") as caught:
        check_module(thing)
    assert isinstance(caught.value, HooklineError)
    assert isinstance(caught.value, TypeError)


def test_a_module_whose_init_did_not_call_super_is_refused() -> None:
    class Forgot(nn.Module):
        def __init__(self): ...

    with pytest.raises(HookRefusedError, match=r"Forgot is not initialised: call super\(\).__init__\(\)"):
        check_module(Forgot())


class Odd(nn.Module):
    size = property(lambda self: 1)
    number = 3

    @staticmethod
    def static(): ...

    @classmethod
    def of(cls): ...


REFUSED = {
    "staticmethod": ("static", HookRefusedError, "Odd.static is a staticmethod.*Hook a method that calls it"),
    "classmethod": ("of", HookRefusedError, "Odd.of is a classmethod.*Hook a method that calls it"),
    "property": ("size", HookRefusedError, "Odd.size is a property.*Hook a method that calls it"),
    "a number": ("number", HookTypeError, "Odd has no method 'number' to hook"),
    "nothing": ("fly", HookTypeError, "Odd has no method 'fly' to hook"),
    "an attribute of instances": ("training_step", HookTypeError, "Odd has no method 'training_step'"),
}


@pytest.mark.parametrize(("method", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_called_on_the_module_is_refused(method: str, error, message: str) -> None:
    with pytest.raises(error, match=message):
        check_hookable(Odd, method)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(1, 2))], ids=["script", "trace"]
)
def test_torchscript_is_refused_with_what_to_do_instead(make) -> None:
    with pytest.raises(HookRefusedError, match=r"runs as TorchScript.*Hook the Python module before it is scripted"):
        check_hookable(type(make(nn.Linear(2, 2))), "forward")
