"""What hooks on the functions that a module calls cost, and whom."""

from __future__ import annotations

from collections.abc import Iterator

import torch

import hookline
from benchmarks.measure import Row, ratio, timed
from benchmarks.models import transformer

FUNCTION = "scaled_dot_product_attention"


def rows() -> Iterator[Row]:
    bare, x = transformer(width=96)
    one, _ = transformer(width=96)
    every, _ = transformer(width=96)
    hookline.Hooks(one).after(f"0/{FUNCTION}", lambda call: None)
    hookline.Hooks(every).after(f"?/{FUNCTION}", lambda call: None)
    hookline.Hooks(every).after(f"??/{FUNCTION}", lambda call: None)
    with torch.no_grad():
        blocks = {
            "bare": lambda: bare[1](x),
            "beside": lambda: one[1](x),  # not named
            "named": lambda: one[0](x),
        }
        times = timed(blocks)
        yield ratio("a block that is not named, beside one that is", times["beside"], times["bare"], 1.0, "unhooked")
        yield ratio("the block that is named", times["named"], times["bare"], 1.5, "unhooked")
        models = {"bare": lambda: bare(x), "one": lambda: one(x), "every": lambda: every(x)}
        times = timed(models)
        yield ratio("a model of 12 blocks with one of them named", times["one"], times["bare"], 1.05, "unhooked")
        yield ratio("the same with all of them named", times["every"], times["bare"], 1.5, "unhooked")
