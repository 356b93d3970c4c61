"""HAZARDS area E: what goes wrong with hooks in the field, and the right behaviour. One test or more for each row."""

import abc
import asyncio
import copy
import functools
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
from typing import Generic, Protocol, TypeVar

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


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit], ids=lambda error: error.__name__)
@pytest.mark.parametrize("phase", ["pre", "forward", "always"])
def test_an_error_inside_a_hook_leaves_the_modules_as_before(phase: str, error) -> None:
    """E4: several handles, of which the innermost hook fails."""

    def fails(*_):
        raise error("stop")

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    before = [(type(module), list(vars(module)), list(module._forward_hooks)) for module in model.modules()]
    with pytest.raises(error, match="stop"):
        with hookline.register_forward_hook(model, plus_one), hookline.register_forward_hook(model[0], plus_one):
            if phase == "pre":
                handle = hookline.register_forward_pre_hook(model[1], fails)
            else:
                handle = hookline.register_forward_hook(model[1], fails, always_call=phase == "always")
            with handle:
                model(X)
    assert [(type(module), list(vars(module)), list(module._forward_hooks)) for module in model.modules()] == before


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


def test_data_parallel_runs_the_hooks_of_what_it_wraps() -> None:
    """E6: without GPUs it calls the module itself."""
    seen = []
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    parallel = nn.DataParallel(model)
    with hookline.register_forward_hook(model[0], lambda m, *_: seen.append(m)):
        parallel(X)
    assert seen == [model[0]]


def test_replicas_of_a_whole_model_hand_each_hook_their_own_modules() -> None:
    """E6: as torch.nn.parallel.replicate puts them together."""
    seen = []
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    for module in model.modules():
        hookline.register_forward_hook(module, lambda m, *_: seen.append(m))
    replicas = [[module._replicate_for_data_parallel() for module in model.modules()] for _ in range(2)]
    for root, *children in replicas:
        root._modules = dict(zip(model._modules, children, strict=True))
        children[0].weight, children[0].bias = torch.zeros(4, 4), None
        assert not root(X).any()
        assert [id(module) for module in seen] == [id(module) for module in (*children, root)]
        seen.clear()


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


@pytest.mark.parametrize("victim", ["itself", "an earlier one", "a later one"])
@pytest.mark.parametrize("phase", ["pre", "forward"])
def test_a_hook_may_take_off_any_hook_during_the_call(phase: str, victim: str) -> None:
    """E10, M2: from then on the victim does not run, not even in this call."""
    register = hookline.register_forward_pre_hook if phase == "pre" else hookline.register_forward_hook
    seen = []
    module = nn.Identity()
    position = {"itself": 1, "an earlier one": 0, "a later one": 2}[victim]

    def removes(*_):
        seen.append(1)
        handles[position].remove()

    hooks = [lambda *_: seen.append(0), removes, lambda *_: seen.append(2)]
    handles = [register(module, hook) for hook in hooks]
    module(X)
    assert seen == ([0, 1] if victim == "a later one" else [0, 1, 2])
    seen.clear()
    module(X)
    assert seen == [each for each in (0, 1, 2) if each != position]


def test_the_last_hook_may_take_itself_off_and_the_call_goes_on_with_its_result() -> None:
    """E10"""
    module = nn.Identity()
    handle = hookline.register_forward_hook(module, lambda m, args, out: handle.remove() or out + 1)
    assert module(1) == 2
    assert type(module) is nn.Identity
    assert traces(module) == []
    assert module(1) == 1


@pytest.mark.parametrize("first", ["pre", "forward"])
@pytest.mark.parametrize("second", ["pre", "forward"])
def test_a_hook_added_during_the_call_runs_from_the_next_call_on(first: str, second: str) -> None:
    """E10, H3, M3"""
    register = {"pre": hookline.register_forward_pre_hook, "forward": hookline.register_forward_hook}
    seen = []
    module = nn.Identity()

    def adds(*_):
        seen.append("adds")
        register[second](module, lambda *_: seen.append("added"))
        handle.remove()

    handle = register[first](module, adds)
    module(X)
    assert seen == ["adds"]
    module(X)
    assert seen == ["adds", "added"]


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
    try:
        for _ in range(10_000):
            first = hookline.register_forward_hook(module, plus_one)
            second = hookline.register_forward_pre_hook(module, lambda m, *both: both, with_kwargs=True)
            third = hookline.register_forward_hook(module, plus_one)
            first.remove()
            second.remove()
            third.remove()
    finally:
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


