import csv
import io
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import hookline


def rows_of(table):
    return {row.address: row for row in table.rows}


class Tied(nn.Module):
    """Shares a weight, owns parameters directly and in lists, and has modules that it does not call."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.out = nn.Linear(4, 10, bias=False)
        self.out.weight = self.embed.weight
        self.scale = nn.Parameter(torch.ones(4))
        self.extra = nn.ParameterList([torch.zeros(3), torch.zeros(2)])
        self.unused = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        h = self.embed(x) * self.scale
        h, _ = self.attention(h, h, h)
        return {"logits": self.out(self.blocks[0](h)), "hidden": (h, torch.rand(2))}


TOKENS = torch.arange(6)[None]


def test_the_statistics_are_those_of_the_outputs(mlp):
    x = torch.randn(5, 4)
    row = rows_of(hookline.layer_table(mlp, x))["1"]
    wanted = mlp[1](mlp[0](x)).detach().double()
    assert row.shape == (5, 8)
    assert row.dtype == "float32"
    assert row.mean == pytest.approx(wanted.mean().item())
    assert row.std == pytest.approx(wanted.std(correction=0).item())
    assert row.rms == pytest.approx(wanted.square().mean().sqrt().item())
    assert (row.min, row.max) == (wanted.min().item(), wanted.max().item())
    assert row.zero == (wanted == 0).double().mean().item()
    assert row.dead == (wanted == 0).all(0).double().mean().item()
    assert row.nonfinite == 0


def test_rows_stand_in_the_order_of_the_first_calls_a_container_before_what_it_contains():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.first = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))

        def forward(self, x):
            return self.last(self.first(x))

    table = hookline.layer_table(Backwards(), torch.ones(1, 2))
    assert [row.path for row in table.rows] == [".", "first", "first.0", "last"]
    assert table.finished == ("first.0", "first", "last", ".")


def test_totals_count_tied_and_directly_owned_parameters_once():
    model = Tied()
    table = hookline.layer_table(model, TOKENS)
    exact = sum(parameter.numel() for parameter in model.parameters())
    assert table.totals.parameters == exact
    assert sum(row.parameters for row in table.rows) + table.totals.uncalled == exact
    rows = rows_of(table)
    assert rows["embed"].parameters == 40
    assert (rows["out"].parameters, rows["out"].tied) == (0, True)
    assert rows[".:output.logits"].parameters == 4 + 5  # its own, and those of the list that nobody calls


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_the_rows_and_the_uncalled_modules_always_add_up_to_the_parameters_of_the_model(which, calls):
    shared = [nn.Linear(3, 3), nn.Linear(3, 3, bias=False), nn.LayerNorm(3), nn.Identity()]
    shared[1].weight = shared[0].weight

    class Any(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Sequential(shared[number]) for number in which])

        def forward(self, x):
            for part, called in zip(self.parts, calls, strict=False):
                x = part(x) if called else x
            return x

    model = Any()
    table = hookline.layer_table(model, torch.ones(2, 3))
    exact = sum(parameter.numel() for parameter in model.parameters())
    assert table.totals.parameters == exact
    assert sum(row.parameters for row in table.rows) + table.totals.uncalled == exact


def test_each_tensor_of_a_nested_output_has_a_row_with_its_address():
    rows = rows_of(hookline.layer_table(Tied(), TOKENS))
    assert rows[".:output.logits"].shape == (1, 6, 10)
    assert rows[".:output.hidden.0"].shape == (1, 6, 4)
    assert rows[".:output.hidden.1"].shape == (2,)
    assert rows[".:output.hidden.1"].dead is None  # a vector has no channels


def test_modules_that_are_not_called_are_listed_the_outermost_ones_with_the_reason():
    uncalled = {each.path: each for each in hookline.layer_table(Tied(), TOKENS).uncalled}
    assert set(uncalled) == {"unused", "attention.out_proj", "blocks.1"}
    assert uncalled["unused"].parameters == 12
    assert "reads the weights of its out_proj" in uncalled["attention.out_proj"].why


def test_a_module_that_is_called_twice_has_one_row_or_one_for_each_number_of_channels():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.wide, self.same = nn.ReLU(), nn.Linear(2, 5), nn.Tanh()

        def forward(self, x):
            return self.same(self.same(self.act(self.wide(self.act(x)))))

    rows = [row for row in hookline.layer_table(Shared(), torch.ones(3, 2)).rows if row.path in {"act", "same"}]
    assert [(row.path, row.shape, row.calls) for row in rows] == [
        ("act", (3, 2), 2),
        ("act", (3, 5), 2),
        ("same", (3, 5), 2),
    ]


def test_a_module_that_is_called_twice_ended_when_its_first_call_did():
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.middle = nn.ReLU(), nn.Linear(2, 2)

        def forward(self, x):
            return self.act(self.middle(self.act(x)))

    assert hookline.layer_table(Around(), torch.ones(1, 2)).finished == ("act", "middle", ".")


def test_values_that_are_not_finite_are_counted_and_do_not_spoil_the_statistics():
    class Broken(nn.Module):
        def forward(self, x):
            return x / torch.tensor([1.0, 0.0])

    row = hookline.layer_table(Broken(), torch.tensor([[2.0, 1.0], [4.0, 0.0]])).rows[0]
    assert row.nonfinite == 0.5  # 1 / 0 and 0 / 0
    assert (row.mean, row.min, row.max) == (3.0, 2.0, 4.0)


def test_frozen_and_mode_are_those_of_each_module(mlp):
    mlp[0].weight.requires_grad_(False)
    mlp[2].requires_grad_(False)
    mlp[2].eval()
    rows = rows_of(hookline.layer_table(mlp, torch.ones(1, 4)))
    assert [rows[path].frozen for path in (".", "0", "1", "2")] == ["", "part", "", "yes"]
    assert [rows[path].mode for path in ("0", "2")] == ["train", "eval"]


def test_the_run_leaves_buffers_random_numbers_gradients_and_mode_as_they_were():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("bad", torch.tensor([float("nan"), 1.0]))
            self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout()

        def forward(self, x):
            self.calls = self.calls + 1  # another tensor in the buffer's place
            return self.drop(self.norm(x))

    model = Counts()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    kept, version, random = model.calls, model.bad._version, torch.get_rng_state()
    hookline.layer_table(model, torch.randn(4, 3, generator=torch.Generator().manual_seed(1)))
    assert model.calls is kept
    assert model.bad._version == version
    assert torch.equal(torch.get_rng_state(), random)
    assert all(
        torch.equal(value.nan_to_num(7), before[name].nan_to_num(7)) for name, value in model.state_dict().items()
    )
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
    assert type(model.norm) is nn.BatchNorm1d


def test_an_edit_by_a_hook_is_seen_in_the_row_of_its_module(mlp):
    with hookline.Hooks(mlp) as hooks:
        hooks.after("0", lambda call: call.output * 0 + 3)
        row = rows_of(hookline.layer_table(mlp, torch.ones(2, 4)))["0"]
    assert (row.min, row.max) == (3, 3)


def test_the_time_of_a_module_leaves_out_the_time_that_looking_took(monkeypatch):
    from hookline.looking import watch

    clock = iter(range(0, 10_000_000, 1000))  # each reading of the clock comes 1000 ns after the one before
    monkeypatch.setattr(watch, "perf_counter_ns", lambda: next(clock))
    rows = rows_of(hookline.layer_table(nn.Sequential(nn.Identity()), torch.ones(1)))
    # Inside: start to end, one tick. Outside: the same, and one tick between the inner hooks and each of its own.
    assert rows["0"].time_s == pytest.approx(1e-6)
    assert rows["."].time_s <= 4e-6


def test_a_failing_model_names_the_module_what_it_was_given_and_has_the_table_so_far(mlp):
    model = nn.Sequential(nn.Linear(4, 7), mlp)
    with pytest.raises(
        hookline.ModelRunError, match=r"'1.0' \(Linear\) failed when given 2 x 7: mat1 and mat2"
    ) as caught:
        hookline.layer_table(model, torch.ones(2, 4))
    assert rows_of(caught.value.table)["0"].shape == (2, 7)
    assert type(model[0]) is nn.Linear


def test_an_input_of_the_wrong_number_is_the_models_own_failure(mlp):
    with pytest.raises(hookline.ModelRunError, match="positional argument"):
        hookline.layer_table(mlp)


def test_a_scripted_part_is_left_out_and_said():
    with pytest.warns(DeprecationWarning, match="script"):
        scripted = torch.jit.script(nn.Linear(2, 2))
    table = hookline.layer_table(nn.Sequential(scripted, nn.ReLU()), torch.ones(1, 2))
    assert [row.path for row in table.rows] == [".", "1"]
    assert "not seen, 0: " in str(table)


def test_complex_values_have_a_shape_and_no_statistics():
    class Spectrum(nn.Module):
        def forward(self, x):
            return torch.fft.fft(x)

    row = hookline.layer_table(Spectrum(), torch.ones(2, 4)).rows[0]
    assert (row.shape, row.dtype, row.mean, row.dead) == ((2, 4), "complex64", None, None)


def test_the_table_is_text_json_csv_and_html(mlp):
    table = hookline.layer_table(mlp, torch.ones(3, 4))
    header, *lines = str(table).splitlines()
    assert header.split()[:4] == ["address", "type", "shape", "dtype"]
    assert lines[1].split()[:6] == ["0", "Linear", "3x8", "float32", "40", "no"]
    assert "4 modules, 58 parameters (58 trainable, 0 frozen)" in str(table)
    loaded = json.loads(json.dumps(table.to_dict()))
    assert [row["path"] for row in loaded["rows"]] == [".", "0", "1", "2"]
    read = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["shape"] for row in read] == ["3x2", "3x8", "3x8", "3x2"]
    assert float(read[1]["mean"]) == table.rows[1].mean
    assert table._repr_html_().count("<tr>") == 5


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0%"), (0.0002, "<0.1%"), (0.5, "50.0%"), (0.9999, ">99.9%"), (1.0, "100%"), (None, "-")]
)
def test_only_none_at_all_is_0_percent_and_only_all_is_100(share, text):
    from hookline.looking.layer_table import percent

    assert percent(share) == text


def test_a_compiled_model_is_run_as_written(mlp, fresh_compiler):
    compiled = torch.compile(mlp, backend="eager")
    compiled(torch.ones(1, 4))
    assert [row.path for row in hookline.layer_table(compiled, torch.ones(1, 4)).rows] == [".", "0", "1", "2"]
