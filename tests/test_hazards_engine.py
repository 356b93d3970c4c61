"""HAZARDS area E: what goes wrong with hooks in the field, and the right behaviour. One test or more for each row."""

import abc
import asyncio
import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import hookline
from hookline.core import AFTER, ARGS, Hook
from hookline.errors import HookRefusedError, HookTypeError
from hookline.intercept.module_site import attach

X = torch.ones(2, 4)


def plus_one(module, args, output):
    return output + 1


def traces(model: nn.Module) -> list[str]:
    """What is left of ours on the modules of a model."""
    return [
        key
        for module in model.modules()
        for key in (*module.__dict__, *module._forward_hooks, *vars(type(module)))
        if "hookline" in str(key)
    ]


def test_a_trained_copy_of_a_hooked_model_has_no_tie_to_it() -> None:
    """E1"""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    calls = []
    handles = [hookline.register_forward_hook(module, lambda *_: calls.append(1)) for module in model.modules()]
    twin = copy.deepcopy(model)
    optimizer = torch.optim.SGD(twin.parameters(), lr=1.0)
    twin(X).sum().backward()
    optimizer.step()
    assert calls == []
    assert traces(twin) == []
    assert [type(module) for module in twin.modules()] == [nn.Sequential, nn.Linear, nn.ReLU]
    assert not torch.equal(twin[0].weight, model[0].weight)
    model(X)
    assert calls == [1, 1, 1]
    for handle in handles:
        handle.remove()
    assert traces(model) == []


def test_a_hooked_model_that_was_saved_loads_unhooked_where_hookline_is_not_installed(tmp_path) -> None:
    """E2"""
    (tmp_path / "their_model.py").write_text(
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(4, 2)\n    def forward(self, x):\n        return self.fc(x)\n"
    )
    save = """
        import sys, torch
        sys.path.insert(0, ".")
        import hookline, their_model
        torch.manual_seed(0)
        net = their_model.Net()
        for module in net.modules():
            hookline.register_forward_hook(module, lambda m, args, out: out + 1)
        torch.save(net, "net.pt")
    """
    load = """
        import sys, torch
        sys.path.insert(0, ".")
        sys.modules["hookline"] = None
        net = torch.load("net.pt", weights_only=False)
        torch.manual_seed(0)
        import their_model
        assert type(net) is their_model.Net and type(net.fc) is torch.nn.Linear
        x = torch.ones(1, 4)
        assert torch.equal(net(x), their_model.Net()(x))
    """
    for code in (save, load):
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, check=True)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt], ids=lambda error: error.__name__)
def test_an_error_inside_the_with_block_of_a_handle_leaves_the_module_as_before(error) -> None:
    """E4"""

    class Fails(nn.Module):
        def forward(self):
            raise error("stop")

    module = Fails()
    with pytest.raises(error, match="stop"), hookline.register_forward_hook(module, plus_one):
        module()
    assert type(module) is Fails
    assert traces(module) == []


def test_a_replica_s_hook_gets_the_replica_with_its_weights() -> None:
    """E6"""
    seen = []
    module = nn.Linear(4, 4, bias=False)
    handle = hookline.register_forward_hook(module, lambda m, args, out: seen.append(m))
    replica = module._replicate_for_data_parallel()
    replica.weight, replica.bias = torch.zeros(4, 4), None
    assert not replica(X).any()
    assert seen == [replica]
    assert seen[0] is replica
    handle.remove()
    assert not replica(X).any()
    assert seen == [replica]


def accelerate_style(module: nn.Module) -> None:
    """Patch forward as accelerate does: keep the old one, and call it."""
    old = module.forward

    def forward(*args, **kwargs):
        return old(*args, **kwargs) * 10

    module.forward = forward


def replace_forward(module: nn.Module) -> None:
    module.forward = lambda x: x * 10


