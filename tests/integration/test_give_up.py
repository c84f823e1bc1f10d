"""Agents that are given up: frozen, noop, reinstated; the same through any death and resume."""
import csv
import re
import signal
import subprocess

import harness
from test_changes import journal
from test_endings import start_run
from test_exactness import outcome

TEMPORARY = "agents.agent_1.restart={policy: temporary, on_give_up: %s}"
EVERY = 400  # steps between checkpoints


def start(w, name, mode, fault, steps=harness.FOREVER):
    """A run whose agent_1 is given up at its first death."""
    return w.start("run", w.small(steps=steps, evaluate=2 * EVERY, checkpoint=EVERY),
                   "--name", name, "--set", TEMPORARY % mode,
                   "--set", "run.on_supervisor_death=resume",
                   "--set", "experience.keep=true", "--set", "checkpoint.max_to_keep=0",
                   program=w.program_with_agent(harness.FAULT_AGENT), env={"BROOD_FAULT": fault})


def done(p):
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()


def wait_for(run, event, n=1):
    harness.wait_until(f"{n} {event}", lambda: len(journal(run, event)) >= n)


def wait_for_checkpoints(run, more):
    n = len(harness.checkpoints(run))
    harness.wait_until(f"{more} checkpoints", lambda: len(harness.checkpoints(run)) >= n + more)


def kill_supervisor(run):
    """Waits for a checkpoint first, because without one nothing can be resumed."""
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(run))
    n = len(journal(run, "resume"))
    harness.kill_supervisor(run)
    wait_for(run, "resume", n + 1)


def agent(w, name, which="agent_1"):
    return next(a for a in w.status(name)["agents"] if a["name"] == which)


def test_a_give_up_survives_the_supervisor(w):
    for mode, fault in (("frozen", "agent_1:learn:before-reply:20,abort"),
                        ("frozen", "agent_1:act:before-reply:250,abort"),
                        ("noop", "agent_1:propose:before-reply:20,abort")):
        name = mode + fault.split(":")[1]
        p, run = start(w, name, mode, fault), w.run_dir(name)
        # Mostly before the next checkpoint, then after one.
        wait_for(run, "give-up")
        kill_supervisor(run)
        wait_for(run, "turned")
        wait_for_checkpoints(run, 2)
        kill_supervisor(run)
        wait_for_checkpoints(run, 1)
        steps = harness.set_last_step(w, run, EVERY)
        done(p)
        assert len(journal(run, "give-up")) == 1, journal(run, "give-up")
        done(start(w, f"calm-{name}", mode, fault, steps))
        calm = w.run_dir(f"calm-{name}")
        assert len(journal(calm, "give-up")) == 1
        ours, theirs = outcome(run), outcome(calm)
        if mode == "noop":  # its values are those of its newest snapshot, at no fixed step
            for files in ours, theirs:
                for path in [path for path in files if path.startswith("agent_1/")]:
                    files.pop(path)
                files.pop("run.state", None)
        harness.assert_same_files(theirs, ours)


def test_a_resume_from_before_makes_the_turns_again(w):
    """A resume repeats the change of mode, a noop's weights, and the change back."""
    p, run = start(w, "once", "noop", "agent_1:learn:before-reply:20,abort"), \
        w.run_dir("once")
    wait_for(run, "give-up")
    wait_for_checkpoints(run, 2)
    n = len(journal(run, "turned"))
    w.brood("respawn", "once", "agent_1")
    wait_for(run, "turned", n + 1)
    wait_for_checkpoints(run, 1)
    harness.set_last_step(w, run, EVERY)
    done(p)
    assert [len(journal(run, e)) for e in ("give-up", "take-back")] == [1, 1]
    first = outcome(run)
    for step in (0, EVERY):
        w.brood("resume", "once", "--from", step, program=w.program_with_agent(harness.FAULT_AGENT),
                env={"BROOD_FAULT": ""})
        harness.assert_same_files(first, outcome(run))
    assert [len(journal(run, e)) for e in ("give-up", "take-back")] == [1, 1]


