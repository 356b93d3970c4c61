import itertools
import json

import pytest
import torch
from torch import nn

import hookline
from hookline.errors import NeverFiredError, NeverFiredWarning

X = torch.ones(2, 4)


def nothing(call):
    return None


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(4, 2, batch_first=True)
        self.items = nn.ModuleList([nn.Linear(4, 4)])
        self.side = nn.Linear(4, 4)
        self.base = nn.Module()
        self.act = nn.ReLU()

    def forward(self, x):
        return self.items[0](self.attn(x, x, x)[0])

    def encode(self, x):
        return x


SILENT = {
    "weights read without a call": (
        "attn.out_proj",
        r"reads the weights of its out_proj without calling it; hook .*'attn'",
    ),
    "a container": ("items", r"a ModuleList is a container that nobody calls; hook its items, 'items.\*'"),
    "no forward": ("base", r"Module has no forward\(\) of its own"),
    "never called, with weights": ("side", "Model does not call it for this input, or reads its weights without"),
    "never called": ("act", "the run ended before it, or Model does not call it for this input.$"),
    "a method": ("encode()", r"the method encode\(\) was not called"),
}


@pytest.mark.parametrize(("where", "why"), SILENT.values(), ids=SILENT.keys())
@pytest.mark.parametrize("strict", [False, True], ids=["warning", "error"])
def test_a_hook_that_never_ran_says_why(where: str, why: str, strict: bool) -> None:
    """E15"""
    model = Model()
    expected = pytest.raises(NeverFiredError, match=why) if strict else pytest.warns(NeverFiredWarning, match=why)
    with expected, hookline.Hooks(model, strict=strict) as hooks:
        hooks.after(where, nothing)
        hooks.after("attn", nothing)
        model(torch.ones(1, 3, 4))


def test_a_model_that_was_not_run_in_the_block_is_named_as_the_reason() -> None:
    with pytest.warns(NeverFiredWarning, match="no hooked module was called; was the model run inside"):
        with hookline.Hooks(Model()) as hooks:
            hooks.after("side", nothing)


@pytest.mark.parametrize("replace", [True, False], ids=["replaced", "removed"])
def test_a_module_that_left_the_model_is_named_as_such(mlp: nn.Sequential, replace: bool) -> None:
    """E19"""
    message = "another Linear was put in its place" if replace else "it was removed after the hook was put on"
    hooks = hookline.Hooks(mlp)
    hooks.after("2", nothing)
    if replace:
        mlp[2] = nn.Linear(8, 2)
    else:
        del mlp[2]
    with pytest.warns(NeverFiredWarning, match=f"no longer in the model: {message}"), hooks:
        mlp(X)


def test_an_error_in_the_block_is_not_covered_by_a_warning_about_hooks(mlp: nn.Sequential) -> None:
    with pytest.raises(ZeroDivisionError), hookline.Hooks(mlp, strict=True) as hooks:
        hooks.after("0", nothing)
        raise ZeroDivisionError


def test_the_report_says_what_matched_fired_and_took_time(mlp: nn.Sequential) -> None:
    with hookline.Hooks(mlp) as hooks:
        hooks.before("[02]:input.0", nothing)
        slow = hooks.around("1", lambda call, proceed: proceed())
        mlp(X)
        mlp(X)
        slow.disable()
        mlp(X)
        states = [row.state for row in hooks.report()]
    rows = list(hooks.report())
    assert states == ["on", "on", "off"]
    assert [(row.address, row.kind, row.where, row.module, row.fired) for row in rows] == [
        ("0:input.0", "before", "[02]:input.0", "Linear", 3),
        ("2:input.0", "before", "[02]:input.0", "Linear", 3),
        ("1", "around", "1", "ReLU", 2),
    ]
    assert all(row.milliseconds > 0 and row.state == "removed" and not row.compiled for row in rows)
    assert json.loads(hooks.report().to_json()) == hooks.report().to_dict()
    assert hooks.report().to_dict()["hooks"][0]["address"] == "0:input.0"
    header, first, *_ = str(hooks.report()).splitlines()
    assert header.split() == ["kind", "address", "module", "fired", "ms", "state", "hook"]
    assert first.split()[:4] == ["before", "0:input.0", "Linear", "3"]
    assert len(hooks.report()) == 3


def test_the_time_of_an_around_hook_is_without_the_call_inside(monkeypatch) -> None:
    ticks = itertools.count(0, 1_000_000)
    monkeypatch.setattr("hookline.hooks.record.perf_counter_ns", lambda: next(ticks))
    model = nn.Identity()
    with hookline.Hooks(model) as hooks:
        made = hooks.around(".", lambda call, proceed: proceed())
        model(X)
    # Four looks at the clock: in, proceed in, proceed out, out. Of the three ticks the middle one is the call's.
    assert made.records[0].nanoseconds == 2_000_000


def test_an_empty_report_says_so(mlp: nn.Sequential) -> None:
    assert str(hookline.Hooks(mlp).report()) == "no hooks"
    assert str(hookline.hooks_on(mlp)) == "no hooks"


def test_hooks_on_lists_every_hook_native_ones_too(mlp: nn.Sequential) -> None:
    def native(module, args):
        return None

    def drop_in(module, args, output):
        return None

    mlp[0].register_forward_pre_hook(native)
    mlp[0].register_full_backward_hook(lambda *_: None)
    mlp[1]._register_state_dict_hook(lambda *_: None)
    handle = hookline.register_forward_hook(mlp[0], drop_in)
    with hookline.Hooks(mlp) as hooks:
        hooks.after("0", nothing)
        hooks.around("0", lambda call, proceed: proceed())
        found = hookline.hooks_on(mlp)
        mlp(X)
    assert [(info.path, info.owner, info.kind, info.order) for info in found] == [
        ("0", "torch", "forward pre hook", 0),
        ("0", "torch", "full backward hook", 0),
        ("0", "hookline.Hooks", "around", 0),
        ("0", "hookline", "after", 0),
        ("0", "hookline.Hooks", "after", 1),
        ("1", "torch", "state_dict hook", 0),
    ]
    assert found[0].hook is native
    assert found[0].function.endswith("native")
    assert found[3].hook is drop_in
    assert found[4].hook is nothing
    assert found[4].source.endswith(f"test_reports.py:{nothing.__code__.co_firstlineno}")
    assert str(found).splitlines()[0].split() == ["path", "owner", "kind", "order", "function", "source"]
    handle.remove()
    assert len(hookline.hooks_on(mlp)) == 3
