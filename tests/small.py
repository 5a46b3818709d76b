"""Small models and a small dataset that tests share."""

from collections.abc import Callable
from contextlib import contextmanager

from skelbench.testing.processes import forked as forked
from skelbench.testing.processes import grouped

TINY = {"encoder.dim": 16, "encoder.depth": 1, "encoder.heads": 2}
"""Settings of the ViT that make a step take milliseconds."""
TINY_ENCODER = {
    "vit": TINY,
    "stgcn": {"encoder.base": 2, "encoder.out": 8},
    "dste": {"encoder.dim": 8},
    "hico": {"encoder.dim": 8, "encoder.heads": 2},
    "bigru": {"encoder.hidden": 8, "encoder.depth": 2},
    "scd-net": {"encoder.dim": 8, "encoder.heads": 2, "encoder.channels": 8},
    "two-branch": {"encoder.dim": 8},
    "glt": {"encoder.dim": 2, "encoder.depth": 2, "encoder.heads": 2},
    "agcn": {"encoder.base": 4},
    "hcn": {"encoder.channels": 4, "encoder.image": 16},
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
    "skeattnclr": QUEUE,
    "actclr": QUEUE,
    "crosclr": QUEUE,
    "rvtclr": QUEUE,
    "hico": QUEUE,
    "isc": QUEUE,
    "moco": QUEUE,
    "halp": QUEUE | {"queue": 4, "clusters": 3, "positives": 4, "every": 1},
    "pcm3": QUEUE | {"decoder_dim": 16, "decoder_depth": 1},
    "pstl": {"head_hidden": 16},
    "scd-net": QUEUE,
    "usdrl": {"head_hidden": 16},
    "umurl": {"head_hidden": 16, "embedding": 12},
    "pclust": {},
    "longt-gan": {"critic_hidden": 8},
    "hsp": {"head_hidden": 16, "lift_hidden": 8},
    "hysp": {"head_hidden": 16},
    "cpm": QUEUE,
    "gl-transformer": {},
    "igm": DECODER | {"queue": 8},
    "gfp": DECODER | {"target_hidden": 16, "target_hidden_global": 32, "target_dim": 16},
}

TINY_PARTNER = {"isc": {"partner_settings": {"base": 4}}}
"""Settings of a method that has a second encoder natively."""
METHODS = tuple(TINY_METHOD)
KINDS = ("slim", "mamp", "skeletonclr", "cmd", "sjepa", "longt-gan")
"""One of each kind of what a run keeps: a teacher with prototypes, weights alone, a queue, queues of streams, a running
center, optimizers in turn. For what the loop does with any of them; what a method has to do itself is asked of all."""
COMPARING = {
    "skeletonclr",
    "aimclr",
    "cmd",
    "pstl",
    "usdrl",
    "umurl",
    "skeattnclr",
    "actclr",
    "hsp",
    "crosclr",
    "rvtclr",
    "hysp",
    "cpm",
    "hico",
    "scd-net",
    "isc",
    "moco",
    "halp",
    "pcm3",
}
"""Methods that tell clips from earlier ones or from others of their batch, and learn nothing of one alone."""


def tiny(method: str, encoder: str = "vit") -> dict:
    """Dotted settings of a tiny run of ``method``."""
    sizes = TINY_PARTNER.get(method, {}) if encoder != "vit" else {}
    return TINY_ENCODER[encoder] | {
        f"method.{key}": value for key, value in (TINY_METHOD.get(method, {}) | sizes).items()
    }


def tiny_run(root, host, method="slim", epochs=2, batch_size=4, tokens=None, sets=(), **asked):
    """A complete tiny run on a dataset below ``root``, ``small`` unless ``dataset`` says another.

    ``asked``: fields of the request; other keys are settings, without a dot the method's. ``sets`` go in as they are.
    """
    from skelbench.pipeline.request import Request
    from skelbench.pipeline.resolve import resolve

    fields = {"dataset": "small", "preset": "paper", "seed": 0, "tokens": tokens}
    fields |= {} if tokens else {"clip_length": 32, "patch": 8}
    native = host.get("methods", method).native if asked.get("native") else {}
    settings = tiny(method, native.get("encoder", "vit"))
    for key, value in asked.items():
        if key in Request.model_fields:
            fields[key] = value
        else:
            settings[key if "." in key else f"method.{key}"] = value
    request = Request(method, epochs=epochs, batch_size=batch_size, sets=settings | dict(sets), **fields)
    return resolve(request, host, root, "cpu")


def shorten(patch) -> None:
    """Shorten probes until ``patch`` (pytest's MonkeyPatch) is undone: some dozens of steps instead of thousands,
    and the time of a pass is measured on two passes. For commands that make whole runs, if neither number matters."""
    from skelbench.evaluation import linear
    from skelbench.evaluation.cost import latency

    fit, timed = linear.fit_linear, latency._time

    def briefly(part, num_classes, config, *more, **how):
        return fit(part, num_classes, config.model_copy(update={"min_steps": min(config.min_steps, 40)}), *more, **how)

    patch.setattr(linear, "fit_linear", briefly)
    patch.setattr(linear, "WINDOW", 20)
    patch.setattr(latency, "_time", lambda encoder, view, batch, *_: timed(encoder, view, batch, 1, 2))


def silent_session(root, host, results):
    """A session over ``results``, on the CPU, without progress."""
    from skelbench.pipeline.session import Session
    from skelbench.records.store import ResultStore

    @contextmanager
    def silent(**_):
        yield lambda *args, **kwargs: None

    return Session(host, ResultStore(results), root, "cpu", silent)


def on_two_processes(function: Callable[[], object]) -> None:
    """Call it in each of two processes that form a group."""
    ends = grouped(function)
    assert [code for code, _ in ends] == [0, 0], ends


def write_small_store(root, name="small", **how):
    """:func:`skelbench.testing.tiny.write_store`; it is imported here as it imports torch."""
    from skelbench.testing.tiny import write_store

    return write_store(root, name, **how)
