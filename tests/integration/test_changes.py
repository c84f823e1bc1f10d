"""Changes to the configuration of a live run are checked, written to the journal, made at one
boundary, and made again at the same boundary by every resume."""
import json
import re
import shlex
import signal

import harness

CONFIG = """
run: {name: change, seed: 3, env_steps: 100000000}
env: {id: simple_spread, copies: 4, params: {agents: 2}}
experience: {capacity: 20000, batch_size: 32, warmup: 200, update_every: 20}
evaluation: {every_env_steps: 0, episodes: 4}
checkpoint: {every_env_steps: 1000, max_to_keep: 0}
log: {every_env_steps: 1000}
defaults:
  actor: {hidden: [8, 8]}
  critic: {hidden: [8, 8]}
"""


def journal(run, event):
    """The lines of one event, whole ones only."""
    path = run / "journal"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if f" event={event} " in line and line.endswith("\n")]


def start(w, name, *more):
    """A run without a terminal that will not end by itself, past its second checkpoint."""
    p = w.start("run", w.write("change.yaml", CONFIG), "--name", name, *more,
                start_new_session=True)
    run = w.run_dir(name)
    harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 2)
    return p, run


def test_the_size_of_a_variable_cannot_change(w):
    """Agents that share parameters keep a number for each row of a window."""
    window = ("--set", "defaults.algorithm=mappo", "--set", "env.reward=team_mean", "--set",
              "experience={update_every: 40}")
    p, run = start(w, "shared", *window, "--set", "defaults.share=team")
    _, err = w.brood("set", "shared", "experience.update_every=80", code=2)
    assert "experience.update_every cannot change while the run lives: agent_0 has a" in err, err
    end(p, run)
    p, run = start(w, "alone", *window)
    w.brood("set", "alone", "experience.update_every=80")
    end(p, run)
    later = (w.write("later.yaml", CONFIG), *window[:-1],
             "experience={update_every: {at: {0: 40, 1000: 80}}}")
    _, err = w.brood("check", *later, "--set", "defaults.share=team", code=2)
    assert "experience.update_every cannot change in a run that has begun: agent_0 has a" in err
    w.brood("check", *later)
    _, err = w.brood("check", *later[:-1], "experience={update_every: 40}", "--set",
                     "defaults.share=team", "--set",
                     "agents.agent_1.discount={at: {0: 0.99, 1000: 0.5}}", code=2)
    assert "at step 1000: agents.agent_1.discount: agent_1 shares parameters" in err, err


def test_a_team_has_one_value_at_every_step(w):
    """Whatever is planned for later, and whichever agent is respawned first."""
    p, run = start(w, "mixed", "--set", "defaults.algorithm=qmix", "--set",
                   "env.reward=team_mean")
    w.brood("set", run, "defaults.discount=0.5", "--at-step", "90000000")
    _, err = w.brood("set", run, "agents.agent_0.discount=0.5", "--at-step", "80000000", code=2)
    assert "at step 80000000: agents.agent_1.discount: the mixer computes the targets" in err, err
    w.brood("set", run, "defaults.discount=0.7")
    assert len(journal(run, "set")) == 2, journal(run, "set")
    end(p, run)
    p, run = start(w, "teams", "--set", "defaults.algorithm=qmix", "--set",
                   "env={id: simple_tag, copies: 4, reward: team_mean}")
    _, err = w.brood("set", run, "defaults.optimizer.beta1=0.5", code=2)
    assert "respawns, for which the change would wait, replace one agent at a time" in err, err
    w.brood("set", run, "agents.adversary_1.optimizer.beta1=0.5")
    w.brood("respawn", run, "adversary_1")
    assert pending(w, run) == [] and p.poll() is None
    end(p, run)


def test_every_stair_of_a_schedule_is_checked(w):
    p, run = start(w, "window", "--set", "defaults.algorithm=mappo", "--set",
                   "env.reward=team_mean", "--set", "experience={update_every: 40}")
    _, err = w.brood("set", run, "experience.update_every=40 to 80 over 90000000", code=2)
    assert "found 41, expected a multiple of env.copies, 4, because mappo learns" in err, err
    w.brood("set", run, "experience.update_every=40 to 440 over 90000000")
    end(p, run)


