import pytest
import torch

from hookline.looking.report.colours import BEYOND, MASKED, NOT_FINITE, coloured
from hookline.looking.report.picture_file import save_picture
from hookline.looking.report.site import Source

matplotlib = pytest.importorskip("matplotlib", reason="colour maps need matplotlib")
pillow = pytest.importorskip("PIL.Image", reason="pictures need pillow")


def drawn(tmp_path, tensor, **options):
    """Draw a tensor, and return the pixels."""
    assert save_picture(tmp_path / "picture.png", Source("layer", "", tensor), **options)
    image = pillow.open(tmp_path / "picture.png").convert("RGB")
    return torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(image.height, image.width, 3)


def entry(name, share):
    return [int(part) for part in matplotlib.colormaps[name](min(255, int(share * 256)), bytes=True)[:3]]


LEFT, TOP = 16, 16 + 16 + 8  # where the first cell begins


@pytest.mark.parametrize(("signed", "name"), [(False, "viridis"), (True, "RdBu_r")])
def test_the_colour_of_a_value_is_that_of_its_share_of_the_range(signed, name):
    values = torch.linspace(-1 if signed else 0, 1, 1001)
    low = -1.0 if signed else 0.0
    colours = coloured(values, low, 1.0, signed=signed)
    for position in (0, 1, 300, 500, 999, 1000):
        assert colours[position].tolist() == entry(name, (values[position].item() - low) / (1 - low))


def test_zero_of_a_signed_map_is_its_middle_which_is_nearly_white():
    assert min(coloured(torch.zeros(1), -3.0, 3.0, signed=True)[0].tolist()) > 230


def test_what_has_no_place_on_the_map_has_a_colour_that_no_number_has():
    off = torch.tensor([float("nan"), float("inf"), -float("inf"), -9.0, 9.0])
    colours = [tuple(each) for each in coloured(off, 0.0, 1.0, signed=False).tolist()]
    assert colours == [NOT_FINITE, NOT_FINITE, NOT_FINITE, BEYOND["viridis"]["under"], BEYOND["viridis"]["over"]]
    on = {tuple(each) for each in coloured(torch.linspace(0, 1, 5000), 0.0, 1.0, signed=False).tolist()}
    assert not on & {*colours, MASKED}


def test_masked_attention_is_grey_and_not_the_colour_of_0():
    values = torch.tensor([0.0, 0.5])
    assert coloured(values, 0.0, 1.0, signed=False, masked=True)[0].tolist() == list(MASKED)
    assert coloured(values, 0.0, 1.0, signed=False)[0].tolist() != list(MASKED)


def test_each_value_is_a_square_of_whole_pixels_in_its_colour(tmp_path):
    tensor = torch.rand(1, 1, 4, 4)
    tensor[0, 0, 0, 0], tensor[0, 0, 3, 3] = 0.0, 1.0  # the range, as so few values have no half percent
    pixels = drawn(tmp_path, tensor)
    for row in range(4):
        for column in range(4):
            square = pixels[TOP + row * 120 : TOP + (row + 1) * 120, LEFT + column * 120 : LEFT + (column + 1) * 120]
            assert square.reshape(-1, 3).unique(dim=0).tolist() == [entry("viridis", tensor[0, 0, row, column].item())]


def test_noise_beside_a_real_channel_is_flat(tmp_path):
    tensor = torch.stack([torch.rand(20, 20), 1e-6 * torch.rand(20, 20)])[None]
    pixels = drawn(tmp_path, tensor)
    second = pixels[TOP : TOP + 20 * 7, LEFT + 20 * 7 + 8 : LEFT + 2 * 20 * 7 + 8].reshape(-1, 3).unique(dim=0)
    # All of it is in the first entry of the map, or below the range.
    assert {tuple(each) for each in second.tolist()} <= {tuple(entry("viridis", 0)), BEYOND["viridis"]["under"]}


def test_a_value_that_is_no_number_is_magenta_with_a_mark(tmp_path):
    tensor = torch.rand(1, 1, 4, 4)
    tensor[0, 0, 1, 2] = float("nan")
    square = drawn(tmp_path, tensor)[TOP + 120 : TOP + 240, LEFT + 240 : LEFT + 360].reshape(-1, 3)
    colours, counts = square.unique(dim=0, return_counts=True)
    assert colours[counts.argmax()].tolist() == list(NOT_FINITE)
    assert len(colours) > 1  # the mark


@pytest.mark.parametrize("shape", [(2, 5, 7), (1, 9), (12,), (1, 3, 2, 4, 4), (1, 300, 2, 2), (1, 6, 1, 1)])
def test_tensors_of_every_shape_are_drawn(tmp_path, shape):
    assert len(drawn(tmp_path, torch.randn(shape)).reshape(-1, 3).unique(dim=0)) > 3


def test_what_has_nothing_to_draw_makes_no_file(tmp_path):
    assert not save_picture(tmp_path / "picture.png", Source("layer", "", torch.tensor(1.0)))
    assert not (tmp_path / "picture.png").exists()
