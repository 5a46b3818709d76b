"""Results of checks of parts that no plugin announces."""

import pytest

from skelbench.plugin.host import Host
from skelbench.plugin.status import Entry, PluginStatus
from skelbench.testing import run_checks
from skelbench.testing.thing import kit


@pytest.fixture(scope="session")
def all_plugins():
    return Host()


@pytest.fixture
def checked(all_plugins):
    """``checked("encoders", descriptor, "shapes")``: result of this check; without a name, the results of all."""

    def checked(kind, descriptor, name="", **fields):
        entry = Entry(kind, descriptor, PluginStatus("broken"))
        all_plugins.entries.append(entry)
        try:
            subject, checks = kit(kind, all_plugins, descriptor)
            vars(subject).update(fields)
            results = list(run_checks(checks, subject, only=[name] if name else []))
        finally:
            all_plugins.entries.remove(entry)
        return results[0] if name else results

    return checked
