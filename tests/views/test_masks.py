import itertools
import math

import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.views.keyed import Keyed
from skelbench.views.masks import RATIO, TOKENS, MaskRows, RandomTokens, hidden_tokens, visible_tokens
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25, topologies
from skelbench.views.tubes import TUBES, Tube, spans

KEYED = Keyed(2, 9)


def is_connected(joints, topology=NTU25):
    joints, seen, todo = set(joints), set(), [min(joints)]
    while todo:
        at = todo.pop()
        seen.add(at)
        todo += {j for j in joints if topology.parents[j] == at or topology.parents[at] == j} - seen
    return seen == joints


def subsets_of(part, width, kind, topology=NTU25):
    """Every allowed span, in the order in which they are numbered."""
    if kind == "ordered":
        return [sorted(part[i : i + width]) for i in range(len(part) - width + 1)]
    return [list(c) for c in itertools.combinations(sorted(part), width) if is_connected(c, topology)]


@pytest.mark.parametrize("topology", topologies().values(), ids=topologies())
@pytest.mark.parametrize("kind", ["connected", "ordered"])
def test_span_tables_hold_every_span_once(kind, topology):
    table = spans(topology, kind)
    for g, part in enumerate(topology.parts.values()):
        for width in range(1, len(part) + 1):
            first, count = int(table.first_GW[g, width]), int(table.count_GW[g, width])
            got = [table.joints_SJ[s].nonzero()[0].tolist() for s in range(first, first + count)]
            assert got == subsets_of(part, width, kind, topology)
    assert len(table.joints_SJ) == table.count_GW.sum()


def one_mask(spec, times, key, view, proposals=None):
    """Algorithm 1, one cell at a time. Appends accepted (window, span) to ``proposals``."""
    gate, ratio, _ = KEYED.uniform(torch.tensor([key]), 3, view=view, op=RATIO)[0].double().tolist()
    cells = set()
    if gate >= spec.p:
        return cells
    tokens = times * 25
    budget = math.floor((spec.lo + ratio * (spec.hi - spec.lo)) * tokens)
    a_min = times if spec.a_min is None else spec.a_min
    a_max = 0.5 * tokens if spec.a_max is None else spec.a_max
    u = iter(KEYED.uniform(torch.tensor([key]), 4000, view=view, op=TUBES)[0].double().tolist())
    failures = 0
    while len(cells) < budget and failures < 10:
        most = min(budget - len(cells), a_max)
        least = a_min
        if most < a_min:
            if spec.stop == "printed":
                break
            if spec.stop == "clip":
                least = most
        parts = list(NTU25.parts.values())
        part = parts[int(next(u) * len(parts))]
        width = 1 + int(next(u) * len(part))
        allowed = subsets_of(part, width, spec.spans)
        span = allowed[int(next(u) * len(allowed))]
        area = least + next(u) * (most - least)
        height = min(max(round(area / width), 1), times)
        begin = int(next(u) * (times - height + 1))
        grown = cells | {(t, j) for t in range(begin, begin + height) for j in span}
        if len(cells) < len(grown) <= budget:
            cells, failures = grown, 0
            if proposals is not None:
                proposals.append((range(begin, begin + height), span))
        else:
            failures += 1
    return cells