def test_another_graph_is_no_change(w):
    """iql with a lambda learns from whole episodes: live, and in a file's later values."""
    p, run = start(w, "iql", "--set", "defaults.algorithm=iql")
    _, err = w.brood("set", "iql", "defaults.settings.lambda=0.5", code=2)
    assert "settings.lambda: it cannot change between 0 and more while the run lives" in err, err
    end(p, run)
    later = w.write("later.yaml", CONFIG.replace(
        "defaults:", "defaults:\n  algorithm: iql\n  settings: {lambda: {at: {0: 0, 99: 0.5}}}"))
    for command in "check", "run":
        _, err = w.brood(command, later, code=2)
        assert "settings.lambda: it cannot change between 0 and more in a run" in err, err


def edit(run, before, after):
    path = run / "config.yaml"
    text = path.read_text()
    assert text.count(before) == 1, text
    path.write_text(text.replace(before, after))


def end(p, run):
    """End the run at once, and wait for the supervisor, which ends just after its keeper."""
    harness.kill(p.pid)
    p.wait()
    harness.wait_until("its end", lambda: not harness.alive(harness.holder_of(run)))


def final(run, step):
    return harness.tree_bytes(run / "checkpoints" / str(step))


def test_an_edited_file_counts_from_one_boundary_on(w):
    p, run = start(w, "edited")
    edit(run, "    learning_rate: 0.003", "    learning_rate: 0.02")
    harness.signal_process(p.pid, signal.SIGHUP)
    harness.wait_until("the change", lambda: journal(run, "changed"))
    at = int(re.search(r" at=(\d+) ", journal(run, "set")[0]).group(1))
    assert f" step={at} " in journal(run, "changed")[0], journal(run, "changed")
    harness.wait_until("a checkpoint behind it", lambda: harness.checkpoints(run)[-1] > at)
    end(p, run)

    # Resumes from before the change (with dying agents) and from after it give the same bytes.
    last = harness.checkpoints(run)[-1] + 4000
    before = w.path / "before"
    harness.copy_run(run, before)
    w.brood("resume", run, "--set", f"run.env_steps={last}")
    n_ready = len(journal(before, "ready"))
    p = w.start("resume", before, "--from", "1000", "--set", f"run.env_steps={last}")
    harness.wait_until("the agents", lambda: len(journal(before, "ready")) >= n_ready + 2)
    harness.wait_until("the rounds", lambda: harness.checkpoints(before)[-1] < last - 4000)
    for step in range(2000, last, 1000):
        harness.wait_until(f"step {step}", lambda: p.poll() is not None or
                           harness.checkpoints(before)[-1] >= step)
        for pid in harness.agents_of(p.pid).values():
            harness.kill(pid)
    p.wait(timeout=harness.DEADLINE_S)
    assert p.returncode == 0 and len(journal(before, "respawn")) >= 2, p.log.read_text()
    assert final(run, last) == final(before, last)

    # And the change makes a difference.
    w.brood("run", w.path / "change.yaml", "--name", "plain", "--set",
            f"run.env_steps={last}")
    assert final(run, last) != final(w.run_dir("plain"), last)


def test_what_cannot_be_applied_changes_nothing(w):
    p, run = start(w, "wrong")
    text = (run / "config.yaml").read_text()

    def refused(before, after, says):
        edit(run, before, after)
        harness.signal_process(p.pid, signal.SIGHUP)
        harness.wait_until(says, lambda: says in p.log.read_text())
        harness.wait_until(says, lambda: any(says in line for line in journal(run, "refused")))
        (run / "config.yaml").write_text(text)

    refused("copies: 4", "copies: 8", "env.copies cannot change while the run lives")
    refused("polyak:", "polyack:", "did you mean 'polyak'")
    refused("discount: 0.95", "discount: 7", "at least 0 and at most 1")
    assert not journal(run, "set") and p.poll() is None
    end(p, run)


