"""`brood fork`: a new run begins with the whole state of another one at a checkpoint."""
import os
import re

import harness
from test_exactness import outcome

STEPS, EVERY = 640, 160
LEARNERS = ("coma", "ddpg", "happo", "ia2c", "ippo", "iql", "isac", "maa2c", "maddpg", "mappo",
            "masac", "matd3", "qmix", "vdn")
CONFIG = """\
run: {{name: small, seed: 2, env_steps: {steps}}}
env: {{id: simple_spread, copies: 4, max_steps: 10, reward: team_mean}}
experience: {{{experience}}}
checkpoint: {{every_env_steps: 160, max_to_keep: 0}}
evaluation: {{every_env_steps: 320, episodes: 4}}
log: {{every_env_steps: 160}}
defaults: {{algorithm: {algorithm}, actor: {{hidden: [8]}}, critic: {{hidden: [8]}}}}
"""
DRAWN = "capacity: 200, batch_size: 16, warmup: 100, update_every: 20"
WINDOW = "update_every: 40"


def config(w, algorithm, steps=STEPS):
    used_once = ("coma", "happo", "ia2c", "ippo", "maa2c", "mappo")
    return w.write(f"{algorithm}.yaml", CONFIG.format(
        steps=steps, algorithm=algorithm, experience=WINDOW if algorithm in used_once else DRAWN))


def fork(w, run, name, *more, **how):
    """Fork a run; the outcome of the fork, and what was printed."""
    _, err = w.brood("fork", run, "--name", name, *more, **how)
    return (outcome(w.run_dir(name)) if how.get("code", 0) == 0 else None), err


def test_a_fork_ends_with_the_bytes_of_its_parent(w):
    """Of every algorithm: at one of the three checkpoints before the last; of maddpg at all."""
    steps = range(EVERY, STEPS, EVERY)
    for i, algorithm in enumerate(("maddpg", "qmix") if harness.SANITIZED else LEARNERS):
        w.brood("run", config(w, algorithm), "--name", algorithm)
        was = outcome(w.run_dir(algorithm))
        for step in steps if algorithm == "maddpg" else [steps[i % len(steps)]]:
            made, err = fork(w, f"{algorithm}@{step}", f"{algorithm}-{step}")
            harness.assert_same_files(was, made)
            assert f"{algorithm}-{step}: a fork of {algorithm}@{step}\n" in err, err
    run = w.run_dir("maddpg-320")
    first = (run / "journal").read_text().splitlines()[0]
    assert first.split(" ", 1)[1] == "step=320 event=fork name=runs/maddpg@320", first
    assert sorted(os.listdir(run / "checkpoints")) == ["320", "480", "640"]


def paused(w, name):
    """An endless run that is paused after its third checkpoint: (process, its step)."""
    p = w.start("run", config(w, "maddpg", 10**7), "--name", name)
    harness.wait_until("the third checkpoint",
                       lambda: (w.run_dir(name) / "checkpoints" / "320").exists())
    return p, harness.pause(w, name)


def go_on(w, p, name, steps):
    """Let a paused run end at that step."""
    w.brood("set", name, f"run.env_steps={steps}")
    w.brood("continue", name)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    return outcome(w.run_dir(name))


def test_later_changes_are_repeated_but_for_the_forks_own_keys(w):
    """The parent is live."""
    p, at = paused(w, "a")
    for change in ("defaults.discount=0.5", "defaults.optimizer.learning_rate=0.5"):
        w.brood("set", "a", "--at-step", at + 200, change)
    end = ("--set", f"run.env_steps={at + 400}")
    same, _ = fork(w, "a@160", "same", *end)
    fork(w, "a@160", "own", *end, "--set", "defaults.discount=0.9")
    # Its log was only read: it may be another user's.
    log = w.run_dir("a") / "logs" / "supervisor.log"
    assert "open for writing" not in log.read_text(), log.read_text()
    was = go_on(w, p, "a", at + 400)
    harness.assert_same_files(was, same)
    text = (w.run_dir("own") / "config.yaml").read_text()
    assert "discount: 0.9\n" in text and "learning_rate: 0.5\n" in text, text
    harness.assert_same_files(was, fork(w, "same@160", "again")[0])


