"""The processes of an environment on nodes: the bytes are those of a run on one machine,
whichever processes and nodes die."""
import os
import random

import harness
from test_cluster import KEEP_NODES, PATIENT, cluster, end_as_calm, nodes_of
from test_environments import ENVIRONMENTS, hallway, processes_of

KILLS = int(os.environ.get("BROOD_KILLS", 4 if harness.SANITIZED else 8))
BLOCKS = ("--set", "env.device=/job:worker")


def hosted(keeper):
    """pid -> the node that it runs on, of all below the nodes of a run."""
    return {pid: node for node in nodes_of(keeper) for pid in harness.children(node)}


def live(w, name, file, *args):
    """A run that has evaluated once; all environment processes are there."""
    p = w.start("run", file, "--name", name, *args)
    harness.wait_until("evaluations", lambda: p.poll() is not None or (
        (w.run_dir(name) / "control.sock").exists() and
        ENVIRONMENTS <= processes_of(w, name).keys()))
    assert p.poll() is None, p.log.read_text()
    return p


def test_they_run_where_the_device_says(w):
    file = hallway(w, steps=harness.FOREVER)
    p = live(w, "blocks", file, *PATIENT, *cluster(2), *BLOCKS)
    found, at = processes_of(w, "blocks"), hosted(p.pid)
    nodes = nodes_of(p.pid)
    assert [at.get(found[f"env_{i}"]) for i in (0, 1)] == nodes, (found, at)
    assert [at.get(found[f"eval_env_{i}"]) for i in (0, 1)] == nodes, (found, at)
    end_as_calm(w, p, "blocks", file, 1000)
    p = live(w, "one", file, *PATIENT, *cluster(2), "--set", "env.device=/job:worker/task:1")
    found, at = processes_of(w, "one"), hosted(p.pid)
    assert {at.get(pid) for pid in found.values()} == {nodes_of(p.pid)[1]}, (found, at)
    w.brood("stop", "one")
    p.wait(timeout=harness.DEADLINE_S)
    # Without a device they stay with the supervisor, and without a cluster it has no effect.
    p = live(w, "none", file, *PATIENT, *cluster(2))
    assert not set(processes_of(w, "none").values()) & hosted(p.pid).keys()
    w.brood("stop", "none")
    p.wait(timeout=harness.DEADLINE_S)
    p = live(w, "alone", file, *BLOCKS)
    w.brood("stop", "alone")
    p.wait(timeout=harness.DEADLINE_S)


def test_kills_change_nothing(w):
    """Of environment processes, agents and nodes, one after the other."""
    draw = random.Random(7)
    file = hallway(w, steps=harness.FOREVER, checkpoint=1000)
    p = live(w, "killed", file, *PATIENT, *cluster(2, KEEP_NODES), *BLOCKS)
    for i in range(KILLS):
        kind = ("environment", "node", "agent")[i % 3]
        victims = {"environment": lambda: processes_of(w, "killed").values(),
                   "node": lambda: nodes_of(p.pid),
                   "agent": lambda: hosted(p.pid)}[kind]
        victim = draw.choice(sorted(harness.wait_until(kind, lambda: [
            pid for pid in victims() if harness.alive(pid)])))
        at = w.status("killed")["env_steps"]
        harness.kill_and_wait(victim)
        harness.wait_until("progress", lambda: p.poll() is not None or
                           w.status("killed")["env_steps"] > at)
        assert p.poll() is None, p.log.read_text()
    assert w.status("killed")["exact"] is True
    harness.wait_until("all", lambda: ENVIRONMENTS <= processes_of(w, "killed").keys())
    end_as_calm(w, p, "killed", file, 1000)


def test_what_cannot_be_is_refused_in_one_line(w):
    file = hallway(w)
    for device, says in (("/job:worker/task:2", "expected a task below cluster.nodes"),
                         ("/job:ps", 'expected the job "worker"'),
                         ("there", "expected a device such as /job:worker/task:2")):
        _, err = w.brood("run", file, *cluster(2), "--set", f"env.device={device}", code=2)
        assert "env.device: found" in err and says in err and len(err.splitlines()) == 1, err
    _, err = w.brood("run", w.small(), "--set", "env.device=/job:worker", code=2)
    assert "env.device: is for env.command and env.plugin alone" in err, err


def test_a_program_that_is_not_there_ends_the_run(w):
    """The node has another PATH than the trial here found: its launcher changes it."""
    folder = w.path / "bin"
    folder.mkdir()
    (folder / "here").symlink_to("/usr/bin/python3")
    words = hallway(w).read_text().replace('"/usr/bin/python3"', "here")
    file = w.write("here.yaml", words)
    _, err = w.brood("run", file, "--name", "gone", *cluster(
        1, ", command: [env, PATH=/usr/bin:/bin]", "command"), *BLOCKS, code=1,
        env={"PATH": f"{folder}:/usr/bin:/bin"})
    assert "process env_" in err and "here" in err, err   # either of the two
    harness.wait_until("nothing left", lambda: not harness.at_work_in(w.path))


if __name__ == "__main__":
    harness.main()
