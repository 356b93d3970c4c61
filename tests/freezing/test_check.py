import copy
import functools

import pytest
import torch
from torch import nn

import hookline
from hookline import FreezeError, HookTypeError, NotFrozenError
from hookline.freezing.digest import digest, digests


def faults(frozen, *args, **kwargs) -> list[str]:
    with pytest.raises(NotFrozenError) as raised:
        frozen.check(*args, **kwargs)
    first, *lines = str(raised.value).splitlines()
    assert first == "what should be frozen is not:"
    return [line.strip() for line in lines]


@pytest.fixture
def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_statistics_that_moved_are_named_with_the_amount_and_the_cause(model) -> None:
    frozen = hookline.freeze(model, "1")
    model[1].training = True  # past train()
    model(torch.full((3, 4), 2.0))
    lines = faults(frozen)
    assert lines[-1] == "1: is in training mode: its .training was set directly"
    assert "1.num_batches_tracked: differs by 1: statistics moved: the module was run in training mode" in lines


def test_a_stale_gradient_that_an_optimizer_applied_is_the_cause(model) -> None:
    """F4: also a gradient that somebody puts back."""
    frozen = hookline.freeze(model, "0")
    model[0].bias.grad = torch.ones(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    assert faults(frozen) == ["0.bias: has a gradient, which an optimizer would apply"]
    assert "0.bias: a step of the optimizer moves it, by its gradient" in faults(frozen, optimizer)
    optimizer.step()
    assert faults(frozen) == [
        "0.bias: differs by 0.5: it has a gradient (stale, or put there after freezing), which an optimizer applied",
        "0.bias: has a gradient, which an optimizer would apply",
    ]
    optimizer.zero_grad()
    assert "written in place, as by an optimizer" in faults(frozen)[0]


@pytest.mark.parametrize("write", [lambda bias: bias.data.add_(2), lambda bias: bias.detach().numpy().__iadd__(2)])
def test_a_write_past_autograd_is_the_cause(model, write) -> None:
    frozen = hookline.freeze(model, "0")
    write(model[0].bias)
    assert faults(frozen) == [
        "0.bias: differs by 2: it was written past autograd: through .data, numpy, or a fused kernel"
    ]


def test_a_flag_switched_back_is_the_cause(model) -> None:
    """F12."""
    frozen = hookline.freeze(model, "0")
    model[0].bias.requires_grad_()
    model[0](torch.randn(3, 4)).sum().backward()
    torch.optim.SGD([model[0].bias], lr=0.1).step()
    first, second = faults(frozen)
    assert first.endswith(": its requires_grad is True, so that it trained")
    assert second == "0.bias: its requires_grad was switched back to True"


def test_loaded_weights_are_the_cause(model) -> None:
    frozen = hookline.freeze(model, "0")
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].bias.add_(4)
    model.load_state_dict(other.state_dict())
    assert faults(frozen) == ["0.bias: differs by 4: weights were loaded"]
    model.load_state_dict(copy.deepcopy(other).state_dict(), assign=True)
    assert "0.bias: differs by 4: weights were loaded" in faults(frozen)


def test_a_replaced_and_a_missing_tensor_are_named(model) -> None:
    frozen = hookline.freeze(model, "0")
    model[0].weight = nn.Parameter(torch.zeros(4, 4))
    model[0].bias = None
    first, second, _ = faults(frozen)
    assert first == "0.bias: is not there any more"
    assert second.startswith("0.weight: differs by") and "another tensor was put in its place" in second


def test_a_conversion_to_another_dtype_is_the_cause(model) -> None:
    frozen = hookline.freeze(model, "0.bias")
    model.double()
    assert faults(frozen) == [
        "0.bias: is torch.float64 (4,), was torch.float32 (4,): the model was converted to another dtype"
    ]


