import json
import subprocess
import sys
import textwrap
import time

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import hookline
from hookline import FreezeError, MissingExtraError, NotFrozenError

pytest.importorskip("safetensors")


@pytest.fixture
def data() -> TensorDataset:
    return TensorDataset(torch.randn(10, 3, 9, 9), torch.arange(10) % 3)


def warm(net, data):
    """Give the batch norms statistics of their own."""
    net.train()(data.tensors[0])
    return net


def losses(model, batches, parameters, steps=6) -> list[float]:
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    model.train()
    found = []
    for _ in range(steps):
        for x, target in batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    return found


def test_training_from_stored_features_gives_the_losses_of_training_the_whole(net, data, tmp_path) -> None:
    import copy

    frozen = hookline.freeze(warm(net, data), "stem", "layer1")
    loader = DataLoader(data, 5, shuffle=True)
    cached = frozen.cache(loader, tmp_path)
    assert cached.path == "layer1" and len(cached.dataset) == 10
    start = copy.deepcopy(net.state_dict())
    from_features = losses(cached.tail, lambda: DataLoader(cached.dataset, 5), net.parameters())
    end = copy.deepcopy(net.state_dict())
    net.load_state_dict(start)
    frozen.remove()
    hookline.freeze(net, "stem", "layer1")
    whole = losses(net, lambda: DataLoader(data, 5), net.parameters())
    assert from_features == pytest.approx(whole, abs=1e-5)
    for name, each in net.state_dict().items():
        torch.testing.assert_close(end[name], each, rtol=1e-4, atol=1e-5)
    assert not torch.equal(start["layer2.0.weight"], end["layer2.0.weight"])
    assert torch.equal(start["layer1.0.weight"], end["layer1.0.weight"])


def test_an_item_is_the_features_of_its_sample_and_what_was_kept(net, data, tmp_path) -> None:
    frozen = hookline.freeze(warm(net, data), "stem", "layer1")
    cached = frozen.cache(data, tmp_path)
    with torch.no_grad():
        expected = net.layer1(net.stem(data.tensors[0]))
    for index in (0, 7, -1):
        features, target = cached.dataset[index]
        torch.testing.assert_close(features, expected[index])
        assert target == data.tensors[1][index]
    with pytest.raises(IndexError, match="there are 10 samples, got index 10"):
        cached.dataset[10]
    loaded = list(DataLoader(cached.dataset, 4, num_workers=1, multiprocessing_context="fork"))
    torch.testing.assert_close(torch.cat([each[0] for each in loaded]), expected)


