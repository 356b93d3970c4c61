"""Edits on models: where they apply, in which order, and what is said when they do not."""

import threading
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import GPT2Config, GPT2LMHeadModel

import hookline
from hookline import add, noise, patch, project_out, replace, scale, swap, zero
from hookline.errors import AddressError, EditError, NeverFiredError, NeverFiredWarning, NoMatchError

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclass
class Out:
    hidden: torch.Tensor
    extra: dict


class Giving(nn.Module):
    def __init__(self, build) -> None:
        super().__init__()
        self.build = build

    def forward(self, x, *, mask=None):
        return self.build(x if mask is None else x * mask)


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))


STRUCTURES = {
    "tuple": (lambda x: (x, x + 1), ".:output.1", lambda o: (o[0], o[1])),
    "named tuple": (lambda x: Pair(x, x + 1), ".:output.second", lambda o: (o.first, o.second)),
    "dict": (lambda x: {"a": x, "b": x + 1}, ".:output.b", lambda o: (o["a"], o["b"])),
    "dataclass": (
        lambda x: Out(x, {"deep": [x + 1]}),
        ".:output.extra.deep.0",
        lambda o: (o.hidden, o.extra["deep"][0]),
    ),
}


@pytest.mark.parametrize(("build", "where", "parts"), STRUCTURES.values(), ids=STRUCTURES.keys())
def test_a_part_of_a_structure_is_changed_and_the_rest_kept(build, where, parts) -> None:
    model = Giving(build)
    with hookline.edit(model, where, scale(10)[:, 0]):
        result = model(X)
    kept, changed = parts(result)
    expected = X + 1
    expected[:, 0] *= 10
    assert type(result) is type(build(X))
    assert torch.equal(kept, X)
    assert torch.equal(changed, expected)


def test_of_a_structure_with_several_tensors_one_has_to_be_named() -> None:
    model = Giving(lambda x: (x, {"b": x}))
    with pytest.raises(
        EditError, match=r"expected one tensor, got a tuple with 2; name one of them: '\.:output\.0', '"
    ):
        with hookline.edit(model, ".", zero):
            model(X)
    with hookline.edit(model, ".", lambda value: (value[0] * 0, value[1])):  # a function has the whole
        assert not model(X)[0].any()
    single = Giving(lambda x: (x, None))
    with hookline.edit(single, ".", zero):
        assert not single(X)[0].any()


def test_inputs_are_edited_by_position_and_by_name() -> None:
    model = Giving(lambda x: x)
    with hookline.edit(model, {".:input.x": add(1), ".:input.mask": zero[0]}):
        result = model(X, mask=torch.ones(3, 4))
    expected = X + 1
    expected[0] = 0
    assert torch.equal(result, expected)
    with hookline.edit(nn.Sequential(model), "0:input", [scale(3), lambda value: value + 1]) as edits:
        assert torch.equal(model(X), X * 3 + 1)
        assert edits.describe().startswith("0:input: scale(k=3)\n0:input: '")


def test_edits_of_one_place_apply_in_the_order_given() -> None:
    model = mlp()
    with hookline.edit(model, {"0": [add(1), scale(2)], "2": scale(0)}) as edits:
        model[0](X)
        hidden = model[0](X)
        model(X)
    assert torch.allclose(hidden, (mlp()[0](X) + 1) * 2)
    assert edits.plan.describe() == "1. 0: add(vector=1)\n2. 0: scale(k=2)\n3. 2: scale(k=0)"
    with hookline.edit(model, "0", scale(2)), hookline.edit(model, "0", add(1)):
        assert torch.allclose(model[0](X), mlp()[0](X) * 2 + 1)


def test_a_module_a_class_and_a_list_say_where_too() -> None:
    model = mlp()
    for where in (model[1], nn.ReLU, ["1"], lambda path, module: path == "1"):
        with hookline.edit(model, where, zero):
            assert torch.equal(model(X), model[2].bias.expand(3, 2))


