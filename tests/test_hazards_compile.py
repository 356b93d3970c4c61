"""HAZARDS area X: hooks and the compilers."""

import functools

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

import hookline
from hookline.core import AFTER, AROUND, BEFORE, CALL, Hook
from hookline.errors import HookRefusedError
from hookline.intercept.module_site import attach

pytestmark = pytest.mark.usefixtures("fresh_compiler")
X = torch.ones(2, 8)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.act = nn.ReLU()

    def forward(self, x, scale=1):
        return x + self.act(self.linear(x)) * scale


class Coder(nn.Module):
    def encode(self, x):
        return x * 2

    def forward(self, x):
        return self.encode(x) + 1


class Model(nn.Module):
    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x, scale=2)
        return x


def plus_one(module, args, output):
    return output + 1


def double(module, args):
    return (args[0] * 2, *args[1:])


def triple(module, args, kwargs):
    return args, {**kwargs, "scale": 3}


def plus_scale(module, args, kwargs, output):
    return output + kwargs["scale"]


HOOKS = {
    "pre": lambda m: hookline.register_forward_pre_hook(m, double),
    "pre with kwargs": lambda m: hookline.register_forward_pre_hook(m, triple, with_kwargs=True),
    "forward": lambda m: hookline.register_forward_hook(m, plus_one),
    "forward with kwargs": lambda m: hookline.register_forward_hook(m, plus_scale, with_kwargs=True),
    "always": lambda m: hookline.register_forward_hook(m, plus_one, always_call=True),
}


@pytest.mark.parametrize("how", ["torch.compile", "module.compile"])
@pytest.mark.parametrize("register", HOOKS.values(), ids=HOOKS.keys())
def test_a_hook_after_the_first_compiled_call_fires_without_a_graph_break_and_goes_without_a_trace(
    register, how
) -> None:
    """X1"""
    model, counter = Model(), CompileCounter()
    if how == "torch.compile":
        run = torch.compile(model, backend=counter, fullgraph=True)
    else:
        model.compile(backend=counter, fullgraph=True)
        run = model
    plain = run(X)
    eager = Model()
    eager.load_state_dict(model.state_dict())
    handles = [register(each.blocks[1]) for each in (model, eager)]
    assert torch.equal(run(X), eager(X))
    assert not torch.equal(run(X), plain)
    assert counter.frame_count == 2
    for handle in handles:
        handle.remove()
    assert torch.equal(run(X), plain)
    assert counter.frame_count == 2  # the old code is used again


@pytest.mark.parametrize("how", ["torch.compile", "module.compile"])
def test_a_hook_on_the_compiled_module_itself_fires_and_goes_without_a_trace(how: str) -> None:
    """X1"""
    model, counter = Model(), CompileCounter()
    if how == "torch.compile":
        run = torch.compile(model, backend=counter, fullgraph=True)
    else:
        model.compile(backend=counter, fullgraph=True)
        run = model
    plain = run(X)
    with hookline.register_forward_hook(model, plus_one):
        assert torch.equal(run(X), plain + 1)
        with hookline.register_forward_pre_hook(model, double):
            assert torch.equal(run(X), model.forward(X))
    assert torch.equal(run(X), plain)
    assert counter.frame_count == 3


def test_all_kinds_of_hooks_together_on_every_module_compile_into_one_graph() -> None:
    """X1"""
    model, counter = Model(), CompileCounter()
    for block in model.blocks:
        for register in HOOKS.values():
            register(block)
        hookline.register_forward_hook(block.linear, plus_one, prepend=True)
        hookline.register_forward_pre_hook(block.act, double, prepend=True)
    run = torch.compile(model, backend=counter, fullgraph=True)
    assert torch.equal(run(X), model(X))
    assert counter.frame_count == 1


CALLS = {
    "before": (BEFORE, lambda call: (call.args[0] * 2,)),
    "after": (AFTER, lambda call: call.output + 1),
    "around": (AROUND, lambda call, proceed: proceed() * 3),
}


