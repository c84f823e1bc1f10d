"""Agents in Python with NumPy, under a stand-in for the supervisor."""
import functools
import os
import re
import struct
import subprocess
import sys

from agents import (EXAMPLES, SOURCE, harness, learns, line_of, needs_numpy, play, program,
                    refused, team, write)

try:
    import numpy as np
    from brood import testing
except ImportError:
    pass

SMALL = """
class Mine(brood.Agent):
    \"\"\"Adds up observations.

    More of this.\"\"\"
    reads = ("obs", "action", "*/reward", "truncated")
    live = ("discount",)
    rate = brood.setting(0.5, doc="how fast", min=0, max=2, live=True)
    ramp = brood.setting("1 to 0.5 over 100", doc="how bold")
    n = brood.setting(3, doc="how many", min=1, max=9)
    bound = brood.setting(None, doc="or none", min=0)
    way = brood.setting("left", doc="where", choices=("left", "right"))
    fast = brood.setting(True)
    title = brood.setting("a text")

    def build(self):
        self.w = self.variable("w", np.random.normal(size=(self.me.obs, 5)).astype("f4"))
        self.count = self.variable("count", np.int64(0))

    def act(self, obs, ctx):
        return (obs @ self.w + ctx.gumbel(5)).argmax(1)

    def learn(self, batch, ctx):
        self.count += 1
        self.w += np.float32(self.rate * ctx.value("discount")) * batch["obs"].mean(0)[:, None]
        return {"loss": self.w.mean(), "errors": batch["*/reward"]}
"""
RESULT = "return {\"loss\": self.w.mean(), \"errors\": batch[\"*/reward\"]}"


def learner(*changes):
    """SMALL with parts replaced."""
    text = SMALL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


@needs_numpy
def test_a_class_describes_itself(w):
    file = write(w, SMALL)
    with program(file) as p:
        found = p.describe()
    assert found["name"] == "Mine" and found["source"] == "mine.py" and found["is"] == ["prepares"]
    assert found["summary"] == "Adds up observations."
    assert found["stages"] == "learn(all, writes)" and found["rows"] == "transitions"
    rows = {s["key"]: s for s in found["settings"]}
    assert list(rows) == ["rate", "ramp", "n", "bound", "way", "fast", "title"], rows
    assert rows["rate"] == {"key": "rate", "type": "real", "doc": "how fast", "default": "0.5",
                            "min": 0.0, "max": 2.0, "change": "setting"}
    assert rows["ramp"]["type"] == "schedule" and rows["ramp"]["default"] == \
        "1.0 to 0.5 over 100" and "change" not in rows["ramp"]
    assert rows["n"]["type"] == "whole" and isinstance(rows["n"]["min"], float)
    assert rows["bound"]["type"] == "real_or_none" and rows["bound"]["default"] == "none"
    assert rows["way"]["type"] == "choice" and rows["way"]["names"] == ["left", "right"]
    assert rows["fast"]["type"] == "flag" and rows["fast"]["default"] == "true"
    assert rows["title"]["type"] == "text" and "default" not in rows["title"]
    assert "scalars" not in found
    file = write(w, """
        class Mine(brood.Agent):
            scalars = {"td_error": "mean distance", "q/max": ("largest value", "reward")}
            def build(self): raise ValueError("described without being built")
            def act(self, obs, ctx): return np.zeros(len(obs), int)
        """)
    with program(file) as p:
        found = p.describe()
    assert found["is"] == ["prepares", "fixed"] and found["stages"] == "" and found["summary"] == ""
    assert found["scalars"] == [
        {"name": "td_error", "meaning": "mean distance", "unit": ""},
        {"name": "q/max", "meaning": "largest value", "unit": "reward"}], found["scalars"]
    assert found["defaults"] == {}
    file = write(w, """
        class Mine(brood.Agent):
            defaults = {"discount": 0.99, "clip_norm": None, "actor.hidden": [8, 8],
                        "optimizer.learning_rate": "0.001 to 0 over 10"}
        """)
    with program(file) as p:
        assert p.describe()["defaults"] == {
            "discount": "0.99", "clip_norm": "none", "actor.hidden": "[8, 8]",
            "optimizer.learning_rate": "0.001 to 0 over 10"}


