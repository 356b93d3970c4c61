import asyncio
import contextvars
import itertools
import threading
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

import hookline
from hookline.errors import AddressError, HookRefusedError, HookResultError, HookTypeError, NoMatchError, PartError


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU()

    def forward(self, x, mask=None, *, scale=1):
        return {"hidden": (self.act(self.act(self.fc(x))) * scale, x), "mask": mask}

    def encode(self, tokens):
        return tokens + 1


@pytest.fixture
def block() -> Block:
    return Block()


X = torch.ones(2, 4)


def unhooked(model: nn.Module) -> bool:
    return all(type(module).__dict__.get("__hookline__") is None for module in model.modules()) and not any(
        "hookline" in key for module in model.modules() for key in (*module.__dict__, *module._forward_hooks)
    )


def test_before_sees_and_replaces_the_arguments(block: Block) -> None:
    seen = []

    def hook(call):
        seen.append((call.path, call.args, dict(call.kwargs)))
        call.kwargs["scale"] = 3
        return X * 2

    with hookline.Hooks(block) as hooks:
        hooks.before(".", hook)
        out = block(X, scale=2)
    assert seen == [(".", (X,), {"scale": 2})]
    assert torch.equal(out["hidden"][1], X * 2)
    assert torch.equal(out["hidden"][0], block(X * 2, scale=3)["hidden"][0])


@pytest.mark.parametrize("assign", [True, False], ids=["assigned", "returned"])
def test_after_replaces_the_output(mlp: nn.Sequential, assign: bool) -> None:
    def hook(call):
        if not assign:
            return call.output + 100
        call.output = call.output + 100
        return None

    plain = mlp(X)
    with hookline.Hooks(mlp) as hooks:
        hooks.after("2", hook)
        assert torch.equal(mlp(X), plain + 100)
    assert torch.equal(mlp(X), plain)


@pytest.mark.parametrize("value", [False, 0, (), []], ids=repr)
def test_after_only_none_keeps_the_output(mlp: nn.Sequential, value) -> None:
    with hookline.Hooks(mlp) as hooks:
        hooks.after(".", lambda call: value)
        assert mlp(X) == value


def test_arguments_are_bound_by_name_and_replaced_the_way_they_came(block: Block) -> None:
    def hook(call):
        assert list(call.arguments) == ["x", "mask", "scale"]
        assert len(call.arguments) == 3
        assert "mask" in call.arguments
        assert call.arguments["scale"] == 1
        assert call.arguments["mask"] is None
        call.arguments["x"] = X * 3
        call.arguments["mask"] = "given"
        assert call.args[0] is call.arguments["x"]
        assert "mask='given'" in repr(call.arguments)

    with hookline.Hooks(block) as hooks:
        hooks.before(".", hook)
        out = block(X)
    assert torch.equal(out["hidden"][1], X * 3)
    assert out["mask"] == "given"


def test_an_address_of_a_part_reads_and_replaces_just_that_part(block: Block) -> None:
    plain = block(X)
    with hookline.Hooks(block) as hooks:
        hooks.after(".:output.hidden.0", lambda call: call.value * 0)
        hooks.before(".:input.mask", lambda call: "given" if call.value is None else None)
        out = block(X)
    assert torch.equal(out["hidden"][0], plain["hidden"][0] * 0)
    assert torch.equal(out["hidden"][1], plain["hidden"][1])
    assert out["mask"] == "given"


def test_a_part_inside_an_argument_is_replaced(mlp: nn.Sequential) -> None:
    class Takes(nn.Module):
        def forward(self, pair):
            return pair[0] + pair[1]

    with hookline.Hooks(Takes()) as hooks:
        hooks.before(".:input.pair.1", lambda call: call.value * 10)
        hooks.before(".:input.0.0", lambda call: call.value + 1)
        assert hooks.model((1, 2)) == 22


def test_an_input_can_be_looked_at_after_the_call_but_not_replaced(block: Block) -> None:
    seen = []
    with hookline.Hooks(block) as hooks:
        hooks.after(".:input.x", lambda call: seen.append(call.value))
        block(X)
        assert seen == [X]
        hooks.after(".:input.x", lambda call: X)
        with pytest.raises(HookResultError, match="the call is over"):
            block(X)


def test_a_part_that_is_not_there_at_run_time_says_what_is(block: Block) -> None:
    with hookline.Hooks(block) as hooks, pytest.raises(PartError, match=r"\.:output\.hiden: .* keys: hidden, mask"):
        hooks.after(".:output.hiden", lambda call: None)
        block(X)


