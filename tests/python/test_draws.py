"""Random numbers: Philox's published ones, and those of brood's own agents."""
import sys

from agents import SOURCE, harness, needs_numpy

sys.path.insert(0, str(SOURCE / "tests" / "golden"))

try:
    import numpy as np
    import rng_numpy as other
    from brood import draws
except ImportError:
    pass

NAMES = ((1, "agent_0", "act"), (2**64 - 1, "\N{SNAIL}", "stage learn"), (0, "", ""))


@needs_numpy
def test_blocks_are_the_published_ones(w):
    """Random123's kat_vectors: philox4x32 with 10 rounds."""
    for block, counter, key, expected in (
            (0, 0, 0, (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)),
            (2**64 - 1, 2**64 - 1, 2**64 - 1, (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)),
            (0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822,
             (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1))):
        assert draws.one_block(key, counter, block) == expected
        many = draws.blocks(key, np.array([counter], np.uint64), np.array([block], np.uint64))
        assert tuple(many[0].tolist()) == expected


@needs_numpy
def test_keys_and_draws_are_those_of_the_agents(w):
    for names in NAMES:
        key = draws.key_of(*names)
        assert key == other.make_key(*names)
        for n in (1, 3, 4, 5, 300):
            for counter in (0, 7, 2**40 + 3):
                assert (draws.uniform(key, [counter], [0], n)[0] ==
                        other.uniform(key, counter, n)).all()
                assert np.allclose(draws.normal(key, [counter], [0], n)[0],
                                   other.normal(key, counter, n), 1e-6, 1e-6)


@needs_numpy
def test_elements_do_not_depend_on_how_many_are_drawn(w):
    """One row or many, few numbers or many, from any place on."""
    key = draws.key_of(*NAMES[0])
    for draw in (draws.uniform, draws.normal, draws.gumbel):
        whole = draw(key, [5], [0], 400)[0]
        assert whole.dtype == np.float32 and np.isfinite(whole).all()
        for first in (0, 1, 2, 3, 4, 7, 200):
            for width in (1, 2, 5, 100):
                part = draw(key, [5], [first], width)
                assert (part[0] == whole[first:first + width]).all(), (draw, first, width)
        counters, firsts = [9, 5, 5, 2**63], [3, 4, 10, 0]
        rows = draw(key, counters * 9, firsts * 9, 6)
        for r, (counter, first) in enumerate(zip(counters * 9, firsts * 9)):
            assert (rows[r] == draw(key, [counter], [first], 6)[0]).all()


@needs_numpy
def test_moments(w):
    key, n = draws.key_of(3, "a", "b"), 200000
    u = draws.uniform(key, [0], [0], n)
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.003
    x = draws.normal(key, [1], [0], n)
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01
    g = draws.gumbel(key, [2], [0], n)
    assert abs(g.mean() - 0.5772) < 0.01 and abs(g.var() - 1.6449) < 0.03


if __name__ == "__main__":
    harness.main()