def cells_of(mask_N):
    return {(int(n) // 25, int(n) % 25) for n in mask_N.nonzero()[:, 0]}


def rows(spec, times, keys, view=3):
    keys = torch.tensor(list(keys))
    return MaskRows(spec, Grid(8 * times, 8, 25), keys, torch.full_like(keys, view))


def tube_masks(requests):
    return [mask.mask_RN for mask in Tube.draw_all(requests, NTU25, KEYED)]


def random_masks(spec, tokens, keys):
    request = MaskRows(spec, Grid(tokens // 25, 1, 25), keys, torch.zeros_like(keys))
    mask = spec.draw(request, NTU25, KEYED)
    return mask.mask_RN, mask.keep_RK


def budgets(spec, keys, tokens, view=0):
    request = MaskRows(spec, Grid(tokens // 25, 1, 25), torch.arange(keys), torch.full((keys,), view))
    return hidden_tokens(request, KEYED, stratified=spec.stratified)


@pytest.mark.parametrize("stop", ["clip", "printed", "as-released"])
@pytest.mark.parametrize("kind", ["connected", "ordered"])
@pytest.mark.parametrize("times", [8, 1])
def test_tubes_are_algorithm_1(stop, kind, times):
    spec = Tube(stop=stop, spans=kind)
    (mask,) = tube_masks([rows(spec, times, range(60))])
    assert mask.dtype == torch.bool and mask.shape == (60, times * 25)
    for key in range(60):
        assert cells_of(mask[key]) == one_mask(spec, times, key, 3)


@pytest.mark.parametrize("areas", [{"a_max": 4}, {"a_min": 150}])
def test_impossible_tube_areas_are_rejected(areas):
    with pytest.raises(SkelbenchError, match="lower method.a_min or raise method.a_max"):
        tube_masks([rows(Tube(stop="printed", **areas), 8, range(6))])


def test_a_rows_mask_does_not_depend_on_its_batch():
    (together,) = tube_masks([rows(Tube(), 8, range(40))])
    order = [33, 2, 17]
    (alone,) = tube_masks([rows(Tube(), 8, order)])
    assert torch.equal(alone, together[order])


def test_stratified_ratios_fill_every_stratum():
    spec = Tube(lo=0.5, hi=0.9, stratified=True)
    budget = budgets(spec, 64, 10_000)
    strata = torch.floor((budget.double() / 10_000 - 0.5) / 0.4 * 64 + 0.02).long()
    assert sorted(strata.tolist()) == list(range(64)) and strata.tolist() != list(range(64))
    free = budgets(Tube(lo=0.5, hi=0.9), 64, 10_000)
    assert len(torch.floor((free.double() / 10_000 - 0.5) / 0.4 * 64).unique()) < 64


def test_coverage_matches_the_paper():
    keys = range(3000)
    share = {stop: tube_masks([rows(Tube(stop=stop), 8, keys)])[0].double().mean(1) for stop in ("clip", "printed")}
    assert abs(share["clip"].mean() - 0.695) < 0.007 and abs(share["clip"].std() - 0.114) < 0.005
    assert abs(share["printed"].mean() - 0.676) < 0.007
    assert share["clip"].min() > 0.47 and share["clip"].max() < 0.9


@pytest.mark.parametrize(
    "keep,tokens,visible",
    [("int", 750, 74), ("round", 750, 75), ("int", 375, 37), ("int", 200, 19), ("round", 200, 20)],
)
def test_constant_ratio_keeps_mamps_number_of_tokens(keep, tokens, visible):
    """1 - 0.9 is a little less than 0.1, so int() loses one."""
    keys = torch.arange(20)
    assert visible_tokens(tokens, 0.9, keep) == visible
    mask, kept = random_masks(RandomTokens(keep=keep), tokens, keys)
    assert kept.shape == (20, visible) and (mask.sum(1) == tokens - visible).all()
    for r in range(20):
        u = KEYED.uniform(keys[r : r + 1], tokens, op=TOKENS)[0].tolist()
        assert kept[r].tolist() == sorted(sorted(range(tokens), key=lambda n: u[n])[:visible])  # noqa: B023
        assert kept[r].tolist() == (~mask[r]).nonzero()[:, 0].tolist()


def test_random_ratio_and_probability():
    keys = torch.arange(500)
    spec = RandomTokens(lo=0.5, hi=0.9, p=0.5)
    mask, kept = random_masks(spec, 200, keys)
    assert kept is None
    hidden = mask.sum(1)
    masked = hidden > 0
    assert 0.4 < masked.double().mean() < 0.6
    assert hidden[masked].min() >= 100 and hidden[masked].max() < 180 and len(hidden.unique()) > 40
    u = KEYED.uniform(keys, 3, op=RATIO).double()
    assert torch.equal(hidden, torch.where(u[:, 0] < 0.5, torch.floor((0.5 + 0.4 * u[:, 1]) * 200).long(), 0))
    assert abs(mask[masked].double().mean(0) - 0.7).max() < 0.12, "every token equally likely"
    part, _ = random_masks(spec, 200, keys[5:9])
    assert torch.equal(part, mask[5:9])