def test_a_noop_among_others_than_itself(w):
    """The others' outputs have another shape; a resume still knows the noop's own shape."""
    config = w.write("pair.yaml", """
run: {name: pair, seed: 1, env_steps: 6000}
env: {id: simple_speaker_listener, copies: 4}
experience: {capacity: 20000, batch_size: 64, warmup: 200, update_every: 20, keep: true}
evaluation: {every_env_steps: 0, episodes: 8}
checkpoint: {every_env_steps: 1000, max_to_keep: 0}
defaults:
  actor: {hidden: [16]}
  critic: {hidden: [16]}
  restart: {policy: temporary, on_give_up: noop}
""")
    program = w.program_with_agent(harness.FAULT_AGENT)
    w.brood("run", config, "--name", "pair", program=program,
            env={"BROOD_FAULT": "speaker_0:learn:before-reply:20,abort"})
    run = w.run_dir("pair")
    first = outcome(run)
    assert len(journal(run, "give-up")) == 1
    for step in (3000, 0):
        w.brood("resume", "pair", "--from", step, program=program, env={"BROOD_FAULT": ""})
        harness.assert_same_files(first, outcome(run))


def test_noops_from_before_the_first_update(w):
    """One's proposed actions have its own width, also in windows that grow; or all are noops."""
    config = w.write("early.yaml", """
run: {name: early, seed: 1, env_steps: 480}
env: {id: simple_speaker_listener, copies: 4, max_steps: 5, reward: team_mean}
experience: {capacity: 1000, batch_size: 8, warmup: 80, update_every: 40, keep: true}
evaluation: {every_env_steps: 0}
checkpoint: {every_env_steps: 160, max_to_keep: 0}
defaults:
  actor: {hidden: [8]}
  critic: {hidden: [8]}
  restart: {policy: temporary, on_give_up: noop}
""")
    speaker, both = ("speaker_0",), ("speaker_0", "listener_0")
    for i, (algorithm, noops, more) in enumerate((
            ("maddpg", speaker, ()),
            ("coma", speaker, ("--set", "experience.update_every={at: {0: 40, 200: 80}}")),
            ("maddpg", both, ()), ("vdn", both, ()), ("qmix", both, ()))):
        program = w.program_with_agent(harness.FAULT_AGENT)
        w.brood("run", config, "--name", i, "--set", f"defaults.algorithm={algorithm}", *more,
                program=program, env={"BROOD_FAULT": ";".join(
                    f"{name}:act:before-reply:3,abort" for name in noops)})
        run = w.run_dir(str(i))
        first = outcome(run)
        assert len(journal(run, "give-up")) == len(noops), algorithm
        for step in (160, 0):
            w.brood("resume", run, "--from", step, program=program, env={"BROOD_FAULT": ""})
            harness.assert_same_files(first, outcome(run))


def test_one_that_is_given_up_before_it_sends_its_graph(w):
    """Checkpoints have no graph of a noop; they have it when it learns again."""
    p, run = start(w, "late", "noop", "agent_1:metagraph:before-reply:1,abort"), w.run_dir("late")

    def has_graph(step):
        return (run / "checkpoints" / str(step) / "agent_1" / f"model.ckpt-{step}.meta").exists()
    wait_for_checkpoints(run, 2)
    assert not has_graph(0)
    w.brood("respawn", "late", "agent_1")
    wait_for(run, "take-back")
    wait_for_checkpoints(run, 2)
    assert has_graph(harness.checkpoints(run)[-1])
    w.brood("stop", "late")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def test_one_that_is_given_up_while_a_resume_asks_for_graphs(w):
    """The journal has the position at which the run resumed, not the beginning; checkpoints keep
    the graph that it had."""
    program = w.program_with_agent(harness.FAULT_AGENT)

    def brood(*args, fault=""):
        w.brood(*args, program=program, env={"BROOD_FAULT": fault})
    brood("run", w.small(steps=1200, checkpoint=EVERY), "--name", "again", "--set",
          TEMPORARY % "noop", "--set", "experience.keep=true", "--set",
          "checkpoint.max_to_keep=0")
    run = w.run_dir("again")
    brood("resume", run, "--from", EVERY, fault="agent_1/1:metagraph:before-reply:1,abort")
    assert len(journal(run, "give-up")) == 1

    expected = harness.tree_bytes(run / "checkpoints")
    for step in (0, EVERY, 2 * EVERY):
        brood("resume", run, "--from", step)
        harness.assert_same_files(expected, harness.tree_bytes(run / "checkpoints"))
    assert len(journal(run, "turned")) == 3


