"""Environments that fail in some of their episodes: what is kept, and what goes on without
them (env.on_failure)."""
import csv
import os
import re
import shutil
import struct

import harness
from test_changes import journal
from test_environments import BRIDGE, FAKE_ENV, PYTHON
from test_exactness import outcome
from test_give_up import done, wait_for

SUPPORT = harness.SOURCE / "tests" / "support"
WORLD = """
import json
import os
import signal
import time

from spaces import Box, Discrete


class World:
    possible_agents = ["a_0", "a_1"]

    def __init__(self, kind, rare=5, one=None, only_with=None):
        self.kind, self.rare, self.one, self.only_with = kind, rare, one, only_with
        self.agents, self.fails = [], False

    def observation_space(self, agent):
        return Box(-1.0, 1.0, (2,))

    def action_space(self, agent):
        return Discrete(2)

    def fail(self):
        if self.only_with and not os.path.exists(self.only_with):
            return
        if self.kind in ("step", "reset"):
            raise RuntimeError("a rare state")
        if self.kind == "signal":
            signal.raise_signal(signal.SIGSEGV)
        if self.kind == "exit":
            os._exit(0)
        if self.kind == "slow":
            time.sleep(2.5)
        if self.kind == "hang":
            while True:
                time.sleep(3600)

    def reset(self, seed=None, options=None):
        self.t, self.sum, self.agents, self.seed = 0, 0, list(self.possible_agents), seed
        self.fails = seed == self.one if self.one else seed % self.rare == 0
        self.fails &= seed != 0  # with which the bridge asks what there is
        if self.kind == "reset" and self.fails:
            self.fail()
        return self.look(), {a: {} for a in self.agents}

    def look(self):
        return {a: [self.t / 10, self.sum / 20] for a in self.agents}

    def step(self, actions):
        self.t += 1
        self.sum += sum(int(x) for x in actions.values())
        who, over = list(self.agents), self.t >= 8
        seen = self.look()
        if self.t == 5 and self.fails and self.kind != "reset":
            self.fail()
            if self.kind == "nan":
                seen["a_1"][1] = float("nan")
        if over:
            self.agents = []
        return (seen, {a: float(actions[a]) for a in who}, dict.fromkeys(who, False),
                dict.fromkeys(who, over), {a: {} for a in who})
"""
CONFIG = """
run: {{name: failing, seed: 1, env_steps: {steps}, on_supervisor_death: {death}}}
env:
  command: [{python}, {bridge}, "world.py:World"]
  directory: {folder}
  params: {params}
  copies: 6
  processes: 2
  restart: {{max_restarts: 100000, delay: 0s}}
  on_failure: {failure}
  verify: false
experience: {{capacity: 20000, batch_size: 16, warmup: 60, update_every: 24, keep: true}}
evaluation: {{every_env_steps: {evaluate}, episodes: 7}}
checkpoint: {{every_env_steps: 96, max_to_keep: 0}}
log: {{every_env_steps: 96}}
defaults: {{algorithm: iql, actor: {{hidden: [8]}}, critic: {{hidden: [8]}}}}
"""


def config(w, kind, failure="skip_episode", steps=288, evaluate=96, death="stop", **params):
    w.write("world.py", WORLD)
    shutil.copy(SUPPORT / "spaces.py", w.path)
    params = ", ".join(f"{k}: {v}" for k, v in {"kind": kind, **params}.items())
    return w.write(f"{kind}-{failure}.yaml", CONFIG.format(
        steps=steps, evaluate=evaluate, python=PYTHON, bridge=BRIDGE, folder=w.path,
        failure=failure, death=death, params=f"{{{params}}}"))


def fields(line):
    """The fields of a line of the journal, without those that have spaces."""
    return dict(re.findall(r'(\w+)=([^" ]+)', line))


def skips(run, evaluation="0"):
    return [x for x in map(fields, journal(run, "skip-episode"))
            if x["evaluation"] == evaluation]


class Log:
    """The experience log (common/store/layout.h)."""

    def __init__(self, run):
        data = (run / "experience").read_bytes()
        _, _, n, row_bytes, _ = struct.unpack_from("<QIIQQ", data)
        self.columns = {}
        for i in range(n):
            name, _, elements, offset = struct.unpack_from("<112sIIQ", data, 32 + i * 128)
            self.columns[name.rstrip(b"\0").decode()] = elements, offset
        self.rows = [data[at:at + row_bytes] for at in range(1 << 20, len(data), row_bytes)]

    def get(self, row, column):
        elements, offset = self.columns[column]
        return struct.unpack_from(f"<{elements}f", self.rows[row], offset)


