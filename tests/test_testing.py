import pytest
import torch
from torch import nn

import hookline
from hookline.testing import assert_frozen


@pytest.fixture
def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def step(model: nn.Module) -> None:
    model(torch.randn(3, 4)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def test_what_stays_as_it_is_passes_by_whatever_means(model) -> None:
    model[0].requires_grad_(False)
    with assert_frozen(model, "0"):
        step(model)
    with hookline.freeze(model, "1"), assert_frozen(model, "[01]"):
        step(model)


def test_what_changes_fails_with_its_name_and_the_cause(model) -> None:
    with pytest.raises(AssertionError, match=r"(?s)2.bias: differs by 0.\d+: its requires_grad is True"):
        with assert_frozen(model, "2"):
            step(model)
    with pytest.raises(AssertionError, match=r"1.running_mean: differs .* run in training mode"):
        with assert_frozen(model):
            model(torch.randn(3, 4))
    with pytest.raises(AssertionError, match=r"0.bias: differs by .*: weights were loaded"):
        with assert_frozen(model):
            model.load_state_dict({name: each + 1 for name, each in model.state_dict().items()})


def test_an_error_in_the_block_is_passed_on_and_nothing_is_left_behind(model) -> None:
    with pytest.raises(KeyError), assert_frozen(model):
        step(model)
        raise KeyError
    assert type(model[0]) is nn.Linear
