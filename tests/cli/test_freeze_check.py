import json

import pytest
import torch

import hookline
from hookline.cli.model_spec import load_model


@pytest.fixture
def plan(folder):
    """Give a plan that freezes the first layer of zoo.py:mlp, and weights that keep it and that moved it."""
    model = load_model("zoo.py:mlp")
    frozen = hookline.freeze(model, "0")
    (folder / "plan.json").write_text(json.dumps(frozen.plan()))
    frozen.remove()
    with torch.no_grad():
        model[2].bias += 1
        torch.save(model.state_dict(), folder / "kept.pt")
        model[0].bias += 1
        torch.save(model.state_dict(), folder / "moved.pt")
    return "plan.json"


@pytest.mark.parametrize("more", [[], ["-i", "random:8x4"]])
def test_what_is_what_it_was_passes(plan, run, more):
    code, out, _ = run("freeze-check", "zoo.py:mlp", plan, "--weights", "kept.pt", *more)
    assert code == 0
    assert "all of it is what it was" in out


def test_what_moved_fails_with_1_and_is_named(plan, run):
    code, _, err = run("freeze-check", "zoo.py:mlp", plan, "--weights", "moved.pt")
    assert code == 1
    assert "0.bias" in err
    assert "0.weight" not in err


def test_a_plan_of_another_model_and_a_file_that_is_none_are_refused(plan, refused):
    assert "another structure" in refused("freeze-check", "zoo.py:tiny", plan)
    assert "there is no file 'nowhere.json'" in refused("freeze-check", "zoo.py:mlp", "nowhere.json")
    assert "'zoo.py' holds no plan" in refused("freeze-check", "zoo.py:mlp", "zoo.py")