def test_a_failure_keeps_the_work_and_a_resume_may_go_on(w):
    """The checkpoint is of the last boundary, and holds all of an undisturbed run until there."""
    for kind, says in (("step", "step ended it 3 times.*: a rare state"),
                       ("reset", "reset ended it 3 times.*: a rare state"),
                       ("nan", "observation of a_1 in copy")):
        file = config(w, kind, failure="stop", evaluate=0, rare=31)
        err = w.brood("run", file, "--name", kind, code=1)[1]
        assert re.search(says, err.splitlines()[-1]), err
        run = w.run_dir(kind)
        steps = int(re.search(r"failed after ([\d,]+) steps", err)[1].replace(",", ""))
        assert steps % 96 != 0 and harness.checkpoints(run)[-1] == steps, (err, steps)
        err = w.brood("resume", kind, code=1)[1]
        assert re.search(says, err.splitlines()[-1]), err
        w.brood("resume", kind, "--set", "env.on_failure=skip_episode")
        w.brood("run", config(w, kind, evaluate=0, rare=31), "--name", f"{kind}-calm")
        calm = w.run_dir(f"{kind}-calm")
        assert skips(run) == skips(calm) != []
        harness.assert_same_files(outcome(calm), outcome(run))


# One death, not three, and the copies of a request are asked one at a time.
AT_ONCE = ("--set", "env.restart={max_restarts: 0}")
failing_seeds = {}


def one_that_fails(w, evaluation):
    """The seed, as the bridge passes it, of an episode of a run that fails now and then."""
    if not failing_seeds:
        w.brood("run", config(w, "step", evaluate=120), "--name", "now-and-then", *AT_ONCE)
        failing_seeds.update({x["evaluation"]: int(x["seed"]) & 0x7fffffff
                              for x in map(fields, journal(w.run_dir("now-and-then"), "skip-episode"))})
    return failing_seeds[evaluation]


def test_an_evaluation_that_fails_keeps_the_work(w):
    one = one_that_fails(w, "1")
    file = config(w, "step", failure="stop", evaluate=120, one=one)
    w.brood("run", file, "--name", "e", code=1)
    assert harness.checkpoints(w.run_dir("e"))[-1] == 120
    w.brood("resume", "e", "--set", "env.on_failure=skip_episode")
    w.brood("run", config(w, "step", evaluate=120, one=one), "--name", "calm")
    assert len(skips(w.run_dir("e"), "1")) == 3 and not skips(w.run_dir("e")), \
        journal(w.run_dir("e"), "skip-episode")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("e")))


def test_every_kind_of_failure_is_skipped(w):
    """What else happens is the same, whatever the failure is; resets fail where they are."""
    first = None
    for kind in ("step", "signal", "exit", "nan"):
        w.brood("run", config(w, kind, steps=192), "--name", kind)
        run = w.run_dir(kind)
        found = [{k: v for k, v in x.items() if k != "why"} for x in skips(run)]
        assert found and all(x["at"] == "5" for x in found), found
        assert skips(run, "1"), journal(run, "skip-episode")
        files = outcome(run)
        files.pop("run.state")  # it has the configuration
        if first is None:
            first = found, files
        assert found == first[0], (kind, found, first[0])
        harness.assert_same_files(first[1], files)
    w.brood("run", config(w, "reset", steps=192), "--name", "reset")
    assert skips(w.run_dir("reset")) and skips(w.run_dir("reset"), "1")
    assert all(x["at"] == "0" for x in skips(w.run_dir("reset")))


def faked(w, mode, *more):
    """A run of tests/support/fake_env.c that may skip episodes: its stderr, exit code and folder."""
    file = w.write(f"{mode}.yaml", f"""
run: {{seed: 1, env_steps: 60}}
env: {{command: ["{FAKE_ENV}", {mode}], copies: 3, on_failure: skip_episode, verify: false}}
evaluation: {{every_env_steps: 0}}
defaults: {{algorithm: random}}
""")
    p = w.start("run", file, "--name", mode)
    code = p.wait(timeout=harness.DEADLINE_S)
    return p.log.read_text(), code, w.run_dir(mode)


def test_what_else_is_wrong_with_an_answer_is_not_skipped_with_a_copy(w):
    """The reset of the last copy is not finite, and the others have no agent."""
    err, code, run = faked(w, "nan_nobody-2")
    assert code == 1 and "env_0: answer to reset: copy 0 has no agent after its reset" in err, err
    assert [x["copy"] for x in skips(run)] == ["2"], journal(run, "skip-episode")


