from dataclasses import replace

import official
import pytest
import torch
from skelbench_plugins.bigru import BiGRU, BiGRUConfig
from skelbench_plugins.longt_gan import LongTGAN, LongTGANConfig
from torch.nn import functional as F

from skelbench.methods import Context, Step
from skelbench.models.recurrent import unit_range
from skelbench.views import View
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, H = 10, 4
LENGTHS = (10, 7, 4, 10, 10, 3)
STEP = Step(0, 1, 0.0, torch.Generator(), Keyed(seed=0, step=3).uniform)


def make(**settings):
    grid = Grid(T, 1, 25)

    def encoder():
        return BiGRU(BiGRUConfig(hidden=H, depth=1, bodies=0, input_norm=False, second="backward"), NTU25, grid)

    context = Context(NTU25, grid, encoder, 2 * H, 2 * H)
    return official.fill(LongTGAN(LongTGANConfig(**{"critic_hidden": 3} | settings), context))


def padded(bodies=1):
    real_RT = (torch.arange(T) < torch.tensor(LENGTHS)[:, None]).repeat_interleave(bodies, 0)
    x_BMTJC = official.clip(len(LENGTHS), T)[:, :bodies] + 0.1
    view = View.of(x_BMTJC * real_RT.view(len(LENGTHS), bodies, T, 1, 1))
    return replace(view, real_RT=real_RT, keys_R=torch.arange(view.rows) + 40 * bodies)


def test_losses_of_both_optimizers_equal_a_loop_over_clips():
    method, view = make(adversary=0.5), padded()
    main, critic = (method({"clip": view}, replace(STEP, turn=turn)) for turn in method.turns)
    errors, fooled, told = [], [], []
    for r, length in enumerate(LENGTHS):
        alone = View.of(view.x_RTJC[r : r + 1, None, :length])
        x_TL = unit_range(alone.x_RTJC)[0].flatten(1)
        hidden_TL = method.hidden(view, STEP)[r, :length].repeat_interleave(3, 1)
        code_D = method.encoder(alone).summary_RD
        y_TL = method.decoder.out(method.decoder.gru((x_TL * ~hidden_TL)[None], code_D[None])[0])[0]
        errors.append((y_TL - x_TL)[hidden_TL].square().mean())
        filled_TL = torch.where(hidden_TL, y_TL, x_TL)
        made, real = (method.critic.out(method.critic.gru(x[None])[1][0])[0, 0] for x in (filled_TL, x_TL))
        fooled.append(-F.logsigmoid(made))
        told.append(-F.logsigmoid(-made) - F.logsigmoid(real))
    error, fooled, told = (torch.stack(each).mean().item() for each in (errors, fooled, told))
    assert main["inpainting"].item() == pytest.approx(error, rel=1e-5)
    assert main["fooled"].item() == pytest.approx(fooled, rel=1e-5)
    assert main["loss"].item() == pytest.approx(error + 0.5 * fooled, rel=1e-5)
    assert critic["loss"].item() == pytest.approx(told, rel=1e-5)