@needs_numpy
def test_what_a_class_cannot_be(w):
    for body, what in (
            ("rows = 3", "Mine.rows: brood.transitions(n)"),
            ("reads = 'obs'", "Mine.reads: names of columns expected"),
            ("columns = {'a': 0}", "Mine.columns: {name: width} expected"),
            ("scalars = ['a']", "Mine.scalars: at most 32 of {name: meaning}"),
            ("scalars = {'a b': 'c'}", "Mine.scalars: at most 32"),
            ("scalars = {'a': 'one\\ntwo'}", "Mine.scalars: at most 32"),
            ("scalars = {str(i): '' for i in range(33)}", "Mine.scalars: at most 32"),
            ("defaults = {'discount': {}}", "Mine.defaults: {key: value} expected"),
            ("n = brood.setting(0, min=1)", "Mine.n: the default: settings.n: 0 is not within"),
            ("n = brood.setting([1])", "Mine.n: the default [1] is no setting"),
            ("n = brood.setting(1, live=True)", "Mine.n: only a real number can be live"),
            ("n = brood.setting('c', choices=('a', 'b'))", "is not one of its choices"),
            ("n = brood.setting(1, doc='a\\nb')", "Mine.n: one line of at most"),
            ("@brood.stage()\n    def act(self, batch, ctx): pass",
             "a stage cannot be named act")):
        file = write(w, f"class Mine(brood.Agent):\n    {body}\n")
        with program(file) as p:
            refused(what, p.request, "describe")


@needs_numpy
def test_configure(w):
    players = team()
    with program(write(w, SMALL)) as p:
        found = p.configure(testing.configuration(players, name="agent_1", settings={"n": 4}))
    names = [v[0] for v in found["variables"]]
    assert names[-2:] == ["agent_1/w", "agent_1/count"]
    assert names[:3] == ["agent_1/hyperparameters/discount",
                         "agent_1/hyperparameters/discount/to",
                         "agent_1/hyperparameters/discount/over"]
    assert {v[4] for v in found["variables"]} == {"variables", "hyperparameters"}
    assert "agent_1/hyperparameters/settings/rate" in names
    assert all(v[3] % 64 == 0 for v in found["variables"]) and found["block_bytes"] % 64 == 0
    assert found["stages"] == [{"name": "learn", "runner": "learners", "reads": [],
                                "writes": True}]
    assert found["reads"] == ["agent_1/obs", "agent_1/action", "agent_0/reward", "agent_1/reward",
                              "agent_2/reward", "truncated", "agent_1/next_obs", "agent_1/alive",
                              "agent_1/terminated"], found["reads"]
    assert found["rows"] == {"kind": "transitions", "length": 1} and found["proposes"] is True
    assert found["portable"] is False and found["because"].startswith("NumPy ")
    for change, what, key in (
            ({"settings": {"n": 10}}, "settings.n: 10 is not within its range", "settings.n"),
            ({"settings": {"way": "up"}}, "left or right expected, found 'up'", "settings.way"),
            ({"discount": None}, "no number discount", "discount")):
        with program(write(w, SMALL)) as p:
            e = refused(what, p.request, "configure", testing.configuration(players, **change))
            assert e.details["key"] == key and e.details["code"] == -5012, e.details
    with program(write(w, SMALL)) as p:
        refused("a program can only be a learner", p.request, "configure",
                {**testing.configuration(players), "role": "central"})
        refused("it is not configured yet", p.request, "snapshot")


