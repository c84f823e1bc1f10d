"""A node that was replaced has no more say: its connection is not read, its key opens no other
one, and no answer of its agents is taken."""
import contextlib
import random
import re
import select
import socket
import subprocess
import threading

import harness
from test_cluster import KEEP_NODES, PATIENT, cluster, node_pids, start, trained


class Relay:
    """Stands between nodes and supervisor, as a network does. A node whose end is not passed
    on looks as if it were only silent."""

    def __init__(self, target):
        self.target, self.pairs, self.holds = target, [], False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                node, _ = self.listener.accept()
            except OSError:
                return
            host, port = self.target().rsplit(":", 1)
            supervisor = socket.create_connection((host, int(port)))
            self.pairs.append((node, supervisor))
            for a, b in ((node, supervisor), (supervisor, node)):
                threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    def copy(self, a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        if not self.holds:
            for end in (a, b):
                end.close()

    def close(self):
        self.listener.close()
        for pair in self.pairs:
            for end in pair:
                end.close()


def through(port):
    """A launcher whose nodes connect to another port; it keeps addresses and keys."""
    keeps = ("cat > key-{node}; n=0; while [ -e key-{node}-$n ]; do n=$((n+1)); done; "
             'cp key-{node} key-{node}-$n; echo "$3" > address.new; '
             f'mv address.new address; exec "$0" "$1" "$2" 127.0.0.1:{port} "$4" "$5" '
             "< key-{node}-$n")
    return f", command: [sh, -c, '{keeps}']"


def test_a_replaced_node_is_not_heard_again(w):
    relay = Relay(lambda: (w.path / "address").read_text().strip())
    try:
        file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
        p = start(w, "heard", file, *PATIENT, *cluster(
            2, ", silence: 2s" + KEEP_NODES + through(relay.port), "command"))
        before = node_pids(w, "heard")
        old = list(relay.pairs)
        relay.holds = True
        harness.kill(before[1])
        harness.wait_until("another node", lambda: node_pids(w, "heard")[1] not in
                           (0, before[1]))
        # The supervisor has closed it, whatever still comes from there.
        closed, = harness.wait_until("the end", lambda: [
            supervisor for _, supervisor in old if is_closed(supervisor)])
        with contextlib.suppress(OSError):
            for _ in range(100):
                closed.sendall(b"\x01" * 1000)
        at = w.status("heard")["env_steps"]
        with open(w.path / "key-1-0") as key:
            stranger = subprocess.run(
                [harness.BROOD, "node", "--connect", (w.path / "address").read_text().strip()],
                stdin=key, text=True, capture_output=True, timeout=harness.DEADLINE_S)
        assert stranger.returncode == 1 and stranger.stderr.count("\n") == 1, stranger
        line = "it has the key of generation 1 of node 1"
        harness.wait_until("the line", lambda: line in p.log.read_text())
        harness.wait_until("progress", lambda: w.status("heard")["env_steps"] > at)
        steps = harness.set_last_step(w, w.run_dir("heard"), 400)
        assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
        assert p.log.read_text().count("was refused") == 1, p.log.read_text()
        w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
        harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("heard")))
    finally:
        relay.close()


def is_closed(connection):
    """Whether the other side has ended it; takes nothing from it."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def taken(run):
    """(agent, request, generation) of the answers that the supervisor took, in their order."""
    return re.findall(r"from (agent_\d): the answer, request (\d+), generation (\d+), \d+ bytes",
                      (run / "logs" / "supervisor.log").read_text())


def given(run):
    """The same of those that a node has passed on, by its log."""
    return {found for log in (run / "logs").glob("node-*.log") for found in re.findall(
        r"from (agent_\d): the answer, request (\d+), generation (\d+)\n", log.read_text())}


def test_no_answer_of_an_old_generation_is_taken(w):
    """Both sides write generation and request: what was taken was given by that generation,
    one request of an agent once, and no generation after a newer one."""
    draw = random.Random(3)
    p = w.start("run", w.small(steps=harness.FOREVER), "--name", "logged", *PATIENT,
                *cluster(2, KEEP_NODES), env={"BROOD_LOG": "debug"})
    for n in range(4):
        pids = harness.wait_until("two nodes", lambda: p.poll() is None and (
            w.run_dir("logged") / "control.sock").exists() and all(
            pids := node_pids(w, "logged")) and pids)
        at = w.status("logged")["env_steps"]
        harness.wait_until("progress", lambda: w.status("logged")["env_steps"] > at + 20)
        harness.kill_and_wait(draw.choice(pids))
        harness.wait_until("its loss", lambda: sum(
            node["restarts"] for node in w.status("logged")["nodes"]) == n + 1)
    harness.wait_until("two nodes", lambda: all(node_pids(w, "logged")))
    w.brood("stop", "logged")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    run = w.run_dir("logged")
    answers, sent = taken(run), given(run)
    assert len(answers) > 100, answers
    newest = {}
    for agent, request, generation in answers:
        assert (agent, request, generation) in sent, (agent, request, generation)
        assert int(generation) >= newest.get(agent, 1), (agent, request, generation)
        newest[agent] = int(generation)
    assert max(newest.values()) > 1, newest
    for agent in newest:
        text = (run / "logs" / f"{agent}.log").read_text()
        assert re.search(rf"request \d+, generation {newest[agent]}, ", text), text[-2000:]
    print(f"# {len(answers)} answers, generations {newest}")


if __name__ == "__main__":
    harness.main()
