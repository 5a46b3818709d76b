"""Where skelbench itself announces things: modules and packages, read as plugin files and not imported."""

PLACES: tuple[str, ...] = (
    "skelbench.data.synthetic.dataset",
    "skelbench.evaluate.finetune",
    "skelbench.evaluate.finetune_native",
    "skelbench.evaluate.knn",
    "skelbench.evaluate.linear",
    "skelbench.evaluate.native_contrastive",
    "skelbench.evaluate.native_masked",
    "skelbench.nn.vit",
    "skelbench.optim.optimizers",
    "skelbench.optim.schedules",
    "skelbench.report.figures.curves",
    "skelbench.report.figures.target_control",
    "skelbench.report.figures.token_budget",
    "skelbench.report.flops",
    "skelbench.report.linear",
    "skelbench.report.target_control",
    "skelbench.report.token_budget",
    "skelbench.report.tuned",
    "skelbench.skeleton.topology.known",
    "skelbench.views.augmentations",
    "skelbench.views.crops",
    "skelbench.views.distortions",
    "skelbench.views.masks",
    "skelbench.views.tubes",
)
"""A module; or a package, whose modules are read."""