def test_a_method_is_hooked_by_its_name(block: Block) -> None:
    with hookline.Hooks(block) as hooks:
        hooks.before("encode():input.tokens", lambda call: call.value * 2)
        hooks.after("encode()", lambda call: call.output + 100)
        assert block.encode(3) == 107
        assert hookline.hooks_on(block)[0].kind == "before encode()"
        assert "encode" in vars(type(block))
    assert block.encode(3) == 4
    assert unhooked(block)


def test_around_may_skip_repeat_and_wrap_the_call(mlp: nn.Sequential) -> None:
    calls = []
    plain = mlp(X)
    with hookline.Hooks(mlp) as hooks:
        hooks.after("0", lambda call: calls.append(call.number))
        skip = hooks.around("1", lambda call, proceed: call.args[0] * 0)
        assert torch.equal(mlp(X), mlp[2](torch.zeros(2, 8)))
        skip.remove()

        def twice(call, proceed):
            proceed()
            return proceed()

        hooks.around("0", twice)
        assert torch.equal(mlp(X), plain)
        assert calls == [0, 1]

        def no_grad(call, proceed):
            with torch.no_grad():
                proceed()

        hooks.around(".", no_grad)
        assert not mlp(X).requires_grad


def test_around_hooks_nest_and_see_each_other_s_changes() -> None:
    log = []

    def make(name):
        def hook(call, proceed):
            log.append(f"{name} in")
            call.args = (call.args[0] + 1,)
            proceed()
            log.append(f"{name} out")
            call.output = call.output * 10

        return hook

    model = nn.Identity()
    with hookline.Hooks(model) as hooks:
        hooks.around(".", make("outer"))
        hooks.around(".", make("inner"))
        assert model(0) == 200
    assert log == ["outer in", "inner in", "inner out", "outer out"]


def test_higher_priority_runs_earlier_and_equal_ones_in_the_order_of_registration(mlp: nn.Sequential) -> None:
    log = []
    with hookline.Hooks(mlp) as hooks, hookline.Hooks(mlp) as others:
        hooks.after("0", lambda call: log.append("a"))
        others.after("0", lambda call: log.append("first"), priority=5)
        hooks.after("0", lambda call: log.append("b"))
        others.after("0", lambda call: log.append("last"), priority=-1)
        hooks.after("0", lambda call: log.append("c"))
        mlp(X)
    assert log == ["first", "a", "b", "c", "last"]


def test_calls_of_a_module_that_is_used_twice_are_told_apart(block: Block) -> None:
    """E9"""
    before, after = [], []
    with hookline.Hooks(block) as hooks:
        hooks.before("act", lambda call: before.append(call.number))
        hooks.after("act", lambda call: after.append(call.number))
        block(X)
        block(X)
    assert before == after == [0, 1, 2, 3]


def test_each_group_counts_calls_from_its_own_beginning(mlp: nn.Sequential) -> None:
    first, second = [], []
    with hookline.Hooks(mlp) as hooks:
        hooks.after("0", lambda call: first.append(call.number))
        mlp(X)
        with hookline.Hooks(mlp) as later:
            later.after("0", lambda call: second.append(call.number))
            mlp(X)
            mlp(X)
    assert (first, second) == ([0, 1, 2], [0, 1])


def test_a_module_that_calls_itself_numbers_its_calls_as_they_begin() -> None:
    """E13"""

    class Deep(nn.Module):
        def forward(self, depth):
            return depth if depth == 0 else self(depth - 1)

    before, after = [], []
    model = Deep()
    with hookline.Hooks(model) as hooks:
        hooks.before(".", lambda call: before.append((call.number, call.args[0])))
        hooks.after(".", lambda call: after.append((call.number, call.args[0])))
        model(2)
    assert before == [(0, 2), (1, 1), (2, 0)]
    assert after == [(2, 0), (1, 1), (0, 2)]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_call_that_activation_checkpointing_repeats_is_marked(mlp: nn.Sequential, reentrant: bool) -> None:
    seen = []
    with hookline.Hooks(mlp) as hooks:
        hooks.after("0", lambda call: seen.append((call.number, call.recomputed)))
        x = X.clone().requires_grad_()
        checkpoint(mlp, x, use_reentrant=reentrant).sum().backward()
        mlp(X)
    assert seen == [(0, False), (0, True), (1, False)]


def test_a_tied_module_is_hooked_once_and_knows_all_its_paths() -> None:
    """E8"""
    model = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    model.add_module("again", model[0])
    seen = []
    with hookline.Hooks(model) as hooks:
        hooks.after(["0", "again"], lambda call: seen.append((call.path, call.paths)))
        model(X)
    assert seen == [("0", ("0", "again"))] * 2


