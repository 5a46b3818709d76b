from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.views.keyed import Keyed, philox

WORD = st.integers(0, 2**32 - 1)

# Known answers of Random123 (kat_vectors): counter, key, output.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize("counter,key,expected", KNOWN)
@pytest.mark.parametrize("array", [lambda v: np.array([v]), lambda v: torch.tensor([v])], ids=["numpy", "torch"])
def test_philox_known_answers(counter, key, expected, array):
    assert tuple(int(word[0]) for word in philox(tuple(array(c) for c in counter), key)) == expected


@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
@settings(max_examples=50, deadline=None)
def test_philox_is_the_same_in_exact_integers_numpy_and_torch(counter, key):
    exact = philox(counter, key)
    assert all(0 <= word < 2**32 for word in exact)
    assert tuple(int(w[0]) for w in philox(tuple(np.array([c]) for c in counter), key)) == exact
    assert tuple(int(w[0]) for w in philox(tuple(torch.tensor([c]) for c in counter), key)) == exact


def one_draw(seed, step, key, view, op, index):
    words = philox((index // 4, key, step, (view << 16) | op), (seed & 0xFFFFFFFF, seed >> 32))
    return (words[index % 4] >> 8) / 2**24


def test_uniform_is_the_literal_philox_word():
    keyed = Keyed(seed=2**40 + 17, step=3)
    keys = torch.tensor([0, 5, 2**32 - 1])
    views = torch.tensor([0, 2, 65535])
    drawn = keyed.uniform(keys, 11, view=views, op=9)
    assert drawn.dtype == torch.float32 and drawn.shape == (3, 11)
    for r in range(3):
        expected = [one_draw(2**40 + 17, 3, int(keys[r]), int(views[r]), 9, i) for i in range(11)]
        assert drawn[r].tolist() == expected


@given(keys=st.lists(WORD, min_size=1, max_size=8), n=st.integers(1, 30), more=st.integers(0, 20), order=st.randoms())
@settings(max_examples=15, deadline=None)
def test_draws_do_not_depend_on_the_batch_or_their_number(keys, n, more, order):
    keyed, keys, shuffled = Keyed(1, 2), np.array(keys), list(range(len(keys)))
    order.shuffle(shuffled)
    for draw in (partial(keyed.uniform, view=3, op=4), keyed.normal):
        together = draw(keys, n)
        assert torch.equal(draw(keys, n + more)[:, :n], together)
        assert torch.equal(draw(keys[shuffled], n), together[shuffled])
    rest = keyed.uniform(keys, n + more, view=3, op=4)[:, n:]
    assert torch.equal(rest, keyed.uniform(keys, more, view=3, op=4, start=n))


def test_every_part_of_the_key_changes_the_draws():
    base = {"seed": 1, "step": 2, "key": 3, "view": 4, "op": 5}
    changes = ({}, {"seed": 2}, {"seed": 1 + 2**32}, {"step": 3}, {"key": 4}, {"view": 5}, {"op": 6})

    def draw(seed, step, key, view, op):
        return tuple(Keyed(seed, step).uniform(torch.tensor([key]), 8, view=view, op=op)[0].tolist())

    assert len({draw(**base | change) for change in changes}) == 7


def test_normal_is_box_muller():
    keyed = Keyed(4, 4)
    u = keyed.uniform(torch.arange(6), 8).double().numpy()
    radius, angle = np.sqrt(-2 * np.log(1 - u[:, ::2])), 2 * np.pi * u[:, 1::2]
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(6, 8)
    assert np.allclose(keyed.normal(torch.arange(6), 8).numpy(), expected, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_draws_the_same_bits():
    keys = torch.arange(1000)
    cpu, gpu = Keyed(7, 8), Keyed(7, 8)
    assert torch.equal(cpu.uniform(keys, 33, view=2, op=1), gpu.uniform(keys.cuda(), 33, view=2, op=1).cpu())
    assert torch.allclose(cpu.normal(keys, 33), gpu.normal(keys.cuda(), 33).cpu(), atol=1e-6)
