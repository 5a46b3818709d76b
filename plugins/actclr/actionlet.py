"""Actionlets: cells that distinguish a clip from the mean clip, by gradients at an encoder's last feature map.

R rows (bodies), P stretches of frames x J joints = N cells, T frames, D channels, E width of an embedding.
"""

import torch
import torch.nn.functional as F

from skelbench.core import distributed
from skelbench.views import View
from skelbench.views.skeleton.topology import Topology
from skelbench.views.transfer import send


def mean_clip(view: View) -> tuple[View, torch.Tensor]:
    """Return the mean of all clips of all processes, one body per slot, as a view of M clips; and the fraction of
    bodies behind each slot's mean, float32 [M]."""
    slot_R = view.rows_R % view.bodies
    sum_MTJC = view.x_RTJC.new_zeros(view.bodies, *view.x_RTJC.shape[1:]).index_add(0, slot_R, view.x_RTJC)
    count_M = view.x_RTJC.new_zeros(view.bodies).index_add(0, slot_R, torch.ones_like(slot_R, dtype=sum_MTJC.dtype))
    sums = distributed.all_reduce_sum(torch.cat([sum_MTJC.flatten(), count_M]))
    count_M = sums[-view.bodies :]
    mean_MTJC = sums[: -view.bodies].view_as(sum_MTJC) / count_M.clamp(min=1)[:, None, None, None]
    return View.of(mean_MTJC[:, None], stream=view.stream), count_M / count_M.sum()


def actionlet(embed, tokens_RND, anchor_1E, topology: Topology, steepness: float, released: bool = False):
    """float32 [R, P, J] in [0, 1], without gradient: ReLU of how far each cell pulls its clip away from ``anchor_1E``
    (Grad-CAM of 1 - cosine; the gradient of a row averaged over its cells, times the features, averaged over channels),
    times ``steepness``, averaged over the joints of a body part, cut off at 1.

    ``embed(tokens_RND)`` -> [B, E] of the clips. ``released``: each number of an embedding is divided by its own
    absolute value, as in the released code, so the gradient is only rounding noise.
    """
    with torch.enable_grad():
        leaf_RND = tokens_RND.detach().float().requires_grad_()
        embedding_BE = embed(leaf_RND).float()
        if released:
            alike_B = F.normalize(embedding_BE[..., None], dim=-1)[..., 0].mean(1)
            alike_B = alike_B * F.normalize(anchor_1E.float(), dim=1).sum()
        else:
            alike_B = F.cosine_similarity(embedding_BE, anchor_1E.float(), dim=1)
        (pull_RND,) = torch.autograd.grad((1 - alike_B).sum(), leaf_RND)
    map_RPJ = F.relu((pull_RND.mean(1, keepdim=True) * leaf_RND.detach()).mean(2)) * steepness
    map_RPJ = map_RPJ.unflatten(1, (-1, topology.num_joints))
    part_JJ = torch.zeros(topology.num_joints, topology.num_joints)  # means over parts
    for joints in topology.parts.values():
        part_JJ[torch.tensor(joints)[:, None], torch.tensor(joints)] = 1 / len(joints)
    return (map_RPJ @ send(part_JJ, map_RPJ.device)).clamp(max=1)


def outside(view: View, other: View, map_RPJ) -> View:
    """Combine two views: ``view`` inside its actionlet, ``other`` outside; the map is interpolated between cells."""
    size = view.x_RTJC.shape[1:3]
    share_RTJ = F.interpolate(map_RPJ[:, None], size, mode="bilinear", align_corners=True)[:, 0, ..., None]
    return view.with_x(view.x_RTJC * share_RTJ + other.x_RTJC * (1 - share_RTJ))