def test_only_the_rows_that_are_meant_change() -> None:
    model = nn.Identity()
    for rows in (slice(1, None), [1, 2], torch.tensor([False, True, True]), range(1, 3), torch.tensor([1, -1])):
        with hookline.edit(model, ".", zero[0], rows=rows) as edits:
            result = model(X)
        expected = X.clone()
        expected[1] = 0  # of the rows, the first: an index counts within them
        assert torch.equal(result, expected), edits
    with hookline.edit(model, ".", scale(2), rows=1):
        assert torch.equal(model(X), torch.cat([X[:1], X[1:2] * 2, X[2:]]))
    with pytest.raises(EditError, match="rows= does not fit a batch of 3"), hookline.edit(model, ".", zero, rows=[5]):
        model(X)
    with pytest.raises(EditError, match="a batch on axis 0"), hookline.edit(model, ".", zero, rows=0):
        model(torch.tensor(1.0))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Identity()

    def forward(self, x):
        return torch.stack([self.cell(x) for _ in range(4)])


@pytest.mark.parametrize("calls", [[1, 3], range(1, 4, 2), {1, 3}])
def test_only_the_calls_that_are_meant_change(calls) -> None:
    with hookline.edit(Recurrent(), "cell", zero, calls=calls) as edits:
        steps = edits.model(X)
    assert [bool(step.any()) for step in steps] == [True, False, True, False]


def test_a_predicate_on_the_call_decides() -> None:
    with hookline.edit(Recurrent(), "cell", zero, when=lambda call: call.number >= 2) as edits:
        steps = edits.model(X)
    assert [bool(step.any()) for step in steps] == [True, True, False, False]


def test_one_step_of_a_generation_is_edited() -> None:
    config = GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20, n_positions=16, bos_token_id=0, eos_token_id=0)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).eval()
    ids = torch.tensor([[1, 2, 3]])

    def generated(**options):
        return model.generate(ids, max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0)[0].tolist()

    bare = generated()
    bias = torch.zeros(20)
    bias[17] = 1e4
    with hookline.edit(model, "lm_head", add(bias), calls=1):
        steered = generated()
    assert steered[3] == bare[3]
    assert steered[4] == 17


def test_an_edit_of_a_place_that_never_ran_is_an_error() -> None:
    model = nn.ModuleDict({"used": nn.Identity(), "unused": nn.Identity()})
    model.forward = lambda x: model["used"](x)
    with (
        pytest.raises(NeverFiredError, match="the edit of 'unused' was never applied"),
        hookline.edit(model, "unused", zero),
    ):
        model["used"](X)
    with pytest.warns(NeverFiredWarning, match="the edit of 'unused' was never applied"):
        with hookline.edit(model, "unused", zero, strict=False):
            pass


def test_an_edit_whose_calls_never_came_is_an_error_too() -> None:
    model = mlp()
    with pytest.raises(NeverFiredError, match=r"calls=\[5\] left out each of its calls"):
        with hookline.edit(model, "0", zero, calls=5):
            model(X)
    with pytest.warns(NeverFiredWarning, match="when= left out"):
        with hookline.edit(model, "0", zero, when=lambda call: False, strict=False):
            model(X)


OVERLAPPING = {
    "the whole": ({"0": [zero, replace(1)]}, {}),
    "index in the whole": ({"0": [zero[:, 1], replace(1)]}, {}),
    "indices": ({"0": [zero[:, 1:3], replace(1.0)[:, 2]]}, {}),
    "negative": ({"0": [zero[:, 1], replace(1.0)[:, -1]]}, {}),
    "by two patterns": ({"0": zero, "[01]": replace(1)}, {}),
}
APART = {
    "indices": {"0": [zero[:, 1], replace(1.0)[:, 2]]},
    "slices": {"0": [zero[:, :2], replace(1.0)[:, 2:]]},
    "last axis": {"0": [zero[..., 1], replace(1.0)[..., 2]]},
    "not overwriting": {"0": [zero, add(1)]},
    "places": {"0": zero, "1": replace(1)},
    "sides": {"1:input": zero, "1": replace(1)},
}


@pytest.mark.parametrize(("edits", "options"), OVERLAPPING.values(), ids=OVERLAPPING.keys())
def test_edits_that_overwrite_each_other_are_refused(edits, options) -> None:
    model = mlp()
    with pytest.raises(EditError, match="overwrite the same elements"):
        hookline.edit(model, edits, **options)
    assert type(model[0]) is nn.Linear
    with hookline.edit(model, edits, allow_overlap=True):
        model(X)


@pytest.mark.parametrize("edits", APART.values(), ids=APART.keys())
def test_edits_of_different_elements_are_none(edits) -> None:
    model = mlp()
    with hookline.edit(model, edits):
        model(X)


