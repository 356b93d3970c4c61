import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import hookline
from hookline import FreezeError, NoMatchError


def names(model) -> set[str]:
    return {name for name, each in model.named_parameters() if not each.requires_grad}


def test_until_freezes_all_that_runs_before_a_place(net, images) -> None:
    hookline.freeze(net, until="layer2", example=images)
    assert {name.split(".")[0] for name in names(net)} == {"stem", "layer1"}
    assert [net.train().layer1.training, net.layer2.training, net.pool.training] == [False, True, True]


def test_until_goes_by_the_order_of_the_run_and_not_of_registration() -> None:
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.middle, self.first = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.last(self.middle(self.first(x)))

    model = Backwards()
    hookline.freeze(model, until="last", example=torch.ones(1, 2))
    assert names(model) == {"first.weight", "first.bias", "middle.weight", "middle.bias"}


def test_until_takes_bare_parameters_and_goes_inside_of_modules(vit, tokens) -> None:
    """F8."""
    hookline.freeze(vit, until="blocks.1.linear1", example=(tokens,))
    frozen = names(vit)
    assert {"patch.weight", "cls_token", "pos_embed", "blocks.0.linear2.bias", "blocks.1.norm1.weight"} <= frozen
    assert not any(name.startswith(("blocks.1.linear", "blocks.1.norm2", "blocks.2", "head")) for name in frozen)


def test_until_leaves_out_what_is_used_again_later() -> None:
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.body, self.out = nn.Embedding(3, 2), nn.Linear(2, 2), nn.Linear(2, 3)
            self.act = nn.ReLU()

        def forward(self, x):
            x = self.act(self.embed(x))
            x = self.act(self.body(x))
            return nn.functional.linear(x, self.embed.weight)

    model = Shared()
    with pytest.raises(FreezeError, match="until='body': nothing that could be frozen runs before it"):
        hookline.freeze(model, until="body", example=torch.tensor([0, 1]))
    with pytest.raises(FreezeError, match="the model did not run it on the example"):
        hookline.freeze(model, until="out", example=torch.tensor([0, 1]))
    with pytest.raises(NoMatchError, match="nearest"):
        hookline.freeze(model, until="bodi", example=torch.tensor([0, 1]))
    assert names(model) == set()


def test_until_of_a_parameter_is_where_it_is_first_used(vit, tokens) -> None:
    hookline.freeze(vit, until="pos_embed", example={"x": tokens})
    assert names(vit) == {"patch.weight", "patch.bias", "cls_token"}


def test_the_report_counts_by_child_and_names_the_true_prefix(net, images) -> None:
    frozen = hookline.freeze(net, "stem", "layer2")
    report = frozen.report(images)
    # A convolution of 3 to 4 channels has 4 * 3 * 9 + 4 elements, a norm 8; its statistics 2 * 4 floats and an int64.
    rows = {row.path: (row.frozen, row.frozen_bytes, row.trainable, row.buffer_bytes) for row in report.rows}
    assert rows == {
        "stem": (120, 480, 0, 40),
        "layer1": (0, 0, 156, 40),
        "layer2": (156, 624, 0, 40),
        "head": (0, 0, 15, 0),
    }
    assert (report.frozen, report.trainable) == (276, 171)
    assert report.prefix == ("stem",)
    assert report.earliest.path == "layer1.0.weight"
    assert "true prefix: stem\n" in str(report) and "total" in str(report)
    assert frozen.report().prefix is None and "give an example input" in str(frozen.report())


def test_tied_tensors_are_counted_once() -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(5, 4), "head": nn.Linear(4, 5, bias=False)})
    model["head"].weight = model["embed"].weight
    assert hookline.freeze(model, ".").report().frozen == 20


