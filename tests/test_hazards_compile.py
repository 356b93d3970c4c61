"""HAZARDS area X: hooks and the compilers."""

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

import hookline
from hookline.errors import HookRefusedError

pytestmark = pytest.mark.usefixtures("fresh_compiler")
X = torch.ones(2, 8)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.act = nn.ReLU()

    def forward(self, x, scale=1):
        return x + self.act(self.linear(x)) * scale


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
def test_scripting_a_hooked_model_is_refused() -> None:
    """X4"""
    model = Block()
    hookline.register_forward_hook(model.act, plus_one)
    with pytest.raises(Exception, match="remove hookline's hooks before"):
        torch.jit.script(model)


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
