"""What a hook costs, beside PyTorch's own."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

import hookline
from benchmarks.measure import Row, added, ratio, timed
from benchmarks.models import Pass, gpt2, transformer

THEIRS = "what PyTorch's hook adds"


def pre(module, args):
    pass


def post(module, args, output):
    pass


def pre_kwargs(module, args, kwargs):
    pass


def post_kwargs(module, args, kwargs, output):
    pass


def one_module(name: str, budget: float, pres: int, posts: int, *, kwargs: bool = False) -> Row:
    bare, theirs, ours, x = Pass(), Pass(), Pass(), torch.zeros(1)
    for _ in range(pres):
        theirs.register_forward_pre_hook(pre_kwargs if kwargs else pre, with_kwargs=kwargs)
        hookline.register_forward_pre_hook(ours, pre_kwargs if kwargs else pre, with_kwargs=kwargs)
    for _ in range(posts):
        theirs.register_forward_hook(post_kwargs if kwargs else post, with_kwargs=kwargs)
        hookline.register_forward_hook(ours, post_kwargs if kwargs else post, with_kwargs=kwargs)
    times = timed({"bare": lambda: bare(x), "theirs": lambda: theirs(x), "ours": lambda: ours(x)}, rounds=41)
    return added(name, times["ours"], times["theirs"], times["bare"], budget, THEIRS)


def attach_and_detach() -> Row:
    modules = [Pass() for _ in range(1000)]

    def theirs():
        for handle in [module.register_forward_hook(post) for module in modules]:
            handle.remove()

    def ours():
        for handle in [hookline.register_forward_hook(module, post) for module in modules]:
            handle.remove()

    times = timed({"theirs": theirs, "ours": ours})
    return ratio("attach + detach of 1,000 modules", times["ours"], times["theirs"], 1.5, "PyTorch's time")


def after_detach() -> Row:
    module, never = nn.Linear(1, 1), nn.Linear(1, 1)
    cls, before = type(module), {key: id(value) for key, value in vars(module).items()}
    hookline.register_forward_hook(module, post).remove()
    same = type(module) is cls and {key: id(value) for key, value in vars(module).items()} == before
    x = torch.zeros(1, 1)
    times = timed({"never": lambda: never(x), "once": lambda: module(x)})
    row = ratio("", times["once"], times["never"], 1.0, "")
    name = f"a module after detach: same class and __dict__: {same}; time {row.ratio:.3f}"
    return Row(name, 1.0 if same else float("inf"), 1.0, row.spread, "itself unhooked")


def whole_model() -> Iterator[Row]:
    (bare, x), (theirs, _), (ours, _) = gpt2(), gpt2(), gpt2()
    for module in theirs.modules():
        module.register_forward_hook(post)
    for module in ours.modules():
        hookline.register_forward_hook(module, post)
    with torch.no_grad():
        runs = {"bare": lambda: bare(x), "theirs": lambda: theirs(x), "ours": lambda: ours(x)}
        times = timed(runs, rounds=41, seconds=0.05)
    name = f"GPT-2 shape, {len(list(ours.modules()))} modules, a no-op hook on each"
    yield ratio(name, times["ours"], times["bare"], 1.04, "unhooked (1.02 + 2 % noise)")
    yield ratio(name, times["ours"], times["theirs"], 1.0, "with PyTorch's hooks")


def compiled_model() -> Iterator[Row]:
    (bare, x), (ours, _) = transformer(), transformer()
    for module in ours.modules():
        hookline.register_forward_hook(module, post)
    with torch.no_grad():
        breaks = torch._dynamo.explain(ours)(x).graph_break_count
        torch._dynamo.reset()
        run_bare, run_ours = torch.compile(bare), torch.compile(ours)
        times = timed({"bare": lambda: run_bare(x), "ours": lambda: run_ours(x)}, rounds=41, seconds=0.05)
    name = f"compiled (inductor), {len(list(ours.modules()))} modules, a no-op hook on each"
    yield ratio(name, times["ours"], times["bare"], 1.02, "compiled unhooked")
    yield Row("graph breaks there", breaks, 0, (breaks, breaks), "")


def rows() -> Iterator[Row]:
    yield one_module("1 forward hook", 0.45, 0, 1)
    yield one_module("pre + forward hook", 0.35, 1, 1)
    yield one_module("4 forward hooks", 0.35, 0, 4)
    yield one_module("pre + forward hook with kwargs", 0.40, 1, 1, kwargs=True)
    yield attach_and_detach()
    yield after_detach()
    yield from whole_model()
    yield from compiled_model()
