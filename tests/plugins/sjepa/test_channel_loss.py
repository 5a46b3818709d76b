import torch
from skelbench_plugins.sjepa.channel_loss import channel_cross_entropy

TEMPS = {"target_temp": 0.06, "predicted_temp": 0.1}


def test_the_gradient_is_the_difference_of_the_distributions_and_stops_at_the_target():
    predicted, target, centre = (torch.randn(3, 6, requires_grad=True) for _ in range(3))
    channel_cross_entropy(predicted, target, centre[0], **TEMPS).sum().backward()
    difference = (predicted / 0.1).softmax(-1) - ((target - centre[0]) / 0.06).softmax(-1)
    torch.testing.assert_close(predicted.grad, difference / 0.1)
    assert target.grad is None and centre.grad is None


def test_half_precision_features_are_taken_in_float32():
    predicted, target = (torch.randn(4, 6).bfloat16() for _ in range(2))
    loss = channel_cross_entropy(predicted, target, torch.zeros(6), **TEMPS)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, channel_cross_entropy(predicted.float(), target.float(), torch.zeros(6), **TEMPS))
