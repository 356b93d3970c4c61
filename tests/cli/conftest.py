import sys
from pathlib import Path

import pytest

from hookline.cli import main

ZOO = """\
import torch
from torch import nn

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.act = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 5)
    def forward(self, x):
        return self.head(self.pool(self.act(self.conv(x))).flatten(1))

class Sum(nn.Module):
    def forward(self, a, b):
        return a + b

class Nan(nn.Module):
    def forward(self, x):
        return x / 0

def tiny():
    torch.manual_seed(0)
    return Tiny().eval()

def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

def wants(width, depth=3):
    return mlp()

def fails():
    raise KeyError("weights")

def number():
    return 3

made = mlp()
many = nn.Sequential(*(nn.Identity() for _ in range(5000)))
sums, nans = Sum(), Nan()

class Loud(nn.Module):
    def forward(self, x):
        print("running")
        return x

def loud():
    print("loading")
    return Loud()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Give an empty present folder with a file of models, zoo.py."""
    (tmp_path / "zoo.py").write_text(ZOO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def run(capsys):
    """Give a function that runs the command line and returns its exit code, output and errors."""

    def runs(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return runs


@pytest.fixture
def refused(run):
    """Give a function that runs the command line, which must refuse with one sentence and the exit code 2."""

    def refuses(*arguments):
        before = sorted(Path.cwd().rglob("*"))
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert [file for file in sorted(Path.cwd().rglob("*")) if "__pycache__" not in str(file)] == [
            file for file in before if "__pycache__" not in str(file)
        ]
        return err

    return refuses


@pytest.fixture
def photo(folder):
    """Give a photo, photo.png: 40 x 20 pixels, red on its left half and blue on its right half."""
    pillow = pytest.importorskip("PIL.Image", reason="photos need pillow")
    image = pillow.new("RGB", (40, 20), (255, 0, 0))
    image.paste((0, 0, 255), (20, 0, 40, 20))
    image.save(folder / "photo.png")
    return folder / "photo.png"
