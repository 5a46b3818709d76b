"""``--observe tensorboard``: curves and settings of a run, for ``tensorboard --logdir results``."""

import json

from skelbench.pipeline.observe import Observer
from skelbench.plugin import ObserverSpec, hookimpl


class TensorBoard(Observer):
    """Every number as a scalar over steps, the run's spec as a text. A resumed run hides the steps that it
    repeats."""

    writer = None

    def run_started(self, run):
        self.run = run

    def log(self, step, metrics):
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.folder), purge_step=step)
            self.writer.add_text("spec", f"```\n{json.dumps(self.run['spec'], indent=1)}\n```", step)
        for name, value in metrics.items():
            if name != "step":
                self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def run_finished(self, outcome):
        if self.writer is not None:
            self.writer.close()


@hookimpl
def skelbench_observers():
    return [
        ObserverSpec(
            name="tensorboard",
            target=":TensorBoard",
            summary="scalars over steps: tensorboard --logdir RESULTS",
            packages=("tensorboard",),
            install="skelbench[tensorboard]",
        )
    ]