def test_what_needs_a_new_run_says_how_to_begin_it(w):
    """The message has a command that a shell can run."""
    p, run = start(w, "live")
    weights = ("env.copies=8", "env.reward=team_sum", "env.max_steps=20", "run.seed=7",
                 "run.numerics=native", "experience.capacity=5000",
                 "checkpoint.max_to_keep=2", "evaluation.mode=sample",
                 "defaults.actor.activation=tanh")
    others = ("env.rules=openai", "env.actions=continuous", "env.params={agents: 3}",
              "agents.agent_1.algorithm=random", "defaults.actor.hidden=[5]",
              "defaults.critic.input=own", "defaults.critic.after_action=[4]")
    for i, change in enumerate(weights + others):
        _, err = w.brood("set", run, change, code=2)
        key, value = change.split("=")
        assert f"{key} cannot change while the run lives" in err, err
        (command,) = re.findall(r"`brood ([^`]*)`", err)
        words = shlex.split(command)
        assert words[-2:] == ["--set", change], (words, change)
        assert ("--init-from" in words) is (change in weights), err
        w.brood(*words, "--name", f"new{i}", "--set", "run.env_steps=300", "-q")
        text = (w.run_dir(f"new{i}") / "config.yaml").read_text()
        assert f"{key.split('.')[-1]}: {value}" in text, (change, text)
    end(p, run)


def test_a_file_edited_while_nothing_ran_is_refused(w):
    p, run = start(w, "stopped")
    end(p, run)
    edit(run, "discount: 0.95", "discount: 0.9")
    last = harness.checkpoints(run)[-1] + 1000
    length = ("--set", f"run.env_steps={last}")
    _, err = w.brood("resume", run, *length, code=2)
    assert "'discount: 0.95'" in err and "'discount: 0.9'" in err, err
    _, err = w.brood("resume", run, *length, "--anyway")
    assert "defaults.discount=0.9" in err, err
    assert "discount: 0.9\n" in (run / "config.yaml").read_text()


def pending(w, run):
    return [(p["key"], p["value"], p["at_step"], p["agent"])
            for p in w.status(run)["pending"]]


def test_a_number_can_be_given_a_schedule(w):
    """It is one change, until another value takes its place, or it is cancelled; a resume finds
    it as it was left."""
    p, run = start(w, "schedule", "--set", "defaults.polyak=0 to 1 over 80000000")
    w.brood("pause", run)
    at = w.status(run)["env_steps"]
    discount = f"0.25 to 0.75 over {at + 4000}"
    assert [(key, value) for key, value, _, _ in pending(w, run)] == [
        ("defaults.polyak", "0 to 1 over 80000000")]
    assert "polyak: 1\n" in (run / "config.yaml").read_text()
    out, _ = w.brood("set", run, f"defaults.discount={discount}", "defaults.polyak=1")
    assert out == f"from step {at} on: defaults.discount={discount},defaults.polyak=1\n", out
    assert pending(w, run) == [("defaults.discount", discount, at, None),
                               ("defaults.polyak", "1", at, None)]
    assert "discount: 0.75\n" in (run / "config.yaml").read_text()
    for wrong, says in (("0.25 to 2 over 9", "found '2', expected a number"),
                        ("0.25 to 1", "expected a schedule such as")):
        _, err = w.brood("set", run, f"defaults.discount={wrong}", code=2)
        assert says in err and err.count("\n") == 1, err
    w.brood("set", run, f"agents.agent_1.clip_norm=1 to 2 over {at + 10**6}")
    w.brood("continue", run)
    harness.wait_until("a checkpoint behind it", lambda: harness.checkpoints(run)[-1] > at + 1000)
    w.brood("pause", run)
    out, _ = w.brood("set", run, "--cancel", "agents.agent_1.clip_norm")
    assert f"cancelled: agents.agent_1.clip_norm=1 to 2 over {at + 10**6} from step" in out, out
    left = float(re.search(r"agent_1:(?:\n    .*)*?\n    clip_norm: (\S+)",
                           (run / "config.yaml").read_text()).group(1))
    assert 1 <= left < 1.5 and not [x for x in pending(w, run) if "clip_norm" in x[0]], left
    last = at + 8000
    w.brood("set", run, f"run.env_steps={last}")
    w.brood("continue", run)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    told = [line for line in journal(run, "changed") if "discount" in line]
    assert len(told) == 2 and "discount=0.75" in told[1], told

    for step in harness.checkpoints(run)[-9:-1:3]:
        again = w.path / str(step)
        harness.copy_run(run, again)
        w.brood("resume", again, "--from", str(step))
        assert final(run, last) == final(again, last), step


