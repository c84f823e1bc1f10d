"""What the tests of the package share: the package itself, and agents to try it with."""
import os
import pathlib
import sys
import textwrap

SOURCE = pathlib.Path(os.environ["BROOD_SOURCE_DIR"])
EXAMPLES = SOURCE / "tests" / "examples" / "agents"
sys.path[:0] = [str(SOURCE / "scripts" / "python"), str(SOURCE / "tests" / "integration")]
# The self-check of the processes that are started here is as shipped.
for variable in ("BROOD_SELF_CHECK", "BROOD_CHECK_PURE"):
    os.environ.pop(variable, None)

import harness

try:
    import numpy as np
    import msgpack
    from brood import testing
    MISSING = None
except ImportError as why:
    MISSING = why

HEAD = """\
import os, threading, time
import numpy as np
import brood
"""
TAIL = """
if __name__ == "__main__":
    brood.main(Mine)
"""


def needs_numpy(test):
    def wrapped(w):
        if MISSING:
            raise harness.Skip(MISSING)
        test(w)
    return wrapped


def write(w, body, name="mine.py", head=HEAD):
    """A program with the class Mine."""
    return w.write(name, head + textwrap.dedent(body) + TAIL)


def line_of(body, begin):
    """The number of the line of a program made of `body` that begins so."""
    return 1 + HEAD.count("\n") + next(i for i, line in enumerate(body.splitlines())
                                       if line.strip().startswith(begin))


def program(file, log=None, python=sys.executable, **more):
    return testing.Program([python, str(file)], log, **more)


def team(n=3, **more):
    return [testing.player(f"agent_{i}", 6, **{"heads": [5], **more}) for i in range(n)]


def refused(what, function, *args, **more):
    """Calls it, and expects an error of one line that contains `what`."""
    try:
        function(*args, **more)
    except testing.Error as e:
        assert what in str(e) and "\n" not in str(e), e
        return e
    raise AssertionError(f"not refused: {what}")


def play(file, players, log, kills=(), updates=8, python=sys.executable, config=None, carry=0,
         stage=None, **more):
    """Acts and learns; at the updates of `kills` the process is killed, gets the block as it was
    at first, and the writing requests again. Returns all answers and the last block."""
    stage = stage or (lambda i: ("learn", testing.stage_params(log, 32, i, 1, step=100 * i)))
    answers, asked = [], []
    with program(file, log, python, **more) as p:
        p.configure(config or testing.configuration(players))
        first = p.block()
        for i in range(updates):
            answers.append(p.request("act", testing.act_params(players[0], 3, i, i, carry=carry)))
            asked.append(stage(i))
            answers.append(p.request(*asked[-1]))
            if i in kills:
                p.restart(first)
                for i, (method, body) in enumerate(asked):
                    assert p.request(method, body) == answers[2 * i + 1]
        return answers, p.block()


def learns(file, updates, rows, python=sys.executable, columns=(), settings=None):
    """Plays a game whose right action is the place of the largest of five observations; rows:
    of an update, drawn from the log, or 0 for the newest ones. Returns how often greedy actions
    are right, at first and at last."""
    who, copies = testing.player("agent_0", 5, heads=[5]), 64
    log, rng = testing.Experience([who], dict.fromkeys(columns, 1)), np.random.default_rng(1)
    optimizer = {**testing.OPTIMIZER, "learning_rate": 0.003}
    network = {**testing.NETWORK, "hidden": [64, 64]}

    with program(file, log, python) as p:
        def ask(mode, step):
            obs = rng.normal(size=(copies, 5)).astype("f4")
            answer = p.request("act", {"mode": mode, "step": step,
                                       "obs": [1, [copies, 5], obs.tobytes()]})
            action = np.frombuffer(answer["actions"][2], "f4").reshape(copies, 5)
            return obs, action, action.argmax(1) == obs.argmax(1), answer

        def right():
            return np.mean([ask(2, 0)[2].mean() for _ in range(10)])

        p.configure(testing.configuration([who], actor=network, critic=network,
                                          optimizer=optimizer, settings=settings))
        first = right()
        for i in range(updates):
            obs, action, reward, answer = ask(0, i * copies)
            values = {"obs": obs, "next_obs": obs, "action": action, "reward": reward,
                      "terminated": np.ones(copies), "alive": np.ones(copies),
                      **{k: np.frombuffer(answer["columns"][k][2], "f4") for k in columns}}
            log.append({f"agent_0/{k}": x for k, x in values.items()}, copies)
            places = rng.integers(0, log.n_rows, rows) if rows else \
                np.arange(log.n_rows - copies, log.n_rows)
            p.request("learn", {"step": i * copies, "update": i, "repeat": 0, "inputs": {},
                                "rows": [23, [1, len(places), 1],
                                         places.astype("<u8").tobytes()]})
        return first, right()
