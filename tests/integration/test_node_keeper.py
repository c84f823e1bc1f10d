"""The keeper of a node: whatever kills a node leaves nothing of it, also where no process of
the run could see it."""
import os
import signal
import threading

import harness
from test_cluster import KEEP_NODES, PATIENT, cluster, node_pids, trained
from test_endings import GONE_WITHIN_S, wait_gone
from test_keeper import LEAVER, called

MARK = "BROOD_NODE_MARK"
# Leaves the key to the machine, and stays in front, as ssh does.
LAUNCH = ("cat > key-{node}.new; mv key-{node}.new key-{node}; echo \"$3\" > address; "
          "exec sleep 1000000")


class Machine:
    """Starts the nodes that a launcher asks for, outside of the run: they have neither its
    mark nor its control group, and no process of it above them."""

    def __init__(self, w, program):
        self.w, self.program, self.keepers, self.is_over = w, program, {}, False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while not self.is_over:
            for key in self.w.path.glob("key-[0-9]"):
                self.launch(int(key.name[-1]), key)
            harness.time.sleep(0.01)

    def launch(self, node, key):
        taken = self.w.path / f"{key.name}.taken"
        harness.wait_until("the address", lambda: (self.w.path / "address").exists() and
                           (self.w.path / "address").read_text().strip())
        key.rename(taken)
        with open(taken) as stdin, open(os.devnull, "wb") as null:
            p = harness.Process(
                [str(self.program), "node", "--connect",
                 (self.w.path / "address").read_text().strip(), "--silence", "5000"],
                stdin=stdin, stdout=null, stderr=null, cwd=self.w.path)
        p.log = self.w.path / "none"
        self.w.started.append(p)
        self.keepers[node] = p

    def close(self):
        self.is_over = True
        self.thread.join()


def everyone_of(keeper):
    return harness.members(keeper) | harness.marked(keeper, MARK)


def has_left_all(keeper, agents):
    """Whether the agents of a node have each left their five processes."""
    everyone = everyone_of(keeper)
    return all(len(called(kind, everyone)) >= agents
               for kind in ("left-behind", "left-bare", "left-large"))


def kill_one(w, machine, name, who):
    """Kill node 1, its keeper, or both, and wait until nothing of it is left and another one
    is up."""
    p = machine.keepers[1]
    harness.wait_until("what is left behind", lambda: has_left_all(p.pid, 1))
    everyone = everyone_of(p.pid)
    node = harness.supervisor_of(p.pid)
    assert node_pids(w, name)[1] == node
    victims = {"node": [node], "keeper": [p.pid], "both": [p.pid, node]}[who]
    for pid in victims:
        harness.kill(pid)
    p.wait(timeout=harness.DEADLINE_S)
    wait_gone(everyone)
    harness.wait_within("the end of all that is marked", lambda: not harness.marked(p.pid, MARK),
                        GONE_WITHIN_S)
    harness.wait_until("another node", lambda: node_pids(w, name)[1] not in (0, node))


def test_a_dead_node_leaves_nothing(w):
    """On another machine: agents leave processes in sessions of their own, some without
    environment and descriptors; and the bytes are those of a calm run."""
    program = w.program_with_agent(LEAVER)
    machine = Machine(w, program)
    try:
        file = w.small(steps=harness.FOREVER, evaluate=0, checkpoint=400)
        p = w.start("run", file, "--name", "left", *PATIENT, *cluster(
            2, f", silence: 5s, command: [sh, -c, '{LAUNCH}']{KEEP_NODES}", "command"),
            program=program)
        harness.wait_until("a checkpoint", lambda: harness.checkpoints(w.run_dir("left")) or
                           p.poll() is not None)
        for who in ("node", "keeper", "both"):
            kill_one(w, machine, "left", who)
        everyone = set().union(*(everyone_of(keeper.pid)
                                 for keeper in machine.keepers.values()))
        steps = harness.set_last_step(w, w.run_dir("left"), 400)
        assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
        wait_gone(everyone)
    finally:
        machine.close()
    w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("left")))


def test_a_node_that_stands_still_is_ended_by_its_keeper(w):
    """It is replaced after the silence, and nobody else could end it and what it has started."""
    program = w.program_with_agent(LEAVER)
    machine = Machine(w, program)
    try:
        file = w.small(steps=harness.FOREVER, evaluate=0, checkpoint=400)
        p = w.start("run", file, "--name", "stood", *PATIENT, *cluster(
            2, f", silence: 2s, command: [sh, -c, '{LAUNCH}']{KEEP_NODES}", "command"),
            program=program)
        harness.wait_until("a checkpoint", lambda: harness.checkpoints(w.run_dir("stood")) or
                           p.poll() is not None)
        keeper = machine.keepers[1]
        harness.wait_until("what is left behind", lambda: has_left_all(keeper.pid, 1))
        everyone = everyone_of(keeper.pid)
        node = harness.supervisor_of(keeper.pid)
        harness.kill(node, signal.SIGSTOP)
        harness.wait_until("another node", lambda: node_pids(w, "stood")[1] not in (0, node))
        at = w.status("stood")["env_steps"]
        harness.wait_until("progress", lambda: w.status("stood")["env_steps"] > at)
        assert keeper.wait(timeout=harness.DEADLINE_S) == 128 + signal.SIGKILL
        wait_gone(everyone)
        steps = harness.set_last_step(w, w.run_dir("stood"), 400)
        assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    finally:
        machine.close()
    w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("stood")))


def test_dead_nodes_of_this_machine_leave_nothing(w):
    """Started directly, and by a shell that stays in front."""
    program = w.program_with_agent(LEAVER)
    for name, launcher in (("local", cluster(2, KEEP_NODES)),
                           ("shell", cluster(2, """, command: [sh, -c, '"$0" "$@"; exit $?']"""
                                             + KEEP_NODES, "command"))):
        p = w.start("run", w.small(steps=harness.FOREVER, evaluate=0), "--name", name,
                    *PATIENT, *launcher, program=program)
        harness.wait_until("a checkpoint", lambda: harness.checkpoints(w.run_dir(name)) or
                           p.poll() is not None)
        for who in ("node", "keeper"):
            node = harness.wait_until("the node", lambda: node_pids(w, name)[1])
            keeper = harness.keeper_of(node)
            harness.wait_until("what is left behind", lambda: has_left_all(keeper, 1))
            everyone = everyone_of(keeper)
            harness.kill(node if who == "node" else keeper)
            wait_gone(everyone)
            harness.wait_until("another node", lambda: node_pids(w, name)[1] not in (0, node))
        everyone = harness.members(p.pid)
        w.brood("stop", name)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        wait_gone(everyone)


def test_the_supervisor_of_nodes_elsewhere_dies(w):
    """Nodes end by themselves, with all that their agents have left."""
    program = w.program_with_agent(LEAVER)
    machine = Machine(w, program)
    try:
        p = w.start("run", w.small(steps=harness.FOREVER), "--name", "died", *PATIENT, *cluster(
            2, f", command: [sh, -c, '{LAUNCH}']", "command"), program=program)
        for node, agents in ((0, 2), (1, 1)):
            harness.wait_until("what is left behind", lambda: node in machine.keepers and
                               has_left_all(machine.keepers[node].pid, agents))
        everyone = set().union(*(everyone_of(keeper.pid)
                                 for keeper in machine.keepers.values()))
        harness.kill_holder(p, w.run_dir("died"))
        wait_gone(everyone)
    finally:
        machine.close()


if __name__ == "__main__":
    harness.main()