def test_one_number_is_no_document(w):
    """From the socket to the agent a value is a value: the only YAML is config.yaml."""
    p = w.start("run", w.write("change.yaml", CONFIG), "--name", "values", "--set",
                "checkpoint.every_env_steps=0", env={"BROOD_LOG": "debug"})
    run = w.run_dir("values")
    logs = [run / "logs" / f"{name}.log" for name in ("supervisor", "agent_0", "agent_1")]

    def lines(pattern):
        return [line for log in logs for line in log.read_text().splitlines()
                if re.search(pattern, line)]

    harness.wait_until("the first checkpoint", lambda: harness.checkpoints(run))
    w.brood("checkpoint", run)
    w.brood("pause", run)
    earlier, answers = lines(" yaml: "), len(lines("from agent_0: the answer"))
    assert earlier, "debug lines tell of YAML that is read and written"
    w.brood("set", run, "agents.agent_0.optimizer.learning_rate=0.001")
    w.brood("continue", run)
    harness.wait_until("the change", lambda: journal(run, "changed"))
    harness.wait_until("its answer", lambda: lines("to agent_0: set,") and
                       len(lines("from agent_0: the answer")) > answers)
    seen = [line for line in lines(" yaml: ") if line not in earlier]
    assert len(seen) == 1 and "wrote a configuration" in seen[0], seen
    assert "learning_rate: 0.001\n" in (run / "config.yaml").read_text()
    end(p, run)


def test_what_is_pending_is_listed_and_cancelled(w):
    p, run = start(w, "cancelled")
    w.brood("pause", run)
    before = (run / "config.yaml").read_text()
    soon = w.status(run)["env_steps"] + 2000
    beta = ("agents.agent_0.optimizer.beta1", "0.5", None, "agent_0")
    discount = ("defaults.discount", "0.9", 90000000, None)
    w.brood("set", run, "defaults.polyak=0.5", "--at-step", soon)
    w.brood("set", run, "defaults.discount=0.9", "--at-step", discount[2])
    w.brood("set", run, "agents.agent_0.optimizer.beta1=0.5")
    assert pending(w, run) == [("defaults.polyak", "0.5", soon, None), discount, beta]
    out, _ = w.brood("status", run)
    assert f"pending: defaults.polyak=0.5 from step {soon} on" in out, out
    assert ("pending: agents.agent_0.optimizer.beta1=0.5 with the next `brood respawn` of "
            "agent_0") in out, out

    # What is not pending cannot be cancelled, and then nothing is.
    agreed = (run / "config.yaml").read_text()
    for key in ("defaults.clip_norm", "agents.agent_1.optimizer.beta1", "polyak"):
        _, err = w.brood("set", run, "--cancel", "defaults.polyak", key, code=2)
        assert f"{key}: nothing is pending for this key" in err, err
    w.brood("set", run, "--cancel", "defaults.polyak=0.5", code=2)
    w.brood("set", run, "--cancel", "--at-step", "9", code=2)
    assert (run / "config.yaml").read_text() == agreed and len(pending(w, run)) == 3

    out, _ = w.brood("set", run, "--cancel", "defaults.polyak")
    assert f"cancelled: defaults.polyak=0.5 from step {soon} on" in out, out
    assert pending(w, run) == [discount, beta]
    assert f"changes=defaults.polyak@{soon}\n" in journal(run, "cancel")[0]
    assert "polyak: 0.5\n" not in (run / "config.yaml").read_text()
    end(p, run)

    # A resume knows what is left, and what was cancelled never was.
    n = len(journal(run, "ready"))
    p = w.start("resume", run, start_new_session=True)
    harness.wait_until("the agents", lambda: len(journal(run, "ready")) >= n + 2)
    harness.wait_until("the rounds", lambda: len(journal(run, "resume")) == 1)
    assert pending(w, run) == [discount, beta], w.status(run)
    out, _ = w.brood("set", run, "--cancel", "--json")
    assert [c["key"] for c in json.loads(out)["cancelled"]] == [discount[0], beta[0]]
    assert pending(w, run) == [] and "nothing was pending" in w.brood("set", run, "--cancel")[0]
    assert (run / "config.yaml").read_text() == before
    harness.wait_until("a checkpoint behind it", lambda: harness.checkpoints(run)[-1] > soon)
    end(p, run)
    last = harness.checkpoints(run)[-1] + 1000
    length = ("--set", f"run.env_steps={last}")
    w.brood("resume", run, "--from", "1000", *length)
    w.brood("run", w.path / "change.yaml", "--name", "plain", *length)
    weights = [harness.tree_bytes(r / "checkpoints" / str(last),
                                  lambda path: path.name != "run.state")
               for r in (run, w.run_dir("plain"))]
    assert weights[0] == weights[1] and weights[0]
    (told,) = journal(run, "changed")
    assert f"changes=run.env_steps={last}\n" in told, told