def compile_forward(module: nn.Module) -> None:
    module.forward = torch.compile(module.forward, backend="eager")


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("native", [False, True], ids=["", "with native hooks"])
@pytest.mark.parametrize("before", [True, False], ids=["patched before", "patched after"])
@pytest.mark.parametrize("patch", [accelerate_style, replace_forward, compile_forward])
def test_a_module_with_its_own_forward_attribute_fires_once_and_keeps_it(patch, before: bool, native: bool) -> None:
    """E7"""
    calls, native_calls = [], []
    module = nn.Linear(4, 4)
    if native:
        module.register_forward_pre_hook(lambda *_: native_calls.append(1))
    if before:
        patch(module)
        mine = module.__dict__["forward"]
        plain = module(X)
        native_calls.clear()
    handle = hookline.register_forward_hook(module, lambda m, args, out: calls.append(1) or out + 1)
    if not before:
        patch(module)
        mine = module.__dict__["forward"]
        hooked = module(X)
        handle_off = hookline.register_forward_pre_hook(module, lambda *_: None)
        handle_off.remove()
        plain = hooked - 1
        calls.clear()
        native_calls.clear()
    torch.testing.assert_close(module(X), plain + 1)
    assert calls == [1]
    assert native_calls == [1] * native
    torch.testing.assert_close(module.forward(X), plain + 1)
    assert calls == [1, 1]
    handle.remove()
    assert module.__dict__["forward"] is mine
    torch.testing.assert_close(module(X), plain)
    assert calls == [1, 1]
    assert type(module) is nn.Linear


def test_a_forward_attribute_that_is_put_back_leaves_nothing_behind() -> None:
    """E7: unpatching as transformers and accelerate do, by setting what was read before."""
    module = nn.Linear(4, 4)
    handle = hookline.register_forward_hook(module, plus_one)
    for _ in range(2):
        before = module.forward
        module.forward = lambda x, before=before: before(x) * 0
        assert torch.equal(module(X), torch.ones(2, 4))
        module.forward = before
        assert "forward" not in module.__dict__
        assert not torch.equal(module(X), torch.ones(2, 4))
    handle.remove()
    assert traces(module) == []


def test_a_patch_over_a_patch_runs_the_hook_once_around_the_outer_one() -> None:
    """E7"""
    calls = []
    module = nn.Identity()
    module.forward = lambda x: x + 1
    with hookline.register_forward_hook(module, lambda m, args, out: calls.append(out)):
        accelerate_style(module)
        assert module(1) == 20
        kept = module.forward
        module.forward = lambda x: kept(x) + 5
        assert module(1) == 25
        assert calls == [20, 25]
        module.forward = kept
        assert module(1) == 20
        del module.forward
        assert module(1) == 1
        with pytest.raises(AttributeError):
            del module.forward
    assert "forward" not in module.__dict__


def test_a_module_under_two_names_has_one_hook_a_call() -> None:
    """E8"""
    calls = []
    model = nn.Sequential(nn.ReLU())
    model.add_module("again", model[0])
    hookline.register_forward_hook(model.again, lambda *_: calls.append(1))
    model[0](X)
    assert calls == [1]


def test_registering_from_one_thread_while_another_calls_is_consistent() -> None:
    """E11"""
    module = nn.Identity()
    failed, done = [], threading.Event()

    def call():
        while not done.is_set():
            try:
                if module(1) not in (1, 2, 3):
                    failed.append("output")
            except BaseException as error:
                failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    for _ in range(10_000):
        first = hookline.register_forward_hook(module, plus_one)
        second = hookline.register_forward_pre_hook(module, lambda m, args, kwargs: (args, kwargs), with_kwargs=True)
        third = hookline.register_forward_hook(module, plus_one)
        first.remove()
        second.remove()
        third.remove()
    done.set()
    thread.join()
    assert failed == []
    assert traces(module) == []


def test_two_threads_that_register_on_one_module_lose_no_hook() -> None:
    """E11"""
    module = nn.Identity()
    kept = [[], []]

    def register(mine: list):
        for _ in range(500):
            mine.append(hookline.register_forward_hook(module, plus_one))
            mine.append(hookline.register_forward_hook(module, plus_one))
            mine.pop().remove()

    threads = [threading.Thread(target=register, args=(mine,)) for mine in kept]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert module(0) == 1000
    for handle in kept[0] + kept[1]:
        handle.remove()
    assert type(module) is nn.Identity


