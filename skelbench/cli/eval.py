"""``skelbench eval RUN``: another probe on a finished run; never retrains."""

from __future__ import annotations

from typing import Annotated

import typer

from skelbench.cli.options import CHECKPOINT, ReadResults, option, request_options
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import EvaluationRequest, comma_separated, known_protocols
from skelbench.pipeline.session import open_session


@request_options
def evaluate(
    run: Annotated[list[str], typer.Argument(help=f"{CHECKPOINT} Several runs, one per stream, are fused.")],
    asked: EvaluationRequest,
    protocol: Annotated[str, typer.Option(help="Protocols, comma separated.")] = "linear,knn",
    sets: Annotated[list[str] | None, option(EvaluationRequest, "sets")] = None,
    results: ReadResults = None,
) -> None:
    """Evaluate a finished RUN with one or more protocols. Existing results are shown, not computed again.

    With other streams or data, existing baselines of the run are evaluated with the same streams and data.
    """
    from skelbench.cli.summary import print_records
    from skelbench.plugin.host import get_host

    protocols = known_protocols(get_host(), comma_separated(protocol), elsewhere=True)  # before torch is imported
    if not protocols:
        raise SkelbenchError("--protocol is empty: name a protocol, see `skelbench plugins list protocols`")
    from skelbench.api.evaluations import evaluate_runs
    from skelbench.core import distributed

    session = open_session(results, asked.data, asked.device)
    runs = [session.results.find(pattern) for pattern in run]
    records = evaluate_runs(session, runs, protocols, asked)
    if not distributed.rank():
        print_records(runs[0][0], records)
    distributed.leave()
