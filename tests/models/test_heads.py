import torch

from skelbench.models.heads import PrototypeHead


def test_paper_head_has_22_million_parameters_and_a_gain_per_prototype():
    with torch.device("meta"):
        head = PrototypeHead(256)
    sizes = {name: parameter.numel() for name, parameter in head.named_parameters()}
    assert sizes.pop("prototype_gain") == 65_536
    assert sum(sizes.values()) == 22_024_448


def test_bottleneck_is_a_three_layer_mlp_on_the_unit_sphere():
    torch.manual_seed(0)
    head = PrototypeHead(6, hidden=10, bottleneck=4, prototypes=8)
    x = torch.randn(5, 3, 6)
    state = {name: value.detach() for name, value in head.named_parameters()}
    y = x
    for layer in (0, 2, 4):
        y = y @ state[f"mlp.{layer}.weight"].T + state[f"mlp.{layer}.bias"]
        if layer < 4:
            y = y * 0.5 * (1 + torch.erf(y / 2**0.5))
    expected = y / y.square().sum(-1, keepdim=True).sqrt()
    torch.testing.assert_close(head(x), expected)


def test_prototypes_have_unit_norm_times_a_trainable_gain():
    head = PrototypeHead(6, hidden=10, bottleneck=4, prototypes=8)
    torch.testing.assert_close(head.prototypes.norm(dim=1), torch.ones(8))
    with torch.no_grad():
        head.prototype_gain[3] = 2.5
        head.prototype_direction[2] *= 7.0
    torch.testing.assert_close(head.prototypes.norm(dim=1), torch.tensor([1, 1, 1, 2.5, 1, 1, 1, 1]))
    (head.prototypes * torch.randn(8, 4)).sum().backward()
    assert head.prototype_gain.grad.all()
    # A direction's length does not matter, so its gradient has no part along it.
    along = (head.prototype_direction.grad * head.prototype_direction).sum(1)
    torch.testing.assert_close(along, torch.zeros(8), atol=1e-5, rtol=0)
