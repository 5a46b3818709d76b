"""Studies on a small dataset, with methods that train quickly, fail, or are killed."""

import textwrap
from pathlib import Path

import pytest

PLUGIN = textwrap.dedent(
    """
    import os
    import signal
    import time
    from pathlib import Path

    from skelbench.plugin import Log, MethodSpec, hookimpl
    from skelbench.views.spec import ViewSpec
    from skelbench_plugins.untrained import Untrained


    @hookimpl
    def skelbench_methods():
        keen = MethodSpec(name="keen", target=":Calm", space={"train.lr": Log("x0.5", "x2")})
        return [keen, *(MethodSpec(name=name, target=f":{name.title()}") for name in ("calm", "raises", "dies"))]


    class Calm(Untrained):
        @classmethod
        def views(cls, config, grid):
            return {"clip": ViewSpec(frames=grid.frames)}

        def training_step(self, views, step):
            if Path(__file__).with_name("slowly").exists():
                time.sleep(0.05)
            return {"loss": self.encoder(views["clip"]).pooled_RD.square().mean()}


    class Raises(Calm):
        def training_step(self, views, step):
            raise RuntimeError("no bees today")


    class Dies(Calm):
        def training_step(self, views, step):
            os.kill(os.getpid(), signal.SIGKILL)

    """
)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A directory with the dataset ``small`` and the plugin ``bees.py``, which commands find."""
    from small import shorten, write_small_store

    folder = tmp_path_factory.mktemp("study")
    (folder / "data").mkdir()
    write_small_store(folder / "data")
    (folder / "bees.py").write_text(f"# {folder}\n{PLUGIN}")  # equal files are imported once
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        patch.setenv("SKELBENCH_DATA", str(folder / "data"))
        patch.setenv("SKELBENCH_RESULTS", str(folder / "results"))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.chdir(folder)
        yield folder
