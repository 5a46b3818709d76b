"""Small models and a small data set that tests share."""

import os
import signal
import socket
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

TINY = {"encoder.dim": 16, "encoder.depth": 1, "encoder.heads": 2}
"""Settings of the ViT that make a step take milliseconds."""
TINY_ENCODER = {
    "vit": TINY,
    "stgcn": {"encoder.base": 2, "encoder.out": 8},
    "dste": {"encoder.dim": 8},
    "bigru": {"encoder.hidden": 8, "encoder.depth": 2},
    "two-branch": {"encoder.dim": 8},
}

DECODER = {"decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2}
QUEUE = {"queue": 8, "embedding": 8}
HEAD = {"prototypes": 32, "head_hidden": 32, "bottleneck": 16}
TINY_METHOD = {
    "slim": HEAD | DECODER,
    "dino": HEAD | {"local_views": 2},
    "ibot": HEAD | {"local_views": 2},
    "skeletonmae": DECODER,
    "mamp": DECODER,
    "amr": DECODER,
    "macdiff": DECODER,
    "sjepa": DECODER,
    "skeletonclr": QUEUE,
    "aimclr": QUEUE,
    "cmd": QUEUE,
    "pstl": {"head_hidden": 16},
    "usdrl": {"head_hidden": 16},
    "umurl": {"head_hidden": 16, "embedding": 12},
    "gfp": DECODER | {"target_hidden": 16, "target_hidden_global": 32, "target_dim": 16},
}

METHODS = tuple(TINY_METHOD)
COMPARING = {"skeletonclr", "aimclr", "cmd", "pstl", "usdrl", "umurl"}
"""Methods that tell clips from earlier ones or from others of their batch, and learn nothing of one alone."""

STILL = {
    "slim": {"momentum": 1.0, "teacher_temp_start": 0.07, "freeze_prototypes": 0.0},
    "dino": {"momentum": 1.0, "centering": "none", "freeze_prototypes": 0.0},
    "ibot": {"momentum": 1.0, "centering": "none", "freeze_prototypes": 0.0, "teacher_temp_start": 0.07},
    "sjepa": {"momentum": 1.0, "centre_momentum": 1.0},
    # A body's motion is nearly noise in the small data: with more to see it is told from another's in fewer steps.
    "mamp": {"mask_ratio": 0.5},
}
"""Settings that hold still what must not move while a method is made to overfit one batch, or let it be fast."""

TEACHERS = {"slim", "dino", "ibot", "sjepa"}
"""Methods with an EMA teacher."""


def tiny(method: str, encoder: str = "vit") -> dict:
    """Dotted settings of a tiny run of ``method``."""
    return TINY_ENCODER[encoder] | {f"method.{key}": value for key, value in TINY_METHOD.get(method, {}).items()}


def tiny_run(root, host, method="slim", epochs=2, batch_size=4, tokens=None, sets=(), **asked):
    """A complete tiny run on a data set below ``root``, ``small`` unless ``dataset`` says another.

    ``asked``: fields of the request; other keys are settings, without a dot the method's. ``sets`` go in as they are.
    """
    from skelbench.run.request import Request
    from skelbench.run.resolve import resolve

    fields = {"dataset": "small", "preset": "paper", "seed": 0, "tokens": tokens}
    fields |= {} if tokens else {"clip_length": 32, "patch": 8}
    native = host.get("methods", method).native if asked.get("native") else {}
    settings = tiny(method, native.get("encoder", "vit"))
    for key, value in asked.items():
        if key in Request.__dataclass_fields__:
            fields[key] = value
        else:
            settings[key if "." in key else f"method.{key}"] = value
    request = Request(method, epochs=epochs, batch_size=batch_size, sets=settings | dict(sets), **fields)
    return resolve(request, host, root, "cpu")


def silent_session(root, host, results):
    """A session over ``results``, on the CPU, without progress."""
    from skelbench.results.store import ResultStore
    from skelbench.run.session import Session

    @contextmanager
    def silent(**_):
        yield lambda *args, **kwargs: None

    return Session(host, ResultStore(results), root, "cpu", silent)


def forked(*functions: Callable[[], object]) -> list[tuple[int, str]]:
    """Call each in a process of its own, at once: exit codes, minus the signal's number of one that was killed, and the
    traceback of one that raised.

    Forked from this one, which has imported everything: a new Python takes seconds to import torch.
    """
    children = []
    for function in functions:
        reading, writing = os.pipe()
        if not (child := os.fork()):
            code = 1
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(120)
                function()
                code = 0
            except BaseException:
                os.write(writing, traceback.format_exc().encode())
            finally:
                os._exit(code)
        os.close(writing)
        children.append((child, reading))
    ends = []
    for child, reading in children:
        with os.fdopen(reading) as file:
            said = file.read()
        ends.append((os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said))
    return ends


def on_two_processes(function: Callable[[], object]) -> None:
    """Call it in each of two processes that are told to form a group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}

    def one(rank: str) -> None:
        os.environ.update(group, RANK=rank, LOCAL_RANK=rank)
        function()

    ends = forked(*(partial(one, rank) for rank in "01"))
    assert [code for code, _ in ends] == [0, 0], ends


def write_small_store(
    root: Path,
    name: str = "small",
    clips: int = 24,
    seed: int = 0,
    topology=None,
    flat: bool = False,
    classes=tuple("abcd"),
) -> Path:
    """``clips`` clips of 4 classes that differ in which joint moves; every third has a second body.

    ``flat``: 2-D poses with a confidence for every joint.
    """
    from skelbench.data.store.splits import FieldRule
    from skelbench.data.store.writer import StoreWriter
    from skelbench.skeleton.topology import NTU25

    topology = topology or NTU25
    rng = np.random.default_rng(seed)
    pose_JC = rng.normal(0, 0.3, (topology.num_joints, 3)).astype(np.float32)
    with StoreWriter(
        root / name,
        topology=topology,
        classes=classes,
        splits={"half": FieldRule(field="subject", train="odd")},
        default_split="half",
        lineage="made in a test",
    ) as writer:
        for clip in range(clips):
            label, frames = clip % 4, 20 + 7 * (clip % 5)
            bodies = 1 + (clip % 3 == 0)
            x_MTJC = np.repeat(np.repeat(pose_JC[None, None], frames, 1), bodies, 0).copy()
            wave_T = np.sin(np.linspace(0, 2 * np.pi * (1 + label), frames))
            x_MTJC[:, :, 3 + label] += 0.5 * wave_T[None, :, None]
            x_MTJC += rng.normal(0, 0.02, x_MTJC.shape)
            x_MTJC[..., 2] *= not flat
            confidence_MTJ = rng.uniform(0, 1, x_MTJC.shape[:3]) if flat else None
            subject = 1 + (clip // 4) % 4
            writer.add(x_MTJC.astype(np.float32), label, subject=subject, confidence_MTJ=confidence_MTJ)
    return root / name