def test_a_graph_that_was_never_sent_is_in_no_checkpoint_of_a_resume(w):
    """Each has the bytes that it had."""
    program = w.program_with_agent(harness.FAULT_AGENT)
    w.brood("run", w.small(steps=1200, checkpoint=EVERY), "--name", "never", "--set",
            TEMPORARY % "noop", "--set", "experience.keep=true", "--set",
            "checkpoint.max_to_keep=0", program=program,
            env={"BROOD_FAULT": "agent_1:metagraph:before-reply:1,abort"})
    run = w.run_dir("never")
    expected = harness.tree_bytes(run / "checkpoints")
    assert not any("agent_1" in name and name.endswith(".meta") for name in expected)
    for step in (0, EVERY, 2 * EVERY):
        w.brood("resume", run, "--from", step, program=program, env={"BROOD_FAULT": ""})
        harness.assert_same_files(expected, harness.tree_bytes(run / "checkpoints"))
    w.brood("fork", f"never@{EVERY}", "--name", "fork", program=program, env={"BROOD_FAULT": ""})
    made = harness.tree_bytes(w.run_dir("fork") / "checkpoints")
    harness.assert_same_files({n: expected[n] for n in made}, made)


STRICT = """
#include "brood_env.h"
#include <stdlib.h>
#include <string.h>

static int agents(const struct brood_env_param *params, size_t n, struct brood_env_agent *ret,
                  size_t max, char *why, size_t why_size)
{
    for (int i = 0; i < 2; i++) {
        strcpy(ret[i].name, i == 0 ? "above" : "below");
        ret[i].obs_width = 1;
        ret[i].kind = i == 0 ? BROOD_ENV_BOX : BROOD_ENV_HYBRID;
        ret[i].n_heads = 1;
        ret[i].heads[0] = 3;
        ret[i].box_width = 2;
        ret[i].low = i == 0 ? 5 : -6;
        ret[i].high = i == 0 ? 6 : -5;
    }
    return 2;
}

static void *open_world(const struct brood_env_param *params, size_t n, char *why,
                        size_t why_size)
{
    return why;
}

static void close_world(void *world)
{
}

static void reset(void *world, uint64_t seed, const struct brood_env_view *out)
{
    out->present[0] = out->present[1] = 1;
}

static void step(void *world, const float *const *actions, const struct brood_env_view *out)
{
    for (int i = 0; i < 2; i++)
        if (!(actions[0][i] >= 5 && actions[0][i] <= 6 &&
              actions[1][3 + i] >= -6 && actions[1][3 + i] <= -5))
            abort();
    for (int i = 0; i < 3; i++)
        if (actions[1][i] != 0 && actions[1][i] != 1)
            abort();
    reset(world, 0, out);
}

const struct brood_env *brood_env_plugin(void)
{
    static const struct brood_env env = {BROOD_ENV_ABI, "strict", 0, agents, open_world,
                                         close_world, reset, step};

    return &env;
}
"""


def test_a_noop_stays_within_the_bounds_of_its_actions(w):
    """The environment ends with an action outside of them. Those of `below` are hybrid."""
    subprocess.run(["cc", "-shared", "-fPIC", "-I", harness.SOURCE / "agent" / "plugin", "-o",
                    w.path / "strict.so", w.write("strict.c", STRICT)], check=True)
    config = w.write("strict.yaml", """
run: {name: strict, seed: 1, env_steps: 400}
env: {plugin: ./strict.so, copies: 2, max_steps: 10, verify: false}
evaluation: {every_env_steps: 0}
defaults: {algorithm: random, restart: {policy: temporary, on_give_up: noop}}
""")
    for name in ("above", "below"):
        w.brood("run", config, "--name", name, program=w.program_with_agent(harness.FAULT_AGENT),
                env={"BROOD_FAULT": f"{name}:act:before-reply:20,abort"})
        assert len(journal(w.run_dir(name), "give-up")) == 1