def test_a_change_in_one_of_very_many_values_is_found() -> None:
    model = nn.Linear(300, 300)
    frozen = hookline.freeze(model, ".")
    model.weight.data[0, 1] += 1
    assert faults(frozen)[0].startswith("weight: differs, in none of 1,023 of its 90,000 values")
    model.weight.data += 3
    assert faults(frozen)[0].startswith("weight: differs by at least 3")


def test_every_trainable_parameter_must_be_in_one_group(model) -> None:
    frozen = hookline.freeze(model, "0", "1")
    lines = faults(frozen, torch.optim.SGD([model[2].weight, model[0].bias], lr=0.1))
    assert lines == ["2.bias: trains, but is in no group of the optimizer, so that no step moves it"]
    optimizer = torch.optim.SGD([{"params": [model[2].weight]}, {"params": [model[2].bias]}], lr=0.1)
    frozen.check(optimizer)
    optimizer.param_groups[1]["params"].append(model[2].weight)
    assert faults(frozen, optimizer) == ["2.weight: is in groups 0, 1 of the optimizer, and moves twice"]


class Decays(torch.optim.SGD):
    """Moves parameters without a gradient, as some optimizers of others do."""

    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                each.data.mul_(0.9)


def test_an_optimizer_that_moves_what_has_no_gradient_is_found_without_moving_anything(model) -> None:
    """F5."""
    frozen = hookline.freeze(model, "0")
    before = {name: each.clone() for name, each in model.state_dict().items()}
    lines = faults(frozen, Decays(model.parameters(), lr=0.1))
    assert lines == [f"0.{name}: a step of the optimizer moves it, by its state" for name in ("weight", "bias")]
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    frozen.check()


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(torch.optim.AdamW, lr=0.1, fused=True),
        functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
        functools.partial(torch.optim.LBFGS, lr=0.1),
    ],
)
def test_the_trial_step_leaves_optimizer_and_model_alone(model, make) -> None:
    optimizer = make(model.parameters())

    def loss():
        optimizer.zero_grad()
        value = model(torch.ones(3, 4)).sum()
        value.backward()
        return value

    optimizer.step(loss)
    frozen = hookline.freeze(model, "0", "1")
    loss()
    before, state = copy.deepcopy(model.state_dict()), str(optimizer.state_dict())
    if make.func is torch.optim.LBFGS:  # its history still points along the frozen parameters, or does not
        with pytest.raises(NotFrozenError, match="by its state"):
            frozen.check(optimizer)
    else:
        frozen.check(optimizer)
    assert str(optimizer.state_dict()) == state
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def test_what_is_no_optimizer_is_refused(model) -> None:
    frozen = hookline.freeze(model, "0")
    for method in (frozen.check, frozen.park, frozen.groups):
        with pytest.raises(HookTypeError, match=r"expected a torch.optim.Optimizer, got list"):
            method([])


def test_state_is_parked_in_bytes_and_given_back(model) -> None:
    """F5."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    groups = copy.deepcopy([[id(each) for each in group["params"]] for group in optimizer.param_groups])
    before = {id(each): state for each, state in optimizer.state.items()}
    frozen = hookline.freeze(model, "0")
    # Adam keeps two tensors like the parameter and a float32 step of each of the two parameters, of 20 elements.
    assert frozen.park(optimizer) == 20 * 4 * 2 + 2 * 4
    assert "optimizer state parked: 168 B" in str(frozen.report())
    assert model[0].weight not in optimizer.state and model[2].weight in optimizer.state
    frozen.check(optimizer)
    assert [[id(each) for each in group["params"]] for group in optimizer.param_groups] == groups
    frozen.thaw("0")
    assert {id(each): state for each, state in optimizer.state.items()} == before


def test_parked_state_comes_back_when_the_last_of_several_freezes_ends(model) -> None:
    """F11."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    first, second = hookline.freeze(model, "0"), hookline.freeze(model, "0")
    first.park(optimizer)
    first.remove()
    assert model[0].weight not in optimizer.state
    second.remove()
    assert model[0].weight in optimizer.state