def test_the_earliest_trainable_tensor_is_named_with_what_it_costs() -> None:
    """F10: one bias left trainable in the first block keeps the whole graph."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(4)))
    x = torch.randn(128, 64)
    first = hookline.freeze(model, "0.0.weight", "[12]").report(x).earliest
    assert first.path == "0.0.bias"
    # An activation has 128 * 64 floats. ReLU's output is saved in each of the four blocks; the input of the last
    # linear layer, whose weight trains, is that of the third. Without the bias: that input, and the last output.
    activation = 128 * 64 * 4
    assert (first.saved_bytes, first.saved_bytes_without) == (4 * activation, 2 * activation)


def test_when_all_is_frozen_the_prefix_is_the_model(net, images) -> None:
    report = hookline.freeze(net, ".", example=images).report()
    assert report.prefix == (".",) and report.earliest is None


def test_a_frozen_module_behind_a_trainable_one_is_not_in_the_true_prefix(vit, tokens) -> None:
    """F9."""
    report = hookline.freeze(vit, "patch", "blocks").report(tokens)
    assert report.prefix == ("patch",) and report.earliest.path == "cls_token"


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.embed, self.block, self.head = nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.use_reentrant = use_reentrant

    def forward(self, x):
        return self.head(checkpoint(self.block, self.embed(x), use_reentrant=self.use_reentrant))


def test_reentrant_checkpointing_behind_a_frozen_beginning_is_refused_on_an_example() -> None:
    """F16."""
    x = torch.tensor([0, 1])
    model = Checkpointed(use_reentrant=True)
    with pytest.raises(FreezeError, match=r"'block.weight' would get no gradient.*use_reentrant=False"):
        hookline.freeze(model, "embed", example=x)
    assert names(model) == set() and model.embed.training
    with pytest.raises(FreezeError, match="would get no gradient"):
        hookline.freeze(model, "embed").report(x)
    hookline.freeze(Checkpointed(use_reentrant=True), "embed", "block", example=x)
    model = Checkpointed(use_reentrant=False)
    hookline.freeze(model, "embed", example=x)
    model(x).sum().backward()
    assert model.block.weight.grad is not None


def test_reentrant_checkpoint_wrappers_are_refused_without_an_example() -> None:
    """F16."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, CheckpointWrapper

    def build(how):
        block = CheckpointWrapper(nn.Linear(4, 4), how)
        return nn.Sequential(nn.Embedding(5, 4), block, nn.Linear(4, 2))

    with pytest.raises(FreezeError, match=r"'1.weight' would get no gradient"):
        hookline.freeze(build(CheckpointImpl.REENTRANT), "0")
    model = build(CheckpointImpl.NO_REENTRANT)
    hookline.freeze(model, "0")
    model(torch.tensor([1])).sum().backward()
    assert all(each.grad is not None for each in model[1].parameters())


@pytest.mark.parametrize("kwargs", [{"use_reentrant": True}, {"use_reentrant": False}])
def test_reentrant_checkpointing_of_transformers_is_refused_without_an_example(kwargs) -> None:
    """F16."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=2, n_embd=8, n_head=2, vocab_size=10, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2Model(config)
    for module in model.modules():
        if hasattr(module, "gradient_checkpointing"):
            import functools

            module.gradient_checkpointing = True
            module._gradient_checkpointing_func = functools.partial(checkpoint, **kwargs)
    if kwargs["use_reentrant"]:
        with pytest.raises(FreezeError, match=r"'h.0.ln_1.weight' would get no gradient"):
            hookline.freeze(model, "wte", "wpe")
        hookline.freeze(model, "wte")  # the gradient of wpe needs the blocks' inputs
        hookline.freeze(model, "h", "wpe")
    else:
        hookline.freeze(model, "wte", "wpe")
        model.train()(torch.tensor([[1, 2]])).last_hidden_state.sum().backward()
        assert model.h[0].ln_1.weight.grad is not None


@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_model_is_right_while_frozen_and_after_each_with_one_recompilation() -> None:
    """F17."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    compiled = torch.compile(model, backend=backend)
    x = torch.randn(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        compiled.train()
        optimizer.zero_grad()
        compiled(x).square().mean().backward()
        optimizer.step()
        return len(graphs)

    before = step()
    frozen = hookline.freeze(compiled, "[0-2]")
    weight = model[3].weight.clone()
    assert step() == step() == before + 1
    frozen.check(optimizer)
    assert not torch.equal(weight, model[3].weight)
    body = model[0].weight.clone()
    frozen.thaw()
    assert step() == step() <= before + 2
    assert not torch.equal(body, model[0].weight) and model[1].num_batches_tracked == 3
