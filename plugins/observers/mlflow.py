"""``--observe mlflow``: a run as MLflow has it, in a database below the run's directory; no server, no account.

To collect all runs in one place: ``MLFLOW_TRACKING_URI=sqlite:///PLACE/mlflow.db``;
to view them: ``mlflow ui --backend-store-uri`` with the same address.
"""

import logging
import os
import time
from pathlib import Path

from skelbench.pipeline.observe import Observer
from skelbench.plugin import ObserverSpec, hookimpl

STATUS = {"done": "FINISHED", "interrupted": "KILLED"}
"""Outcome of a run -> status in MLflow; FAILED for any other."""
MOST = 100
"""Parameters that MLflow takes at a time."""
LONGEST = 6000
"""Characters of a parameter."""


class MLflow(Observer):
    """Settings as parameters, numbers as metrics over steps. A resumed run continues the same MLflow run."""

    def run_started(self, run):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        for name in ("mlflow.store.db.utils", "alembic"):  # hide messages about the creation of tables
            logging.getLogger(name).setLevel(logging.WARNING)
        self.folder.mkdir(exist_ok=True)
        place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.folder.resolve()}/mlflow.db"
        self.client = MlflowClient(tracking_uri=place)
        id_file, fresh = self.folder / "run_id", not (Path(run["directory"]) / "metrics.jsonl").exists()
        if id_file.exists() and not fresh:
            self.id = id_file.read_text().strip()
            self.client.update_run(self.id, status="RUNNING")
            return
        spec = run["spec"]
        experiment = f"{spec['data']['name']}/{spec['data']['split']}"
        stored = self.client.get_experiment_by_name(experiment)
        owner = stored.experiment_id if stored else self.client.create_experiment(experiment)
        self.id = self.client.create_run(owner, run_name=run["name"], tags={"skelbench.id": run["id"]}).info.run_id
        id_file.write_text(self.id)
        settings = [Param(name, str(value)[:LONGEST]) for name, value in flat(spec)]
        for start in range(0, len(settings), MOST):
            self.client.log_batch(self.id, params=settings[start : start + MOST])

    def log(self, step, metrics):
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        figures = [Metric(name, float(value), now, step) for name, value in metrics.items() if name != "step"]
        self.client.log_batch(self.id, metrics=figures)

    def run_finished(self, outcome):
        self.client.set_terminated(self.id, STATUS.get(outcome, "FAILED"))


def flat(settings, prefix=""):
    """Dotted names and values of nested settings, without empty values."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            yield f"{prefix}{name}", value


@hookimpl
def skelbench_observers():
    return [
        ObserverSpec(
            name="mlflow",
            target=":MLflow",
            summary="an MLflow run in a database below the run's directory, or at MLFLOW_TRACKING_URI",
            packages=("mlflow", "sqlalchemy", "alembic"),
            install="skelbench[mlflow]",
        )
    ]