def test_a_default_waits_as_long_as_an_agent_does(w):
    p, run = start(w, "waiting")
    before = (run / "config.yaml").read_text()
    own = "agents.agent_{}.optimizer.beta1"
    w.brood("set", run, "defaults.optimizer.beta1=0.5")
    waits = [(own.format(i), "0.5", None, f"agent_{i}") for i in (0, 1)]
    # From the next boundary on, it waits for each agent's next start.
    harness.wait_until("both", lambda: pending(w, run) == waits)
    w.brood("set", run, "--cancel", own.format(0))
    assert pending(w, run) == waits[1:]
    w.brood("respawn", run, "agent_1")
    assert pending(w, run) == []
    assert f"changes={own.format(1)}=0.5\n" in journal(run, "changed")[0]
    w.brood("set", run, own.format(1) + "=", "defaults.optimizer.beta1=")
    w.brood("respawn", run, "agent_1")
    assert (run / "config.yaml").read_text() == before
    # By the default's name, all who wait for it.
    w.brood("set", run, "defaults.optimizer.beta1=0.5")
    harness.wait_until("both", lambda: pending(w, run) == waits)
    w.brood("set", run, "--cancel", "defaults.optimizer.beta1")
    assert pending(w, run) == [] and (run / "config.yaml").read_text() == before
    end(p, run)


def test_an_answer_of_any_length_is_shown(w):
    p, run = start(w, "long", "--set", "env.params.agents=15")
    sets = [f"agents.agent_{i}.{key}=0.2512345678901 to 0.7512345678901 over 80000000"
            for i in range(15) for key in ("discount", "polyak", "clip_norm",
                                           "optimizer.learning_rate")]
    out, _ = w.brood("set", run, *sets)
    assert len(out) > 4096 and all(s in out for s in sets), out
    end(p, run)


def test_what_was_never_in_force_is_told_at_the_end(w):
    """It is made if the run is made longer."""
    p, run = start(w, "left", "--set", "evaluation.every_env_steps=0")
    at = harness.pause(w, run)
    last = at + 400
    w.brood("set", run, f"run.env_steps={last}")
    w.brood("set", run, "defaults.polyak=0.5", "--at-step", last + 100)
    w.brood("set", run, "agents.agent_1.discount=0.9 to 0.99 over 100000000")
    w.brood("set", run, "agents.agent_0.optimizer.beta1=0.5")
    w.brood("continue", run)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    told = (f"never in force: defaults.polyak=0.5 (step {last + 100}), "
            "agents.agent_0.optimizer.beta1=0.5 (with a respawn)\n")
    assert p.log.read_text().count("never in force") == 1 and told in p.log.read_text(), \
        p.log.read_text()
    _, err = w.brood("resume", run, "--set", f"run.env_steps={last + 200}")
    assert f"from step {last + 100} on: defaults.polyak=0.5\n" in err, err
    assert "never in force: agents.agent_0.optimizer.beta1=0.5 (with a respawn)\n" in err, err


def test_an_earlier_step_is_planned_later(w):
    """config.yaml is what all that is planned comes to, in the order of the steps."""
    p, run = start(w, "order")
    w.brood("set", run, "defaults.polyak=0.5", "--at-step", "90000000")
    w.brood("set", run, "defaults.polyak=0.25")
    harness.wait_until("the change", lambda: journal(run, "changed"))
    assert "polyak: 0.5\n" in (run / "config.yaml").read_text()
    end(p, run)
    last = harness.checkpoints(run)[-1] + 1000
    w.brood("resume", run, "--from", "1000", "--set", f"run.env_steps={last}")


def test_a_value_that_is_planned_for_later_can_be_set_now(w):
    """Also of one agent, where it is planned for all."""
    p, run = start(w, "now")
    w.brood("set", run, "defaults.discount=0.6", "--at-step", "90000000")
    out, _ = w.brood("set", run, "agents.agent_0.discount=0.6", "--at-step", "80000000")
    assert "from step 80000000 on: agents.agent_0.discount=0.6" in out, out
    out, _ = w.brood("set", run, "defaults.discount=0.6")
    assert ": defaults.discount=0.6" in out, out
    harness.wait_until("the change", lambda: journal(run, "changed"))
    end(p, run)


if __name__ == "__main__":
    harness.main()
