"""Agents that are given up: frozen, noop, taken back; the same through any death and resume."""
import harness
from test_changes import checkpoints, journal
from test_exactness import outcome
from test_faults import FAULT_AGENT
from test_lifecycle import status

TEMPORARY = "agents.agent_1.restart={policy: temporary, on_give_up: %s}"


def program_for(w):
    """brood beside the agent that ends where BROOD_FAULT says; nobody has ended yet."""
    program = w.program_with_agent(FAULT_AGENT)
    for count in program.parent.glob("*.runs"):
        count.unlink()
    return program


def start(w, name, mode, fault, *more, steps=40_000):
    """A run whose agent_1 is given up at its first death."""
    return w.start("run", w.small(steps=steps, checkpoint=1000), "--name", name,
                   "--set", TEMPORARY % mode, "--set", "run.on_supervisor_death=resume",
                   "--set", "experience.keep=true", "--set", "checkpoint.max_to_keep=100",
                   *more, program=program_for(w), env={"BROOD_FAULT": fault})


def done(p):
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()


def wait_for(run, event, n=1):
    harness.wait_until(f"{n} {event}", lambda: len(journal(run, event)) >= n)


def wait_for_checkpoints(run, more):
    n = len(checkpoints(run))
    harness.wait_until(f"{more} checkpoints", lambda: len(checkpoints(run)) >= n + more)


def kill_supervisor(run):
    n = len(journal(run, "resume"))
    harness.kill(harness.holder_of(run))
    wait_for(run, "resume", n + 1)


def agent(w, name, which="agent_1"):
    return next(a for a in status(w, name)["agents"] if a["name"] == which)


def test_a_give_up_survives_the_supervisor(w):
    for mode, fault in (("frozen", "agent_1:learn:before-reply:40,abort"),
                        ("frozen", "agent_1:act:before-reply:500,abort"),
                        ("noop", "agent_1:propose:before-reply:40,abort")):
        name = mode + fault.split(":")[1]
        done(start(w, f"calm-{name}", mode, fault))
        calm = w.run_dir(f"calm-{name}")
        assert len(journal(calm, "give-up")) == 1
        p, run = start(w, name, mode, fault), w.run_dir(name)
        # Mostly before the next checkpoint, then after one.
        wait_for(run, "give-up")
        kill_supervisor(run)
        wait_for(run, "turned")
        wait_for_checkpoints(run, 2)
        kill_supervisor(run)
        done(p)
        assert len(journal(run, "give-up")) == 1, journal(run, "give-up")
        ours, theirs = outcome(run), outcome(calm)
        if mode == "noop":  # its values are of its newest snapshot, which was any
            for files in ours, theirs:
                for path in [path for path in files if path.startswith("agent_1/")]:
                    files.pop(path)
                files.pop("run.state", None)
        harness.assert_same_files(theirs, ours)


def test_a_resume_from_before_makes_the_turns_again(w):
    """Also what a noop's weights are, and the turn back."""
    p, run = start(w, "once", "noop", "agent_1:learn:before-reply:40,abort"), \
        w.run_dir("once")
    wait_for(run, "give-up")
    wait_for_checkpoints(run, 2)
    w.brood("respawn", "once", "agent_1")
    done(p)
    assert [len(journal(run, e)) for e in ("give-up", "take-back")] == [1, 1]
    first = outcome(run)
    for step in (0, 1000):
        w.brood("resume", "once", "--from", step, program=w.program_with_agent(FAULT_AGENT),
                env={"BROOD_FAULT": ""})
        harness.assert_same_files(first, outcome(run))
    assert [len(journal(run, e)) for e in ("give-up", "take-back")] == [1, 1]


def test_a_noop_among_others_than_itself(w):
    """Whose outputs have another shape than its own: a resume knows it."""
    config = w.write("pair.yaml", """
run: {name: pair, seed: 1, env_steps: 6000}
env: {id: simple_speaker_listener, copies: 4}
experience: {capacity: 20000, batch_size: 64, warmup: 200, update_every: 20, keep: true}
evaluation: {every_env_steps: 0, episodes: 8}
checkpoint: {every_env_steps: 1000, max_to_keep: 0}
defaults: {actor: {hidden: [16]}, critic: {hidden: [16]}, restart: {policy: temporary, on_give_up: noop}}
""")
    program = program_for(w)
    w.brood("run", config, "--name", "pair", program=program,
            env={"BROOD_FAULT": "speaker_0:learn:before-reply:40,abort"})
    run = w.run_dir("pair")
    first = outcome(run)
    assert len(journal(run, "give-up")) == 1
    for step in (3000, 0):
        w.brood("resume", "pair", "--from", step, program=program, env={"BROOD_FAULT": ""})
        harness.assert_same_files(first, outcome(run))


def test_a_frozen_agent_dies_again(w):
    """A second give-up is a noop; the run goes on to its end."""
    p, run = start(w, "twice", "frozen", "agent_1:learn:before-reply:40,abort",
                   steps=1_000_000), w.run_dir("twice")
    wait_for(run, "give-up")
    w.brood("respawn", "twice", "agent_1")
    harness.wait_until("it learns again", lambda: journal(run, "turned"))
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
    w.brood("stop", "twice")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


if __name__ == "__main__":
    harness.main()
