"""``--observe knn``: 1-NN accuracy during training on held-out training subjects, logged as ``knn``. No test clips."""

import numpy as np
from torch.nn import functional as F

from skelbench.core.spec import evaluation_defaults
from skelbench.data.store.splits import TUNE
from skelbench.evaluation.features import UNDRAWN, PreparedClips
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.models.encoder import evaluating
from skelbench.pipeline.observe import Observer
from skelbench.plugin import ObserverSpec, hookimpl
from skelbench.training.build import grid_of

CLIPS = 256
"""Most clips of the gallery, and of the queries."""


class Neighbors(Observer):
    """The encoder as it would be probed now, at each diagnostic step."""

    def measure(self, trainer):
        spec, store, how = trainer.spec, trainer.source.store, evaluation_defaults(trainer.spec)
        split, (stream,) = store.split(spec.data.split + TUNE, spec.data.min_frames), how.pop("streams")
        data = {"second_body": spec.data.second_body, "dimensions": spec.data.dimensions}
        clips = PreparedClips(
            store,
            Preprocessing(stream=stream, **how, **data),
            grid_of(spec, store.topology),
            trainer.device,
            spec.train.precision,
        )
        encoder = trainer.method.inference_encoders().get(stream, trainer.method.inference_encoder())
        features, labels = [], []
        for ids in (split.train, split.test):
            ids = ids[np.linspace(0, len(ids) - 1, min(len(ids), CLIPS)).astype(int)]
            view = clips.builder()(trainer.source.gather(ids), UNDRAWN)["eval"].to(trainer.device)
            with evaluating(encoder):
                features.append(F.normalize(clips.clip_features(encoder, view), dim=1))
            labels.append(store.labels[ids])
        nearest = (features[1] @ features[0].T).argmax(1).cpu().numpy()
        return {"knn": float((labels[0][nearest] == labels[1]).mean())}


@hookimpl
def skelbench_observers():
    return [ObserverSpec(name="knn", target=":Neighbors", summary="1-NN accuracy on held-out training subjects")]