def test_a_forks_keys_hold_for_a_team_and_for_who_follows_the_defaults(w):
    """Also with the value that they have: the parent's later change is not repeated. That of an
    agent with a value of its own is."""
    p, at = paused(w, "a")
    w.brood("set", "a", "agents.agent_2.polyak=0.02")
    w.brood("continue", "a")
    harness.wait_until("another checkpoint", lambda: harness.checkpoints(w.run_dir("a"))[-1] >
                       at + EVERY)
    now, at = harness.pause(w, "a"), harness.checkpoints(w.run_dir("a"))[-1]
    w.brood("set", "a", "--at-step", now + 200, "agents.agent.discount=0.5",
            "agents.agent.polyak=0.3")
    fork(w, f"a@{at}", "b", "--set", f"run.env_steps={now + 400}", "--set",
         "agents.agent.discount=0.95", "--set", "defaults.polyak=0.01")
    text = (w.run_dir("b") / "config.yaml").read_text()
    journal = (w.run_dir("b") / "journal").read_text()
    assert "discount: 0.5" not in text and "discount" not in journal, text + journal
    assert text.count("polyak: 0.3\n") == 1 and text.count("polyak: 0.01\n") >= 1, text
    assert "changes=agents.agent_2.polyak=0.3\n" in journal, journal
    go_on(w, p, "a", now + 400)


def test_a_fork_cannot_have_what_a_run_cannot(w):
    """Agents that share parameters or a mixer have one value, at every step."""
    w.brood("run", config(w, "mappo"), "--name", "shared", "--set", "defaults.share=team", "--set",
            "defaults.discount={at: {0: 0.9, 480: 0.5}}")
    w.brood("run", config(w, "qmix"), "--name", "mixed")
    for run, key, says in (
            ("shared", "agents.agent_0.settings.entropy=0.5", "shares parameters with agent_0"),
            ("shared", "agents.agent_1.optimizer.beta1=0.5", "shares parameters with agent_0"),
            ("shared", "agents.agent_0.discount=0.5", "at step 320: agents.agent_1.discount: "),
            ("mixed", "agents.agent_0.discount=0.5", "the mixer computes the targets of agent_0")):
        _, err = w.brood("fork", f"{run}@320", "--name", "no", "--set", key, code=2)
        assert says in err and err.count("\n") == 1, err
        assert not w.run_dir("no").exists()
    fork(w, "shared@320", "all", "--set", "agents.agent.discount=0.7")


def test_a_run_that_drops_checkpoints_can_be_forked(w):
    """Whatever it removes meanwhile, a fork is whole, or there is none."""
    p = w.start("run", config(w, "maddpg", harness.FOREVER), "--name", "a", "--set",
                "checkpoint={every_env_steps: 160, max_to_keep: 1}")
    harness.wait_until("learning", lambda: (harness.checkpoints(w.run_dir("a")) or [0])[-1] > 320)
    codes = []
    for i in range(12):
        step = harness.checkpoints(w.run_dir("a"))[-1] if i % 4 == 3 else None
        made = w.start("fork", f"a@{step}" if step else "a", "--name", f"f{i}", "--until", "1")
        codes.append(made.wait(harness.DEADLINE_S))
        said = made.log.read_text()
        if codes[-1] == 4:
            assert "stopped after" in said, said
            assert harness.checkpoints(w.run_dir(f"f{i}")), said
        else:
            assert codes[-1] in ((1, 3) if step else (1,)), said
            assert re.search("has dropped its checkpoint of|holds no checkpoint of step", said), said
            assert not w.run_dir(f"f{i}").exists()
    assert 4 in codes and p.poll() is None, codes


