"""Plans as files."""

import json

import pytest
import torch
from torch import nn

import hookline
from hookline import EditPlan, add, clamp, mean, noise, patch, project_out, replace, scale, swap, zero
from hookline.errors import PlanError

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def double(value):
    """Be a function that can be imported."""
    return value * 2


def mlp(width: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))


def clean(model):
    with hookline.capture(model, "1") as features:
        model(X + 1)
    return features


OPERATIONS = {
    "zero": lambda _: zero,
    "int": lambda _: zero[0],
    "slices": lambda _: scale(2.5)[:, 1:5:2],
    "ellipsis and new axis": lambda _: add(1)[..., None, 2],
    "list": lambda _: zero[:, [0, 3]],
    "mask": lambda _: zero[torch.tensor([True, False, True])],
    "complex": lambda _: replace(3),
    "tensor": lambda _: add(torch.arange(5.0)),
    "clamp": lambda _: clamp(hi=0.5),
    "noise": lambda _: noise(0.5, seed=7),
    "project_out": lambda _: project_out(torch.arange(5.0)),
    "swap": lambda _: swap(0, 2, axis=1),
    "patch": lambda model: patch(clean(model)),
    "mean": lambda model: mean(over=clean(model)),
}


@pytest.mark.parametrize("make", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_a_plan_that_was_saved_does_the_same(make, tmp_path) -> None:
    model = mlp()
    plan = EditPlan({"1": make(model)}, rows=slice(None))
    plan.save(tmp_path / "plan.json", model=model)
    loaded = EditPlan.load(tmp_path / "plan.json")
    with hookline.edit(model, plan):
        expected = model(X)
    with hookline.edit(model, loaded):
        assert torch.equal(model(X), expected)
    assert len(loaded) == 1
    loaded.save(tmp_path / "again.json")
    again = json.loads((tmp_path / "again.json").read_text())
    first = json.loads((tmp_path / "plan.json").read_text())
    assert {**again, "tensors": None} == {**first, "tensors": None}


def test_limits_and_order_are_saved(tmp_path) -> None:
    plan = EditPlan({"0": [add(1), scale(2)]}, rows=[0, 2], calls=range(2)) + EditPlan({"2:input": zero[:, 1]})
    plan.save(tmp_path / "plan.json")
    loaded = EditPlan.load(tmp_path / "plan.json")
    assert loaded.describe() == plan.describe()
    assert "rows [0, 2], calls [0, 1]" in plan.describe()
    assert repr(loaded[:1]).startswith("<EditPlan of 1>")


def test_a_plan_without_tensors_is_one_file_and_names_no_other(tmp_path) -> None:
    EditPlan({"0": zero}).save(tmp_path / "plan.json")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_model_of_another_structure_is_refused_with_what_differs(tmp_path) -> None:
    plan = EditPlan({"1": zero[:, 2]})
    plan.save(tmp_path / "plan.json", model=mlp())
    loaded = EditPlan.load(tmp_path / "plan.json")
    wider = mlp(7)
    with pytest.raises(PlanError, match=r"force=True") as caught:
        hookline.edit(wider, loaded)
    assert "0: torch.nn.modules.linear.Linear(weight (5, 4)" in str(caught.value)
    assert "weight (7, 4)" in str(caught.value)
    assert "  1:" not in str(caught.value)
    with hookline.edit(wider, loaded, force=True):
        wider(X)
    same = mlp()
    with hookline.edit(same, loaded):
        same(X)


def test_functions_that_can_be_imported_are_saved_by_name(tmp_path, monkeypatch) -> None:
    import sys
    import types

    module = types.ModuleType("a_module_of_the_user")
    module.double = double
    monkeypatch.setitem(sys.modules, "a_module_of_the_user", module)
    monkeypatch.setattr(double, "__module__", "a_module_of_the_user")
    EditPlan({"1": double}).save(tmp_path / "plan.json")
    loaded = EditPlan.load(tmp_path / "plan.json")
    assert loaded[0].operation.function is double
    monkeypatch.delattr(module, "double")
    with pytest.raises(PlanError, match="'a_module_of_the_user:double', which cannot be imported"):
        EditPlan.load(tmp_path / "plan.json")


UNSAVEABLE = {
    "a lambda": (lambda: EditPlan({"0": lambda value: value}), "only a function that can be imported"),
    "a class for where": (lambda: EditPlan({nn.ReLU: zero}), "only an address can be saved"),
    "a predicate": (lambda: EditPlan({"0": zero}, when=lambda call: True), "when= is a function"),
}


@pytest.mark.parametrize(("make", "message"), UNSAVEABLE.values(), ids=UNSAVEABLE.keys())
def test_what_cannot_be_saved_is_said_and_nothing_is_written(make, message, tmp_path) -> None:
    with pytest.raises(PlanError, match=message):
        make().save(tmp_path / "plan.json")
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_names_nothing_in_its_model_is_refused(tmp_path) -> None:
    with pytest.raises(hookline.NoMatchError):
        EditPlan({"7": zero}).save(tmp_path / "plan.json", model=mlp())
    assert list(tmp_path.iterdir()) == []


BROKEN = {
    "no JSON": ("{", "is no plan of edits"),
    "another JSON": ('{"a": 1}', "is no plan of edits"),
    "a list": ("[]", "is no plan of edits"),
    "a version": ('{"hookline_plan": 99, "edits": []}', "another version"),
    "an unknown operation": (
        '{"hookline_plan": 1, "edits": [{"where": "0", "operation": "explode"}]}',
        "there is no operation 'explode'",
    ),
    "an unknown kind": (
        '{"hookline_plan": 1, "edits": [{"where": "0", "operation": "zero", "index": [{"x": 1}]}]}',
        "'x' is nothing that a plan can have",
    ),
    "no tensors": ('{"hookline_plan": 1, "edits": [], "tensors": "gone.safetensors"}', "there is no file .*gone"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_is_no_plan_is_refused_in_words(text, message, tmp_path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(PlanError, match=message):
        EditPlan.load(tmp_path / "plan.json")


def test_a_missing_file_and_a_missing_folder_are_said(tmp_path) -> None:
    with pytest.raises(PlanError, match="there is no file"):
        EditPlan.load(tmp_path / "plan.json")
    with pytest.raises(PlanError, match="could not write"):
        EditPlan({"0": add(torch.ones(5))}).save(tmp_path / "no folder" / "plan.json")