def test_a_frozen_agent_dies_again(w):
    """After a second give-up the agent is a noop; the run goes on to its end."""
    p, run = start(w, "twice", "frozen", "agent_1:learn:before-reply:20,abort"), \
        w.run_dir("twice")
    wait_for(run, "give-up")
    assert agent(w, "twice")["given_up"] == "frozen" and not w.status("twice")["exact"]
    shown = next(line for line in w.brood("status", "twice")[0].splitlines()
                 if "agent_1" in line)
    assert shown.split()[2] == "frozen", shown
    w.brood("respawn", "twice", "agent_1")
    harness.wait_until("it learns again", lambda: journal(run, "turned"))
    assert agent(w, "twice")["given_up"] is None and not w.status("twice")["exact"]
    w.brood("kill", "twice", "agent_1")
    wait_for(run, "give-up", 2)
    w.brood("kill", "twice", "agent_1")
    wait_for(run, "give-up", 3)
    modes = [line.split(" mode=")[1].split()[0] for line in journal(run, "give-up")]
    assert modes == ["frozen", "frozen", "noop"], modes
    _, err = w.brood("kill", "twice", "agent_1", code=1)
    assert "brood respawn" in err, err
    # What waits for a respawn comes with it.
    w.brood("set", "twice", "agents.agent_1.optimizer.beta1=0.5")
    n = len(journal(run, "turned"))
    w.brood("respawn", "twice", "agent_1")
    wait_for(run, "turned", n + 1)
    assert journal(run, "changed") and "mode=learns" in journal(run, "turned")[-1]
    w.brood("kill", "twice", "agent_1")
    wait_for(run, "give-up", 4)
    w.brood("kill", "twice", "agent_1")
    wait_for(run, "give-up", 5)
    w.brood("stop", "twice")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert agent(w, "twice")["given_up"] == "noop" and not w.status("twice")["exact"]


# ---- what ends a process, and how often ----

def test_a_crash_loop_ends_with_its_reason(w):
    """On the last line that the user sees."""
    fault = "agent_1:act:before-reply:30,kill;" + ";".join(
        f"agent_1/{i}:act:before-reply:1,kill" for i in range(1, 7))
    p = w.start("run", w.small(), "--name", "loop", "--set",
                "agents.agent_1.restart={max_restarts: 3, delay: 10ms}",
                program=w.program_with_agent(harness.FAULT_AGENT), env={"BROOD_FAULT": fault})
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    last = p.log.read_text().splitlines()[-1]
    assert "agent_1" in last and "died 4 times within 60 s" in last and "SIGKILL" in last, last


def test_a_pause_does_not_wait_for_a_delay(w):
    """Neither does a stop: the delayed process is started at once."""
    fault = "agent_1:act:before-reply:30,kill;agent_1/1:act:before-reply:1,kill"
    for command in "pause", "stop":
        p = w.start("run", w.small(steps=10_000_000, evaluate=0), "--name", command, "--set",
                    "agents.agent_1.restart={delay: 1h, max_delay: 1h}",
                    program=w.program_with_agent(harness.FAULT_AGENT), env={"BROOD_FAULT": fault})
        wait_for(w.run_dir(command), "wait")
        w.brood(command, command)
        if command == "pause":
            assert w.status(command)["state"] == "paused"
            w.brood("stop", command)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def has_kept_requests(run):
    """Whether agent_0 has made an update that its newest snapshot does not contain."""
    log = (run / "logs" / "supervisor.log").read_text()
    learn = re.findall(r"to agent_0: learn, request (\d+)", log)
    snapshot = re.findall(r"agent_0: a snapshot of \d+ bytes after request (\d+)", log)
    return bool(learn) and int(learn[-1]) > int(snapshot[-1] if snapshot else 0)


def test_a_checkpoint_does_not_wait_for_one_that_is_given_up(w):
    """Its process, which the checkpoint waits for, never becomes ready: neither the checkpoint nor
    the run waits any longer."""
    # Large variables and small batches, so that copying takes long beside an update: requests are
    # then kept for a replay, which is what the checkpoint waits for.
    p = w.start("run", w.small(steps=harness.FOREVER, evaluate=0), "--name", "wait",
                "--set", "agents.agent_0.critic.hidden=[1024, 1024]",
                "--set", "experience.batch_size=4", "--set",
                "agents.agent_0.restart={max_restarts: 0, on_give_up: noop}",
                program=w.program_with_agent(harness.FAULT_AGENT),
                env={"BROOD_FAULT": "agent_0/1:configure:before-reply:1,stop",
                     "BROOD_LOG": "debug"})
    run = w.run_dir("wait")

    def paused_with_kept_requests():
        harness.pause(w, run)
        if not has_kept_requests(run):
            w.brood("continue", "wait")
            return False
        return True

    # Past the warm-up: an agent that has learnt nothing is given up at its first death.
    harness.wait_until("updates", lambda: harness.rows(run) >= 2)
    harness.wait_until("a pause with requests that are kept", paused_with_kept_requests)
    harness.kill(harness.agents_of(p.pid)["agent_0"], signal.SIGSEGV)
    stopped = harness.wait_until("another process", lambda: (
        pid := harness.agents_of(p.pid).get("agent_0")) and harness.is_stopped(pid) and pid)
    checkpoint = w.start("checkpoint", "wait")

    def waits():
        assert checkpoint.poll() is None, harness.output(checkpoint) + checkpoint.log.read_text()
        return "run: checkpoint waits" in (run / "logs" / "supervisor.log").read_text()

    harness.wait_until("a checkpoint that waits", waits)
    harness.kill(stopped)
    wait_for(run, "give-up")
    done(checkpoint)
    w.brood("continue", "wait")
    w.brood("stop", "wait")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def test_a_limit_that_is_too_low_ends_the_run(w):
    """Progress in between does not help; each message names the limit. It is above what any
    such process takes, which would be refused before."""
    p = w.start("run", w.small(steps=10_000_000, evaluate=0), "--name", "low", "--set",
                "agents.agent_1.memory_limit=1200000B", "--set",
                "defaults.restart={max_restarts: 2, delay: 10ms}")
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    last = p.log.read_text().splitlines()[-1]
    assert "agent_1" in last and "died 3 times within 60 s" in last and \
        "its memory_limit is 1.2M" in last, last
    assert agent(w, "low")["last_exit"] == "memory_limit"
    frozen = (w.run_dir("low") / "config.yaml").read_text()
    assert "memory_limit: 1200000B" in frozen, frozen


