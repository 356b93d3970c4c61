import json

import pytest
import torch
from torch import nn

import hookline
from hookline.capturing.budget import bytes_of, human
from hookline.errors import CallsError, CaptureError, HookTypeError
from hookline.structure import structure, structure_hash

X = torch.ones(2, 4)


class Model(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        return {"out": (self.fc(x), [x, 5]), "none": None}


def captured(model: nn.Module) -> hookline.Features:
    with hookline.capture(model, "fc", ".") as features:
        model(X)
        model(X * 2)
    return features


def test_saved_features_load_as_the_same_mapping(tmp_path) -> None:
    features = captured(Model())
    features.save(tmp_path / "f.safetensors")
    loaded = hookline.load_features(tmp_path / "f.safetensors")
    assert list(loaded) == list(features) == [".", "fc"]
    for mine, theirs in zip(loaded.calls("fc"), features.calls("fc"), strict=True):
        assert torch.equal(mine, theirs)
    mine, theirs = loaded.calls(".")[1], features.calls(".")[1]
    assert torch.equal(mine["out"][1][0], theirs["out"][1][0])
    assert (type(mine["out"]), mine["out"][1][1], mine["none"]) == (tuple, 5, None)
    assert {row.where for row in loaded.report()} == {"disk"} if hasattr(loaded.report(), "__iter__") else True
    assert loaded.report().bytes == features.report().bytes
    with pytest.raises(CallsError, match="called 2 times"):
        loaded["fc"]


def test_the_file_says_what_it_holds(tmp_path) -> None:
    from safetensors import safe_open

    model = Model()
    captured(model).save(tmp_path / "f.safetensors")
    with safe_open(tmp_path / "f.safetensors", framework="pt") as file:
        document = json.loads(file.metadata()["hookline"])
        assert set(file.keys()) == {"fc#0", "fc#1", ".#0.out.0", ".#0.out.1.0", ".#1.out.0", ".#1.out.1.0"}
    assert document["structure"] == structure_hash(model)
    assert document["sites"]["fc"]["calls"][0]["of"] == {
        "name": "fc#0",
        "shape": [2, 4],
        "dtype": "float32",
        "bytes": 32,
    }


def test_what_cannot_be_saved_is_named_and_nothing_is_written(tmp_path) -> None:
    class Odd(nn.Module):
        def forward(self, x):
            return x

    model = Odd()
    for value, message in [
        (torch.ones(2, device="meta"), "meta tensor"),
        (torch.eye(2).to_sparse(), "sparse_coo tensor"),
        (object(), "of type object, which cannot be saved"),
    ]:
        with hookline.capture(model, ".") as features:
            model({"good": X, "bad": value})
        with pytest.raises(CaptureError, match=rf"\.#0\.bad is .*{message}"):
            features.save(tmp_path / "f.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path) -> None:
    with pytest.raises(CaptureError, match="could not write"):
        captured(Model()).save(tmp_path / "none" / "f.safetensors")


def test_a_file_that_holds_no_features_is_a_clear_error(tmp_path) -> None:
    from safetensors.torch import save_file

    save_file({"a": X}, tmp_path / "other.safetensors")
    (tmp_path / "text").write_text("hello")
    for name in ("other.safetensors", "text"):
        with pytest.raises(CaptureError, match=r"is no file that Features.save\(\) wrote"):
            hookline.load_features(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no file"):
        hookline.load_features(tmp_path / "nothing")


def test_features_are_moved_and_converted(tmp_path) -> None:
    moved = captured(Model()).to(dtype=torch.float64)
    assert [value.dtype for value in moved.calls("fc")] == [torch.float64] * 2
    assert moved.report().rows[1].where == "memory"


def test_features_print_a_line_a_site_and_as_a_table() -> None:
    features = captured(Model())
    assert repr(features).splitlines() == [
        "<Features of 2 sites>",
        "  .: out.0=(2, 4) float32, out.1.0=(2, 4) float32, out.1.1=5, ...  x 2 calls",
        "  fc: (2, 4) float32  x 2 calls",
    ]
    assert features._repr_html_().count("<tr>") == 3
    assert str(features.report()).splitlines()[-1] == f"2 sites, {human(features.report().bytes)}"
    assert features.report().to_dict()["sites"][1]["address"] == "fc"


def test_a_site_answers_to_every_spelling_and_path_and_a_typo_to_the_nearest() -> None:
    model = Model()
    model.tied = model.fc
    with hookline.capture(model, "fc") as features:
        model(X)
    assert features["fc:output"] is not None
    assert torch.equal(features["tied"], features["fc"])
    assert "fc" in features
    assert "cf" not in features
    assert 5 not in features
    assert len(features) == 1
    with pytest.raises(CallsError, match="'cf' was not captured; the nearest: 'fc'"):
        features["cf"]


def test_the_structure_hash_is_of_the_structure_alone() -> None:
    model = Model()
    before = structure_hash(model)
    nn.init.zeros_(model.fc.weight)
    assert structure_hash(model) == before == structure_hash(Model())
    assert structure_hash(Model(5)) != before
    assert "seen (3,) torch.float32" in structure(model)[""]
    with hookline.register_forward_hook(model, lambda *_: None):
        assert structure_hash(model) == before


@pytest.mark.parametrize(
    ("size", "expected"), [(5, 5), ("7", 7), ("2 GiB", 2**31), ("1.5kb", 1500), (" 3 MiB ", 3 * 2**20)]
)
def test_sizes_are_read_as_people_write_them(size, expected: int) -> None:
    assert bytes_of(size) == expected


@pytest.mark.parametrize("size", ["", "GB", "2 parsecs", -1, True, 1.5, None])
def test_what_is_no_size_is_refused(size) -> None:
    with pytest.raises(HookTypeError, match="expected a size such as"):
        bytes_of(size)


def test_sizes_are_written_as_people_read_them() -> None:
    assert [human(size) for size in (5, 2048, 3 * 2**20, 2**40 * 2)] == ["5 B", "2.0 KiB", "3.0 MiB", "2.0 TiB"]


def test_tensors_without_plain_memory_count_nothing_wherever_they_are_held() -> None:
    class Same(nn.Module):
        def forward(self, x):
            return x

    model = Same()
    with hookline.capture(model, ".") as features:
        model((torch.eye(3).to_sparse(), X))
    assert features.report().bytes == features.to(dtype=torch.float32).report().bytes == X.nbytes