def test_nothing_is_hooked_when_one_of_several_addresses_matches_nothing(mlp: nn.Sequential) -> None:
    """E3"""
    with hookline.Hooks(mlp) as hooks, pytest.raises(NoMatchError, match="at '7'; the nearest"):
        hooks.after(["0", "7", "2"], lambda call: None)
    assert len(hooks) == 0
    assert unhooked(mlp)


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
def test_nothing_is_hooked_when_one_of_several_modules_cannot_be(mlp: nn.Sequential) -> None:
    mlp.append(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2), check_trace=False))
    hooks = hookline.Hooks(mlp)
    with pytest.raises(HookRefusedError, match="TorchScript"):
        hooks.after(["0", "3"], lambda call: None)
    assert (len(hooks), len(hooks.report())) == (0, 0)
    assert unhooked(mlp)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt], ids=lambda error: error.__name__)
@pytest.mark.parametrize("where", ["forward", "hook", "block"])
def test_all_hooks_are_gone_after_an_error_in_the_block(mlp: nn.Sequential, error, where: str) -> None:
    """E4"""

    def fail(*_):
        raise error("no")

    if where == "forward":
        mlp.append(nn.Module())
        mlp[3].forward = fail
    with pytest.raises(error), hookline.Hooks(mlp) as hooks:
        hooks.before("**", lambda call: None)
        hooks.around("0", lambda call, proceed: proceed())
        if where == "hook":
            hooks.after("2", fail)
        mlp(X)
        fail()
    assert unhooked(mlp)


@given(
    st.permutations(range(3)),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["0", "1", "**"])), min_size=1, max_size=6),
)
def test_groups_closed_in_any_order_take_away_only_their_own(order, registrations) -> None:
    """E5"""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    log: list[int] = []
    native = model[0].register_forward_hook(lambda *_: log.append(-1))
    groups = [hookline.Hooks(model) for _ in range(3)]
    for group, where in registrations:
        groups[group].after(where, lambda call, group=group: log.append(group))
    open_groups = {0, 1, 2}
    for closing in order:
        groups[closing].remove()
        open_groups.discard(closing)
        log.clear()
        model(X)
        times = {"0": 1, "1": 1, "**": 3}
        expected = [group for group, where in registrations if group in open_groups for _ in range(times[where])]
        assert sorted(log) == sorted([*expected, -1])
    native.remove()
    assert unhooked(model)


def test_a_disabled_group_costs_nothing_and_comes_back_in_its_place(mlp: nn.Sequential) -> None:
    log = []
    classes = [type(module) for module in mlp.modules()]
    with hookline.Hooks(mlp) as hooks:
        hooks.after("0", lambda call: log.append("a"))
        middle = hooks.after("0", lambda call: log.append("b"))
        hooks.after("0", lambda call: log.append("c"))
        hooks.disable()
        assert [type(module) for module in mlp.modules()] == classes
        assert unhooked(mlp)
        mlp(X)
        assert log == []
        hooks.enable()
        middle.disable()
        assert not middle.enabled
        mlp(X)
        assert log == ["a", "c"]
        middle.enable()
        middle.enable()
        mlp(X)
        assert log == ["a", "c", "a", "b", "c"]
        assert not middle.removed


def test_a_registration_is_removed_by_its_handle_and_cannot_come_back(mlp: nn.Sequential) -> None:
    with hookline.Hooks(mlp) as hooks:
        with hooks.after("*", lambda call: call.output * 0) as made:
            assert len(made) == len(list(made)) == 3
            assert not mlp(X).any()
        made.remove()
        assert made.removed
        assert len(hooks) == 0
        assert mlp(X).any()
        with pytest.raises(RuntimeError, match="has been removed"):
            made.enable()


def test_a_hook_that_removes_itself_runs_once(mlp: nn.Sequential) -> None:
    """E10"""
    log = []
    with hookline.Hooks(mlp) as hooks:

        def once(call):
            log.append("once")
            made.remove()

        made = hooks.after("0", once)
        later = hooks.after("0", lambda call: log.append("removed by another"))
        hooks.before("1", lambda call: later.remove())
        mlp(X)
        mlp(X)
    assert log == ["once", "removed by another"]


def run_in_thread(function) -> None:
    failed = []

    def run():
        try:
            function()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert failed == []