@needs_numpy
def test_settings_are_attributes_and_can_change(w):
    file = write(w, learner((RESULT, """
        return {"rate": self.rate, "discount": ctx.value("discount"), "ramp": ctx.value("ramp"),
                "n": self.n, "bound": -1 if self.bound is None else self.bound,
                "lr": ctx.value("optimizer.learning_rate"), "left": self.way == "left"}""")))
    log = testing.Experience(team())
    log.fill(50, 1)
    with program(file, log) as p:
        p.configure(testing.configuration(team(), settings={
            "rate": 0.25, "n": 5, "bound": 0.0, "ramp": [2.0, 1.0, 10.0]}))
        body = testing.stage_params(log, 8, 0, 1, step=5)
        found = p.request("learn", body)["scalars"]
        assert found == {"rate": 0.25, "discount": np.float32(0.9), "ramp": 1.5, "n": 5,
                         "bound": -1, "lr": 0.001, "left": 1}, found
        p.request("set", {"changes": {"settings.rate": 0.5, "discount": 1.0, "discount.to": 0.5,
                                      "discount.over": 10.0}})
        found = p.request("learn", body)["scalars"]
        assert found["rate"] == 0.5 and found["discount"] == 0.75, found
        for key in ("settings.n", "settings.discount", "rate", "polyak", "settings.ramp"):
            e = refused(f"{key} cannot be changed while the agent runs", p.request, "set",
                        {"changes": {"discount": 0.1, key: 0.1}})
            assert e.details["key"] == key
        for value, what in ((float("nan"), "a finite number"), ("x", "a number expected")):
            refused(what, p.request, "set", {"changes": {"settings.rate": 0, "discount": value}})
        assert p.request("learn", body)["scalars"]["discount"] == 0.75  # all or nothing
        p.restart()
        assert p.request("learn", body)["scalars"]["rate"] == 0.5


@needs_numpy
def test_kill_and_replay_give_the_same_bytes(w):
    players = team()
    log = testing.Experience(players)
    log.fill(500, 1)
    for file in (EXAMPLES / "numpy_q.py", write(w, SMALL)):
        calm = play(file, players, log)
        killed = play(file, players, log, kills=(0, 3, 7))
        assert calm == killed, file
        assert len({str(a) for a in calm[0]}) == len(calm[0])  # it does learn


@needs_numpy
def test_the_example_learns(w):
    first, last = learns(EXAMPLES / "numpy_q.py", 600, 128)
    assert first < 0.5 and last > 0.85, (first, last)


@needs_numpy
def test_copies_of_an_evaluation_do_not_see_each_other(w):
    who, = team(1)
    with program(write(w, SMALL)) as p:
        p.configure(testing.configuration([who]))
        body = testing.act_params(who, 5, 0, 3, mode=1, episodes=range(5), time=7)
        together = p.request("act", body)["actions"][2]
        obs = np.frombuffer(body["obs"][2], "f4").reshape(5, 6)
        for e in range(5):
            one = {**body, "obs": [1, [1, 6], obs[e].tobytes()],
                   "episode": struct.pack("<Q", e), "time": struct.pack("<Q", 7)}
            assert p.request("act", one)["actions"][2] == together[20 * e:20 * e + 20]


@needs_numpy
def test_random_numbers(w):
    """In training copy e at step s draws like copy 0 at step s + e; each draw of a request has
    numbers of its own; the global generators depend on the request alone."""
    who = testing.player("a", 6, width=8)
    file = write(w, """
        import random
        class Mine(brood.Agent):
            def act(self, obs, ctx):
                x = np.concatenate([ctx.uniform(2), ctx.uniform(2), ctx.normal(2)], 1)
                return np.concatenate([x, np.full((len(x), 2), (random.random(),
                                                               np.random.random()))], 1)
        """)

    def draws(p, copies, step, **more):
        body = testing.act_params(who, copies, step, 1, **more)
        return np.frombuffer(p.request("act", body)["actions"][2], "f4").reshape(copies, 8)

    with program(file) as p:
        p.configure(testing.configuration([who]))
        three, later = draws(p, 3, 10), draws(p, 1, 12)
        assert (three[2, :6] == later[0, :6]).all() and len(np.unique(three[:, :6])) == 18
        assert (three[0, 6:] == three[2, 6:]).all() and (three[0, 6:] != later[0, 6:]).all()
        assert (draws(p, 3, 10) == three).all()
        first = draws(p, 1, 0, episodes=[4], time=0)
        assert not np.isin(first, draws(p, 1, 0, episodes=[4], time=1)).any()
        assert (first[:, :6] == draws(p, 2, 9, episodes=[3, 4], time=0)[1, :6]).all()


