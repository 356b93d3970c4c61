import pytest
import torch
from torch.testing import assert_close

from hookline.cli.images import Preparation
from hookline.cli.inputs import read_inputs
from hookline.errors import CommandError, HooklineError


def read(*specs, preparation=None, tokenizer=None):
    return read_inputs([str(spec) for spec in specs], preparation or Preparation(resize=8, crop=8), tokenizer)


def test_random_numbers_are_the_same_each_time_and_use_up_nobody_elses():
    before = torch.get_rng_state()
    first, second = read("random:2x3"), read("random:2x3")
    assert first.args[0].shape == (2, 3)
    assert torch.equal(first.args[0], second.args[0])
    assert torch.equal(torch.get_rng_state(), before)
    assert first.said == ("random: 2x3, normal, mean 0, std 1, seed 0",)


def test_several_inputs_are_several_arguments():
    inputs = read("random:2", "random:3")
    assert [each.shape[0] for each in inputs.args] == [2, 3]


def test_a_photo_is_resized_cropped_and_scaled_as_it_says(photo):
    preparation = Preparation(resize=10, crop=6, mean=(0.5, 0.25, 0.0), std=(0.5, 1.0, 2.0))
    inputs = read(photo, preparation=preparation)
    (value,) = inputs.args
    assert value.shape == (1, 3, 6, 6)
    # 40 x 20 becomes 20 x 10, and columns 7 to 12 are kept: red up to the middle at 10, then blue.
    assert_close(value[0, :, 0, 0], torch.tensor([(1 - 0.5) / 0.5, -0.25, 0.0]))
    assert_close(value[0, :, -1, -1], torch.tensor([(0 - 0.5) / 0.5, -0.25, 0.5]))
    assert inputs.photos[0, :, 0, 0].tolist() == [255, 0, 0]
    how = "resized to 10 on the shorter side (bicubic), centre crop 6 x 6, RGB / 255, mean 0.5 0.25 0, std 0.5 1 2"
    assert inputs.said == (f"photo.png: {how}",)


def test_a_stretched_photo_is_all_of_it(photo):
    value = read(photo, preparation=Preparation(crop=4, stretch=True)).photos[0]
    assert value[0, 0].tolist()[0] == 255  # red on the left
    assert value[2, 0].tolist()[-1] == 255  # blue on the right


def test_a_folder_of_photos_is_a_batch_by_name(photo):
    pictures = photo.parent / "pictures"
    pictures.mkdir()
    for name in ("b.png", "a.PNG"):
        (pictures / name).write_bytes(photo.read_bytes())
    (pictures / "notes.txt").write_text("")
    inputs = read(pictures)
    assert inputs.args[0].shape == (2, 3, 8, 8)
    assert inputs.names == ("a.PNG", "b.png")
    assert inputs.said[0].startswith("pictures: 2 photos (1 other files left out): resized")


def test_files_of_tensors(folder):
    np = pytest.importorskip("numpy")
    safetensors = pytest.importorskip("safetensors.torch")
    np.save(folder / "x.npy", np.arange(3.0))
    torch.save((torch.ones(2), torch.zeros(1)), folder / "two.pt")
    torch.save({"a": torch.ones(2)}, folder / "named.pt")
    safetensors.save_file({"only": torch.ones(4)}, folder / "one.safetensors")
    safetensors.save_file({"a": torch.ones(1), "b": torch.zeros(1)}, folder / "both.safetensors")
    assert read("x.npy").args[0].tolist() == [0.0, 1.0, 2.0]
    assert [len(each) for each in read("two.pt").args] == [2, 1]
    assert list(read("named.pt").kwargs) == ["a"]
    assert read("one.safetensors").args[0].shape == (4,)
    assert sorted(read("both.safetensors").kwargs) == ["a", "b"]
    assert read("x.npy").said == ("x.npy: 3 float64",)


class Evil:
    def __reduce__(self):
        return (open, ("ran", "w"))


def test_code_in_a_file_is_not_run(folder):
    torch.save(Evil(), folder / "evil.pt")
    with pytest.raises(CommandError, match=r"evil\.pt cannot be read as \.pt"):
        read("evil.pt")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("random:3x", "is no shape: write random:1x3x224x224"),
        ("nowhere.png", "there is no file 'nowhere.png'"),
        ("nowhere.npy", "there is no file 'nowhere.npy'"),
        ("text.png", "'text.png' is not an image that can be read"),
        ("cut.png", "'cut.png' cannot be read as an image"),
        ("text.npy", "text.npy cannot be read as .npy"),
        ("text.pt", "text.pt cannot be read as .pt"),
        ("text.safetensors", "text.safetensors cannot be read as .safetensors"),
        ("empty", "the folder 'empty' has no image"),
        ("text:hello", "text needs a tokenizer: --tokenizer FOLDER"),
        ("text:@latin.txt", "'latin.txt' is not UTF-8 text: byte 1 is 0xe9"),
        ("text:@nowhere.txt", "there is no file 'nowhere.txt'"),
        ("text: ", "the text is empty"),
        ("text:\udce9", "the text is not valid UTF-8"),
    ],
)
def test_an_input_that_cannot_be_read_is_refused_with_the_reason(photo, spec, message):
    for name in ("text.png", "text.npy", "text.pt", "text.safetensors"):
        (photo.parent / name).write_text("this is text")
    (photo.parent / "cut.png").write_bytes(photo.read_bytes()[:60])
    (photo.parent / "latin.txt").write_bytes("hé".encode("latin-1"))
    (photo.parent / "empty").mkdir()
    with pytest.raises(CommandError, match=message):
        read(spec)


def test_no_input_is_refused_with_what_there_can_be():
    with pytest.raises(CommandError, match=r"an input is missing: --input photo\.jpg"):
        read()


def test_a_folder_without_a_tokenizer_is_refused(folder):
    pytest.importorskip("transformers")
    with pytest.raises(HooklineError, match="holds no tokenizer that can be read"):
        read("text:hello", tokenizer=folder)
    with pytest.raises(HooklineError, match="there is no folder 'nowhere'"):
        read("text:hello", tokenizer=type(folder)("nowhere"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"resize": 4, "crop": 8}, "cannot crop 8 pixels"), ({"std": (1.0, 0.0, 1.0)}, "a std of 0")],
)
def test_a_preparation_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(CommandError, match=message):
        Preparation(**arguments)