def test_groups_tell_what_trains_and_never_change(model) -> None:
    optimizer = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 2.0}], lr=1)
    frozen = hookline.freeze(model, "0", "2.bias")
    first, second = frozen.groups(optimizer)
    assert (first.trainable, first.frozen, first.options["lr"]) == ((), ("0.weight", "0.bias"), 1)
    assert (second.trainable, second.frozen, second.options["lr"]) == (("2.weight",), ("2.bias",), 2.0)


def test_a_probe_finds_what_is_another_function_in_training(net, images) -> None:
    frozen = hookline.freeze(net, "stem", "layer1", dropout=True)
    assert faults(frozen, probe=images) == ["layer1: its output in training mode is not that in inference mode"]
    frozen.remove()
    frozen = hookline.freeze(net, "stem", "layer1")
    frozen.check(probe=images)
    frozen.check(probe=(images,))


def test_a_probe_finds_a_function_that_changed_without_a_tensor() -> None:
    class Scaled(nn.Module):
        scale = 1.0

        def forward(self, x):
            return x * self.scale

    model = nn.Sequential(Scaled(), nn.Linear(2, 2))
    frozen = hookline.freeze(model, "0")
    frozen.check(probe=torch.ones(1, 2))
    model[0].scale = 2.0
    frozen.check()
    assert faults(frozen, probe=torch.ones(1, 2)) == [
        "0: its output is not what it was at an earlier check on the same input"
    ]


def test_a_probe_leaves_no_trace(net, images) -> None:
    frozen = hookline.freeze(net, "stem")
    net.layer1.eval()
    before, modes, random = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()], torch.get_rng_state()
    frozen.check(probe=images)
    frozen.report(images)
    assert all(torch.equal(each, before[name]) for name, each in net.state_dict().items())
    assert [m.training for m in net.modules()] == modes and torch.equal(torch.get_rng_state(), random)
    assert all(each.grad is None for each in net.parameters())
    assert type(net) is type(net).__mro__[0] and net.layer2[0].__class__ is nn.Conv2d


def test_a_freeze_that_is_over_cannot_be_checked(model) -> None:
    with hookline.freeze(model, "0") as frozen:
        frozen.check()
    with pytest.raises(NotFrozenError, match="nothing is frozen here any more"):
        frozen.check()


def test_a_copy_of_a_frozen_model_has_the_flags_but_is_not_held(model) -> None:
    hookline.freeze(model, "0")
    other = copy.deepcopy(model).train()
    assert other[0].training and not other[0].weight.requires_grad
    assert type(other[0]) is nn.Linear


TENSORS = {
    "empty": lambda: torch.empty(0, 3),
    "scalar": lambda: torch.tensor(2.0),
    "bfloat16": lambda: torch.randn(3).bfloat16(),
    "strided": lambda: torch.randn(4, 6)[::2, 1::2],
    "conjugate": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "quantised": lambda: torch.quantize_per_tensor(torch.randn(5), 0.1, 0, torch.qint8),
    "bool": lambda: torch.tensor([True, False]),
}


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta", "ignore:.*quantized tensor")
def test_equal_tensors_have_equal_hashes_whatever_their_memory(make) -> None:
    tensor = make()
    assert digest(tensor) == digest(tensor.clone())
    if tensor.layout is torch.strided and not tensor.is_quantized:
        assert digest(tensor) == digest(tensor.clone().contiguous())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.zeros(2), torch.tensor([0.0, -0.0])),
        (torch.zeros(2), torch.zeros(2, 1)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int32)),
        (torch.eye(2).to_sparse(), (2 * torch.eye(2)).to_sparse()),
    ],
)
def test_tensors_that_differ_have_different_hashes(first, second) -> None:
    assert digest(first) != digest(second)


def test_many_hashes_are_those_of_each() -> None:
    several = [torch.randn(3_000_000 + i) for i in range(6)]
    assert digests(several) == [digest(each) for each in several]