@needs_numpy
def test_masks_carries_and_columns(w):
    who = testing.player("a", 6, heads=[3, 4], masked=True)
    file = write(w, """
        class Mine(brood.Agent):
            carry = 2
            columns = {"mark": 1, "two": 2}
            def act(self, obs, ctx):
                a = np.stack([ctx.allowed[:, :3].argmax(1), ctx.allowed[:, 3:].argmax(1)], 1)
                if ctx.mode == "greedy":
                    a[:, 0] = ctx.allowed[:, :3].argmin(1)
                return brood.Act(a, {"mark": ctx.begins, "two": obs[:, :2]}, ctx.carry + 1)
        """)
    with program(file) as p:
        found = p.configure(testing.configuration([who]))
        assert found["carry"] == 2
        assert found["columns"] == [{"name": "mark", "elements": 1},
                                    {"name": "two", "elements": 2}]
        begin = p.request("act", testing.act_params(who, 4, 0, 1, carry=2))
        assert np.frombuffer(begin["carry"][2], "f4").tolist() == [1] * 8
        assert begin["columns"]["mark"] == [1, [4, 1], struct.pack("<4f", 1, 1, 1, 1)]
        body = testing.act_params(who, 4, 1, 1, carry=2)
        answer = p.request("act", body)
        assert (np.frombuffer(answer["carry"][2], "f4") ==
                np.frombuffer(body["carry"][2], "f4") + 1).all()
        assert answer["actions"][1] == [4, 7]
        assert "columns" not in p.request("act", testing.act_params(
            who, 2, 1, 1, carry=2, episodes=[1, 2]))
        refused("which ctx.allowed excludes", p.request, "act",
                {**testing.act_params(who, 40, 1, 5, carry=2, mode=2)})


@needs_numpy
def test_stages_sequences_and_groups(w):
    players = team()
    log = testing.Experience(players)
    log.fill(100, 1)
    file = write(w, """
        class Mine(brood.Agent):
            reads = ("*/obs", "reward", "action")
            rows = brood.transitions(4)
            times = brood.setting(3)
            @brood.stage()
            def propose(self, batch, ctx):
                return {"action": batch["agent_2/obs"][:, 0, :5], "present": batch.present}
            @brood.stage(writes=True, reads=["propose/action"], repeat="times")
            def learn(self, batch, ctx):
                assert batch["*/obs"].shape == (len(batch), 4, 18), batch["*/obs"].shape
                assert batch["reward"].shape == batch.rows.shape == batch.choices().shape
                assert (batch["reward"][~batch.present] == 0).all()
                other = ctx.inputs["agent_2/action"]
                return {"sum": other.sum(), "n": len(batch), "priorities": batch["reward"][:, 0],
                        "weight": batch.weights.sum()}
        """)
    with program(file, log) as p:
        found = p.configure(testing.configuration(players, name="agent_1"))
        assert found["rows"] == {"kind": "transitions", "length": 4}
        assert found["stages"][1] == {"name": "learn", "runner": "learners", "writes": True,
                                      "reads": ["propose/action"], "repeat_from": 1, "repeat": 3}
        body = testing.stage_params(log, 8, 0, 1, length=4, groups=3, ends=True)
        outputs = p.request("propose", body)["outputs"]
        assert outputs["action"][1] == [3, 8, 5] and outputs["present"][1] == [3, 8, 4]
        action = np.frombuffer(outputs["action"][2], "f4").reshape(3, 8, 5)
        answer = p.request("learn", {**body, "inputs": {"agent_2/action": outputs["action"]},
                                     "weights": [1, [3, 8], struct.pack("<24f", *range(24))]})
        assert np.isclose(answer["scalars"]["sum"], action[1].sum()), answer
        assert answer["scalars"]["weight"] == sum(range(8, 16))
        assert answer["priorities"][1] == [1, 8] and answer["outputs"] == {}
        # for learners that it is not among, it proposes what it would choose itself
        refused("has no method act", p.request, "propose", {**body, "group": "agent_0"})


