"""Real people for every format: clips of UI-PRMD that ship with skelbench."""

import numpy as np
import pytest
from skelbench_plugins.recordings.sources import open_mini

from skelbench.views.skeleton.mapping import joint_mapping
from skelbench.views.skeleton.topology import get_topology


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    return open_mini(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def person(mini):
    """First 20 frames of clip ``i`` with the joints of another skeleton: [T, J, 3], meters, Y up; absent joints are
    near their parents."""

    def make(i, name):
        topology, x_TJC = get_topology(name), mini.clip(i)[0, :20] + mini.index["origin"][i]
        mapping = joint_mapping(mini.topology.joints, topology)
        y_TJC, _ = mapping.apply(x_TJC, np.ones(x_TJC.shape[:2]))
        for j, joint in enumerate(topology.joints):
            if mapping.kinds[joint] == "absent":
                face = any(word in joint for word in ("eye", "ear", "nose", "mouth"))
                near = "head" if face else f"{joint.split()[0]} foot"
                side = {"left": -0.06, "right": 0.06}.get(joint.split()[0], 0)
                ahead = 0 if "ear" in joint or not face else -0.1
                y_TJC[:, j] = x_TJC[:, mini.topology.joints.index(near)] + np.array([side, 0, ahead])
        return y_TJC

    return make


@pytest.fixture(scope="session")
def pixels(person):
    """The same in an image of 1920 x 1080 pixels: [T, J, 2], y down."""

    def make(i, name):
        x_TJC = person(i, name)
        return np.stack([960 + 1000 * x_TJC[..., 0] / x_TJC[..., 2], 540 - 1000 * x_TJC[..., 1] / x_TJC[..., 2]], -1)

    return make