class Counting(nn.Module):
    """A net that counts the samples that its beginning computes."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        return self.head(self.body(x).relu())


def test_a_second_call_computes_nothing_anew(tmp_path) -> None:
    model, data = Counting(), TensorDataset(torch.randn(12, 4), torch.arange(12))
    frozen = hookline.freeze(model, "body")
    first = frozen.cache(DataLoader(data, 2), tmp_path)
    whole, model.seen = model.seen, 0
    before = {each.name: each.stat().st_mtime_ns for each in tmp_path.iterdir()}
    second = frozen.cache(DataLoader(data, 2), tmp_path)
    assert model.seen == whole - 12  # only the first batch is tried again
    assert {each.name: each.stat().st_mtime_ns for each in tmp_path.iterdir()} == before
    assert torch.equal(first.dataset[5][0], second.dataset[5][0])
    assert second.prefix_seconds == first.prefix_seconds > 0
    assert second.break_even >= 1
    assert "12 samples up to 'body'" in repr(second)


def test_an_interrupted_run_is_taken_up_where_it_ended(tmp_path, monkeypatch) -> None:
    model, data = Counting(), TensorDataset(torch.randn(12, 4), torch.arange(12))
    frozen = hookline.freeze(model, "body")

    def interrupted(batches, *_, **__):
        for index, batch in enumerate(batches):
            if index == 3:
                raise KeyboardInterrupt
            yield batch

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("hookline.freezing.cache.tracked", interrupted)
        frozen.cache(DataLoader(data, 2), tmp_path)
    shards = json.loads((tmp_path / "index.json").read_text())["shards"]
    assert sum(each["count"] for each in shards) == 6
    model.seen = 0
    frozen.cache(DataLoader(data, 2), tmp_path / "other")
    whole, model.seen = model.seen, 0
    cached = frozen.cache(DataLoader(data, 2), tmp_path)
    assert model.seen == whole - 6
    with torch.no_grad():
        torch.testing.assert_close(cached.dataset[7][0], model.body(data.tensors[0][7]))
    assert [cached.dataset[at][1].item() for at in range(12)] == list(range(12))


def test_a_run_that_is_killed_loses_nothing_that_was_written(tmp_path) -> None:
    script = textwrap.dedent(
        """
        import sys, time, torch, hookline
        from torch import nn
        from torch.utils.data import DataLoader, Dataset
        torch.set_num_threads(1)
        torch.manual_seed(0)
        class Numbers(Dataset):
            read = 0
            def __len__(self):
                return 40
            def __getitem__(self, index):
                self.read += 1
                if self.read > 70 and sys.argv[1] == "slow":
                    time.sleep(60)
                return torch.full((4,), float(index)), index
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        data = Numbers()
        cached = hookline.freeze(model, "0").cache(DataLoader(data, 2), "features", shard=1)
        for index in range(40):
            features, number = cached.dataset[index]
            assert number == index
            torch.testing.assert_close(features, model[0](torch.full((4,), float(index))))
        print(data.read)
        """
    )
    run = [sys.executable, "-c", script]
    killed = subprocess.Popen([*run, "slow"], cwd=tmp_path)
    index = tmp_path / "features" / "index.json"
    deadline = time.monotonic() + 60
    while not (
        index.exists() and len(json.loads(index.read_text())["shards"]) >= 8
    ):  # 16 samples, all that a resumed run compares
        assert time.monotonic() < deadline and killed.poll() is None
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    (tmp_path / "features" / "features-000000099.safetensors.partial").write_text("half")
    done = len(json.loads(index.read_text())["shards"])
    read = int(subprocess.run([*run, "fast"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout)
    assert len(json.loads(index.read_text())["shards"]) == 20
    fresh = int(subprocess.run([*run, "fast"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout)
    assert read == fresh + 40 - 2 * done  # only what was missing was read for good


def refused(frozen, data, folder, message, **options) -> None:
    before = set(folder.iterdir())
    with pytest.raises(FreezeError, match=message):
        frozen.cache(data, folder, **options)
    assert set(folder.iterdir()) == before


def test_a_folder_of_other_weights_data_or_parts_is_refused(net, data, tmp_path) -> None:
    frozen = hookline.freeze(warm(net, data), "stem", "layer1")
    frozen.cache(DataLoader(data, 5), tmp_path)
    other = TensorDataset(data.tensors[0] + 1, data.tensors[1])
    refused(frozen, other, tmp_path, "holds features of other inputs: sample 0 is not what it was")
    refused(frozen, TensorDataset(*(each[:9] for each in data.tensors)), tmp_path, "holds features of other data")
    frozen.thaw("layer1")
    refused(frozen, data, tmp_path, "holds features of other weights and plan: they are not those of this model")
    frozen.remove()
    with torch.no_grad():
        net.layer1[0].weight.mul_(2)
    refused(hookline.freeze(net, "stem", "layer1"), data, tmp_path, "holds features of other weights: they")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "notes.txt").write_text("mine")
    refused(hookline.freeze(net, "stem"), data, tmp_path / "more", "holds other files")


def test_code_that_changed_beneath_stored_features_is_found(tmp_path) -> None:
    class Scaled(nn.Module):
        scale = 1.0

        def forward(self, x):
            return x * self.scale

    data = TensorDataset(torch.randn(4, 2), torch.arange(4))
    model = nn.Sequential(Scaled(), nn.Linear(2, 2))
    frozen = hookline.freeze(model, "0")
    frozen.cache(data, tmp_path)
    model[0].scale = 2.0
    refused(frozen, data, tmp_path, "holds other features of sample 0 than the model computes now")


class Augmented(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return torch.full((3, 9, 9), index + 1.0) * torch.rand(()), index % 3


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


def test_samples_that_differ_between_two_readings_are_refused(net, tmp_path) -> None:
    refused(hookline.freeze(net, "stem"), Augmented(), tmp_path, "sample 0 differs between two readings: augmentation")


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (Stream(), "a Stream has no order"),
        (DataLoader(Stream()), "a Stream has no order"),
        ([], "the data set is empty"),
        (DataLoader([torch.ones(3)], batch_size=None), "makes no batches"),
        (DataLoader([{"x": torch.ones(3, 9, 9)}]), "a batch is a dict with x"),
        (DataLoader([(torch.ones(3, 9, 9), "cat")]), "1 is of type str|0 is of type str"),
    ],
)
def test_what_cannot_be_read_in_order_and_told_apart_is_refused(net, loader, message, tmp_path) -> None:
    refused(hookline.freeze(net, "stem"), loader, tmp_path, message)


def test_a_collate_function_that_pads_is_refused(tmp_path) -> None:
    class Texts(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return torch.ones(index + 1, dtype=torch.int64)

    model = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 2))
    loader = DataLoader(Texts(), 2, collate_fn=lambda several: nn.utils.rnn.pad_sequence(several, batch_first=True))
    refused(hookline.freeze(model, "0"), loader, tmp_path, "of a sample in a batch than of the sample alone")


@pytest.mark.parametrize("level", ["params", "state"])
def test_only_a_frozen_function_is_cached(net, data, level, tmp_path) -> None:
    refused(hookline.freeze(net, "stem", level=level), data, tmp_path, "only features of level='function'")


def test_dropout_that_is_on_is_refused(net, data, tmp_path) -> None:
    frozen = hookline.freeze(net, "stem", "layer1", dropout=True)
    net.train()
    refused(frozen, data, tmp_path, r"'layer1.2' drops values at random each time \(dropout=True\)")
    frozen.remove()
    net.stem.append(nn.Dropout(0.5))
    frozen = hookline.freeze(net, "stem.[0-2]", "layer1")
    refused(frozen, data, tmp_path, r"'stem.3' runs before the last frozen module, .* drops values at random")


def test_a_functional_dropout_is_refused(tmp_path) -> None:
    class Drops(nn.Sequential):
        def forward(self, x):
            return self[1](self[0](nn.functional.dropout(x, training=self.training)))

    data = TensorDataset(torch.randn(4, 2), torch.arange(4))
    frozen = hookline.freeze(Drops(nn.Linear(2, 2), nn.Linear(2, 2)), "0")
    refused(frozen, data, tmp_path, "differs between two runs on one input")


def test_layers_that_depend_on_the_batch_are_refused(tmp_path) -> None:
    data = TensorDataset(torch.randn(4, 3), torch.arange(4))
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 2))
    hookline.freeze(model, "[01]").cache(data, tmp_path / "fine")

    class Centred(nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    model = nn.Sequential(nn.Linear(3, 3), Centred(), nn.Linear(3, 2))
    refused(hookline.freeze(model, "[01]"), data, tmp_path, "depends on the others in its batch")
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    refused(hookline.freeze(model, "1"), data, tmp_path, "'0' runs before the last frozen .* a state of its own")


def test_a_rest_that_needs_more_than_one_value_is_refused(tmp_path) -> None:
    class Skips(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.head = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            first = self.first(x)
            return self.head(self.second(first) + first)

    data = TensorDataset(torch.randn(4, 2), torch.arange(4))
    refused(hookline.freeze(Skips(), "first", "second"), data, tmp_path, "'second' needs more than its output")
    hookline.freeze(Skips(), "first").cache(data, tmp_path / "fine")


def test_nothing_to_cache_or_to_train_is_refused(net, data, tmp_path) -> None:
    with hookline.freeze(net, ".") as frozen:
        refused(frozen, data, tmp_path, "nothing that trains")
    refused(hookline.freeze(net, "layer1"), data, tmp_path, "no frozen module runs before 'stem.0.weight'")


def test_weights_that_moved_are_refused(net, data, tmp_path) -> None:
    frozen = hookline.freeze(net, "stem")
    net.stem[0].weight.data.add_(1)
    with pytest.raises(NotFrozenError, match=r"stem.0.weight"):
        frozen.cache(data, tmp_path)


def test_the_tail_is_refused_after_its_beginning_was_thawed(net, data, tmp_path) -> None:
    frozen = hookline.freeze(warm(net, data), "stem", "layer1")
    cached = frozen.cache(data, tmp_path)
    features, _ = cached.dataset[0]
    assert cached.tail(features[None]).shape == (1, 3)
    with pytest.raises(FreezeError, match="is called with the 1 tensors that 'layer1' gives"):
        cached.tail(features[None], features[None])
    frozen.thaw("layer1")
    with pytest.raises(FreezeError, match="a part of what the features were computed with has been thawed"):
        cached.tail(features[None])


def test_the_tail_leaves_no_hook_and_shares_parameters_and_modes(net, data, tmp_path) -> None:
    frozen = hookline.freeze(warm(net, data), "stem")
    cached = frozen.cache(data, tmp_path)
    cached.tail(torch.stack([cached.dataset[at][0] for at in range(3)]))
    with pytest.raises(RuntimeError):
        cached.tail(torch.zeros(3, 7, 2, 2))
    frozen.remove()
    assert all(type(module).__dict__.get("__hookline__") is None for module in net.modules())
    assert {id(each) for each in cached.tail.parameters()} == {id(each) for each in net.parameters()}
    cached.tail.eval()
    assert not net.training


class Nested(nn.Module):
    """Two values go on, one of them in a dict; the model is called by name, and works in place between its modules."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.act = nn.ReLU(inplace=True)
        self.body = nn.GRU(4, 3, batch_first=True)
        self.head = nn.Linear(3, 2)

    def forward(self, ids, scale=1.0):
        x = self.embed(ids)
        x += 1
        output, _ = self.body(self.act(x))
        return self.head(self.act(output * scale))