@pytest.mark.parametrize(("phase", "function"), CALLS.values(), ids=CALLS.keys())
def test_hooks_that_are_handed_a_call_compile_whole(phase: int, function) -> None:
    """X1"""
    model, counter = Model(), CompileCounter()
    run = torch.compile(model, backend=counter, fullgraph=True)
    plain = run(X)
    handle = attach(model.blocks[1].linear, Hook(phase, function, CALL))
    hooked = run(X)
    assert torch.equal(hooked, model(X))
    assert not torch.equal(hooked, plain)
    assert torch.equal(run(X), hooked)
    handle.remove()
    assert torch.equal(run(X), plain)
    assert counter.frame_count == 2


def test_a_hook_on_another_method_fires_in_compiled_code() -> None:
    """X1"""
    model, counter = Coder(), CompileCounter()
    run = torch.compile(model, backend=counter, fullgraph=True)
    assert torch.equal(run(X), X * 3)
    handle = attach(model, Hook(AFTER, lambda call: call.output * 10, CALL), "encode")
    assert torch.equal(run(X), X * 21)
    handle.remove()
    assert torch.equal(run(X), X * 3)
    assert counter.frame_count == 2


def test_gradients_through_compiled_hooked_code_are_right() -> None:
    """X1: forward and backward are both compiled."""
    model = Model()
    run = torch.compile(model, backend="aot_eager", fullgraph=True)
    run(X)
    for block in model.blocks:
        hookline.register_forward_hook(block.linear, lambda m, args, out: out * 2)
    compiled, eager = X.clone().requires_grad_(), X.clone().requires_grad_()
    run(compiled).sum().backward()
    model(eager).sum().backward()
    torch.testing.assert_close(compiled.grad, eager.grad)


