import os
import subprocess
import sys
import textwrap

DDP = """
    import os, torch, hookline
    from torch import nn
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("rendezvous"), rank=0, world_size=1)
    def build():
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    def refused(call):
        try:
            call()
        except hookline.FreezeError as error:
            assert "'0.weight' is in a DistributedDataParallel" in str(error) and "wrap it again" in str(error), error
        else:
            raise AssertionError("not refused")

    wrapped = nn.parallel.DistributedDataParallel(build())
    inner = wrapped.module
    refused(lambda: hookline.freeze(wrapped, "0"))
    refused(lambda: hookline.freeze(inner, "0"))
    assert inner[0].weight.requires_grad and inner[0].training and type(inner[0]) is nn.Linear
    del wrapped

    model = build()
    frozen = hookline.freeze(model, "0", "1")
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=0.1)
    for _ in range(3):
        wrapped.train()
        optimizer.zero_grad()
        wrapped(torch.randn(4, 4)).sum().backward()
        optimizer.step()
    frozen.check(optimizer)
    refused(lambda: frozen.thaw("0"))
    refused(frozen.remove)
    assert not model[0].weight.requires_grad
    del wrapped, optimizer
    frozen.remove()
    assert model[0].weight.requires_grad
    dist.destroy_process_group()
"""

FSDP2 = """
    import os, torch, hookline
    from torch import nn
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("rendezvous"), rank=0, world_size=1)
    x = torch.randn(8, 4)
    for freeze_first in (False, True):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        if freeze_first:
            frozen = hookline.freeze(model, "0", "1")
        fully_shard(model)
        if not freeze_first:
            model(x).sum().backward()
            frozen = hookline.freeze(model, "0", "1")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        before = {name: each.full_tensor().clone() for name, each in model.named_parameters()}
        for _ in range(3):
            model.train()
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        now = {name: each.full_tensor() for name, each in model.named_parameters()}
        assert [name for name in now if not torch.equal(now[name], before[name])] == ["2.weight", "2.bias"]
        assert not model[1].training
        if freeze_first:
            try:
                frozen.check()
            except hookline.NotFrozenError as error:
                assert "by sharding the model after freezing it" in str(error), error
            else:
                raise AssertionError("the tensors were replaced")
        else:
            frozen.check(optimizer)
        frozen.thaw("0")
        optimizer.zero_grad()
        model(x).square().sum().backward()
        assert model[0].weight.grad is not None and model[1].weight.grad is None
        try:
            frozen.report(x)
        except hookline.FreezeError as error:
            assert "is sharded (a DTensor)" in str(error), error
        else:
            raise AssertionError("the order of a sharded model was not to be recorded")
    dist.destroy_process_group()
"""


def run(script: str, folder) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=folder, check=True, env=environment)


def test_inside_ddp_neither_freezing_nor_thawing_is_allowed_and_the_error_says_to_wrap_again(tmp_path) -> None:
    """F6: one process, gloo."""
    run(DDP, tmp_path)


def test_a_model_is_frozen_before_or_after_it_is_sharded_and_proven_after(tmp_path) -> None:
    """F6, for FSDP2, whose parameters may be frozen and thawed at any time: one process, gloo."""
    run(FSDP2, tmp_path)