def test_a_hook_may_call_its_module_again() -> None:
    """E13"""
    module = nn.Identity()

    def again(m, args, output):
        return output if output >= 3 else m(output + 1)

    hookline.register_forward_hook(module, again)
    assert module(0) == 3


def encoder(layers: int = 2) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, layers).eval()


CHILDREN = ["self_attn", "linear1", "linear2", "norm1", "norm2", "dropout", "dropout1", "dropout2"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("child", CHILDREN)
def test_the_children_of_a_transformer_layer_fire_in_eval_mode_without_gradients(child: str, padded: bool) -> None:
    """E14"""
    model, x = encoder(), torch.randn(2, 5, 8)
    mask = torch.tensor([[False] * 5, [False, False, False, True, True]]) if padded else None
    with torch.no_grad():
        plain = model(x, src_key_padding_mask=mask)
        for layer in model.layers:
            calls = []
            with hookline.register_forward_hook(getattr(layer, child), lambda *_, calls=calls: calls.append(1)):
                hooked = model(x, src_key_padding_mask=mask)
            assert calls == [1]
            torch.testing.assert_close(hooked, plain)
        assert torch.equal(model(x, src_key_padding_mask=mask), plain)
    assert traces(model) == []


def generate():
    yield 1


@pytest.mark.parametrize(
    "result", [None, 3, "text", (), generate(), [X]], ids=["None", "int", "str", "tuple", "gen", "list"]
)
def test_a_hook_gets_exactly_what_forward_returned(result) -> None:
    """E16"""
    seen = []
    module = type("Returns", (nn.Module,), {"forward": lambda self: result})()
    with hookline.register_forward_hook(module, lambda m, args, out: seen.append(out)):
        assert module() is result
    assert seen[0] is result


def test_a_coroutine_is_handed_over_as_it_is() -> None:
    """E16"""

    class Later(nn.Module):
        async def forward(self):
            return 5

    seen = []
    module = Later()
    with hookline.register_forward_hook(module, lambda m, args, out: seen.append(inspect.iscoroutine(out))):
        assert asyncio.run(module()) == 5
    assert seen == [True]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.train(),
        lambda m: m.eval(),
        lambda m: m.double(),
        lambda m: m.to(torch.float64),
        lambda m: m.half().float(),
        lambda m: m.load_state_dict(m.state_dict()),
        lambda m: m.add_module("more", nn.Identity()),
        lambda m: m.apply(lambda each: None),
        lambda m: m.requires_grad_(False),
        lambda m: m.zero_grad(),
    ],
    ids=[
        "train",
        "eval",
        "double",
        "to",
        "half",
        "load_state_dict",
        "add_module",
        "apply",
        "requires_grad_",
        "zero_grad",
    ],
)
def test_hooks_stay_through_the_usual_changes_of_a_model(change) -> None:
    """E17"""
    calls = []
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    handles = [hookline.register_forward_hook(m, lambda *_: calls.append(1)) for m in model.modules()]
    change(model)
    model(X.to(model[0].weight.dtype))
    assert calls == [1, 1, 1]
    for handle in handles:
        handle.remove()
    assert traces(model) == []


def test_a_slice_of_a_hooked_sequential_is_an_ordinary_one_with_the_same_children() -> None:
    """E17"""
    calls = []
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    hookline.register_forward_hook(model, lambda *_: calls.append("model"))
    hookline.register_forward_hook(model[0], lambda *_: calls.append("child"))
    part = model[:2]
    part(X)
    assert calls == ["child"]
    assert type(part) is nn.Sequential


class Double(nn.Module):
    def forward(self, weight):
        return weight * 2


