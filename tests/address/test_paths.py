import importlib
import subprocess
import sys
import time

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel

from hookline.address import select
from hookline.address.paths import _WRAPPERS, MOST_PATHS, places
from hookline.errors import NoMatchError


@pytest.fixture
def model() -> nn.Module:
    blocks = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)]
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(*blocks))


def bare(cls: type[nn.Module], name: str, module: nn.Module) -> nn.Module:
    """Return a wrapper that lacks what would need a process group."""
    wrapper = cls.__new__(cls)
    nn.Module.__init__(wrapper)
    wrapper._modules[name] = module
    return wrapper


WRAPPERS = {
    "torch.compile": (lambda module: torch.compile(module, backend="eager"), "_orig_mod"),
    "DataParallel": (nn.DataParallel, "module"),
    "DDP": (lambda module: bare(nn.parallel.DistributedDataParallel, "module", module), "module"),
    "checkpoint": (checkpoint_wrapper, "_checkpoint_wrapped_module"),
    "FSDP1": (lambda module: bare(FullyShardedDataParallel, "_fsdp_wrapped_module", module), "_fsdp_wrapped_module"),
}
wrapped_in_each = pytest.mark.parametrize(("wrap", "name"), WRAPPERS.values(), ids=WRAPPERS.keys())


@wrapped_in_each
def test_a_wrapper_around_the_model_is_transparent(model: nn.Module, wrap, name: str) -> None:
    wrapped = wrap(model)
    for address in ("1.0.1", f"{name}.1.0.1", f"{name}.1.?.1", f"{name}.**.1"):
        target = select(wrapped, address)[0]
        assert target.path == ("1" if address.endswith("**.1") else "1.0.1")
        assert str(target) == target.path
    assert select(wrapped, "1.0.1")[0].module is model[1][0][1]


@wrapped_in_each
def test_a_wrapper_inside_the_model_is_transparent(model: nn.Module, wrap, name: str) -> None:
    inner = model[1][0]
    model[1][0] = wrap(inner)
    assert select(model, f"1.0.{name}.1").paths == ("1.0.1",)
    assert select(model, "1.0.1")[0].module is inner[1]
    assert select(model, "1.0")[0].module is select(model, f"1.0.{name}")[0].module is inner


@wrapped_in_each
def test_a_wrapper_itself_means_what_it_wraps(model: nn.Module, wrap, name: str) -> None:
    wrapped = wrap(model)
    for what in (wrapped, model, "."):
        assert [target.module for target in select(wrapped, what)] == [model]


def test_wrappers_around_wrappers_are_transparent(model: nn.Module) -> None:
    wrapped = nn.DataParallel(torch.compile(checkpoint_wrapper(model), backend="eager"))
    for address in ("1.0.1", "module._orig_mod._checkpoint_wrapped_module.1.0.1"):
        assert select(wrapped, address)[0].module is model[1][0][1]
    assert select(wrapped, wrapped)[0].module is model


def test_wildcards_mean_the_same_with_a_wrapper_and_without(model: nn.Module) -> None:
    wrapped = nn.DataParallel(torch.compile(model, backend="eager"))
    for pattern in ("*", "*.*", "?.?.?", "**", "**.1", "*.**"):
        assert select(wrapped, pattern).paths == select(model, pattern).paths
    for pattern in ("module.*.1.0.1", "*._orig_mod.1.0.1"):  # a star stands for no wrapper
        with pytest.raises(NoMatchError):
            select(wrapped, pattern)


def test_a_child_that_is_only_named_like_a_wrapper_s_keeps_its_name() -> None:
    model = nn.Sequential()
    model.module = nn.Sequential(nn.ReLU())
    assert select(model, nn.ReLU).paths == ("module.0",)


def test_a_wrapper_that_has_lost_its_module_is_a_module_like_others() -> None:
    wrapper = nn.DataParallel(nn.ReLU())
    wrapper.module = None
    assert [place.module for place in places(wrapper)] == [wrapper]


def test_a_module_that_lies_below_itself_is_found_once() -> None:
    model = nn.Sequential(nn.ReLU())
    model.add_module("again", model)
    assert [target.paths for target in select(model, "**")] == [(".",), ("0",)]


def test_modules_come_once_in_the_order_of_registration_with_all_their_paths() -> None:
    """E8"""
    shared = nn.Sequential(nn.ReLU())
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared, nn.Tanh()), "c": shared})
    named: dict[nn.Module, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        named.setdefault(module, []).append(path)
    assert [(place.module, list(place.paths)) for place in places(model)] == list(named.items())


def test_a_child_that_is_none_is_no_module() -> None:
    model = nn.Sequential(nn.ReLU())
    model.register_module("downsample", None)
    assert select(model, "**").paths == (".", "0")


def doubled(levels: int) -> nn.Module:
    """Return a module that has 2 ** levels paths to one and the same ReLU."""
    module: nn.Module = nn.ReLU()
    for _ in range(levels):
        module = nn.ModuleDict({"a": module, "b": module})
    return module


def test_modules_that_share_modules_that_share_modules_take_no_time() -> None:
    begin = time.perf_counter()
    selection = select(doubled(40), "**")
    assert time.perf_counter() - begin < 2  # seconds, for 2 ** 40 paths
    assert len(selection) == 41
    assert len(selection[-1].paths) == MOST_PATHS
    assert selection[-1].path == ".".join("a" * 40)


def test_a_path_beyond_those_that_are_listed_is_found_all_the_same() -> None:
    model = doubled(12)
    path = ".".join("b" * 12)
    target = select(model, path)[0]
    assert path not in target.paths
    assert isinstance(target.module, nn.ReLU)
    with pytest.raises(NoMatchError, match="the nearest"):
        select(model, f"{path}.c")


@pytest.mark.parametrize(("home", "cls", "name"), _WRAPPERS, ids=lambda each: each.rpartition(".")[2])
def test_torch_has_every_wrapper_where_we_look_for_it(home: str, cls: str, name: str) -> None:
    assert issubclass(getattr(importlib.import_module(home), cls), nn.Module)


def test_selecting_imports_no_wrapper() -> None:
    program = (
        "import sys, torch.nn, hookline; before = set(sys.modules); hookline.select(torch.nn.ReLU(), '.'); "
        "print(sorted(name for name in set(sys.modules) - before if name.startswith('torch')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


class Leaf(nn.Module):
    """A module that costs next to nothing to make."""


def test_very_many_modules_are_searched_in_no_time() -> None:
    model = nn.Module()
    for number in range(200):
        block = nn.Module()
        for part in range(100):
            block.add_module(f"part{part}", Leaf())
        model.add_module(f"block{number}", block)
    begin = time.perf_counter()
    assert len(select(model, "block12?.part*")) == 1000
    with pytest.raises(NoMatchError, match=r"the nearest: 'block3\.part44', '"):
        select(model, "block3.part44x")
    assert time.perf_counter() - begin < 2  # seconds; some 0.2 on the machine where this was written