def test_rows_and_calls_apart_do_not_overlap() -> None:
    model = mlp()
    for one, other in (
        ({"rows": [0]}, {"rows": [1, 2]}),
        ({"rows": slice(0, 1)}, {"rows": slice(1, 3)}),
        ({"rows": slice(0, 1)}, {"rows": [1]}),
    ):
        plan = hookline.EditPlan({"0": zero}, **one) + hookline.EditPlan({"0": replace(1)}, **other)
        with hookline.edit(model, plan):
            model(X)
        with pytest.raises(EditError):
            hookline.edit(model, hookline.EditPlan({"0": zero}, **one) + hookline.EditPlan({"0": replace(1)}, **one))
    plan = hookline.EditPlan({"0": zero}, calls=0) + hookline.EditPlan({"0": replace(1)}, calls=[1])
    with hookline.edit(model, plan):
        model(X), model(X)


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [("9", NoMatchError, "nearest"), ("0:output.grad", AddressError, "names a gradient")],
)
def test_a_place_that_cannot_be_edited_is_refused_before_anything_is_hooked(where, error, message: str) -> None:
    model = mlp()
    with pytest.raises(error, match=message):
        hookline.edit(model, {"0": zero, where: zero})
    assert type(model[0]) is nn.Linear


def test_limits_of_a_plan_belong_to_the_plan() -> None:
    with pytest.raises(EditError, match="belong to the plan"):
        hookline.edit(mlp(), hookline.EditPlan({"0": zero}), rows=0)


def test_without_a_block_edits_stay_until_they_are_removed() -> None:
    model = mlp()
    edits = hookline.edit(model, "0", zero)
    assert torch.equal(model(X), model[2].bias.expand(3, 2))
    assert "0: zero" in repr(edits)
    edits.remove()
    edits.remove()
    assert type(model[0]) is nn.Linear


def test_threads_have_edits_of_their_own() -> None:  # E12
    model, results = nn.Identity(), {}
    barrier = threading.Barrier(4)

    def run(k):
        with hookline.edit(model, ".", add(k), scope="context"):
            barrier.wait()
            results[k] = [model(torch.zeros(1)).item() for _ in range(50)]
            barrier.wait()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: [float(k)] * 50 for k in range(4)}
    assert type(model) is nn.Identity


with hookline.capture(mlp(), "1") as CLEAN:
    CLEAN._session._model(X + 1)

COMPILED = {
    "zero": zero[:, 1],
    "scale": scale(2.0)[..., 1:3],
    "add": add(torch.arange(5.0)),
    "replace": replace(3),
    "clamp": hookline.clamp(0.1, 0.2),
    "noise": noise(0.5, seed=3),
    "project_out": project_out(torch.arange(5.0)),
    "swap": swap(0, 4),
    "patch": patch(CLEAN),
    "mean": hookline.mean(over=CLEAN),
    "function": lambda value: value.sin(),
}


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", COMPILED.values(), ids=COMPILED.keys())
def test_edits_work_in_one_compiled_graph(operation, late: bool) -> None:  # X2
    torch._dynamo.reset()
    model = mlp()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    if late:
        compiled(X)
    bare = model(X)
    with hookline.edit(model, {"1": operation, "2:input": scale(2.0)}):
        got = compiled(X)
        expected = model(X)
    if late:
        assert torch.allclose(compiled(X), bare)
    assert torch.allclose(got, expected, atol=1e-6)
    assert not torch.allclose(got, bare)


def test_rows_work_in_compiled_code() -> None:
    torch._dynamo.reset()
    model = mlp()
    with hookline.edit(model, "1", zero, rows=[0, 2]):
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        assert torch.allclose(compiled(X), model(X))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("options", [{"calls": [1]}, {"calls": [0, 3]}, {}], ids=str)
def test_under_checkpointing_the_same_calls_are_edited_again(reentrant, options) -> None:  # G8
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc = nn.Linear(4, 4)

        def region(self, x):
            return self.fc(self.fc(x).tanh()).tanh()

        def forward(self, x, *, saving):
            for _ in range(2):
                x = checkpoint(self.region, x, use_reentrant=reentrant) if saving else self.region(x)
            return x.sum()

    gradients = []
    for saving in (True, False):
        model, x = Twice(), X.clone().requires_grad_()
        with hookline.edit(model, "fc", [scale(2.0), noise(0.3, seed=1)], **options):
            model(x, saving=saving).backward()
        gradients.append([x.grad, *(p.grad for p in model.parameters())])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