def test_a_hooked_part_of_a_transformer_layer_fires_in_compiled_code() -> None:
    """X1, E14: compiled code too would take the fused kernel."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), torch.randn(2, 3, 8)
    run = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        plain = run(x)
        with hookline.register_forward_hook(model.layers[0].linear1, plus_one):
            torch.testing.assert_close(run(x), model(x))
            assert not torch.allclose(run(x), plain, atol=1e-3)
        torch.testing.assert_close(run(x), plain)


def test_varying_shapes_compile_once_with_hooks_as_without() -> None:
    """X3"""
    model, counter = Model(), CompileCounter()
    hookline.register_forward_hook(model.blocks[0].linear, plus_one)
    run = torch.compile(model, backend=counter, fullgraph=True, dynamic=True)
    for rows in (2, 3, 5):
        assert run(torch.ones(rows, 8)).shape == (rows, 8)
    assert counter.frame_count == 1


def closure(seen: list):
    return lambda module, args, output: seen.append(1) or output + 1


class Functor:
    def __call__(self, module, args, output):
        return output + 1

    def method(self, module, args, output):
        return output + 1


FRESH = {
    "lambda": lambda: lambda module, args, output: output + 1,
    "closure": lambda: closure([]),
    "object": Functor,
    "method": lambda: Functor().method,
    "partial": lambda: functools.partial(lambda one, module, args, output: output + one, 1),
}


@pytest.mark.parametrize("always", [False, True], ids=["", "always_call"])
@pytest.mark.parametrize("make", FRESH.values(), ids=FRESH.keys())
def test_a_new_function_of_the_same_code_needs_no_new_compilation(make, always: bool) -> None:
    """X3: twenty `with` blocks in a loop make twenty functions."""
    model, counter = Model(), CompileCounter()
    run = torch.compile(model, backend=counter, fullgraph=True)
    plain = run(X)
    for _ in range(20):
        with hookline.register_forward_hook(model, make(), always_call=always):
            assert torch.equal(run(X), plain + 1)
    assert torch.equal(run(X), plain)
    assert counter.frame_count == 2


def test_attaching_a_hook_that_is_handed_a_call_twenty_times_compiles_once() -> None:
    """X3"""
    model, counter = Model(), CompileCounter()
    run = torch.compile(model, backend=counter, fullgraph=True)
    run(X)
    for _ in range(20):
        with attach(model.blocks[0], Hook(AFTER, lambda call: call.output + 1, CALL)):
            run(X)
    assert counter.frame_count == 2


def test_equal_blocks_with_a_hook_that_is_handed_a_call_compile_no_more_often_than_without() -> None:
    """X5"""
    model, counter = Model(12), CompileCounter()
    for block in model.blocks:
        block.compile(backend=counter)
        attach(block.linear, Hook(AFTER, lambda call: call.output + 1, CALL))
    with torch.no_grad():
        model(X)
    assert counter.frame_count == 1


def test_attaching_and_removing_twenty_times_compiles_once_for_each_set_of_hooks() -> None:
    """X3"""
    model, counter = Model(), CompileCounter()
    run = torch.compile(model, backend=counter, fullgraph=True)
    run(X)
    for _ in range(20):
        for hooks in ([HOOKS["forward"]], [HOOKS["pre"], HOOKS["forward"]]):
            handles = [register(block) for block in model.blocks for register in hooks]
            run(X)
            for handle in handles:
                handle.remove()
    run(X)
    assert counter.frame_count == 3


def test_equal_blocks_with_the_same_hook_compile_no_more_often_than_without() -> None:
    """X5: each block compiled on its own, as is done to save compile time."""

    def frames(*, hooked: bool) -> int:
        torch._dynamo.reset()
        model, counter = Model(12), CompileCounter()
        for block in model.blocks:
            block.compile(backend=counter, fullgraph=True)
            if hooked:
                hookline.register_forward_hook(block, plus_one)
                hookline.register_forward_pre_hook(block.linear, double)
        with torch.no_grad():
            model(X)
            model(X)
        return counter.frame_count

    assert frames(hooked=True) == frames(hooked=False)


def test_more_hooked_blocks_than_the_recompile_limit_stay_right_with_a_graph_break_in_each() -> None:
    """X3: every hooked forward is then a frame of its own."""

    def breaking(number: int) -> nn.Module:
        def forward(self, x):
            torch._dynamo.graph_break()
            return x + number

        return type(f"Breaks{number}", (nn.Module,), {"forward": forward})()

    blocks = 2 * torch._dynamo.config.recompile_limit + 1
    model = nn.Sequential(*(breaking(number) for number in range(blocks)))
    handles = [hookline.register_forward_hook(block, plus_one) for block in model]
    compiled = torch.compile(model, backend="eager")
    assert torch.equal(compiled(X), X + sum(range(blocks)) + blocks)
    for handle in handles:
        handle.remove()
    assert torch.equal(compiled(X), X + sum(range(blocks)))


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_model_has_the_effect_of_its_hooks(strict: bool) -> None:
    """X4"""
    model = Model()
    for module in model.blocks:
        hookline.register_forward_hook(module, plus_one)
        hookline.register_forward_pre_hook(module.linear, double)
    hookline.register_forward_hook(model, plus_one)
    exported = torch.export.export(model, (X,), strict=strict).module()
    torch.testing.assert_close(exported(X), model(X))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, *, scale=1):
        return self.linear(x) * scale


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_model_with_keyword_arguments_has_the_effect_of_its_hooks(strict: bool) -> None:
    """X4"""
    model = Scaled()
    hookline.register_forward_hook(model, plus_scale, with_kwargs=True)
    hookline.register_forward_pre_hook(model, lambda m, args, kwargs: (args, {"scale": 5}), with_kwargs=True)
    hookline.register_forward_hook(model.linear, plus_one, always_call=True)
    exported = torch.export.export(model, (X,), {"scale": 2}, strict=strict).module()
    torch.testing.assert_close(exported(X, scale=2), model(X, scale=2))
    torch.testing.assert_close(model(X, scale=2), (nn.Linear.forward(model.linear, X) + 1) * 5 + 5)


@pytest.mark.parametrize("strict", [True, False])
def test_a_model_exported_before_it_is_hooked_or_after_is_the_model_without_hooks(strict: bool) -> None:
    """X4"""
    model = Block()
    before = torch.export.export(model, (X,), strict=strict).module()
    with hookline.register_forward_hook(model, plus_one):
        assert torch.equal(before(X) + 1, model(X))
    after = torch.export.export(model, (X,), strict=strict).module()
    assert torch.equal(after(X), model(X))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_traced_model_has_the_effect_of_its_hooks() -> None:
    """X4"""
    model = Model()
    for module in model.modules():
        if not isinstance(module, nn.ModuleList):
            hookline.register_forward_hook(module, plus_one)
    traced = torch.jit.trace(model, (X,))
    torch.testing.assert_close(traced(X), model(X))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_trace_of_a_hooked_model_shows_the_same_modules() -> None:
    """X4"""

    def called(model: nn.Module) -> list[str]:
        graph = torch.jit.trace(model, (X,)).graph
        return [node.s("name") for node in graph.nodes() if node.kind() == "prim::GetAttr"]

    model = Model(2)
    plain = called(model)
    assert len(plain) > 2
    for module in model.modules():
        hookline.register_forward_hook(module, lambda *_: None)
    assert called(model) == plain


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_scripting_a_hooked_model_is_refused() -> None:
    """X4"""
    model = Block()
    hookline.register_forward_hook(model.act, plus_one)
    with pytest.raises(Exception, match="remove hookline's hooks before"):
        torch.jit.script(model)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_hooked_module_is_scripted_again_once_its_hooks_are_gone() -> None:
    """X4"""
    module = nn.ReLU()
    with hookline.register_forward_pre_hook(module, double):
        with pytest.raises(Exception, match="remove hookline's hooks before"):
            torch.jit.script(module)
    assert torch.equal(torch.jit.script(module)(X), X)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_scripting_a_module_with_a_hook_on_another_method_has_its_effect_or_is_refused() -> None:
    """X4"""
    model = Coder()
    attach(model, Hook(AFTER, lambda call: call.output * 10, CALL), "encode")
    try:
        scripted = torch.jit.script(model)
    except Exception as error:
        if "hookline" not in str(error):
            raise
    else:
        assert torch.equal(scripted(X), model(X))


def test_an_fx_graph_has_the_effect_of_the_hooks_inside_and_outside() -> None:
    """X4"""
    model = Model()
    hookline.register_forward_hook(model, plus_one)
    hookline.register_forward_hook(model.blocks[0], plus_one)
    hookline.register_forward_hook(model.blocks[0].linear, plus_one)
    torch.testing.assert_close(torch.fx.symbolic_trace(model)(X), model(X))


def test_fx_of_a_hooked_model_with_keyword_only_parameters_is_refused_in_words() -> None:
    """X4"""

    class Keyword(nn.Module):
        def forward(self, x, *, scale=1):
            return x * scale

    model = Keyword()
    torch.fx.symbolic_trace(model)
    hookline.register_forward_hook(model, plus_one)
    with pytest.raises(HookRefusedError, match=r"torch.fx cannot trace the hooked Keyword itself"):
        torch.fx.symbolic_trace(model)


def test_code_that_asks_for_its_class_compiles_while_hooked() -> None:
    class Asks(nn.Module):
        def forward(self, x):
            return x + len(self.__class__.__name__) + isinstance(self, nn.Linear)

    model = Asks()
    with hookline.register_forward_hook(model, plus_one):
        assert torch.equal(torch.compile(model, backend="eager", fullgraph=True)(X), X + 5)


def test_a_module_that_sets_its_own_attributes_compiles_while_hooked() -> None:
    class Counts(nn.Module):
        def forward(self, x):
            self.last = x * 2
            return x

    model = Counts()
    with hookline.register_forward_hook(model, plus_one):
        torch.compile(model, backend="eager", fullgraph=True)(X)
    assert torch.equal(model.last, X * 2)
