"""PCM3's decoder and prompts. R rows, S steps (frames, or patches of them), M body slots, D width of features."""

import torch
from torch import nn

from skelbench.models.batch_norm import GlobalBatchNorm
from skelbench.models.recurrent import GRU
from skelbench.views.keyed import pick


class Decoder(nn.Module):
    """[R, S, D] to coordinates [R, T, J, 3]: an MLP step by step, recurrent layers, a linear map to a step's numbers.

    ``shape``: frames of a step, joints, 3, bodies per row of the encoder.
    """

    def __init__(self, width: int, hidden: int, depth: int, shape: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.shape = shape
        layers = nn.Linear(width, hidden), GlobalBatchNorm(hidden), nn.ReLU(), nn.Linear(hidden, hidden)
        self.enter = nn.Sequential(*layers)
        self.gru = GRU(hidden, hidden, depth, batch_first=True)
        self.predict = nn.Linear(hidden, torch.Size(shape).numel())

    def forward(self, steps_RSD, view):
        x_RSD = self.enter(steps_RSD.flatten(0, 1)).unflatten(0, steps_RSD.shape[:2])
        x_RSFJCM = self.predict(self.gru(x_RSD)[0]).float().unflatten(2, self.shape)
        x_RMTJC = x_RSFJCM.permute(0, 5, 1, 2, 3, 4).flatten(2, 3)
        if self.shape[-1] == 1:
            return x_RMTJC[:, 0]
        entry_R = torch.div(view.rows_R, view.bodies, rounding_mode="floor")
        return x_RMTJC[entry_R, view.rows_R % view.bodies]


class Prompts(nn.Module):
    """Learned vectors that tell a network its task: at the input one per pass, at features one per task.

    A prompt before a batch norm has no effect, because each pass is normalized separately. With the encoder ``bigru``
    this holds for all prompts except the contrast prompt, and for the decoder's prompt with any encoder.
    """

    def __init__(self, passes: tuple[str, ...], joints: int, bodies: int, widths: dict[str, int]) -> None:
        super().__init__()
        numbers = bodies * joints * 3
        self.inputs = nn.ParameterDict({name: _xavier((bodies, joints, 3), 2 * numbers) for name in passes})
        sizes = {name: 2 * max(1, width // 16) for name, width in widths.items()}  # an eighth: 256 of 2048
        self.features = nn.ParameterDict({name: _xavier((size,), size + 1) for name, size in sizes.items()})

    def at_input(self, view, name):
        """``view`` with the prompt of a pass added to every frame of each body slot."""
        prompt_MJC = self.inputs[name]
        return view.with_x(view.x_RTJC + prompt_MJC[view.rows_R % view.bodies % len(prompt_MJC)][:, None])

    def at_features(self, x_D, name, u_1):
        """``x_D`` [..., D] with half of a prompt added to each half of D, at one place for both that ``u_1`` draws."""
        prompt, half = self.features[name], x_D.shape[-1] // 2
        place = pick(u_1, half - len(prompt) // 2) + torch.arange(len(prompt) // 2, device=prompt.device)
        return x_D + prompt.new_zeros(x_D.shape[-1]).scatter(0, torch.cat([place, place + half]), prompt)


def _xavier(shape, fan):
    return nn.Parameter(torch.empty(shape).uniform_(-1, 1) * (6 / fan) ** 0.5)
