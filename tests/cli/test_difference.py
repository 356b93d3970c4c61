import json

import pytest
import torch
from torch import nn

import hookline
from hookline.looking.difference import difference
from hookline.looking.report.observation import observe


def between(first, second, x, y=None):
    return difference(observe(first, (x,), {}), observe(second, (x if y is None else y,), {}), ("A", "B"))


@pytest.fixture
def two(mlp):
    import copy

    other = copy.deepcopy(mlp)
    with torch.no_grad():
        other[2].weight += 1
    return mlp, other


def test_the_numbers_of_a_difference_are_those_of_their_definitions(two):
    x = torch.randn(3, 4)
    rows = {row.address: row for row in between(*two, x).rows}
    a, b = (model(x).detach().double() for model in two)
    assert rows["0"].equal
    assert (rows["0"].largest, rows["0"].relative) == (0, 0)
    assert not rows["2"].equal
    assert rows["2"].largest == pytest.approx((a - b).abs().max().item())
    assert rows["2"].relative == pytest.approx(((a - b).norm() / a.norm()).item())
    assert rows["2"].cosine == pytest.approx(torch.cosine_similarity(a.flatten(), b.flatten(), dim=0).item())
    assert rows["2"].rms_b == pytest.approx(b.square().mean().sqrt().item())


def test_the_first_to_differ_is_the_first_to_end_not_the_container_around_it(two):
    assert between(*two, torch.randn(3, 4)).first == "2"
    assert between(two[0], two[0], torch.randn(3, 4)).first is None


def test_nan_equals_nan_and_is_left_out_of_the_numbers():
    class Net(nn.Module):
        def forward(self, x):
            return x

    (row,) = between(Net(), Net(), torch.tensor([float("nan"), 3.0]), torch.tensor([float("nan"), 4.0])).rows
    assert (row.largest, row.rms_a, row.equal) == (1.0, 3.0, False)
    assert between(Net(), Net(), torch.tensor([float("nan")])).rows[0].equal


def test_other_shapes_have_no_numbers_and_are_said(mlp):
    table = between(mlp, mlp, torch.ones(2, 4), torch.ones(3, 4))
    assert table.rows[0].relative is None
    assert not table.rows[0].equal
    assert "2x2 / 3x2" in str(table)


def test_each_call_of_a_module_is_compared_with_the_same_call():
    class Twice(nn.Module):
        def __init__(self, second):
            super().__init__()
            self.act, self.second = nn.Identity(), second

        def forward(self, x):
            return self.act(self.act(x) * self.second)

    rows = between(Twice(1), Twice(2), torch.ones(2)).rows
    assert [(row.address, row.call, row.equal) for row in rows] == [
        (".", 1, False),
        ("act", 1, True),
        ("act", 2, False),
    ]


def test_look_diff_of_two_inputs(folder, run):
    torch.save(torch.zeros(1, 4), folder / "zeros.pt")
    torch.save(torch.ones(1, 4), folder / "ones.pt")
    code, out, _ = run("look", "diff", "zeros.pt", "ones.pt", "--model", "zoo.py:mlp")
    assert code == 0
    assert "A: zeros.pt\nB: ones.pt" in out
    assert out.splitlines()[-1] == "4 of 4 tensors differ, the first is that of 0."


def test_look_diff_of_two_weights_files(folder, run):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    torch.save(model.state_dict(), folder / "a.pt")
    nn.init.zeros_(model[2].bias)
    torch.save(model.state_dict(), folder / "b.pt")
    code, out, _ = run("look", "diff", "a.pt", "b.pt", "--model", "zoo.py:mlp", "-i", "random:3x4", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["first"] == "2"
    assert [row["equal"] for row in found["rows"]] == [False, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.pt", "ones.pt"), "there is no file 'nowhere.pt'"),
        (("ones.pt", "random:1x5"), "'0' (Linear) failed when given 1 x 5"),
        (("ones.pt", "ones.pt", "--at", "7"), "no module of the model is at '7'"),
        (("ones.pt", "ones.pt", "-i", "random:1x4"), "ones.pt holds no state dict"),
    ],
)
def test_look_diff_refuses_what_it_cannot_compare(folder, refused, arguments, message):
    torch.save(torch.ones(1, 4), folder / "ones.pt")
    assert message in refused("look", "diff", *arguments, "--model", "zoo.py:mlp")


def test_edit_shows_what_a_plan_changes(folder, run):
    hookline.EditPlan({"1": hookline.zero}).save(folder / "plan.json")
    code, out, _ = run("edit", "zoo.py:mlp", "--plan", "plan.json", "-i", "random:3x4", "--json")
    found = {row["address"]: row for row in json.loads(out)["rows"]}
    assert code == 0
    assert found["0"]["equal"]
    assert (found["1"]["rms_b"], found["1"]["relative"]) == (0, 1)
    assert json.loads(out)["first"] == "1"


def test_look_diff_of_two_plans(folder, run):
    hookline.EditPlan({"1": hookline.zero}).save(folder / "a.json")
    hookline.EditPlan({"0": hookline.zero}).save(folder / "b.json")
    code, out, _ = run("look", "diff", "a.json", "b.json", "--model", "zoo.py:mlp", "-i", "random:3x4", "--json")
    assert code == 0
    assert json.loads(out)["first"] == "0"


def test_a_file_that_is_no_plan_is_refused(folder, refused):
    (folder / "text.json").write_text("this is text")
    for plan in ("text.json", "nowhere.json"):
        assert plan in refused("edit", "zoo.py:mlp", "--plan", plan, "-i", "random:3x4")
