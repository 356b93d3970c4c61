import copy
import json
import sys
import types

import pytest
import torch
from torch import nn

import hookline
from hookline import FreezeError, HookTypeError, MissingExtraError, NoMatchError, NotFrozenError


def trains(model) -> set[str]:
    return {name for name, each in model.named_parameters() if each.requires_grad}


def test_a_plan_freezes_a_new_model_as_the_old_one_was(net, tmp_path) -> None:
    """F18."""
    frozen = hookline.freeze(net, "stem", "layer1", dropout=True)
    frozen.thaw("layer1.0")
    (tmp_path / "plan.json").write_text(json.dumps(frozen.plan()))
    torch.save(net.state_dict(), tmp_path / "model.pt")
    other = type(net)()
    other.load_state_dict(torch.load(tmp_path / "model.pt"))
    again = hookline.Frozen.apply_plan(other, tmp_path / "plan.json")
    assert trains(other) == trains(net) and again.paths == frozen.paths and again.plan() == frozen.plan()
    other.train()
    assert [m.training for m in other.layer1] == [m.training for m in net.train().layer1] == [True, False, True, False]
    again.check()
    again.schedule({0: "layer1"}).apply(0)
    assert "layer1.1.weight" in trains(other)


def test_a_plan_is_refused_for_other_weights_and_another_structure(net) -> None:
    """F18."""
    plan = hookline.freeze(net, "stem").plan()
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.stem[1].running_mean.add_(1)
    other.requires_grad_()
    with pytest.raises(NotFrozenError, match=r"1 tensors are not what they were .* stem.1.running_mean. Load the"):
        hookline.Frozen.apply_plan(other, plan)
    assert len(trains(other)) == len(list(other.parameters()))
    hookline.Frozen.apply_plan(other, plan, strict=False).check()
    with pytest.raises(FreezeError, match="another structure"):
        hookline.Frozen.apply_plan(nn.Linear(2, 2), plan)
    with pytest.raises(FreezeError, match=r"what the model does not have: 'layer9'"):
        hookline.Frozen.apply_plan(net, {**plan, "frozen": {"modules": ["layer9"], "parameters": []}})
    with pytest.raises(FreezeError, match="no plan that"):
        hookline.Frozen.apply_plan(net, {"level": "function"})
    with pytest.raises(FreezeError, match="has format 99; this version of hookline reads 1"):
        hookline.Frozen.apply_plan(net, {**plan, "hookline freeze": 99})


def test_a_schedule_is_a_function_of_the_epoch_in_whatever_order_it_is_asked(net) -> None:
    frozen = hookline.freeze(net, ".")
    schedule = frozen.schedule({3: "layer2", 0: "head", 5: ["layer1", "stem"]})
    assert schedule.epochs == (0, 3, 5)
    everything = set(dict(net.named_parameters()))
    for epoch in (4, 0, 7, 2, 5, 3):
        schedule.apply(epoch)
        expected = {"head"} | ({"layer2"} if epoch >= 3 else set()) | ({"layer1", "stem"} if epoch >= 5 else set())
        assert trains(net) == {name for name in everything if name.split(".")[0] in expected}
        assert set(schedule.trainable(epoch)) == trains(net)
        net.train()
        assert net.stem[1].training is (epoch >= 5)
        frozen.check()


def test_under_a_schedule_an_optimizer_keeps_its_groups_and_trains_what_is_thawed(net, images) -> None:
    frozen = hookline.freeze(net, ".")
    schedule = frozen.schedule({0: "head", 2: "layer2"})
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    frozen.park(optimizer)
    ids = [[id(each) for each in group["params"]] for group in optimizer.param_groups]
    for epoch in range(4):
        schedule.apply(epoch)
        before = copy.deepcopy(net.state_dict())
        net.train()
        optimizer.zero_grad()
        net(images).square().mean().backward()
        optimizer.step()
        frozen.check(optimizer)
        assert torch.equal(net.layer2[0].weight, before["layer2.0.weight"]) is (epoch < 2)
        assert not torch.equal(net.head.weight, before["head.weight"])
    assert [[id(each) for each in group["params"]] for group in optimizer.param_groups] == ids
    held = optimizer.state[net.layer2[0].weight]
    schedule.apply(0)
    assert net.layer2[0].weight not in optimizer.state
    schedule.apply(2)
    assert optimizer.state[net.layer2[0].weight] is held


@pytest.mark.parametrize(
    ("plan", "error", "message"),
    [
        ({0: "heed"}, NoMatchError, "nearest: 'head'"),
        ({0: "head", 1: "layer2"}, NoMatchError, "at 1, nothing that 'layer2' names is in what was to be frozen"),
        ({-1: "head"}, HookTypeError, "whole numbers from 0 on, got -1"),
        ({"0": "head"}, HookTypeError, "whole numbers from 0 on, got '0'"),
        ({}, HookTypeError, "a schedule is a dict"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_when_it_is_made(net, plan, error, message) -> None:
    frozen = hookline.freeze(net, "stem", "head")
    with pytest.raises(error, match=message):
        frozen.schedule(plan)


@pytest.mark.parametrize("name", ["lightning", "pytorch_lightning"])
def test_the_lightning_callback_applies_the_schedule(net, monkeypatch, name) -> None:
    class Callback:
        pass

    home = types.ModuleType("lightning.pytorch" if name == "lightning" else name)
    home.Callback = Callback
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning") if name == "lightning" else None)
    monkeypatch.setitem(sys.modules, home.__name__, home)
    schedule = hookline.freeze(net, ".").schedule({0: "head", 2: "layer2"})
    by_epoch, by_step = schedule.lightning_callback(), schedule.lightning_callback(unit="step")
    assert isinstance(by_epoch, Callback)
    trainer = types.SimpleNamespace(current_epoch=0, global_step=2)
    by_step.on_train_epoch_start(trainer, net)
    assert trains(net) == set()
    by_epoch.on_train_epoch_start(trainer, net)
    by_epoch.on_train_batch_start(trainer, net, None, 0)
    assert {each.split(".")[0] for each in trains(net)} == {"head"}
    by_step.on_train_batch_start(trainer, net, None, 0)
    assert {each.split(".")[0] for each in trains(net)} == {"head", "layer2"}
    with pytest.raises(HookTypeError, match="unit is 'epoch' or 'step'"):
        schedule.lightning_callback(unit="batch")


def test_without_lightning_the_error_says_what_to_install(net, monkeypatch) -> None:
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match="pip install lightning"):
        hookline.freeze(net, ".").schedule({0: "head"}).lightning_callback()
