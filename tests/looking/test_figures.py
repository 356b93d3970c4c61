"""Pictures of features: what PICTURES.md asks of them, read off the pixels and texts of the figures."""

import io

import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody writes it

import hookline
from hookline.errors import CallsError, HookTypeError, MissingExtraError
from hookline.looking.report.colours import NOT_FINITE, coloured


class Give(nn.Module):
    def __init__(self, value) -> None:
        super().__init__()
        self.value = value

    def forward(self):
        return self.value * 1


def features_of(value, address="."):
    model = nn.ModuleDict({"layer": Give(value)})["layer"] if address == "." else Give(value)
    with hookline.capture(model, address) as features:
        model()
    return features


def pixels(figure):
    file = io.BytesIO()
    figure.savefig(file, dpi=figure.dpi)
    image = Image.open(file).convert("RGB")
    return torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).reshape(image.height, image.width, 3)


def lines(figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def texts(figure) -> str:
    return " ".join(lines(figure))


def cell(figure, number: int = 0):
    """Return the pixels of one of the axes."""
    box = figure.axes[number].get_position()
    shot = pixels(figure)
    height, width = shot.shape[:2]
    top, bottom = round((1 - box.y1) * height), round((1 - box.y0) * height)
    left, right = round(box.x0 * width), round(box.x1 * width)
    return shot[top:bottom, left:right]


def near(colour, other) -> bool:
    return (torch.as_tensor(colour).int() - torch.as_tensor(other).int()).abs().max().item() <= 1


def test_the_colour_of_a_cell_is_the_colour_of_its_value_in_whole_pixels() -> None:
    value = torch.rand(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    figure = features_of(value).plot(".", "maps", limits=(0.0, 1.0))
    for channel in range(2):
        shown = cell(figure, channel)
        factor = shown.shape[0] // 4
        assert shown.shape == (4 * factor, 4 * factor, 3)
        expected = coloured(value[0, channel], 0.0, 1.0, signed=False)
        for row in range(4):
            for column in range(4):
                block = shown[row * factor : (row + 1) * factor, column * factor : (column + 1) * factor]
                assert (block == block[0, 0]).all()  # nearest, and the same factor everywhere
                assert near(block[0, 0], expected[row, column])


def test_noise_beside_a_real_channel_looks_flat_and_has_a_range_of_its_own_on_demand() -> None:
    value = torch.stack([torch.rand(8, 8), 0.5 + 1e-6 * torch.rand(8, 8)])[None]
    figure = features_of(value).plot(".", "maps")
    flat = cell(figure, 1).reshape(-1, 3).int()
    assert (flat.max(0).values - flat.min(0).values).max() <= 1
    own = features_of(value).plot(".", "maps", per_cell=True)
    assert cell(own, 1).reshape(-1, 3).float().std(0).max() > 20
    assert "of each cell alone" in texts(own)
    assert "0.5..0.5" in texts(own)  # printed on the cell


def test_signed_values_are_symmetric_about_0_and_others_are_not() -> None:
    signed = torch.linspace(-1, 3, 32).reshape(1, 1, 4, 8)
    said = texts(features_of(signed).plot(".", "maps"))
    assert "diverging, 0 in the middle" in said
    assert "symmetric about 0" in said
    assert "sequential" in texts(features_of(signed + 1).plot(".", "maps"))
    light = cell(features_of(torch.tensor([[[[0.0, -1.0], [1.0, 0.0]]]])).plot(".", "maps", limits=(-1, 1)))
    assert near(light[1, 1], coloured(torch.zeros(1), -1, 1, signed=True)[0])
    dark = features_of(signed).plot(".", "maps", theme="dark")
    assert near(pixels(dark)[0, 0], (0x14, 0x17, 0x1C))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_never_looks_like_a_number(bad: float) -> None:
    value = torch.rand(1, 1, 4, 4)
    value[0, 0, 1, 2] = bad
    figure = features_of(value).plot(".", "maps")
    shown = cell(figure)
    factor = shown.shape[0] // 4
    assert near(shown[factor + 1, 2 * factor + 1], NOT_FINITE)
    assert "not finite: 1" in texts(figure)
    assert [text.get_text() for text in figure.axes[0].texts] == ["x"]


def test_channels_that_are_dead_constant_not_finite_or_equal_are_flagged_and_no_others() -> None:
    value = torch.rand(1, 9, 5, 5, generator=torch.Generator().manual_seed(0))
    value[:, 3], value[:, 5], value[0, 7, 0, 0], value[:, 2] = 0, 0.25, torch.nan, value[:, 1]
    said = lines(features_of(value).plot(".", "maps"))
    captions = [line for line in said if line[:1].isdigit() and line[1:2] == " " and "channels" not in line]
    assert captions == ["2 = 1", "3 dead", "5 constant", "7 x1"]


def test_what_is_left_out_and_in_which_order_is_said() -> None:
    value = torch.arange(1.0, 7.0)[None, :, None, None] * torch.rand(1, 6, 4, 4)
    figure = features_of(value).plot(".", "maps", order="energy", cells=2)
    assert "2 of 6 channels, by energy" in texts(figure)
    assert len(figure.axes) == 2 + 1  # two cells, the colour bar
    energy = value[0].square().sum((1, 2)).argsort(descending=True).tolist()[:2]
    assert [line for line in lines(figure) if line.isdigit()][:2] == [str(channel) for channel in energy]


def test_an_overlay_leaves_the_photo_as_it_is_where_the_map_is_0() -> None:
    heat = torch.zeros(1, 1, 2, 2)
    heat[0, 0, 0, 0] = 3.0
    photo = torch.randint(0, 256, (8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    figure = features_of(heat).plot(".", photo=photo)
    shown = cell(figure)
    factor = shown.shape[0] // 8
    small = shown[factor // 2 :: factor, factor // 2 :: factor]
    assert (small[4:].int() - photo[4:].int()).abs().max() <= 1
    assert (small[:4, 4:].int() - photo[:4, 4:].int()).abs().max() <= 1
    assert (small[:4, :4].int() - photo[:4, :4].int()).abs().max() > 30
    assert "kind: overlay, since a photo was given" in texts(figure)
    empty = features_of(heat * 0).plot(".", "overlay", photo=photo)
    assert "the map is 0 everywhere" in texts(empty)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.conv(x).relu().mean((2, 3)))


def test_grad_cam_and_gradient_x_activation_are_their_formulas() -> None:
    model, x = Net(), torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with hookline.capture(model, "conv", "conv:output.grad") as features:
        model(x)[1, 2].backward()
    activation = model.conv(x).detach().requires_grad_()
    score = model.head(activation.relu().mean((2, 3)))[1, 2]
    (gradient,) = torch.autograd.grad(score, activation)
    activation = activation.detach()
    cam = (gradient[1].mean((1, 2), keepdim=True) * activation[1]).sum(0).relu()
    white = torch.full((6, 6, 3), 255, dtype=torch.uint8)
    high = cam.max().item()
    figure = features.plot("conv", "cam", item=1, photo=white, limits=(0, high), label="class 2")
    shown = cell(figure)
    factor = shown.shape[0] // 6
    small = shown[factor // 2 :: factor, factor // 2 :: factor].float()
    strength = (cam / high)[..., None] * 0.65
    expected = 255 * (1 - strength) + coloured(cam, 0, high, signed=False).float() * strength
    assert (small - expected).abs().max() < 2
    assert "class 2" in texts(figure)
    product = (gradient[1] * activation[1]).sum(0)
    figure = features.plot("conv", "gradient", item=1, photo=white)
    assert "gradient x activation, summed over channels" in texts(figure)
    shown = cell(figure)
    factor = shown.shape[0] // 6
    place = divmod(int(product.abs().argmax()), 6)
    assert not near(shown[place[0] * factor + 1, place[1] * factor + 1], (255, 255, 255))
    with hookline.capture(model, "conv") as without:
        model(x)
    with pytest.raises(CallsError, match=r"'conv:output.grad' was not captured"):
        without.plot("conv", "cam", photo=white)


def test_tokens_of_a_vision_transformer_are_folded_back_to_the_image() -> None:
    tokens = torch.arange(10.0).reshape(1, 10, 1).repeat(1, 1, 3)
    figure = features_of(tokens).plot(".", "maps", limits=(0, 9))
    assert "tokens folded to 3 x 3, without the first 1 (class and register tokens)" in texts(figure)
    shown = cell(figure)
    factor = shown.shape[0] // 3
    expected = coloured(torch.arange(1.0, 10.0).reshape(3, 3), 0, 9, signed=False)
    assert near(shown[1, 1], expected[0, 0])
    assert near(shown[2 * factor + 1, factor + 1], expected[2, 1])
    with pytest.raises(HookTypeError, match="no square image: give prefix="):
        features_of(tokens).plot(".", "maps", prefix=2)


def test_attention_is_known_by_its_rows_and_masked_cells_are_grey() -> None:
    scores = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    weights = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf).softmax(-1)
    features = features_of(weights)
    figure = features.plot(".")
    assert "kind: attention" in texts(figure)
    shown = cell(figure)
    factor = shown.shape[0] // 4
    assert near(shown[1, 3 * factor + 1], (128, 128, 128))
    entropy = torch.special.entr(weights[0, 1]).sum(-1).mean()
    assert f"1: {entropy:.2f}, {weights[0, 1, :, 0].mean():.0%}" in texts(figure)
    one = features.plot(".", head=1, tokens=["a", "b", "c", "d"])
    assert [label.get_text() for label in one.axes[0].get_xticklabels()] == ["a", "b", "c", "d"]
    assert "head 1 of 2" in texts(one)
    with pytest.raises(CallsError, match="head=2, and there are 2"):
        features.plot(".", head=2)
    with pytest.raises(HookTypeError, match="2 names"):
        features.plot(".", head=0, tokens=["a", "b"])


class Fused(nn.Module):
    def __init__(self, **options) -> None:
        super().__init__()
        self.options = options

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, **self.options)


MASK = torch.tensor([[True, False, True], [True, True, False], [False, True, True]])
FUSED = {
    "plain": ({}, None),
    "causal": ({"is_causal": True}, torch.ones(3, 3).tril().bool()),
    "bool mask": ({"attn_mask": MASK}, MASK),
    "scale": ({"scale": 0.1}, None),
}


@pytest.mark.parametrize(("options", "seen"), FUSED.values(), ids=FUSED.keys())
def test_weights_that_a_fused_kernel_never_makes_are_recomputed_and_labelled(options, seen) -> None:
    q, k, v = torch.randn(3, 1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    address = "./scaled_dot_product_attention"
    model = Fused(**options)
    with hookline.capture(model, address, f"{address}:input") as features:
        model(q, k, v)
    figure = features.plot(address)
    assert "recomputed from q and k, for the fused kernel makes none; they reproduce its output" in texts(figure)
    scores = q @ k.transpose(-1, -2) * options.get("scale", 0.5)
    weights = (scores if seen is None else scores.masked_fill(~seen, -torch.inf)).softmax(-1)
    entropy = torch.special.entr(weights[0, 0]).sum(-1).mean()
    assert f"0: {entropy:.2f}, {weights[0, 0, :, 0].mean():.0%}" in texts(figure)


def test_recomputed_weights_that_do_not_give_the_output_are_not_drawn() -> None:
    q, k, v = torch.randn(3, 1, 2, 3, 4)
    address = "./scaled_dot_product_attention"
    model = Fused()
    with hookline.capture(model, address, f"{address}:input") as features:
        with hookline.edit(model, address, hookline.add(1)):
            model(q, k, v)
    with pytest.raises(CallsError, match="do not give its output"):
        features.plot(address)
    with hookline.capture(model, address) as without:
        model(q, k, v)
    with pytest.raises(CallsError, match="needs both"):
        without.plot(address)


def test_over_all_places_statistics_tokens_and_attention_are_drawn() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    x = torch.randn(2, 5, 4)
    with hookline.capture(model, "*") as features:
        model(x)
    depth = features.plot()
    rms = depth.axes[0].lines[0].get_ydata()
    assert list(rms) == pytest.approx([features[str(k)].square().mean().sqrt().item() for k in range(3)], rel=1e-5)
    assert [label.get_text() for label in depth.axes[1].get_xticklabels()] == ["0", "1", "2"]
    tokens = features.plot(None, "tokens", tokens=list("abcde"), item=1, limits=(0, 10))
    shown = cell(tokens)
    assert near(shown[1, 1], coloured(features["0"][1, 0].norm()[None], 0, 10, signed=False)[0])
    with pytest.raises(CallsError, match="no attention was captured"):
        features.plot(None, "attention")
    with pytest.raises(HookTypeError, match="leave the address out"):
        features.plot("0", "tokens")


def test_a_histogram_counts_every_value_once() -> None:
    value = torch.cat([torch.zeros(30), torch.rand(70) + 0.1, torch.tensor([torch.nan, torch.inf])])
    figure = features_of(value).plot(".", "histogram")
    zeros, bins = figure.axes
    assert [bar.get_height() for bar in zeros.patches] == [30]
    assert sum(bar.get_height() for bar in bins.patches) == 70
    assert "exact zeros: 30 (29.4%)" in texts(figure)
    assert "1 NaN, 1 +inf, 0 -inf" in texts(figure)


def test_a_constant_map_is_a_flat_cell_that_says_its_value() -> None:
    figure = features_of(torch.full((1, 1, 3, 3), 0.25)).plot(".", "maps")
    assert len(cell(figure).reshape(-1, 3).unique(dim=0)) == 1
    assert "constant" in texts(figure)
    assert "all 0.25" in texts(figure)


def test_looking_changes_nothing_and_leaves_pyplot_alone() -> None:
    import sys

    features = features_of(torch.rand(1, 3, 4, 4))
    before, state = features["."].clone(), torch.get_rng_state()
    features.plot(".")
    assert torch.equal(features["."], before)
    assert torch.equal(torch.get_rng_state(), state)
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


MISTAKES = {
    "kind": (lambda f: f.plot(".", "map"), HookTypeError, "kind= is one of maps, overlay"),
    "option": (lambda f: f.plot(".", colour="jet"), HookTypeError, "unexpected keyword argument 'colour'"),
    "theme": (lambda f: f.plot(".", theme="blue"), HookTypeError, "'light' or 'dark'"),
    "order": (lambda f: f.plot(".", order="size"), HookTypeError, "order= is"),
    "order by gradient": (lambda f: f.plot(".", order="gradient"), CallsError, r"output.grad' was not captured"),
    "limits": (lambda f: f.plot(".", limits=(1, 0)), HookTypeError, "the smaller number first"),
    "limits of three": (lambda f: f.plot(".", limits=(1, 0, 2)), HookTypeError, "two numbers"),
    "item": (lambda f: f.plot(".", item=3), CallsError, "item=3, and the batch has 1"),
    "call": (lambda f: f.plot(".", call=3), CallsError, "has 1 calls, and call=3"),
    "address": (lambda f: f.plot("elsewhere"), CallsError, "was not captured"),
    "photo": (lambda f: f.plot(".", photo=torch.ones(2, 2)), HookTypeError, "takes the shape"),
    "photo that is normalised": (lambda f: f.plot(".", photo=torch.randn(3, 9, 9) * 3), HookTypeError, "normalised"),
    "photo of another kind": (lambda f: f.plot(".", photo="cat.jpg"), HookTypeError, "numpy array or image"),
}


@pytest.mark.parametrize(("run", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_in_words(run, error, message: str) -> None:
    with pytest.raises(error, match=message):
        run(features_of(torch.rand(1, 3, 4, 4)))


def test_several_tensors_or_none_that_can_be_drawn_are_refused() -> None:
    class Two(nn.Module):
        def forward(self):
            return torch.ones(2), torch.ones(3)

    with hookline.capture(Two(), ".") as features:
        features._session._model()
    with pytest.raises(CallsError, match=r"has 2 tensors; capture and plot one of them, such as '\.:output\.0'"):
        features.plot(".")
    with pytest.raises(CallsError, match="no real values"):
        features_of(torch.ones(2, dtype=torch.complex64)).plot(".")


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"hookline\[look\]"):
        features_of(torch.rand(1, 3, 4, 4)).plot(".")
