"""A method whose two networks are updated in turn, each by its own optimizer."""

import torch

from skelbench.core.spec import RunSpec, TrainSpec
from skelbench.training.optimization import Optimization


class Adversary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.maker, self.critic = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)

    def optim_groups(self, critic="critic"):
        yield {"params": list(self.maker.parameters())}
        yield {"params": list(self.critic.parameters()), "turn": critic}


def spec(**fields):
    train = TrainSpec(epochs=1, lr=0.1, weight_decay=0.0, batch_size=4)
    return RunSpec(method="none", train=train, schedule="constant", **fields)


def test_only_the_current_optimizer_updates_its_parameters():
    torch.manual_seed(0)
    net = Adversary()
    optim = Optimization(net.optim_groups(), spec(optimizer="sgd"), 10, ("main", "critic"))
    for turn, moving in (("main", net.maker), ("critic", net.critic)):
        before = {name: value.clone() for name, value in net.named_parameters()}
        net.critic(net.maker(torch.ones(3, 2))).sum().backward()
        optim.step(0, optim.norms(turn), turn)
        moved = {name for name, value in net.named_parameters() if not torch.equal(value, before[name])}
        assert moved == {name for name, value in net.named_parameters() if any(value is p for p in moving.parameters())}
        assert all(value.grad is None for value in net.parameters()), "no gradient is left for the next turn"


def test_sgd_is_the_formula():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    settings = {"momentum": 0.9}
    optim = Optimization([{"params": [weight]}], spec(optimizer="sgd", optimizer_config=settings), 10)
    expected, velocity = weight.detach().clone(), torch.zeros(2)
    for step in range(3):
        weight.grad = torch.tensor([1.0, 0.5]) * (step + 1)
        velocity = 0.9 * velocity + torch.tensor([1.0, 0.5]) * (step + 1)
        expected -= 0.1 * velocity
        optim.step(step, optim.norms())
    assert torch.allclose(weight.detach(), expected)