@needs_numpy
def test_agents_propose_what_they_would_choose(w):
    who = testing.player("a", 6, heads=[5])
    log = testing.Experience([who])
    log.fill(40, 3)
    with program(write(w, learner(("+ ctx.gumbel(5)", ""))), log) as p:
        p.configure(testing.configuration([who]))
        body = testing.stage_params(log, 40, 0, 1)
        action = np.frombuffer(p.request("propose", body)["outputs"]["action"][2], "f4")
        action = action.reshape(40, 5)
        rows = np.frombuffer(body["rows"][2], "<u8")
        there = np.frombuffer(os.pread(log.fd, log.n_rows * log.row_bytes, 1 << 20),
                              np.uint8).reshape(log.n_rows, -1)
        at = {n: o for n, _, _, o in log.columns}
        ends = there[rows, at["a/terminated"]:at["a/terminated"] + 4].copy().view("f4")[:, 0]
        assert 0 < ends.sum() < 20 and (action.sum(1) == 1 - ends).all()
    with program(write(w, SMALL), log) as p:  # groups of the same rows draw different numbers
        p.configure(testing.configuration([who]))
        twice = [23, [2, 40, 1], body["rows"][2] * 2]
        action = p.request("propose", {**body, "rows": twice})["outputs"]["action"][2]
        alone = p.request("propose", body)["outputs"]["action"][2]
        assert alone == action[:800] != action[800:]


@needs_numpy
def test_windows_and_bytes(w):
    who = testing.player("a", 6, heads=[5], uint8=True)
    log = testing.Experience([who])
    log.fill(40, 3)
    file = write(w, """
        class Mine(brood.Agent):
            rows = brood.window()
            def act(self, obs, ctx):
                assert obs.dtype == np.float32 and obs.max() > 50
                return np.zeros(len(obs), int)
            def learn(self, batch, ctx):
                x = batch["obs"]
                assert x.dtype == np.float32 and x.shape == (7, 1, 6) and x.ctypes.data % 64 == 0
                return {"most": x.max()}
        """)
    with program(file, log) as p:
        p.configure(testing.configuration([who]))
        p.request("act", testing.act_params(who, 4, 0, 1))
        answer = p.request("learn", testing.stage_params(log, 7, 0, 1))
        assert 100 < answer["scalars"]["most"] <= 255
        assert p.request("propose", testing.stage_params(log, 7, 0, 1))["outputs"]["action"][1] \
            == [1, 7, 5]
        assert p.request("propose", testing.stage_params(log, 7, 0, 1, length=3))["outputs"][
            "action"][1] == [1, 21, 5]
        refused("row 40 is not in the experience log of 40 rows", p.request, "learn",
                {**testing.stage_params(log, 1, 0, 1),
                 "rows": [23, [1, 1, 1], struct.pack("<Q", 40)]})


@needs_numpy
def test_whole_episodes(w):
    who, = team(1)
    log = testing.Experience([who])
    log.fill(60, 3)
    file = write(w, """
        class Mine(brood.Agent):
            rows = brood.episodes()
            def learn(self, batch, ctx):
                assert batch["obs"].shape == (4, 25, 6) and batch.present.shape == (4, 25)
                assert (batch["obs"][~batch.present] == 0).all()
                return {"steps": batch.present.sum()}
        """)
    with program(file, log) as p:
        rows = p.configure(testing.configuration([who]))["rows"]
        assert rows == {"kind": "episodes", "length": 25}, rows  # env.max_steps
        body = testing.stage_params(log, 4, 0, 1, length=25, ends=True)
        assert p.request("learn", body)["scalars"]["steps"] == 2 * 25 + 2 * 12
    with program(file, log) as p:
        refused("set env.max_steps, or brood.episodes(n)", p.request, "configure",
                {**testing.configuration([who]), "max_steps": 0})


@needs_numpy
def test_other_requests(w):
    players = team()
    log = testing.Experience(players)
    log.fill(50, 1)
    with program(write(w, SMALL), log) as p:
        p.configure(testing.configuration(players))
        assert p.request("ping") == {} and p.request("metagraph") == {}
        assert p.request("find", {"fetches": ["x:0"]}) == {
            "missing": ["x:0: a program has no graph"]}
        assert "no graph" in p.request("run", {})["refused"]["message"]
        kept = p.request("snapshot")["block"]
        assert kept == p.block()
        body = testing.stage_params(log, 8, 0, 1)
        p.notify("trace", {"on": True})
        p.request("learn", {**body, "fetches": ["x:0"], "origins": True})["fetched"]
        assert p.block() != kept
        p.request("restore", {"block": kept})
        assert p.block() == kept
        p.request("restore", {"values": {"agent_0/count": [9, [], struct.pack("<q", 7)]}})
        assert p.block() != kept
        refused("agent_0 has no variable b", p.request, "restore",
                {"values": {"b": [1, [], b"1234"]}})
        refused("a tensor like int64 [] expected", p.request, "restore",
                {"values": {"agent_0/count": [1, [], b"1234"]}})
        refused("bytes expected", p.request, "restore", {"block": b"1"})
        refused("there is no method x", p.request, "x", {})
        spans = [m[2] for m in p.notifications if m[1] == "span"]
        assert spans[0]["method"] == "learn" and spans[0]["began"] <= spans[0]["ended"]
        assert p.shutdown() == 0