CHANGES = {
    "parametrize": (
        lambda m: parametrize.register_parametrization(m, "weight", Double()),
        lambda m: parametrize.remove_parametrizations(m, "weight", leave_parametrized=False),
    ),
    "weight_norm": (
        parametrizations.weight_norm,
        lambda m: parametrize.remove_parametrizations(m, "weight", leave_parametrized=True),
    ),
    "spectral_norm": (
        parametrizations.spectral_norm,
        lambda m: parametrize.remove_parametrizations(m, "weight", leave_parametrized=True),
    ),
    "prune": (lambda m: prune.l1_unstructured(m, "weight", 0.5), lambda m: prune.remove(m, "weight")),
}


@pytest.mark.parametrize("hook_first", [True, False], ids=["hooked before", "hooked after"])
@pytest.mark.parametrize("unhook_first", [True, False], ids=["unhooked first", "unhooked last"])
@pytest.mark.parametrize(("change", "undo"), CHANGES.values(), ids=CHANGES.keys())
def test_parametrizations_and_pruning_work_with_hooks_in_every_order(change, undo, hook_first, unhook_first) -> None:
    """E18"""
    calls = []
    module = nn.Linear(4, 4)

    def hook():
        return hookline.register_forward_hook(module, lambda *_: calls.append(1))

    if hook_first:
        handle = hook()
        change(module)
    else:
        change(module)
        handle = hook()
    module(X)
    assert calls == [1]
    if unhook_first:
        handle.remove()
        module(X)
        assert calls == [1]
        undo(module)
    else:
        undo(module)
        module(X)
        assert calls == [1, 1]
        handle.remove()
    module(X)
    assert len(calls) == 1 + (not unhook_first)
    assert type(module) is nn.Linear
    assert traces(module) == []


def test_a_copy_of_a_module_that_was_parametrized_while_hooked_runs_no_hook() -> None:
    """E18, E1"""
    calls = []
    module = nn.Linear(4, 4)
    hookline.register_forward_hook(module, lambda *_: calls.append(1))
    parametrize.register_parametrization(module, "weight", Double())
    twin = copy.deepcopy(module)
    assert torch.equal(twin(X), module(X))
    assert calls == [1]
    parametrize.remove_parametrizations(twin, "weight")
    assert type(twin) is nn.Linear


def test_a_copy_of_a_module_that_was_hooked_while_parametrized_runs_no_hook() -> None:
    """E18, E1"""
    calls = []
    module = nn.Linear(4, 4)
    parametrize.register_parametrization(module, "weight", Double())
    plain = type(module)
    hookline.register_forward_hook(module, lambda *_: calls.append(1))
    twin = copy.deepcopy(module)
    twin(X)
    assert calls == []
    assert type(twin) is plain
    assert traces(twin) == []


def test_fused_modules_carry_no_hooks() -> None:
    """E18"""
    calls = []
    conv, norm = nn.Conv2d(1, 1, 1).eval(), nn.BatchNorm2d(1).eval()
    hookline.register_forward_hook(conv, lambda *_: calls.append(1))
    fused = torch.nn.utils.fuse_conv_bn_eval(conv, norm)
    x = torch.ones(1, 1, 2, 2)
    fused(x)
    assert calls == []
    torch.testing.assert_close(fused(x), norm(conv(x)))


# E20: classes that take over some of Python's own machinery.


class OwnCall(nn.Module):
    def __call__(self, x):
        return super().__call__(x * 2)

    def forward(self, x):
        return x


class OwnGetattr(nn.Module):
    def __getattr__(self, name):
        if name.startswith("magic"):
            return 5
        return super().__getattr__(name)

    def forward(self, x):
        return x * self.magic


class OwnSetattr(nn.Module):
    def __setattr__(self, name, value):
        if name == "__class__":
            raise TypeError("hands off")
        super().__setattr__(name, value)

    def forward(self, x):
        self.last = x
        return x