def test_other_settings_take_effect_as_those_of_set_at_that_step(w):
    p, at = paused(w, "a")
    at = (at // EVERY + 2) * EVERY
    changes = ("defaults.optimizer.learning_rate=0.003", "agents.agent_1.discount=0.8")
    for change in changes:
        w.brood("set", "a", "--at-step", at, change)
    was = go_on(w, p, "a", at + 2 * EVERY)
    w.brood("run", config(w, "maddpg", at + 2 * EVERY), "--name", "b")
    made, _ = fork(w, f"b@{at}", "c", *(word for c in changes for word in ("--set", c)))
    harness.assert_same_files(was, made)
    assert was != outcome(w.run_dir("b"))
    # What otherwise takes effect with a respawn is there from the beginning.
    fork(w, f"b@{at}", "d", "--set", "defaults.memory_limit=700M")
    out, _ = w.brood("status", "d", "--json")
    assert "waits" not in out and "memory_limit: 700M" in (
        w.run_dir("d") / "config.yaml").read_text(), out


def test_what_waits_for_a_respawn_waits_in_the_fork(w):
    """As in a resume; but not what the fork sets itself, which its processes start with."""
    p, at = paused(w, "a")
    w.brood("set", "a", "agents.agent_0.optimizer.beta1=0.5")
    w.brood("set", "a", "agents.agent_1.optimizer.beta1=0.6")
    w.brood("fork", "a@160", "--name", "b", "--set", "agents.agent_1.optimizer.beta1=0.7",
            "--detach")
    assert [(x["key"], x["value"]) for x in w.status("b")["pending"]] == [
        ("agents.agent_0.optimizer.beta1", "0.5")], w.status("b")
    journal = (w.run_dir("b") / "journal").read_text()
    assert "step=160 event=changed changes=agents.agent_1.optimizer.beta1=0.7\n" in journal, journal
    w.brood("stop", "b")
    w.brood("resume", "b", "--detach")
    assert [x["value"] for x in w.status("b")["pending"]] == ["0.5"], w.status("b")
    w.brood("respawn", "b", "agent_0")
    assert w.status("b")["pending"] == []
    w.brood("stop", "b")
    # With the value that it has, nothing waits.
    w.brood("fork", "a@160", "--name", "c", "--set", "defaults.optimizer.beta1=0.9", "--set",
            "agents.agent.optimizer.beta1=0.9", "--detach")
    assert w.status("c")["pending"] == [], w.status("c")
    w.brood("stop", "c")
    same, _ = fork(w, "a@160", "d", "--set", f"run.env_steps={at + 400}")
    harness.assert_same_files(go_on(w, p, "a", at + 400), same)


def test_a_fork_may_be_longer_or_begin_at_the_end(w):
    w.brood("run", config(w, "maddpg"), "--name", "a")
    _, err = w.brood("fork", "a", code=2)
    assert err == "brood fork: runs/a@640 is the end of that run: --set run.env_steps or " \
        "run.episodes to more\n", err
    longer, _ = fork(w, "a", "longer", "--set", "run.env_steps=960")
    w.brood("run", config(w, "maddpg", 960), "--name", "whole")
    harness.assert_same_files(outcome(w.run_dir("whole")), longer)


def test_what_cannot_be_forked_is_told_and_nothing_is_left(w):
    w.brood("run", config(w, "maddpg"), "--name", "a")
    w.brood("run", config(w, "maddpg"), "--name", "b", "--set", "experience.keep=false")
    before = harness.tree_bytes(w.runs)

    def refused(says, *args, code=2):
        _, err = w.brood("fork", *args, code=code)
        assert err.startswith(f"brood fork: {says}") and err.count("\n") == 1, err

    refused("there is no run nowhere in runs", "nowhere", code=3)
    refused("runs/a/checkpoints holds no checkpoint of step 7; there are 5", "a@7", code=3)
    refused("runs/b/experience is missing", "b@320", code=3)
    refused("defaults.critic.hidden cannot change in a fork; `brood run runs/a/config.yaml "
            "--set", "a@320", "--set", "defaults.critic.hidden=[32]")
    refused("run.seed cannot change in a fork", "a@320", "--set", "run.seed=3")
    refused("defaults.nothing=3: defaults.nothing: unknown key", "a@320", "--set",
            "defaults.nothing=3")
    refused("run b exists already", "a@320", "--name", "b")
    refused("expected one run, RUN or RUN@STEP, got 0")
    rows = w.run_dir("a") / "experience"
    size = rows.stat().st_size
    with open(rows, "r+b") as f:  # of the window's last row
        f.seek(size - 8)
        f.write(b"damaged!")
    _, err = w.brood("fork", "a", "--set", "run.env_steps=960", code=2)
    assert "experience" in err and err.count("\n") == 1, err
    with open(rows, "r+b") as f:
        f.seek(size - 8)
        f.write(before["a/experience"][-8:])
    harness.assert_same_files(before, harness.tree_bytes(w.runs))


def test_a_run_is_not_replaced_by_one_that_begins_from_it(w):
    file = config(w, "maddpg")
    w.brood("run", file, "--name", "kept")
    was = outcome(w.run_dir("kept"))
    for words in (["fork", "kept@320", "--name", "kept", "--force"],
                  ["run", file, "--init-from", "kept", "--name", "kept", "--force"],
                  ["run", file, "--name", "kept", "--force",
                   "--set", "agents.agent_0.algorithm=frozen",
                   "--set", "agents.agent_0.settings.from=kept"]):
        _, err = w.brood(*words, code=2)
        assert "kept would be replaced, but the new run begins from it" in err, err
        assert err.count("\n") == 1, err
    harness.assert_same_files(was, outcome(w.run_dir("kept")))


def test_until_stops_a_run_at_a_step_and_a_resume_continues_exactly(w):
    """Also a fork, and after the evaluation that is due at that step."""
    w.brood("run", config(w, "maddpg"), "--name", "a")
    w.brood("run", config(w, "maddpg"), "--name", "b", "--until", "320", code=4)
    assert "320,32," in (w.run_dir("b") / "metrics" / "progress.csv").read_text()
    _, err = w.brood("resume", "b", "--until", "320", code=4)
    assert "b: stopped after 320 steps" in err, err
    w.brood("fork", "b", "--name", "c", "--until", "480", code=4)
    w.brood("run", config(w, "maddpg"), "--name", "d", "--until", "201", code=4)
    assert "\n204,20," in (w.run_dir("d") / "metrics" / "progress.csv").read_text()
    for name in ("b", "c", "d"):
        w.brood("resume", name)
        harness.assert_same_files(outcome(w.run_dir("a")), outcome(w.run_dir(name)))


def test_a_value_of_the_file_that_changes_at_a_step_is_as_one_that_is_set(w):
    """The same bytes as forks that get the later values at their steps; also if the run is
    stopped before the first of them, and between them, and resumed."""
    steps = ("--set", "defaults.discount={at: {0: 0.9, 320: 0.99}}",
             "--set", "agents.agent_1.clip_norm={at: {0: 0.5, 480: none}}")
    w.brood("run", config(w, "maddpg"), "--name", "a", *steps)
    journal = (w.run_dir("a") / "journal").read_text()
    assert "event=set at=320 changes=defaults.discount=0.99" in journal, journal
    assert "step=480 event=changed changes=agents.agent_1.clip_norm=none" in journal, journal
    w.brood("run", config(w, "maddpg"), "--name", "b", "--set", "defaults.discount=0.9")
    w.brood("fork", "b@320", "--name", "c", "--set", "defaults.discount=0.99", "--until", "480",
            code=4)
    w.brood("fork", "c@480", "--name", "d", "--set", "agents.agent_1.clip_norm=none")
    harness.assert_same_files(weights(w, "a"), weights(w, "d"))
    assert weights(w, "a") != weights(w, "b")
    w.brood("run", config(w, "maddpg"), "--name", "e", "--until", "200", *steps, code=4)
    w.brood("resume", "e", "--until", "400", code=4)
    w.brood("resume", "e")
    harness.assert_same_files(outcome(w.run_dir("a")), outcome(w.run_dir("e")))


def test_a_value_of_a_step_within_a_round_is_not_lost(w):
    """The checkpoint at the round's end is written before the value is in force."""
    w.brood("run", config(w, "maddpg"), "--name", "a", "--set",
            "defaults.discount={at: {0: 0.9, 318: 0.5}}")
    for name, again in (("b", ("fork", "a@320", "--name", "b")),
                        ("a", ("resume", "a", "--from", "320"))):
        before = weights(w, "a")
        w.brood(*again)
        harness.assert_same_files(before, weights(w, name))
        journal = (w.run_dir(name) / "journal").read_text()
        assert "step=320 event=changed changes=defaults.discount=0.5\n" in journal, journal


def test_a_number_moves_by_a_schedule(w):
    """The same bytes as with the value of each step written down; also with agents that are
    killed, with a stop and a resume in the midst, and in forks."""
    ramp = "defaults.discount={from: 0.9, to: 0.99, over: 600}"
    steps = ("--set", ramp, "--set", "experience.update_every=20 to 24 over 400", "--set",
             "agents.agent_1.clip_norm={at: {0: 0.5, 256: 0.4 to 0.5 over 320, 352: none}}")
    w.brood("run", config(w, "maddpg"), "--name", "a", *steps)
    run = w.run_dir("a")
    journal = (run / "journal").read_text()
    assert 'event=set at=6 changes="defaults.discount=0.9 to 0.99 over 600"' in journal, journal
    assert 'event=changed changes="defaults.discount=0.9 to 0.99 over 600"' in journal, journal
    assert "event=changed changes=defaults.discount=0.99\n" in journal, journal
    assert journal.count("event=set") == 4 and journal.count("event=changed") < 8, journal
    assert "discount: 0.99\n" in (run / "config.yaml").read_text()
    w.brood("run", config(w, "maddpg"), "--name", "b", *steps[:2], *steps[4:], "--set",
            "experience.update_every={at: {0: 20, 52: 21, 152: 22, 252: 23, 352: 24}}")
    harness.assert_same_files(weights(w, "a"), weights(w, "b"))

    w.brood("run", config(w, "maddpg"), "--name", "c", *steps, "--until", "201", code=4)
    p = w.start("resume", "c")
    harness.wait_until("the agents", lambda: p.poll() is not None or
                       len(harness.agents_of(p.pid)) >= 2)
    for pid in harness.agents_of(p.pid).values():
        harness.kill(pid)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    harness.assert_same_files(outcome(run), outcome(w.run_dir("c")))
    for name, source in (("d", "a@160"), ("e", "a@320"), ("f", "e@480")):
        w.brood("fork", source, "--name", name)
        harness.assert_same_files(weights(w, "a"), weights(w, name))

    # Another value takes its place, and the rest of a schedule can be given to a fork.
    w.brood("fork", "a@320", "--name", "g", "--set", "defaults.discount=0.9")
    assert weights(w, "a") != weights(w, "g")
    w.brood("fork", "g@320", "--name", "h", "--set", ramp)
    harness.assert_same_files(weights(w, "a"), weights(w, "h"))


def test_the_rest_of_a_schedule_stays_cancelled(w):
    """In a fork from before the schedule, and from its midst."""
    p, at = paused(w, "a")
    w.brood("set", "a", f"defaults.discount=0.9 to 0.99 over {at + 10**6}")
    w.brood("set", "a", f"agents.agent_1.polyak=0.01 to 0.05 over {at + 10**6}")
    w.brood("set", "a", f"defaults.optimizer.learning_rate=0.001 to 0.01 over {at + EVERY}")
    w.brood("continue", "a")
    harness.wait_until("two checkpoints", lambda: harness.checkpoints(w.run_dir("a"))[-1] >=
                       at + 2 * EVERY)
    now = harness.pause(w, "a")
    w.brood("set", "a", "--at-step", now + 40, "agents.agent_1.polyak=0.5")
    w.brood("set", "a", "--cancel", "agents.agent_1.polyak", "defaults.discount")
    was = go_on(w, p, "a", now + EVERY)
    middle = [s for s in harness.checkpoints(w.run_dir("a")) if at < s < now][0]
    for name, step in (("b", 320), ("c", middle)):
        harness.assert_same_files(was, fork(w, f"a@{step}", name)[0])
    harness.assert_same_files(was, fork(w, "b@320", "d")[0])


def weights(w, name):
    """Of the last checkpoint."""
    folder = w.run_dir(name) / "checkpoints"
    last = max((p for p in folder.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    return harness.tree_bytes(last, lambda p: ".data-" in p.name)


def in_the_making(w):
    return [path for path in w.runs.iterdir() if path.name.startswith(".new-")]


def killed_while_copying(w, *args):
    """A fork whose supervisor is killed as it copies; its process."""
    p = w.start("fork", *args)
    harness.wait_until("a copy", lambda: p.poll() is not None or any(
        (path / "metrics" / "many").exists() for path in in_the_making(w)))
    harness.kill_and_wait(harness.supervisor_of(p.pid))
    return p


def slow_to_copy(w, name, *more):
    """A run that is done, of which a copy takes a while; its outcome."""
    w.brood("run", config(w, "maddpg"), "--name", name, *more)
    many = w.run_dir(name) / "metrics" / "many"
    many.mkdir()
    for i in range(500):
        (many / str(i)).write_text("x")
    return outcome(w.run_dir(name))


def test_a_fork_that_is_killed_leaves_no_half_of_a_run(w):
    """The same command again makes it, and removes what was left."""
    was = slow_to_copy(w, "a")
    w.brood("run", config(w, "maddpg", EVERY), "--name", "old")
    old = harness.tree_bytes(w.run_dir("old"))
    for name, more in (("b", ()), ("old", ("--force",))):
        p = killed_while_copying(w, "a@320", "--name", name, *more)
        assert p.wait(timeout=harness.DEADLINE_S) == 137, p.log.read_text()
        assert "`brood resume` continues" not in p.log.read_text(), p.log.read_text()
        assert len(in_the_making(w)) == 1, in_the_making(w)
        if name == "b":
            assert not w.run_dir(name).exists()
        else:
            harness.assert_same_files(old, harness.tree_bytes(w.run_dir(name)))
        harness.assert_same_files(was, fork(w, "a@320", name, *more)[0])
        assert not in_the_making(w), in_the_making(w)
    killed_while_copying(w, "a@320", "--name", "c").wait(timeout=harness.DEADLINE_S)
    w.brood("rm", "b")
    assert not in_the_making(w), in_the_making(w)


def test_a_fork_that_is_killed_as_it_copies_is_made_again(w):
    """By its keeper, if it is to be resumed."""
    was = slow_to_copy(w, "a", "--set", "run.on_supervisor_death=resume")
    w.brood("run", config(w, "maddpg", EVERY), "--name", "old")
    for name, more in (("d", ("--name", "d")), ("old", ("--name", "old", "--force")),
                       ("small-1", ())):
        p = killed_while_copying(w, "a@320", *more)
        assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
        harness.assert_same_files(was, outcome(w.run_dir(name)))
        assert not in_the_making(w), in_the_making(w)
    assert not w.run_dir("small-2").exists()


def test_a_fork_survives_the_death_of_its_supervisor(w):
    w.brood("run", config(w, "maddpg", EVERY * 2), "--name", "a", "--set",
            "run.on_supervisor_death=resume")
    run, endless = w.run_dir("b"), ("--set", f"run.env_steps={10**7}")
    p = w.start("fork", "a@160", "--name", "b", *endless)
    harness.wait_until("a new checkpoint", (run / "checkpoints" / "320").exists)
    harness.kill_supervisor(run)
    at = harness.checkpoints(run)[-1]
    harness.wait_until("a checkpoint of the next one", lambda: p.poll() is not None or
                       harness.checkpoints(run)[-1] > at)
    steps = harness.set_last_step(w, "b", EVERY)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    assert p.log.read_text().count("continuing from the newest checkpoint") == 1
    calm, _ = fork(w, "a@160", "c", "--set", f"run.env_steps={steps}")
    harness.assert_same_files(calm, outcome(run))


if __name__ == "__main__":
    harness.main()
