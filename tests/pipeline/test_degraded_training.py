"""A run on degraded clips is another run: each clip degraded once, in training alone; its controls are found."""

import numpy as np
import torch

from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.evaluate import eval_spec, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.reporting.controls import Controls

FILL = {"train.degrade": [{"kind": "zero-fill", "share": 0.32}]}


def test_degradations_change_the_id_and_none_keeps_it(resolved):
    plain = resolved("mamp").spec
    ids = {plain.id}
    for how in ("zero-fill", ["zero-fill"], {"kind": "zero-fill"}, [{"kind": "zero-fill", "share": 0.2}]):
        spec = resolved("mamp", **{"train.degrade": how}).spec
        assert spec.train.degrade == ({"kind": "zero-fill", "share": 0.2},)
        ids.add(spec.id)
    assert len(ids) == 2 and "degradations zero-fill" in spec.components
    assert type(spec).model_validate(spec.model_dump(mode="json")) == spec
    for nothing in ([], "none"):
        assert resolved("mamp", **{"train.degrade": nothing}).spec.id == plain.id
    assert "degrade" not in plain.model_dump_json()
    assert resolved("mamp", **FILL).spec.id not in ids


def test_training_sees_each_clip_degraded_once_by_the_seed_of_the_run(trainer):
    clean, filled = trainer("mamp").source, trainer("mamp", **FILL).source
    noisy = {**FILL, "train.degrade": ["noise"]}
    ids = np.array([1, 4, 2])
    batch = filled.gather(ids)
    for b, offset in enumerate(batch.offset):
        rows = 3 * batch.length[b] * batch.stored[b]
        x_FJ = batch.frames_FJ[offset : offset + rows]
        before = clean.store.frames_FJ[clean.store.offsets[ids[b]] :][:rows]
        assert (x_FJ.numpy() != before).any(0).sum() == 8, "the joints that are lost, and no other"
    assert batch.missing_BJ is None
    other = filled.gather(ids[::-1])
    assert torch.equal(other.frames_FJ[: 3 * batch.length[2]], batch.frames_FJ[-3 * batch.length[2] :])
    first, again, another = (trainer("mamp", seed=seed, **noisy).source.gather(ids).frames_FJ for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, another)


def test_degraded_training_changes_weights_and_is_evaluated_on_clean_clips(session, resolved):
    made, plain = resolved("mamp", epochs=1, **FILL), resolved("mamp", epochs=1)
    run, clean = pretrain(session, made), pretrain(session, plain)
    assert run.encoder().read_bytes() != clean.encoder().read_bytes()
    twin, raw = (pretrain(session, each(made, session.host)) for each in (control, raw_control))
    assert (
        twin.spec.id == control(plain, session.host).spec.id and raw.spec.id == raw_control(plain, session.host).spec.id
    )
    controls = Controls(session.results.read())
    assert controls.of("untrained", made.spec).name == twin.name and controls.of("raw", made.spec).name == raw.name
    by_twin, by_clean = (eval_spec(session.host, twin, "knn", like=spec) for spec in (made, plain))
    assert by_twin == by_clean, "the same clips, as they are"
    x = feature_sets(session, raw, eval_spec(session.host, raw, "knn", like=made))["joint"].train_x
    assert (x != 0).mean() > 0.99