# ---- limits of a live run ----

def set_live(w, name, *assignments):
    n = len(journal(w.run_dir(name), "changed"))
    w.brood("set", name, *assignments)
    wait_for(w.run_dir(name), "changed", n + 1)


def test_limits_reach_the_live_process(w):
    p, run = start_run(w, "live"), w.run_dir("live")
    _, err = w.brood("set", "live", "defaults.memory_limit=1K", code=2)
    assert re.search(r"agent_0.memory_limit: 1K is less than the \d\S*M that it takes "
                     "now", err) and len(err.splitlines()) == 1, err
    pids = harness.agents_of(p.pid)
    if not harness.SANITIZED:  # whose memory has no such limit
        set_live(w, "live", "agents.agent_2.memory_limit=1G")
        limits = open(f"/proc/{pids['agent_2']}/limits").read()
        soft = next(int(line.split()[3]) for line in limits.splitlines()
                    if line.startswith("Max data size"))
        assert soft == (2 << 30) + (256 << 20), limits

    # The watchdog's default would let it be for half a minute.
    set_live(w, "live", "agents.agent_0.respond_within=%s" %
             ("2s" if not harness.SANITIZED else "5s"))
    harness.kill(pids["agent_0"], signal.SIGSTOP)
    harness.wait_within("the watchdog", lambda: any(
        " limit=respond_within " in line for line in journal(run, "exit")), 15)
    harness.wait_until("its return", lambda: agent(w, "live", "agent_0")["pid"] != 0)
    assert agent(w, "live", "agent_0")["last_exit"] == "respond_within"

    # By default it would come back.
    set_live(w, "live", "agents.agent_1.restart.policy=temporary",
             "agents.agent_1.restart.on_give_up=noop")
    harness.kill(harness.agents_of(p.pid)["agent_1"])
    wait_for(run, "give-up")
    assert agent(w, "live")["given_up"] == "noop"
    w.brood("stop", "live")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def test_one_that_is_only_slow_is_left_alone(w):
    """A real agent with a request that takes longer than the watchdog's limit."""
    within_s = 1 if not harness.SANITIZED else 2

    def update_s(tries):
        """How long the only update of a run takes, which one agent makes."""
        name = f"tries-{tries}"
        w.brood("run", w.small(steps=200, evaluate=0), "--name", name, "--set",
                "defaults.algorithm=random", "--set", "agents.agent_1={algorithm: maddpg, "
                "optimizer: {type: accept_reject, tries: %d}}" % tries, "--set",
                "defaults.respond_within=%gs" % within_s)
        assert not any(" limit=" in line for line in journal(w.run_dir(name), "exit"))
        with open(w.run_dir(name) / "metrics" / "progress.csv", newline="") as f:
            return float(list(csv.DictReader(f))[-1]["time/learn_ms"]) / 1000

    tries = 2000
    while (took := update_s(tries)) < 1.5 * within_s:
        tries *= max(2, round(2 * within_s / took))
    print(f"# an update of {took:.1f} s, at most {within_s} s of silence")


if __name__ == "__main__":
    harness.main()