@needs_numpy
def test_requests_that_are_malformed_are_refused(w):
    who, = team(1)
    log = testing.Experience([who])
    log.fill(50, 1)
    with program(write(w, SMALL), log) as p:
        p.configure(testing.configuration([who]))
        act, learn = testing.act_params(who, 2, 0, 1), testing.stage_params(log, 4, 0, 1)
        for change, what in (({"obs": [1, [2, 5], bytes(40)]}, "obs: (E, 6) expected"),
                             ({"obs": [1, [2, 6], b""]}, "obs: no tensor"),
                             ({"obs": None}, "obs: no tensor"),
                             ({"obs": [99, [1], b""]}, "obs: no tensor"),
                             ({"obs": [1, [-1, -1], b"1234"]}, "obs: no tensor"),
                             ({"step": -1}, "step: a whole number expected"),
                             ({"episode": b"1"}, "episode: 2 numbers expected")):
            refused(what, p.request, "act", {**act, **change})
        for change, what in (({"rows": [23, [4], bytes(32)]}, "rows: uint64 with 3 dimensions"),
                             ({"weights": [1, [1, 2], bytes(8)]}, "weights: (1, 4) expected"),
                             ({"inputs": 3}, "inputs: a map expected")):
            refused(what, p.request, "learn", {**learn, **change})
        p.request("act", act)
    for data in (b"\x01\0\0\0\xc1", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x02\0\0\0\x91\x00",
                 b"\x08\0\0\0\x94\0\1\xa1x\xa1x\0"):
        with program(write(w, SMALL), log) as p:
            p.configure(testing.configuration([who]))
            os.write(p._to, data)
            try:
                p.request("ping")
            except testing.Ended as e:
                assert e.code == 100 and "Traceback" not in p.output, p.output
            else:
                raise AssertionError(data)


@needs_numpy
def test_the_example_of_the_manual(w):
    manual = (SOURCE / "scripts" / "python" / "README.md").read_text()
    file = w.write("bandit.py", re.search(r"```python\n(.*?)```", manual, re.DOTALL)[1])
    players = team(2)
    log = testing.Experience(players)
    log.fill(200, 1)
    calm = play(file, players, log)
    assert calm == play(file, players, log, kills=(2, 6))
    assert calm[0][-1]["scalars"]["best"] > 0


# ---- errors of the user's code ----