def test_hooks_of_one_thread_are_not_seen_by_another(mlp: nn.Sequential) -> None:
    """E12"""
    plain = mlp(X)
    with hookline.Hooks(mlp, scope="context") as hooks:
        hooks.after("2", lambda call: call.output + 1)

        def other_thread():
            assert torch.equal(mlp(X), plain)
            with hookline.Hooks(mlp, scope="context") as own:
                own.after("2", lambda call: call.output + 2)
                assert torch.equal(mlp(X), plain + 2)

        run_in_thread(other_thread)
        assert torch.equal(mlp(X), plain + 1)
    assert torch.equal(mlp(X), plain)


def test_two_scopes_stay_apart_over_a_thousand_interleaved_calls() -> None:
    """E12"""
    model = nn.Identity()
    wrong = []
    barrier = threading.Barrier(2)

    def work(amount: int) -> None:
        with hookline.Hooks(model, scope="context") as hooks:
            made = hooks.after(".", lambda call: call.output + amount)
            hooks.around(".", lambda call, proceed: proceed())
            barrier.wait()
            wrong.extend(n for n in range(500) if model(n) != n + amount)
            barrier.wait()
            assert made.records[0].fired == 500

    threads = [threading.Thread(target=work, args=(amount,)) for amount in (1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert unhooked(model)


def test_asyncio_tasks_see_their_own_hooks_only_over_a_thousand_interleaved_calls() -> None:
    """E12"""
    model = nn.Identity()

    async def task(amount: int) -> bool:
        with hookline.Hooks(model, scope="context") as hooks:
            hooks.before(".", lambda call: call.args[0] + amount)
            right = True
            for n in range(500):
                await asyncio.sleep(0)
                right = right and model(n) == n + amount
            return right

    async def main():
        return await asyncio.gather(task(1000), task(2000))

    assert asyncio.run(main()) == [True, True]
    assert unhooked(model)


def test_the_model_scope_is_seen_by_all_threads(mlp: nn.Sequential) -> None:
    seen = []
    with hookline.Hooks(mlp) as hooks:
        hooks.after("0", lambda call: seen.append(threading.get_ident()))
        run_in_thread(lambda: mlp(X))
    assert len(seen) == 1


def test_an_error_in_a_hook_keeps_its_type_and_says_where_and_which(mlp: nn.Sequential) -> None:
    def bad(call):
        if call.number == 1:
            raise KeyError("lost")

    with hookline.Hooks(mlp) as hooks:
        hooks.after("1", bad)
        mlp(X)
        with pytest.raises(KeyError, match="lost") as caught:
            mlp(X)
    (note,) = caught.value.__notes__
    assert note.startswith("hookline: raised by the hook ")
    assert "bad' (" in note
    assert "test_hooks.py:" in note
    assert note.endswith("that runs after '1' (ReLU), call 1.")


def test_a_thing_that_is_no_hook_is_refused_when_it_is_registered(mlp: nn.Sequential) -> None:
    hooks = hookline.Hooks(mlp)
    with pytest.raises(
        HookTypeError, match=r"called as hook\(call\), which does not fit its signature \(module, args\)"
    ):
        hooks.before("0", lambda module, args: None)
    with pytest.raises(HookTypeError, match=r"hook\(call, proceed\), got NoneType"):
        hooks.around("0", None)


REFUSED = {
    "an output before": (lambda hooks: hooks.before("0:output", print), AddressError, r"use hooks.after"),
    "a side around": (lambda hooks: hooks.around("0:input", lambda call, proceed: None), AddressError, "has both"),
    "a gradient": (lambda hooks: hooks.after("0:output.grad", print), AddressError, "names a gradient"),
    "a typo": (lambda hooks: hooks.after("0:ouput", print), AddressError, "column 3"),
    "an argument": (lambda hooks: hooks.before("0:input.y", print), NoMatchError, "it has: input"),
}


@pytest.mark.parametrize(("register", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_an_address_that_makes_no_sense_there_is_refused(mlp: nn.Sequential, register, error, message: str) -> None:
    with pytest.raises(error, match=message):
        register(hookline.Hooks(mlp))
    assert unhooked(mlp)


def test_bad_arguments_of_a_group_are_refused(mlp: nn.Sequential) -> None:
    with pytest.raises(HookTypeError, match=r"expected a torch.nn.Module to hook, got str"):
        hookline.Hooks("model")
    with pytest.raises(HookTypeError, match="scope is 'model' or 'context', got 'thread'"):
        hookline.Hooks(mlp, scope="thread")


def test_an_output_that_is_not_there_yet_says_so(mlp: nn.Sequential) -> None:
    with hookline.Hooks(mlp) as hooks, pytest.raises(AttributeError, match="no output yet"):
        hooks.before("0", lambda call: call.output)
        mlp(X)


def test_a_group_prints_its_hooks(mlp: nn.Sequential) -> None:
    hooks = hookline.Hooks(mlp)
    hooks.after("0", print)
    hooks.before([nn.ReLU, mlp[2]], print).disable()
    lines = repr(hooks).splitlines()
    assert lines[0] == "<Hooks on Sequential, scope model, 2 hooks>"
    assert lines[1] == "  <after '0' on 1 module: 'print'>"
    assert lines[2] == "  <before 'ReLU, <Linear>' on 2 modules: 'print', off>"
    assert next(iter(hooks)).kind == "after"
    hooks.remove()


@pytest.mark.usefixtures("fresh_compiler")
def test_hooks_of_a_group_fire_in_compiled_code_without_a_graph_break_or_a_new_graph_per_call(mlp) -> None:
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    compiled = torch.compile(mlp, backend=counter, fullgraph=True)
    plain = compiled(X)
    with hookline.Hooks(mlp) as hooks:
        hooks.after("2", lambda call: call.output + call.number)
        hooks.before("1", lambda call: call.args[0] * 2)
        hooks.around("0", lambda call, proceed: proceed() * 1)
        outputs = [compiled(X) for _ in range(4)]
        assert counter.frame_count == 2
        report = hooks.report()
        with hooks.after("2", lambda call: call.output * 1):
            compiled(X)
    assert all(torch.equal(output, mlp[2](mlp[0](X).relu() * 2)) for output in outputs)
    assert all(row.compiled and row.fired == 0 for row in report)
    assert "0+" in str(report)
    assert torch.equal(compiled(X), plain)
    assert counter.frame_count == 3


def test_a_step_of_generation_is_a_call_with_its_number() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2, n_embd=16, n_head=2, vocab_size=50, n_positions=32, bos_token_id=0, eos_token_id=None
    )
    model = GPT2LMHeadModel(config).eval()
    tokens = torch.tensor([[1, 2, 3]])
    plain = model.generate(tokens, max_new_tokens=5, do_sample=False)
    steps = []
    with hookline.Hooks(model) as hooks:
        hooks.after(
            "transformer.h.0", lambda call: steps.append((call.number, call.arguments["hidden_states"].shape[1]))
        )
        hooked = model.generate(tokens, max_new_tokens=5, do_sample=False)
    assert torch.equal(hooked, plain)
    assert steps == [(0, 3), (1, 1), (2, 1), (3, 1), (4, 1)]


def test_one_block_may_follow_another_on_one_group_object(mlp: nn.Sequential) -> None:
    hooks = hookline.Hooks(mlp)
    fired = itertools.count()
    for _ in range(2):
        with hooks:
            hooks.after("0", lambda call: call.output + 0 * next(fired))
            mlp(X)
        assert unhooked(mlp)
    assert next(fired) == 2


def test_no_warning_is_given_when_every_hook_ran(mlp: nn.Sequential) -> None:
    with warnings.catch_warnings(), hookline.Hooks(mlp) as hooks:
        warnings.simplefilter("error")
        hooks.after("**", lambda call: None)
        mlp(X)


def test_a_scope_that_is_left_in_another_thread_is_left_all_the_same(mlp: nn.Sequential) -> None:
    """E12"""
    hooks = hookline.Hooks(mlp, scope="context")
    hooks.after("0", lambda call: call.output * 0)
    run_in_thread(hooks.remove)
    hooks.remove()
    assert unhooked(mlp)


def test_a_positional_input_is_addressed_by_its_place_also_when_it_came_by_name(block: Block) -> None:
    with hookline.Hooks(block) as hooks:
        hooks.before(".:input.1", lambda call: "second" if call.value == "given" else None)
        hooks.before(".:input", lambda call: None)
        assert block(X, mask="given")["mask"] == "second"
        assert block(X, "given")["mask"] == "second"


def test_a_scope_that_was_left_is_not_kept_in_the_context(mlp: nn.Sequential) -> None:
    before = len(contextvars.copy_context())
    for _ in range(10):
        with hookline.Hooks(mlp, scope="context") as hooks:
            hooks.after("0", lambda call: None)
            mlp(X)
    assert len(contextvars.copy_context()) == before


def test_an_argument_before_the_first_is_an_error_of_ours(block: Block) -> None:
    with hookline.Hooks(block) as hooks, pytest.raises(PartError, match="no argument -5"):
        hooks.before(".:input.-5", lambda call: None)
        block(X)
