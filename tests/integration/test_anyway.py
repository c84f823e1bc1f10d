"""A refused resume changes nothing; a run resumed with --anyway in spite of a difference is
marked as inexact from then on."""

import re

import harness
from test_resume import as_it_was, config, killed_run, resume, until



def test_a_refused_resume_leaves_the_run_as_it_was(w):
    run, end = killed_run(w, "run", least_checkpoints=3)
    newest = harness.checkpoints(run)[-1]
    for words, code, says in (
            (["--set", "agents.agent_1.algorithm=ddpg", "--anyway"], 1, "another graph"),
            (["--set", "defaults.actor.hidden=[5]", "--anyway"], 1, "another graph"),
            (["--set", "env.copies=8", "--anyway"], 1, "environment state"),
            (["--set", "env.copies=8"], 2, "--anyway continues"),
            (["--set", "env.copies=x"], 2, "env.copies"),
            (["--set", "agents.agent_1.algorithm=ddpg", "--anyway", "--from", 0], 1,
             "another graph"),
            # What it has passed would end it, and its log would go.
            (until(100), 2, f"is to end at 100 steps and is at {newest}"),
            (["--set", "run.env_steps=", "--set", "run.episodes=1"], 2, "1 episodes"),
            (["--from", 77], 3, "no checkpoint of step 77"),
            (["--from", "x"], 3, "no checkpoint of step x")):
        with as_it_was(run):
            start, err = resume(w, run, *words, code=code)
        assert says in err.splitlines()[-1], (words, err)
        assert code != 1 or "has not changed (resume it without" in err, err
        found = w.status(run)
        assert found["state"] == "killed" and found["exact"] is True, found
    (run / "journal").unlink()  # of which it needs nothing here
    start, _ = resume(w, run, *until(end))
    assert start["from_checkpoint"] == newest
    assert "algorithm: ddpg" not in (run / "config.yaml").read_text()


def exactness(w, run):
    """Whether the run is exact, in both forms of status."""
    exact = w.status(run)["exact"]
    assert exact is ("not exact" not in w.brood("status", run)[0])
    return exact


def test_an_inexact_run_stays_one(w):
    run, _ = killed_run(w, "run", least_checkpoints=3)
    exact_step = harness.checkpoints(run)[-1]
    assert exactness(w, run)
    # Another name is a difference, too, but not a change that takes effect at a step.
    _, err = resume(w, run, "--set", "run.name=x", "--anyway", *until(exact_step + 200))
    assert "'name: small'" in err, err
    assert re.findall(" on: (.*)", err) == [f"run.env_steps={exact_step + 200}"], err
    assert not exactness(w, run)
    p = w.start("run", config(w, steps=harness.FOREVER), "--name", "live", "--set",
                "checkpoint.max_to_keep=0")
    live = w.run_dir("live")
    harness.wait_until("checkpoints", lambda: (live / "checkpoints/200").is_dir())
    harness.kill_holder(p, live)
    for words in (["--set", "defaults.polyak=0.02", "--anyway"], [], ["--anyway"]):
        newest = harness.checkpoints(live)[-1]
        p = w.start("resume", live, *words)
        harness.wait_until("a checkpoint", lambda: harness.checkpoints(live)[-1] > newest)
        assert not exactness(w, live)
        harness.kill_holder(p, live)
        assert not exactness(w, live)
    assert (live / "journal").read_text().count(" event=inexact ") == 3

    # A resume from before the difference is exact again.
    text = (live / "config.yaml").read_text()
    (live / "config.yaml").write_text(text.replace("polyak: 0.02", "polyak: 0.01"))
    resume(w, live, "--from", 200, "--anyway", *until(600))
    assert exactness(w, live)
    w.brood("run", config(w), "--name", "calm", "--set", "checkpoint.max_to_keep=0",
            *until(600))
    calm, found = (harness.tree_bytes(w.run_dir(name) / "checkpoints/600")
                   for name in ("calm", "live"))
    harness.assert_same_files(calm, found)


def test_a_keeper_goes_on_with_what_was_asked_for(w):
    """Also if its supervisor dies before the run has changed."""
    program = w.program_with_agent(harness.FAULT_AGENT)
    run = w.run_dir("run")
    w.brood("run", w.small(steps=400), "--name", "run", "--set", "experience.keep=true",
            "--set", "run.on_supervisor_death=resume", program=program)
    with as_it_was(run):
        p = w.start("resume", *until(800), program=program,
                    env={"BROOD_FAULT": "agent_0:configure:before-reply:1,stop"})
        agent = harness.wait_until("the agent", lambda: harness.agents_of(p.pid).get(
            "agent_0"))
        harness.wait_until("its stop", lambda: harness.is_stopped(agent))
    harness.kill_supervisor(run)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    assert "continuing from" in p.log.read_text(), p.log.read_text()
    assert (run / "checkpoints/800").is_dir()
    assert "env_steps: 800\n" in (run / "config.yaml").read_text()


if __name__ == "__main__":
    harness.main()