def test_a_replay_that_is_not_finite_loses_its_episode(w):
    """As one with any other answer than the first time."""
    err, code, run = faked(w, "forgets-5")
    assert code == 0 and re.search("env_0: this environment is not reproducible: replayed from its "
                                   "seed, copy 2 answered differently in step 2", err), err
    assert not skips(run) and len(journal(run, "inexact")) == 1


def test_a_hang_is_skipped(w):
    w.brood("run", config(w, "hang", evaluate=0, one=one_that_fails(w, "0")), "--name", "hang",
            "--set", "env.respond_within=2s", *AT_ONCE)
    assert len(skips(w.run_dir("hang"))) == 1
    exits = journal(w.run_dir("hang"), "exit")
    assert any("limit=respond_within" in line for line in exits), exits


def test_the_rows_of_a_skipped_episode(w):
    """The rows before stay, that of the failing step has no agent alive, and the return is not
    counted."""
    w.brood("run", config(w, "step", evaluate=0), "--name", "rows", *AT_ONCE)
    run = w.run_dir("rows")
    log = Log(run)
    copies = {c: list(range(c, 288, 6)) for c in range(6)}
    n_skipped = n_ended = 0
    for c, rows in copies.items():
        length = 0
        for k, row in enumerate(rows):
            alive = log.get(row, "a_0/alive")[0]
            truncated = log.get(row, "truncated")[0]
            assert log.get(row, "first")[0] == (length == 0)
            length += 1
            if not alive:
                n_skipped += 1
                assert length == 5 and truncated == 1, (c, k, length)
                assert log.get(row, "a_1/alive") == (0.0,)
                for a in ("a_0", "a_1"):
                    assert log.get(row, f"{a}/reward") == (0.0,)
                    assert log.get(row, f"{a}/next_obs") == log.get(row, f"{a}/obs")
                    assert log.get(row, f"{a}/obs") == log.get(rows[k - 1], f"{a}/next_obs")
                length = 0
            elif truncated:
                assert length == 8
                n_ended += 1
                length = 0
    assert n_skipped == len(skips(run)) > 0
    with open(run / "metrics" / "progress.csv") as f:
        last = list(csv.DictReader(f))[-1]
    assert int(last["episodes"]) == n_ended and n_ended > 0, (last, n_ended)


def test_skips_are_repeated_wherever_a_run_begins_again(w):
    """From each checkpoint, in a fork, and when the environment would not fail any more: what
    the journal says is done again."""
    sign = w.write("broken", "")
    w.brood("run", config(w, "step", steps=192, only_with=sign), "--name", "once", *AT_ONCE)
    run = w.run_dir("once")
    first, n = outcome(run), len(journal(run, "skip-episode"))
    sign.unlink()
    for step in harness.checkpoints(run)[:-1]:
        w.brood("resume", "once", "--from", step)
        harness.assert_same_files(first, outcome(run))
    w.brood("fork", "once@96", "--name", "forked")
    files = outcome(w.run_dir("forked"))
    for state in first, files:
        state.pop("run.state")  # it has the name
    harness.assert_same_files(first, files)
    w.brood("replay", "once", "--from", 0, "--to", 96)
    assert len(journal(run, "skip-episode")) >= n > 0
    assert len({x["sum"] + x["seed"] for x in map(fields, journal(run, "skip-episode"))}) \
        <= n