@needs_numpy
def test_errors_are_one_line_with_their_place(w):
    who, = team(1)
    log = testing.Experience([who])
    log.fill(50, 1)
    learn = ("learn", lambda: testing.stage_params(log, 8, 0, 1))
    act = ("act", lambda: testing.act_params(who, 2, 0, 1))
    result = RESULT
    chosen = "return (obs @ self.w + ctx.gumbel(5)).argmax(1)"
    n = line_of(SMALL, "return {")
    for change, (method, body), what in (
            ((result, "raise RuntimeError('no\\nluck')"), learn,
             f"RuntimeError: no luck (mine.py:{n} in learn)"),
            ((result, "batch['next_obs2']"), learn,
             f"column agent_0/next_obs2 is not among the agent's `reads` (mine.py:{n} in learn)"),
            ((result, "import sys; sys.exit('over')"), learn, f"SystemExit: over (mine.py:{n} in"),
            ((result, "return [1]"), learn, "learn returned a list"),
            ((result, "return {'x': np.zeros(3)}"), learn,
             f"(8, ...) expected (mine.py:{line_of(SMALL, 'def learn')})"),
            ((result, "self.w[0, 0] = np.nan"), learn, "stage learn: agent_0/w is not finite"),
            ((result, "return {'loss': np.inf}"), learn, "stage learn: loss is not finite"),
            ((result, "self.variable('late', 0)"), learn, "variables are made in `build` alone"),
            ((chosen, "return obs"), act,
             "act returned actions of shape (2, 6), expected (2, 5) "
             f"(mine.py:{line_of(SMALL, 'def act')})"),
            ((chosen, "return np.array([0, 5])"), act, "act chose 5; the choices are 0 .. 4"),
            ((chosen, "return np.array([0])"), act, "expected (2, 1) or (2,)"),
            ((chosen, "return np.full((2, 5), np.nan)"), act, "action that is not finite"),
            ((chosen, "return ctx.value('nothing')"), act, "has no such number")):
        with program(write(w, learner(change)), log) as p:
            p.configure(testing.configuration([who]))
            refused(what, p.request, method, body())
            assert p.request("ping") == {}
    with program(write(w, learner((result, "raise RuntimeError('x')"))), log) as p:
        p.configure(testing.configuration([who]))
        refused("RuntimeError", p.request, "learn", learn[1]())
        assert "Traceback" in p.output and f'mine.py", line {n}' in p.output, p.output
    for line, what in (("raise ValueError('odd')", "ValueError: odd (mine.py:"
                        f"{line_of(SMALL, 'self.w = ')} in build)"),
                       ("raise brood.Error('odd', code='config', key='settings.n')", "odd"),
                       ("self.n = 4", "self.n is a setting: its value comes from"),
                       ("self.track(w=3)", "track and optimizer are for torch"),
                       ("self.settings['actor']['hidden'] = 3", "cannot be changed by the agent"),
                       ("self.variable('w', 'text')", "agent_0/w: a variable of type")):
        with program(write(w, learner(("self.w = self.variable(\"w\"", line +
                                       "\n        self.w = self.variable(\"w\"")))) as p:
            refused(what, p.request, "configure", testing.configuration([who]))


@needs_numpy
def test_a_program_that_cannot_begin_answers_with_one_line(w):
    missing = write(w, SMALL, head="import sys\nsys.modules['numpy'] = None\nimport brood\n")
    for text, what in (
            ("import torch_of_another_kind\nimport brood\n",
             "No module named 'torch_of_another_kind' (mine.py:1)"),
            ("import brood\nbrood.nothing\n", "has no attribute 'nothing' (mine.py:2)"),
            ("import brood\n1 +\n", "SyntaxError: invalid syntax (mine.py:2)"),
            ("import brood\nbrood.main(3)\n", "a class derived from brood.Agent expected"),
            (missing.read_text(), "numpy")):
        for method in ("describe", "configure"):
            with program(w.write("mine.py", text)) as p:
                refused(what, p.request, method, {})
                try:
                    p.request("ping")
                except testing.Ended as e:
                    assert e.code == 100, e
    bare = subprocess.run([sys.executable, EXAMPLES / "numpy_q.py"], capture_output=True,
                          text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(SOURCE / "scripts" / "python")})
    assert bare.returncode == 1 and "brood, which starts it" in bare.stderr, bare.stderr
    assert bare.stderr.count("\n") == 1, bare.stderr


@needs_numpy
def test_without_memory_it_asks_to_be_started_again(w):
    with program(write(w, learner(("self.count += 1", "raise MemoryError()")))) as p:
        log = testing.Experience(team())
        log.fill(10, 1)
        p._log = log
        p.configure(testing.configuration(team()))
        try:
            p.request("learn", testing.stage_params(log, 4, 0, 1))
        except testing.Ended as e:
            assert e.code == 111, e
        else:
            raise AssertionError("it answered")


# ---- the self-check ----

