import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
SUMNET = """\
forward_pre_hook
forward
forward_hook
tensor(116., grad_fn=<AddBackward0>)
"""


def test_the_sumnet_example_prints_its_four_lines() -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "sumnet.py"], capture_output=True, text=True, check=True)
    assert done.stdout == SUMNET


def test_the_sumnet_example_prints_the_same_through_a_group_of_hooks(capsys) -> None:
    import torch

    import hookline

    class SumNet(torch.nn.Module):
        def forward(self, a, b, c):
            print("forward")
            return a + b + c

    def before(call):
        print("forward_pre_hook")
        a, b, c = call.args
        return a + 10, b, c

    def after(call):
        print("forward_hook")
        return call.output + 100

    net = SumNet()
    with hookline.Hooks(net) as hooks:
        hooks.before(".", before)
        hooks.after(".", after)
        print(net(*(torch.tensor(value, requires_grad=True) for value in (1.0, 2.0, 3.0))))
    assert capsys.readouterr().out == SUMNET
