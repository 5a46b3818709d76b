"""``--observe csv``: what a run logs as ``csv/metrics.csv`` below its directory, for spreadsheets and R."""

import csv
import io

from skelbench.core.files import write_atomic
from skelbench.pipeline.observe import Observer
from skelbench.plugin import ObserverSpec, hookimpl


class Table(Observer):
    """One row per logged step, ascending; a value that was not logged at a step is empty. The file is always whole."""

    def __init__(self, folder):
        super().__init__(folder)
        self.path = folder / "metrics.csv"
        self.rows = []

    def run_started(self, run):
        if self.path.exists():
            with open(self.path, newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))

    def log(self, step, metrics):
        self.rows = [row for row in self.rows if int(row["step"]) < step]  # a resumed run logs some steps again
        self.rows.append({"step": step, **metrics})
        text = io.StringIO()
        columns = dict.fromkeys(name for row in self.rows for name in row)
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_atomic(self.path, lambda file: file.write(text.getvalue().encode()))


@hookimpl
def skelbench_observers():
    return [ObserverSpec(name="csv", target=":Table", summary="the metrics of a run as metrics.csv")]