FAULTS = """
class Mine(brood.Agent):
    how = brood.setting("none")

    def build(self):
        self.n, self.kept, self.seen = 0, np.zeros(3), {}
        x = os.urandom(1)[0] if self.how == "random build" else np.random.normal()
        self.w = self.variable("w", np.float64(x))
        if self.how == "clock build" and Mine.calls:
            self.variable("more", 0)
        Mine.calls += 1

    calls = 0

    def act(self, obs, ctx):
        if self.how == "impure act":
            self.w += 1
        if self.how == "counting act":
            self.n += 1
            return np.full(len(obs), self.n % 5)
        return (np.arange(len(obs)) + int(abs(self.w))) % 5

    def learn(self, batch, ctx):
        if self.how == "counter":
            self.n += 1
            self.w += self.n
        if self.how == "array":
            self.kept += 1
            self.w += self.kept.sum()
        if self.how == "dict":
            self.seen[ctx.update] = True
            return {"n": len(self.seen)}
        if self.how == "global":
            Mine.calls += 1
            self.w += Mine.calls
        if self.how == "entropy":
            self.w += os.urandom(4)[0] / 256 + time.perf_counter()
        if self.how == "missing":
            if not self.seen and ctx.update == 0:
                self.seen[0] = 1
            return {"x": self.seen[0]}
        if self.how == "harmless":
            self.n += 1
        if self.how == "thread" and ctx.update == 0:
            threading.Thread(target=time.sleep, args=(1000,), name="idler", daemon=True).start()
        self.w += batch["reward"].sum() * np.random.random()
        return {"loss": self.w}

    @brood.stage()
    def look(self, batch, ctx):
        if self.how == "impure stage":
            self.w += 1
        return {"x": batch["reward"]}

    learn = brood.stage(writes=True)(learn)
"""


@needs_numpy
def test_the_self_check_finds_what_a_kill_would_lose(w):
    file = write(w, FAULTS)
    at = functools.partial(line_of, FAULTS)
    players = team()
    log = testing.Experience(players)
    log.fill(50, 1)
    again = "is not repeatable: a fresh object on the same block gives another"
    build, act, learn = (f"{n} (mine.py:{at('def ' + n)})" for n in ("build", "act", "learn"))
    found = {
        "none": None, "harmless": None, "thread": None,
        "random build": f"{build} gives agent_0/w another first value each time",
        "clock build": f"{build} makes other variables when it is repeated: agent_0/more",
        "impure act": f"{act} changes agent_0/w",
        "counting act": f"{act}, request 2, {again} actions; self.n is 2, in the fresh object 1",
        "counter": f"{learn}, request 2, {again} agent_0/w; self.n is 2, in the fresh object 1",
        "array": f"{learn}, request 2, {again} agent_0/w; self.kept is array([2., 2., 2.]), in",
        "dict": f"{learn}, request 2, {again} scalars/n; len(self.seen) is 2, in the fresh",
        "global": f"{learn}, request 1, {again} agent_0/w; no attribute differs: does it depend",
        "entropy": f"{learn}, request 1, {again} agent_0/w; no attribute differs",
        "missing": f"{learn}, request 2: a fresh object on the same block fails: KeyError: 0",
        "impure stage": f"look (mine.py:{at('@brood.stage')}) changes agent_0/w",
    }
    for how, what in found.items():
        def attempt():
            with program(file, log) as p:
                p.configure(testing.configuration(players, settings={"how": how}))
                for i in range(5):
                    p.request("act", testing.act_params(players[0], 3, i, i))
                    p.request("look", testing.stage_params(log, 8, i, 1))
                    p.request("learn", testing.stage_params(log, 8, i, 1))
                p.restart()
                p.request("learn", testing.stage_params(log, 8, i, 1))
                return p.output
        if what is None:
            output = attempt()
            assert (how == "harmless") == ("self.n is 1, in a fresh object 0" in output), output
            assert output.count("self.n is") <= 1, output  # named once
            assert (how == "thread") == ("the thread idler runs besides" in output), output
        else:
            refused(what, attempt)


@needs_numpy
def test_what_need_not_be_exact_is_told_once(w):
    file = write(w, FAULTS)
    players = team()
    log = testing.Experience(players)
    log.fill(50, 1)
    for how, told in (("counter", "learn"), ("random build", "build"), ("none", None)):
        with program(file, log) as p:
            p.configure({**testing.configuration(players, settings={"how": how}),
                         "program": {"inexact": True}})
            for i in range(5):
                p.request("learn", testing.stage_params(log, 8, i, 1))
            output = p.output
        found = [line for line in output.splitlines() if line.startswith("not exact: ")]
        assert [line.split()[2] for line in found] == ([told] if told else []), (how, output)


if __name__ == "__main__":
    harness.main()