class OwnReduce(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.size = size

    def __reduce__(self):
        return type(self), (self.size,)

    def forward(self, x):
        return x * self.size


class OwnState(nn.Module):
    def __getstate__(self):
        return {"kept": True, **self.__dict__}

    def forward(self, x):
        return x


class OwnCopy(nn.Module):
    def __deepcopy__(self, memo):
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        return twin

    def __copy__(self):
        return type(self)()

    def forward(self, x):
        return x


class Registers(nn.Module):
    known: tuple = ()

    def __init_subclass__(cls, *, name):
        Registers.known += (name,)

    def forward(self, x):
        return x


class Registered(Registers, name="registered"):
    pass


class Meta(type):
    made: tuple = ()

    def __new__(mcs, name, bases, namespace):
        Meta.made += (name,)
        return super().__new__(mcs, name, bases, namespace)


class WithMeta(nn.Module, metaclass=Meta):
    def forward(self, x):
        return x


class Abstract(nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x): ...


class Concrete(Abstract):
    def forward(self, x):
        return x


T = TypeVar("T")


class Typed(nn.Module, Generic[T]):
    def forward(self, x):
        return x


class Slotted(nn.Module):
    __slots__ = ("extra",)

    def forward(self, x):
        return x


@dataclass(eq=False)
class Data(nn.Module):
    size: int = 3

    def __post_init__(self):
        super().__init__()

    def forward(self, x):
        return x


CLASSES = [
    OwnCall,
    OwnGetattr,
    OwnSetattr,
    OwnReduce,
    OwnState,
    OwnCopy,
    Registered,
    WithMeta,
    Concrete,
    Typed,
    Slotted,
    Data,
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_classes_with_their_own_machinery_are_hooked_copied_and_pickled(cls) -> None:
    """E20"""
    calls = []
    module = cls()
    plain = module(X)
    registered, made = Registers.known, Meta.made
    handle = hookline.register_forward_hook(module, lambda m, args, out: calls.append(1) or out + 1)
    assert torch.equal(module(X), plain + 1)
    assert isinstance(module, cls)
    assert type(module).__name__ == cls.__name__
    twins = [
        copy.deepcopy(module),
        copy.copy(module),
        pickle.loads(pickle.dumps(module)),
        pickle.loads(pickle.dumps(module, 2)),
    ]
    for twin in twins:
        assert type(twin) is cls
        assert traces(twin) == []
        assert torch.equal(twin(X), plain)
    another = type(module)()
    assert type(another) is cls
    assert calls == [1]
    handle.remove()
    assert type(module) is cls
    assert traces(module) == []
    assert (Registers.known, Meta.made) == (registered, made)


def test_lazy_modules_keep_their_hooks_when_they_become_what_they_are() -> None:
    """E20"""
    calls = []
    module = nn.LazyLinear(3)
    handle = hookline.register_forward_hook(module, lambda *_: calls.append(1))
    module(X)
    module(X)
    assert calls == [1, 1]
    assert isinstance(module, nn.Linear)
    handle.remove()
    assert type(module) is nn.Linear


def test_a_graph_module_keeps_its_hooks_when_it_is_recompiled() -> None:
    """E20"""
    module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    cls, plain = type(module), module(X)
    with hookline.register_forward_hook(module, plus_one):
        assert torch.equal(module(X), plain + 1)
        for node in module.graph.nodes:
            if node.op == "output":
                node.args = (module.graph.nodes.__iter__().__next__(),)
        module.recompile()
        assert torch.equal(module(X), X + 1)
    assert type(module) is cls
    assert torch.equal(module(X), X)


@pytest.mark.usefixtures("fresh_compiler")
def test_the_wrapper_that_torch_compile_makes_can_be_hooked_itself() -> None:
    """E20"""
    model = nn.Linear(4, 4)
    compiled = torch.compile(model, backend="eager")
    plain = compiled(X)
    with hookline.register_forward_hook(compiled, plus_one):
        assert torch.equal(compiled(X), plain + 1)
    assert torch.equal(compiled(X), plain)


def test_a_class_whose_forward_is_replaced_while_it_is_hooked_is_heard() -> None:
    """E20: monkey-patching the class."""

    class Patched(nn.Module):
        def forward(self, x):
            return x

    module = Patched()
    with hookline.register_forward_hook(module, plus_one):
        Patched.forward = lambda self, x: x * 10
        assert module(1) == 11
        assert module.forward(1) == 11


def test_hooking_and_unhooking_many_modules_grows_neither_memory_nor_classes() -> None:
    """E21"""
    modules = [nn.Linear(1, 1) for _ in range(500)] + [nn.Identity() for _ in range(500)]

    def cycle():
        handles = [hookline.register_forward_hook(module, lambda m, args, out: None) for module in modules]
        for module in modules[-10:]:
            module(1)
        for handle in handles:
            handle.remove()

    def classes():
        gc.collect()
        return sum(issubclass(type(each), type) for each in gc.get_objects())

    before = classes()
    tracemalloc.start()
    for _ in range(3):
        cycle()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        cycle()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - size
    tracemalloc.stop()
    assert classes() <= before + 2  # one for Linear, one for Identity
    assert grown < 20_000


def test_the_hooked_forward_keeps_signature_name_and_docstring() -> None:
    """E22"""

    class Documented(nn.Module):
        def forward(self, x: int, *, mask: str = "none") -> float:
            """Say something."""

    module = Documented()
    expected = (inspect.signature(module.forward), module.forward.__name__, module.forward.__doc__)
    with hookline.register_forward_hook(module, plus_one):
        assert (inspect.signature(module.forward), module.forward.__name__, module.forward.__doc__) == expected
        assert inspect.signature(type(module).forward) == inspect.signature(Documented.forward)
        assert inspect.getsource(module.forward) == inspect.getsource(Documented.forward)
        module.forward = lambda a, b: None
    with hookline.register_forward_hook(module, plus_one):
        assert list(inspect.signature(module.forward).parameters) == ["a", "b"]


def tiny_gpt2():
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=20, n_positions=8, attn_implementation="eager")
    return GPT2Model(config).eval()


def test_transformers_own_ways_to_look_inside_work_on_hooked_blocks() -> None:
    """E23"""
    model, tokens = tiny_gpt2(), torch.tensor([[1, 2, 3]])
    asked = {"output_hidden_states": True, "output_attentions": True}
    calls, native = [], []
    handles = [m.register_forward_hook(lambda m, *_: native.append(type(m).__name__)) for m in model.modules()]
    plain = model(tokens, **asked)
    for handle in handles:
        handle.remove()
    handles = [
        hookline.register_forward_hook(m, lambda m, args, out: calls.append(type(m).__name__)) for m in model.modules()
    ]
    hooked = model(tokens, **asked)
    assert calls == native
    for handle in handles:
        handle.remove()
    assert all(torch.equal(a, b) for a, b in zip(hooked.hidden_states, plain.hidden_states, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(hooked.attentions, plain.attentions, strict=True))
    assert traces(model) == []
    assert not any("forward" in module.__dict__ for module in model.modules())


def test_a_forward_that_is_set_and_deleted_while_hooked_leaves_the_hook() -> None:
    """E24"""
    calls = []
    module = nn.Identity()
    with hookline.register_forward_hook(module, lambda *_: calls.append(1)):
        module.forward = lambda x: x + 1
        assert module(1) == 2
        del module.forward
        assert module(1) == 1
        module.forward = lambda x: x + 1
        del module.forward
        assert module(1) == 1
        assert calls == [1, 1, 1]
    assert type(module) is nn.Identity
    assert "forward" not in module.__dict__


def test_a_named_method_is_hooked_like_forward() -> None:
    class Coder(nn.Module):
        def encode(self, x, *, fast=False):
            """Encode."""
            return x + 1

        def forward(self, x):
            return self.encode(x)

    module = Coder()
    encode = attach(module, Hook(AFTER, lambda m, args, out: out * 10, ARGS), "encode")
    forward = hookline.register_forward_hook(module, lambda m, args, out: out + 5)
    assert module(1) == 25
    assert module.encode(1) == 20
    assert module.encode.__doc__ == "Encode."
    forward.remove()
    assert module(1) == 20
    encode.remove()
    assert type(module) is Coder
    module.encode = lambda x: x - 1
    with attach(module, Hook(AFTER, lambda m, args, out: out * 10, ARGS), "encode"):
        assert module.encode(1) == 0
        assert module.encode(2) == 10
    assert module.encode(2) == 1


class Odd(nn.Module):
    size = property(lambda self: 1)
    number = 3

    @staticmethod
    def static(): ...

    @classmethod
    def of(cls): ...


REFUSED = {
    "a static method": ("static", HookRefusedError, "Odd.static is a staticmethod: it is not called on the module"),
    "a class method": ("of", HookRefusedError, "is a classmethod"),
    "a property": ("size", HookRefusedError, "is a property"),
    "a number": ("number", HookTypeError, "Odd has no method 'number' to hook"),
    "nothing": ("fly", HookTypeError, "Odd has no method 'fly' to hook"),
}


@pytest.mark.parametrize(("method", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_method_of_the_module_is_refused(method: str, error, message: str) -> None:
    module = Odd()
    with pytest.raises(error, match=message):
        attach(module, Hook(AFTER, print, ARGS), method)
    assert traces(module) == []


@pytest.mark.parametrize("thing", ["layer1", None, nn.Linear, [nn.ReLU()]], ids=repr)
def test_what_is_no_module_is_refused_and_the_order_of_arguments_named(thing) -> None:
    with pytest.raises(HookTypeError, match="The module comes first"):
        hookline.register_forward_hook(thing, plus_one)


def test_an_uninitialised_module_is_refused() -> None:
    class Forgot(nn.Module):
        def __init__(self): ...

    with pytest.raises(HookRefusedError, match=r"call super\(\).__init__\(\)"):
        hookline.register_forward_hook(Forgot(), plus_one)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_script_module_is_refused_with_what_to_do_instead() -> None:
    scripted = torch.jit.script(nn.Linear(2, 2))
    with pytest.raises(HookRefusedError, match="Hook the Python module before it is scripted or traced"):
        hookline.register_forward_hook(scripted, plus_one)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'once'"):
        hookline.register_forward_hook(nn.Identity(), plus_one, once=True)


def test_functional_call_and_vmap_see_the_hooks() -> None:
    module = nn.Linear(4, 4)
    with hookline.register_forward_hook(module, plus_one):
        zeros = {name: torch.zeros_like(value) for name, value in module.named_parameters()}
        assert torch.equal(torch.func.functional_call(module, zeros, (X,)), torch.ones(2, 4))
        assert torch.equal(torch.vmap(module)(X), module(X))


DISTRIBUTED = """
    import copy, os, torch, hookline
    from torch import nn
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("rendezvous"), rank=0, world_size=1)
    x = torch.ones(2, 4)
    calls = []
    def log(module, args, output): calls.append(type(module).__name__)
    for hooked_first in (True, False):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        plain = model(x)
        hook = lambda: [hookline.register_forward_hook(module, log) for module in (model[0], model)]
        if hooked_first:
            handles = hook()
        fully_shard(model[0])
        fully_shard(model)
        if not hooked_first:
            handles = hook()
        out = model(x)
        out.sum().backward()
        assert torch.equal(out, plain) and calls == ["FSDPLinear", "FSDPSequential"], calls
        for handle in handles:
            handle.remove()
        model(x)
        assert len(calls) == 2
        calls.clear()
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    inner = hookline.register_forward_hook(model[0], log)
    parallel = nn.parallel.DistributedDataParallel(model)
    outer = hookline.register_forward_hook(parallel, log)
    parallel(x).sum().backward()
    assert calls == ["Linear", "DistributedDataParallel"], calls
    inner.remove(), outer.remove()
    parallel(x)
    assert len(calls) == 2 and type(model[0]) is nn.Linear
    dist.destroy_process_group()
"""


def test_fsdp2_and_ddp_see_the_hooks_whichever_comes_first(tmp_path) -> None:
    """DESIGN 2: one process, gloo."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(DISTRIBUTED)], cwd=tmp_path, check=True, env=environment)