def test_what_was_removed_cannot_be_frozen_again_by_a_schedule(net) -> None:
    frozen = hookline.freeze(net, ".")
    schedule = frozen.schedule({1: "head"})
    frozen.remove()
    with pytest.raises(FreezeError, match="this freeze was removed"):
        schedule.apply(0)


def test_a_dropout_that_was_switched_on_directly_is_found(net) -> None:
    """F3."""
    frozen = hookline.freeze(net, "layer1")
    net.layer1[2].training = True
    assert faults(frozen) == ["layer1.2: is in training mode: its .training was set directly"]


def test_a_module_that_was_replaced_is_found(net) -> None:
    frozen = hookline.freeze(net, "head")
    net.head = nn.Linear(4, 3)
    assert faults(frozen) == [
        "head.weight: its module is not in the model any more, and what took its place is not frozen"
    ]


@pytest.mark.filterwarnings("ignore")
def test_packed_weights_are_skipped_and_said() -> None:
    """F14."""
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), {nn.Linear})
    assert hookline.freeze(model, "0").report().skipped == (
        "0._packed_params: has packed weights (quantised), which have no gradient and cannot be watched",
    )


def test_the_report_goes_as_deep_as_it_is_told(net) -> None:
    rows = hookline.freeze(net, "stem").report(depth=2).rows
    assert [row.path for row in rows][:3] == ["stem.0", "stem.1", "layer1.0"] and rows[0].frozen == 112


def test_the_trial_step_runs_no_hook_of_the_optimizer_and_no_scheduler(model) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # patches optimizer.step
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    hookline.freeze(model, "0").check(optimizer)
    assert calls == []
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before"):  # it has seen no step
        scheduler.step()


def test_an_optimizer_whose_step_cannot_be_tried_is_said(model) -> None:
    class Demanding(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("needs more")

    lines = faults(hookline.freeze(model, "0"), Demanding(model.parameters(), lr=0.1))
    assert lines == ["a step of the optimizer could not be tried: ValueError: needs more"]


def test_torchscript_elsewhere_in_the_model_is_left_as_it_was() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    model = nn.Sequential(nn.Linear(4, 4), scripted, nn.Linear(4, 2))
    before = {name: each.clone() for name, each in model.state_dict().items()}
    frozen = hookline.freeze(model, "0")
    report = frozen.report(torch.randn(3, 4))
    frozen.check(probe=torch.randn(3, 4))
    assert report.prefix == ("0",) and report.earliest.path == "1.0.weight"
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def test_a_buffer_that_is_written_in_inference_mode_is_said_to_be(model) -> None:
    class Counts(nn.Module):
        def __init__(self, replaces):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.replaces = replaces

        def forward(self, x):
            if self.replaces:
                self.calls = self.calls + 1
            else:
                self.calls += 1
            return x

    model = nn.Sequential(Counts(False), Counts(True), nn.Linear(4, 2))
    frozen = hookline.freeze(model, "[01]")
    model(torch.ones(1, 4))
    assert faults(frozen) == [
        (
            "0.calls: differs by 1: "
            "statistics moved: the module writes it when it runs, or was in training mode for a while"
        ),
        "1.calls: differs by 1: another tensor was put in its place, as by a module that assigns to it when it runs",
    ]
    frozen.remove()
    frozen = hookline.freeze(model, "[01]", level="state")
    model(torch.ones(1, 4))
    frozen.check()


def test_a_model_on_the_meta_device_is_frozen() -> None:
    model = nn.Linear(3, 3, device="meta")
    frozen = hookline.freeze(model, "weight")
    frozen.check()
    model.to_empty(device="cpu")
    assert "weight: differs: another tensor was put in its place" in faults(frozen)[0]


def test_a_regex_that_matches_nothing_is_an_error(net) -> None:
    """F8."""
    import re

    with pytest.raises(hookline.NoMatchError, match="regex"):
        hookline.freeze(net, re.compile("steam"))
    assert repr(hookline.freeze(net, "head")) == "<Frozen of 2 parameters in Net: head.weight, head.bias>"