def test_named_arguments_several_outputs_and_in_place_code_are_taken(tmp_path) -> None:
    class Texts(Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return {"ids": torch.arange(3) % (index + 1), "label": index}

    model = Nested()
    # A GRU's second output has the samples on its second axis.
    options = {"inputs": lambda batch: {"ids": batch["ids"]}, "keep": lambda batch: batch["label"]}
    refused(hookline.freeze(model, "embed", "body"), Texts(), tmp_path, "first axis must be that of the", **options)
    model = Nested()
    cached = hookline.freeze(model, "embed").cache(Texts(), tmp_path, **options)
    features, label = next(iter(DataLoader(cached.dataset, 5)))
    expected = model(torch.stack([Texts()[at]["ids"] for at in range(5)]))
    torch.testing.assert_close(cached.tail(features), expected)
    assert label.tolist() == [0, 1, 2, 3, 4]


def test_several_tensors_of_the_last_frozen_module_come_back_as_they_were(tmp_path) -> None:
    class Pair(nn.Module):
        def forward(self, x):
            return {"one": x, "two": (x * 2, None)}

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.head = Pair(), nn.Linear(2, 2)

        def forward(self, x):
            both = self.pair(x)
            assert both["two"][1] is None
            return self.head(both["one"] + both["two"][0])

    model, x = Model(), torch.randn(4, 2)
    cached = hookline.freeze(model, "pair").cache([(each, 1) for each in x], tmp_path)
    features, _ = next(iter(DataLoader(cached.dataset, 4)))
    assert torch.equal(features[1], 2 * x)
    torch.testing.assert_close(cached.tail(*features), model(x))
    torch.testing.assert_close(cached.tail(features), model(x))


def test_without_safetensors_the_error_says_what_to_install(net, data, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hookline\[save\]'"):
        hookline.freeze(net, "stem").cache(data, tmp_path)


def test_the_progress_bar_is_shown_on_request(net, data, tmp_path, capsys) -> None:
    pytest.importorskip("rich")
    hookline.freeze(net, "stem").cache(data, tmp_path, show=True)
    assert "caching features" in capsys.readouterr().err


def test_code_that_writes_in_place_between_frozen_modules_is_taken(tmp_path) -> None:
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.head = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            x = self.first(x)
            x += 1  # of what stands for the output, every element needs memory of its own
            return self.head(self.second(x))

    model, x = InPlace(), torch.randn(4, 2)
    cached = hookline.freeze(model, "first", "second").cache([(each, 1) for each in x], tmp_path)
    features, _ = next(iter(DataLoader(cached.dataset, 4)))
    torch.testing.assert_close(cached.tail(features), model(x))


def test_a_module_that_is_called_before_and_after_the_cut_runs_after_it(tmp_path) -> None:
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.head = nn.Linear(2, 3), nn.Linear(3, 4), nn.Linear(4, 2)
            self.act = nn.ReLU()

        def forward(self, x):
            return self.head(self.act(self.second(self.act(self.first(x)))))

    model, x = Shared(), torch.randn(4, 2)
    cached = hookline.freeze(model, "first", "second").cache([(each, 1) for each in x], tmp_path)
    features, _ = next(iter(DataLoader(cached.dataset, 4)))
    assert cached.path == "second" and bool((features < 0).any())
    torch.testing.assert_close(cached.tail(features), model(x))


def test_a_new_head_goes_on_with_the_old_features(net, data, tmp_path) -> None:
    hookline.freeze(warm(net, data), "stem", "layer1").cache(data, tmp_path)
    before = {each.name: each.stat().st_mtime_ns for each in tmp_path.iterdir()}
    net.head = nn.Linear(4, 7)
    cached = hookline.freeze(net, "stem", "layer1").cache(data, tmp_path)
    assert cached.tail(cached.dataset[0][0][None]).shape == (1, 7)
    assert {each.name: each.stat().st_mtime_ns for each in tmp_path.iterdir()} == before
    net.stem[0].padding = (1, 1)
    refused(hookline.freeze(net, "stem", "layer1"), data, tmp_path, "holds features of other plan")


@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_model_is_cached_and_its_tail_runs_uncompiled(net, data, tmp_path) -> None:
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    warm(net, data)
    net.layer2 = torch.compile(net.layer2, backend=backend)
    model = torch.compile(net, backend=backend)
    cached = hookline.freeze(model, "stem", "layer1").cache(data, tmp_path)
    features, _ = cached.dataset[0]
    net.eval()
    with torch.no_grad():
        given = cached.tail(features[None])
        assert graphs == []
        torch.testing.assert_close(given, model(data.tensors[0][:1]))


class Looks(nn.Module):
    """Its rest looks at the input in one of several ways that the first samples do not show."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.embed, self.head, self.how = nn.Embedding(9, 4), nn.Linear(4, 2), how

    def forward(self, ids):
        x = self.embed(ids.view(-1, 3))
        if self.how == "last before the padding":
            last = (ids != 8).sum(1) - 1
            return self.head(x[torch.arange(len(x)), last])
        if self.how == "a number":
            return self.head(x.sum(1)) if (ids == 8).any() else self.head(x.mean(1))
        return self.head(x.mean(1) + torch.zeros_like(ids)[:, :1])


@pytest.mark.parametrize("how", ["last before the padding", "a number"])
def test_a_rest_that_looks_at_the_input_is_refused_also_where_the_first_samples_do_not_show_it(how, tmp_path) -> None:
    data = [(torch.tensor([1, 2, 3]), 0), (torch.tensor([0, 0, 0]), 1), (torch.tensor([5, 8, 8]), 1)]
    frozen = hookline.freeze(Looks(how), "embed")
    refused(frozen, DataLoader(data, 2), tmp_path, "'embed' needs more than its output")


def test_the_shape_of_the_input_may_be_looked_at(tmp_path) -> None:
    data = [(torch.tensor([1, 2, 3]), 0), (torch.tensor([0, 0, 0]), 1)]
    assert len(hookline.freeze(Looks("its shape"), "embed").cache(data, tmp_path).dataset) == 2


def test_a_folder_of_another_format_or_with_a_file_missing_is_refused(net, data, tmp_path) -> None:
    frozen = hookline.freeze(warm(net, data), "stem")
    frozen.cache(data, tmp_path)
    (tmp_path / "features-000000000.safetensors").unlink()
    refused(frozen, data, tmp_path, r"lacks features-000000000.safetensors: delete the folder")
    index = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps({**index, "format": 99}))
    refused(frozen, data, tmp_path, "has format 99; this version reads 1")


def test_a_loader_of_single_samples_is_taken(net, data, tmp_path) -> None:
    cached = hookline.freeze(warm(net, data), "stem").cache(DataLoader(data, 1), tmp_path)
    net.eval()
    several = torch.stack([cached.dataset[at][0] for at in range(5)])
    torch.testing.assert_close(cached.tail(several), net(data.tensors[0][:5]))


@pytest.mark.parametrize("length", [3, 4])
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_the_axis_of_the_samples_is_told_from_others_of_their_length(length, batch_size, tmp_path) -> None:
    class Placed(nn.Module):
        """Positions have no axis of samples; in the middle the samples are on the second axis."""

        def __init__(self):
            super().__init__()
            self.embed, self.place = nn.Embedding(9, 4), nn.Embedding(4, 4)
            self.mix = nn.GRU(4, 4)
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, ids):
            x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
            x, _ = self.mix(x.transpose(0, 1))
            return self.head(self.body(x.transpose(0, 1)))

    model, data = Placed(), [(torch.arange(length) + at, at) for at in range(5)]
    frozen = hookline.freeze(model, "embed", "place", "mix", "body")
    cached = frozen.cache(DataLoader(data, batch_size), tmp_path)
    features, _ = next(iter(DataLoader(cached.dataset, 5)))
    torch.testing.assert_close(cached.tail(features), model(torch.stack([each for each, _ in data])))


def test_a_shape_that_grows_in_another_way_with_the_samples_is_refused(tmp_path) -> None:
    class Pairs(nn.Module):
        def forward(self, x):
            return x[:, None] - x[None]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.pairs, self.body, self.head = Pairs(), nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            self.pairs(x)
            return self.head(self.body(x))

    data = TensorDataset(torch.randn(4, 2), torch.arange(4))
    refused(hookline.freeze(Model(), "body"), data, tmp_path, "not one axis that grows with their number")