def test_kills_of_any_process_change_nothing(w):
    sign = w.write("broken", "")
    p = w.start("run", config(w, "step", steps=harness.FOREVER, death="resume",
                              only_with=sign), "--name", "killed")
    run = w.run_dir("killed")
    harness.wait_until("a checkpoint", lambda: len(harness.checkpoints(run)) >= 2)
    for i in range(6):
        n = len(journal(run, "skip-episode"))
        wait_for(run, "skip-episode", n + 1)
        if i % 2 == 0:
            n = len(journal(run, "resume"))
            harness.kill_supervisor(run)
            wait_for(run, "resume", n + 1)
        else:
            pids = [e["pid"] for e in w.status("killed")["environments"] if e["pid"]]
            for pid in pids[i // 2:] + pids[:1]:
                harness.kill(pid)
    steps = harness.set_last_step(w, run, 96)
    done(p)
    w.brood("run", config(w, "step", steps=steps, only_with=sign), "--name", "calm")
    theirs, ours = outcome(w.run_dir("calm")), outcome(run)
    for files in theirs, ours:
        files.pop("run.state")  # the name, and on_supervisor_death
    harness.assert_same_files(theirs, ours)


def test_counts_of_all_processes_go_on_with_a_resume(w):
    """Live, over, in JSON and in words they are those of the journal, whoever wrote it."""
    def counted(name):
        return {e["name"]: {k: e[k] for k in ("total_restarts", "hangs", "skipped_episodes")}
                for e in w.status(name)["environments"] + w.status(name)["agents"]}

    w.brood("run", config(w, "step"), "--name", "counted", "--until", "150", code=4)
    run = w.run_dir("counted")
    before = counted("counted")
    assert before["env_0"]["skipped_episodes"] > 0, before
    p = w.start("resume", "counted", "--set", f"run.env_steps={harness.FOREVER}")
    wait_for(run, "skip-episode", len(journal(run, "skip-episode")) + 3)
    live = counted("counted")
    w.brood("stop", "counted")
    assert p.wait(timeout=harness.DEADLINE_S) == 4
    after = counted("counted")
    for name, counts in after.items():
        for key, value in counts.items():
            assert before.get(name, counts)[key] <= live[name][key] <= value, (before, live, after)
        assert counts["total_restarts"] == sum(
            f"environment={name} " in line or f"agent={name} " in line
            for line in journal(run, "respawn")), (name, after)
        assert counts["skipped_episodes"] == sum(
            f"environment={name} " in line for line in journal(run, "skip-episode"))
    lost = {e["name"]: e["lost_seconds"] for e in w.status("counted")["environments"]}
    assert lost["env_0"] > 0, lost
    text = w.brood("status", "counted")[0]
    assert re.search(r"env_0 in all: \d+ restarts, \d+ skipped episodes?, [\d.]+ s lost", text), text
    report, = harness.json_lines(w.brood("report", "counted", "--json")[0])
    for key, its in (("restarts", "total_restarts"), ("skipped_episodes", "skipped_episodes")):
        assert report[key] == sum(c[its] for c in after.values()), (report, after)
    assert re.search(r"counted: \d+ restarts", w.brood("report", "counted")[0])


def test_slow_answers_are_counted(w):
    w.brood("run", config(w, "slow", evaluate=0, one=one_that_fails(w, "0")), "--name", "slow",
            "--set", "env.respond_within=4s")
    slow = [float(fields(line)["seconds"]) for line in journal(w.run_dir("slow"), "slow-answer")]
    assert max(slow) >= 2.5, slow  # a busy machine may have more of them
    assert sum(e["slow_answers"] for e in w.status("slow")["environments"]) == len(slow)


def test_an_environment_that_always_fails_ends_the_run(w):
    for kind in ("step", "reset"):
        err = w.brood("run", config(w, kind, rare=1, evaluate=0), "--name", f"{kind}-always",
                      "--set", "env.copies=2", *AT_ONCE, code=1)[1]
        assert re.search("process env_[01]: 17 episodes in a row failed, and none ended, the last "
                         "one: .*a rare state", err.splitlines()[-1]), err


def test_a_run_whose_environment_was_mended_is_repeated_from_its_beginning(w):
    """Skips of the journal are no tries: that there are so many in a row ends no repetition."""
    sign = w.write("broken", "")
    w.brood("run", config(w, "step", rare=1, evaluate=0, only_with=sign), "--name", "mended",
            "--set", "env.copies=2", *AT_ONCE, code=1)
    sign.unlink()
    w.brood("resume", "mended")
    w.brood("fork", "mended@0", "--name", "again")
    files = [outcome(w.run_dir(name)) for name in ("mended", "again")]
    for state in files:
        state.pop("run.state")  # it has the name
    harness.assert_same_files(*files)


def test_a_live_change_decides_what_follows_a_failure(w):
    sign = w.path / "broken"
    p = w.start("run", config(w, "step", failure="stop", steps=harness.FOREVER, evaluate=0,
                              only_with=sign), "--name", "live")
    run = w.run_dir("live")
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(run))
    w.brood("set", "live", "env.on_failure=skip_episode")
    wait_for(run, "changed")
    sign.write_text("")
    wait_for(run, "skip-episode", 2)
    w.brood("set", "live", "env.on_failure=stop")
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    assert "a rare state" in p.log.read_text().splitlines()[-1], p.log.read_text()


def test_other_values_and_built_in_environments_are_refused(w):
    err = w.brood("check", config(w, "step", failure="skip"), code=2)[1]
    assert "env.on_failure" in err and "stop" in err and "skip_episode" in err, err
    built_in = w.write("builtin.yaml", "env: {id: simple_spread, on_failure: stop}\n")
    err = w.brood("check", built_in, code=2)[1]
    assert "env.on_failure: is for env.command and env.plugin alone" in err, err


if __name__ == "__main__":
    harness.main()