def test_a_pre_hook_may_call_its_module_again() -> None:
    """E13"""
    calls = []
    module = nn.Identity()

    def again(m, args):
        calls.append(args[0])
        if args[0] < 3:
            return m(args[0] + 1)
        return None

    with hookline.register_forward_pre_hook(module, again):
        assert module(0) == 3
    assert calls == [0, 1, 2, 3]


def test_a_hook_that_calls_its_module_without_end_meets_python_s_limit_and_nothing_is_left() -> None:
    """E13: the depth rule is Python's."""
    module = nn.Identity()
    with pytest.raises(RecursionError), hookline.register_forward_hook(module, lambda m, args, out: m(out)):
        module(1)
    assert type(module) is nn.Identity
    assert module(1) == 1


def test_a_module_that_contains_itself_in_the_call_fires_at_each_depth() -> None:
    """E13"""

    class Down(nn.Module):
        def forward(self, n):
            return 0 if n == 0 else self(n - 1) + 1

    seen = []
    module = Down()
    with hookline.register_forward_hook(module, lambda m, args, out: seen.append((args[0], out))):
        assert module(2) == 2
    assert seen == [(0, 0), (1, 1), (2, 2)]


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


@pytest.mark.parametrize("hooked", ["layer", "self_attn", "linear1", "norm2", "dropout1", "out_proj"])
@pytest.mark.parametrize(
    "options", [{"batch_first": True}, {"batch_first": True, "norm_first": True}, {"activation": "gelu"}], ids=str
)
def test_a_hooked_part_keeps_a_transformer_layer_off_its_fused_kernel_and_only_while_it_is_hooked(
    options, hooked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E14"""
    fused = []
    kernel = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", lambda *args: fused.append(1) or kernel(*args))
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, **options).eval(), torch.randn(3, 5, 8)
    part = {"layer": layer, "out_proj": layer.self_attn.out_proj}.get(hooked) or getattr(layer, hooked)
    with torch.no_grad():
        plain = layer(x)
        usual = len(fused)
        assert usual == options.get("batch_first", 0)
        with hookline.register_forward_hook(part, lambda *_: None):
            torch.testing.assert_close(layer(x), plain)
            assert len(fused) == usual
        layer(x)
    assert len(fused) == 2 * usual


def test_all_modules_of_encoders_and_decoders_fire_in_eval_as_in_train() -> None:
    """E14"""
    for model in (
        encoder(),
        nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2),
        nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True),
    ):
        calls = []
        x = torch.randn(2, 3, 8)
        inputs = (x,) if isinstance(model, nn.TransformerEncoder) else (x, x)
        with torch.no_grad():
            plain = model.eval()(*inputs)
            for name, module in model.named_modules():
                hookline.register_forward_hook(module, lambda *_, name=name, calls=calls: calls.append(name))
            model.train()(*inputs)
            trained, _ = list(calls), calls.clear()
            torch.testing.assert_close(model.eval()(*inputs), plain)
        assert calls == trained
        silent = dict(model.named_modules()).keys() - set(calls)
        assert all(name.endswith(("out_proj", "layers")) for name in silent)  # E15: never called at all


def test_multihead_attention_itself_fires_and_gives_what_it_gave() -> None:
    """E14"""
    calls = []
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 3, 8)
    with torch.no_grad():
        plain, weights = attention(x, x, x)
        with hookline.register_forward_hook(attention, lambda *_: calls.append(1)):
            hooked, hooked_weights = attention(x, x, x)
    assert calls == [1]
    torch.testing.assert_close((hooked, hooked_weights), (plain, weights))


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


def test_a_generator_is_handed_over_before_it_has_begun() -> None:
    """E16"""
    seen, ran = [], []

    class Yields(nn.Module):
        def forward(self, n):
            ran.append(n)
            yield from range(n)

    module = Yields()
    with hookline.register_forward_hook(
        module, lambda m, args, out: seen.append((inspect.isgenerator(out), list(ran)))
    ):
        assert list(module(3)) == [0, 1, 2]
    assert seen == [(True, [])]
    assert inspect.isgeneratorfunction(inspect.unwrap(type(module).forward))


def test_an_async_hook_result_is_an_output_like_any_other() -> None:
    """E16: nobody awaits it but the caller."""

    async def later(module, args, output):
        return output + 1

    module = nn.Identity()
    with hookline.register_forward_hook(module, later):
        assert asyncio.run(module(1)) == 2


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


def test_a_hooked_sequential_is_edited_like_any_other() -> None:
    """E17"""
    calls = []
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    child, handle = model[1], hookline.register_forward_hook(model, lambda *_: calls.append("model"))
    inner = hookline.register_forward_hook(child, lambda *_: calls.append("child"))
    model.append(nn.Sigmoid())
    model.insert(0, nn.Identity())
    model.extend([nn.Identity()])
    model.pop(0)
    del model[0]
    assert [type(each).__name__ for each in model] == ["Tanh", "Sigmoid", "Identity"]
    model(X)
    assert calls == ["child", "model"]
    for other in (model + nn.Sequential(nn.ReLU()), model * 2, model[:1], model[0:3:2]):
        assert type(other) is nn.Sequential
        calls.clear()
        other(X)
        assert set(calls) == {"child"}
    assert type(nn.ModuleList(model)[:2]) is nn.ModuleList
    inner.remove()
    handle.remove()
    assert traces(model) == []


def test_hooks_stay_when_parameters_are_moved_assigned_and_swapped() -> None:
    """E17"""
    calls = []
    module = nn.Linear(4, 4)
    with hookline.register_forward_hook(module, lambda *_: calls.append(1)):
        module.to("meta")
        module.to_empty(device="cpu")
        module.load_state_dict(nn.Linear(4, 4).state_dict(), assign=True)
        module.weight = nn.Parameter(torch.zeros(4, 4))
        module.share_memory()
        module.bfloat16().float()
        module(X)
    assert calls == [1]
    assert traces(module) == []


def test_an_averaged_model_is_made_of_an_unhooked_copy() -> None:
    """E1, E17: torch.optim.swa_utils deep-copies."""
    calls = []
    module = nn.Linear(4, 4)
    hookline.register_forward_hook(module, lambda *_: calls.append(1))
    averaged = torch.optim.swa_utils.AveragedModel(module)
    averaged.update_parameters(module)
    averaged(X)
    assert calls == []
    assert traces(averaged) == []


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


OLD_NORMS = [
    (nn.utils.weight_norm, nn.utils.remove_weight_norm),
    (nn.utils.spectral_norm, nn.utils.remove_spectral_norm),
]


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@pytest.mark.parametrize("hook_first", [True, False], ids=["hooked before", "hooked after"])
@pytest.mark.parametrize(("change", "undo"), OLD_NORMS, ids=["weight_norm", "spectral_norm"])
def test_norms_that_work_by_native_pre_hooks_are_undisturbed(change, undo, hook_first: bool) -> None:
    """E18"""
    calls = []
    module, twin = nn.Linear(4, 4), nn.Linear(4, 4)
    twin.load_state_dict(module.state_dict())
    for each in (module, twin):
        torch.manual_seed(1)
        if each is module and hook_first:
            handle = hookline.register_forward_hook(module, lambda *_: calls.append(1))
        change(each)
        if each is module and not hook_first:
            handle = hookline.register_forward_hook(module, lambda *_: calls.append(1))
    assert torch.equal(module(X), twin(X))
    assert calls == [1]
    handle.remove()
    assert [type(each).__name__ for each in module._forward_pre_hooks.values()] in (["WeightNorm"], ["SpectralNorm"])
    undo(module), undo(twin)
    assert torch.equal(module(X), twin(X))
    assert type(module) is nn.Linear
    assert traces(module) == []


@pytest.mark.parametrize("hooked", ["the layer", "the norm", "both"])
def test_fusing_a_linear_layer_with_a_batch_norm_ignores_hooks(hooked: str) -> None:
    """E18"""
    linear, norm = nn.Linear(4, 4).eval(), nn.BatchNorm1d(4).eval()
    norm.running_mean.fill_(2.0)
    plain = norm(linear(X))
    for name, module in [("the layer", linear), ("the norm", norm)]:
        if hooked in (name, "both"):
            hookline.register_forward_hook(module, plus_one)
    fused = torch.nn.utils.fusion.fuse_linear_bn_eval(linear, norm)
    assert type(fused) is nn.Linear
    assert traces(fused) == []
    torch.testing.assert_close(fused(X), plain)


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")
def test_fusing_for_quantization_carries_none_of_ours() -> None:
    """E18: it moves the entries of the native hook dictionaries to the modules that it makes."""
    calls, x = [], torch.ones(1, 1, 2, 2)
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.ReLU()).eval()
    handle = hookline.register_forward_hook(model[0], lambda *_: calls.append(1))
    plain = model(x)
    calls.clear()
    fused = torch.ao.quantization.fuse_modules(model, [["0", "1", "2"]])
    torch.testing.assert_close(fused(x), plain)
    fused(x)
    assert calls == []
    assert traces(fused) == []
    handle.remove()
    assert traces(model) == []


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


class OwnGetattribute(nn.Module):
    def __getattribute__(self, name):
        return super().__getattribute__(name)

    def forward(self, x):
        return x


class OwnClass(nn.Module):
    """As mocks and proxies do."""

    @property
    def __class__(self):
        return nn.Linear

    def forward(self, x):
        return x


class OwnEquality(nn.Module):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 5

    def forward(self, x):
        return x


class OwnDelattr(nn.Module):
    def __delattr__(self, name):
        raise TypeError("hands off")

    def __dir__(self):
        raise TypeError("hands off")

    def forward(self, x):
        return x


class CallsMeta(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.after_init = True
        return made

    def __instancecheck__(cls, instance):
        return type.__instancecheck__(cls, instance)


class WithCallsMeta(nn.Module, metaclass=CallsMeta):
    def forward(self, x):
        return x if self.after_init else None


class Speaks(Protocol):
    def forward(self, x): ...


class Follows(nn.Module, Speaks):
    def forward(self, x):
        return x


class PartialMethod(nn.Module):
    def scaled(self, factor, x):
        return x * factor

    forward = functools.partialmethod(scaled, 3)


CLASSES = [
    OwnGetattribute,
    OwnClass,
    OwnEquality,
    OwnDelattr,
    WithCallsMeta,
    Follows,
    PartialMethod,
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
    assert issubclass(type(module), cls)
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


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda: nn.LazyLinear(3), X),
        (lambda: nn.LazyConv2d(3, 1), torch.ones(1, 2, 4, 4)),
        (nn.LazyBatchNorm1d, X),
    ],
    ids=["linear", "conv", "norm"],
)
def test_lazy_modules_are_what_they_would_be_whenever_they_are_unhooked(make, x) -> None:
    """E20"""
    plain = make()
    lazy = type(plain)
    plain(x)
    done = type(plain)
    early, late, copied = make(), make(), make()
    handles = [hookline.register_forward_hook(module, plus_one) for module in (early, late, copied)]
    handles[0].remove()
    assert type(early) is lazy
    # PyTorch cannot copy a lazy buffer
    twin = make() if lazy is nn.LazyBatchNorm1d else copy.deepcopy(copied)
    assert type(twin) is lazy
    for module in (early, late, twin):
        module(x)
    handles[1].remove()
    assert [type(module) for module in (early, late, twin)] == [done] * 3
    assert [traces(module) for module in (early, late, twin)] == [[]] * 3


def test_a_graph_module_is_copied_pickled_and_transformed_without_its_hooks() -> None:
    """E20, E1"""
    module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    plain = module(X)
    hookline.register_forward_hook(module, plus_one)
    for twin in (
        copy.deepcopy(module),
        copy.copy(module),
        pickle.loads(pickle.dumps(module)),
        torch.fx.Transformer(module).transform(),
    ):
        assert torch.equal(twin(X), plain)
        assert traces(twin) == []
    assert torch.equal(module(X), plain + 1)


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


def tiny_bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        vocab_size=20,
        max_position_embeddings=8,
        attn_implementation="eager",
    )
    return BertModel(config).eval()


@pytest.mark.parametrize("make", [tiny_gpt2, tiny_bert])
def test_transformers_collects_what_the_hooks_put_in(make) -> None:
    """E23: its own instance forwards and ours, around the same blocks."""
    model, tokens = make(), torch.tensor([[1, 2, 3]])
    blocks = model.h if hasattr(model, "h") else model.encoder.layer
    calls = []

    def first_times_two(module, args, output):
        calls.append(module)
        return (output[0] * 2, *output[1:]) if isinstance(output, tuple) else output * 2

    asked = {"output_hidden_states": True, "output_attentions": True}
    plain = model(tokens, **asked)
    handles = [hookline.register_forward_hook(block, first_times_two) for block in blocks]
    hooked = model(tokens, **asked)
    assert calls == list(blocks)
    assert len(hooked.hidden_states) == len(plain.hidden_states)
    assert torch.equal(hooked.hidden_states[1], plain.hidden_states[1] * 2)
    assert torch.equal(hooked.attentions[0], plain.attentions[0])
    assert not torch.equal(hooked.attentions[1], plain.attentions[1])
    for handle in handles:
        handle.remove()
    assert traces(model) == []
    assert not any("forward" in module.__dict__ for module in model.modules())
    assert torch.equal(model(tokens).last_hidden_state, plain.last_hidden_state)


def test_generate_runs_on_a_hooked_model_and_each_step_fires() -> None:
    """E22, E23: it reads the signature of forward."""
    from transformers import GPT2Config, GPT2LMHeadModel

    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20, n_positions=16, **special)).eval()
    tokens = torch.tensor([[2, 3, 4]])
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "attention_mask": torch.ones_like(tokens)}
    plain = model.generate(tokens, **options)
    calls = []
    handles = [hookline.register_forward_hook(module, lambda m, *_: calls.append(m)) for module in model.modules()]
    assert torch.equal(model.generate(tokens, **options), plain)
    assert calls.count(model) == calls.count(model.transformer.h[0]) == 4
    for handle in handles:
        handle.remove()
    assert traces(model) == []


@pytest.mark.parametrize("native", [False, True], ids=["", "with native hooks"])
@pytest.mark.parametrize("called", [False, True], ids=["not called between", "called between"])
def test_a_forward_set_through_setattr_and_deleted_before_or_after_unhooking(called: bool, native: bool) -> None:
    """E24"""
    module = nn.Identity()
    calls = []
    if native:
        module.register_forward_hook(lambda *_: None)
    for unhook_first in (False, True):
        handle = hookline.register_forward_hook(module, lambda *_: calls.append(1))
        setattr(module, "forward", lambda x: x + 1)  # noqa: B010 - as programs do it
        if called:
            assert module(1) == 2
            assert calls.pop() == 1
        if unhook_first:
            handle.remove()
            assert module(1) == 2
            del module.forward
        else:
            delattr(module, "forward")
            assert module(1) == 1
            assert calls.pop() == 1
            handle.remove()
        assert module(1) == 1
        assert calls == []
        assert type(module) is nn.Identity
        assert "forward" not in module.__dict__
        assert traces(module) == []


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


@pytest.mark.parametrize(
    ("register", "known"),
    [
        (hookline.register_forward_hook, "prepend, with_kwargs, always_call"),
        (hookline.register_forward_pre_hook, "prepend, with_kwargs"),
    ],
    ids=["forward", "pre"],
)
def test_an_unknown_option_is_refused_and_those_that_there_are_named(register, known: str) -> None:
    module = nn.Identity()
    with pytest.raises(HookTypeError, match=rf"{register.__name__}\(\) has no option 'once'; it has: {known}, each"):
        register(module, lambda *_: None, once=True)
    assert traces(module) == []


def test_functional_call_and_vmap_see_the_hooks() -> None:
    module = nn.Linear(4, 4)
    with hookline.register_forward_hook(module, plus_one):
        zeros = {name: torch.zeros_like(value) for name, value in module.named_parameters()}
        assert torch.equal(torch.func.functional_call(module, zeros, (X,)), torch.ones(2, 4))
        assert torch.equal(torch.vmap(module)(X), module(X))


def test_function_transforms_go_through_the_hooks() -> None:
    module = nn.Linear(4, 1)
    parameters = dict(module.named_parameters())
    models = [nn.Linear(4, 1) for _ in range(3)]

    def loss(parameters, x):
        return torch.func.functional_call(module, parameters, (x,)).sum()

    with hookline.register_forward_hook(module, lambda m, args, out: out * 2):
        assert torch.equal(torch.func.grad(loss)(parameters, X)["bias"], torch.tensor([4.0]))
        assert torch.equal(torch.func.jacrev(module)(X[0]), module.weight * 2)
        stacked = torch.func.stack_module_state(models)
        run = torch.vmap(lambda p, b: torch.func.functional_call(module, (p, b), (X,)))
        torch.testing.assert_close(run(*stacked), torch.stack([each(X) * 2 for each in models]))


@pytest.mark.parametrize("reentrant", [False, True], ids=["", "reentrant"])
def test_gradients_through_a_checkpointed_hooked_module_are_right(reentrant: bool) -> None:
    """G8: the hook that changes the output runs in the recomputation too."""
    module, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.ones(2, 4, requires_grad=True)
    with hookline.register_forward_hook(module[0], lambda m, args, out: out * 2):
        torch.utils.checkpoint.checkpoint(module, x, use_reentrant=reentrant).sum().backward()
        checkpointed, x.grad = x.grad, None
        module(x).sum().backward()
    torch.testing.assert_close(checkpointed, x.grad)


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
