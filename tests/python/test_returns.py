"""Returns and advantages with NumPy, against plain loops over single episodes."""
from agents import harness, needs_numpy

try:
    import numpy as np
    from brood import returns
except ImportError:
    pass

DISCOUNT, LAM = 0.9, 0.8


def window(seed, copies=5, steps=12):
    """Rewards, values, values of what follows, terminated, truncated: (copies, steps)."""
    rng = np.random.default_rng(seed)
    reward, value, after = rng.normal(size=(3, copies, steps))
    ends = rng.random((copies, steps))
    ends[:2] = 1  # copies in which no episode ends
    return reward, value, after, ends < 0.15, (ends >= 0.15) & (ends < 0.3)


def each(shape):
    return [(e, t) for e in range(shape[0]) for t in range(shape[1])]


@needs_numpy
def test_advantages(w):
    reward, value, after, terminated, truncated = window(1)
    found = returns.gae(reward, value, after, terminated, truncated, DISCOUNT, LAM)
    for e, t in each(reward.shape):
        total, weight = 0.0, 1.0
        for k in range(t, reward.shape[1]):
            follows = 0 if terminated[e, k] else after[e, k]
            total += weight * (reward[e, k] + DISCOUNT * follows - value[e, k])
            if terminated[e, k] or truncated[e, k]:
                break
            weight *= DISCOUNT * LAM
        assert abs(found[e, t] - total) < 1e-12, (e, t)


def goal_of(n, e, t, reward, after, terminated, truncated):
    """The rewards of at most n steps, and the value behind them; how many steps there were."""
    total = 0.0
    for k in range(n):
        total += DISCOUNT**k * reward[e, t + k]
        if terminated[e, t + k]:
            return total, k + 1
        if truncated[e, t + k] or k == n - 1 or t + k == reward.shape[1] - 1:
            return total + DISCOUNT**(k + 1) * after[e, t + k], k + 1
    raise AssertionError


@needs_numpy
def test_several_steps(w):
    reward, _, after, *ends = window(2)
    for n in (1, 2, 5, 20):
        found = returns.n_step(reward, after, *ends, DISCOUNT, n)
        for e, t in each(reward.shape):
            assert abs(found[e, t] - goal_of(n, e, t, reward, after, *ends)[0]) < 1e-12, (n, e, t)
    total, factor, last = returns.ahead(reward, *ends, DISCOUNT)
    for e in range(len(reward)):
        goal, steps = goal_of(20, e, 0, reward, after, *ends)
        assert last[e] == steps - 1 and last.dtype.kind == "i"
        assert abs(total[e] + factor[e] * after[e, last[e]] - goal) < 1e-12
    assert (returns.at_step(after[..., None], last)[:, 0] == after[range(len(last)), last]).all()


@needs_numpy
def test_lambda_returns_are_means_of_those_of_n_steps(w):
    reward, _, after, *ends = window(3)
    for lam in (0.0, LAM, 1.0):
        found = returns.lambda_returns(reward, after, *ends, DISCOUNT, lam)
        for e, t in each(reward.shape):
            most = goal_of(99, e, t, reward, after, *ends)[1]
            goals = [goal_of(n, e, t, reward, after, *ends)[0] for n in range(1, most + 1)]
            weights = [(1 - lam) * lam**n for n in range(most - 1)] + [lam**(most - 1)]
            assert abs(found[e, t] - np.dot(goals, weights)) < 1e-12, (lam, e, t)


@needs_numpy
def test_advantages_and_values_are_lambda_returns(w):
    """Where each step's value is that which follows the step before."""
    reward, value, after, terminated, _ = window(4)
    after[:, :-1] = value[:, 1:]
    truncated = np.zeros(reward.shape, bool)
    ends = terminated, truncated, DISCOUNT, LAM
    goal = returns.gae(reward, value, after, *ends) + value
    assert np.abs(goal - returns.lambda_returns(reward, after, *ends)).max() < 1e-12


@needs_numpy
def test_a_memory_begins_anew_with_an_episode(w):
    rng = np.random.default_rng(5)
    x, carry = rng.normal(size=(3, 7, 2)), rng.normal(size=(3, 2))
    first = np.zeros((3, 7), bool)
    first[0, 0] = first[1, 3] = first[1, 6] = True
    found = returns.unroll(lambda x, h: np.tanh(x + 2 * h), x, carry, first)
    for e in range(3):
        h = carry[e]
        for t in range(7):
            h = np.tanh(x[e, t] + 2 * (0 if first[e, t] else h))
            assert np.allclose(found[e, t], h, atol=1e-12), (e, t)


@needs_numpy
def test_types_and_inputs_stay(w):
    """float32 in, float32 out, whatever the masks' type; arguments are not changed."""
    reward, value, after, *ends = (x.astype("f4") for x in window(6))
    before = [x.copy() for x in (reward, value, after, *ends)]
    answers = [returns.gae(reward, value, after, *ends, DISCOUNT, LAM),
               returns.lambda_returns(reward, after, *ends, DISCOUNT, LAM),
               returns.n_step(reward, after, *ends, DISCOUNT, 3),
               *returns.ahead(reward, *ends, DISCOUNT)[:2]]
    assert all(x.dtype == np.float32 for x in answers), [x.dtype for x in answers]
    assert all((a == b).all() for a, b in zip(before, (reward, value, after, *ends)))


if __name__ == "__main__":
    harness.main()
