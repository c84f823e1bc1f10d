"""Runs on several machines whose network is slow, tears, damages, or goes away: the bytes are
those of a calm run here, and nothing is left on any machine."""
import os
import pathlib
import re
import signal
import socket
import time

import harness
from network import Flood, Machines, Relay, connecting, listening, script
from test_cluster import (KEEP_NODES, PATIENT, agents_on, cluster, end_of_all, nodes_of, start,
                          trained)
from test_endings import wait_gone
from test_environments import bridged

FAULTS = int(os.environ.get("BROOD_KILLS", 6 if harness.SANITIZED else 8))
DEATHS = max(2, FAULTS // 3)  # of nodes in a flood
INTERVAL = 400
# As a float32, about 0.05: what an agent observes, and ASCII on the way.
MARKER = b"mar=ker=who=can=see="
MARKED = f"""\
import struct

import brood

SEEN = list(struct.unpack("<5f", {MARKER!r}))


class Marked(brood.Env):
    possible_agents = ["a", "b"]
    observations = brood.Box(-1, 1, (5,))
    actions = brood.Discrete(2)
    max_steps = 10

    def begin(self):
        return {{a: SEEN for a in self.agents}}

    def act(self, actions):
        return self.begin(), {{a: float(actions[a]) for a in actions}}, False


parallel_env = Marked
"""


def finish(w, p, name, file, *args):
    """Ends the run, and compares it with a calm one on this machine."""
    steps = harness.set_last_step(w, w.run_dir(name), INTERVAL)
    everybody = harness.members(p.pid)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    end_of_all(everybody)
    w.brood("run", file, "--name", f"calm-{name}", *args, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir(f"calm-{name}")), trained(w.run_dir(name)))
    return steps


def progress(w, p, name):
    at = w.status(name)["env_steps"]
    harness.wait_until("progress", lambda: p.poll() is not None or
                       w.status(name)["env_steps"] > at + INTERVAL // 4)
    assert p.poll() is None, p.log.read_text()


def forever(w):
    return w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=INTERVAL)


def lost(p):
    """The lines about lost nodes."""
    return [line for line in p.log.read_text().splitlines() if " is lost: " in line]


# ---- the relay ----


def through_relay(w, *commands):
    relay = Relay(w)
    relay.say(*commands)
    w.brood("run", w.small(), "--name", "here")
    w.brood("run", w.small(), "--name", "there", *relay.cluster(2))
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("there")))
    up, down, connections = relay.carried()
    assert connections == 2 and min(up, down) > 100_000, (up, down, connections)


def test_a_slow_network(w):
    through_relay(w, "delay 2500")


def test_pieces_of_any_size(w):
    through_relay(w, "delay 500", "shred 1")


def faulty(w, name, command, limit):
    """The relay does it again and again, also in the handshake of a node that replaces
    another; each time one line says which node is lost, and a new one takes its place."""
    relay, file = Relay(w, seed=3), forever(w)
    p = start(w, name, file, *PATIENT, *relay.cluster(1, ", silence: 3s" + KEEP_NODES))
    for i in range(FAULTS):
        before, done = len(lost(p)), relay.count(command)
        relay.say(f"{command} {limit}")
        if i % 2:
            harness.wait_until("the fault", lambda: relay.count(command) > done)
            relay.say(f"{command} 200")  # of about 200 in a handshake
        harness.wait_until("the loss", lambda: len(lost(p)) > before or p.poll() is not None)
        progress(w, p, name)
    relay.say(f"{command} 0")
    steps = finish(w, p, name, file, *PATIENT)
    assert len(lost(p)) >= FAULTS, p.log.read_text()
    print(f"# {relay.count(command)} times in {steps} steps, lost {len(lost(p))} times, "
          f"{relay.carried()[2]} connections")


def test_connections_that_are_cut_anywhere(w):
    faulty(w, "cut", "cut", 100_000)


def test_bytes_that_are_changed_anywhere(w):
    faulty(w, "flip", "flip", 100_000)


# ---- strangers ----


def refusals(p):
    """How many connections the log says were refused, and in how many lines."""
    lines = [line for line in p.log.read_text().splitlines() if " refused" in line]
    return sum(int(n[1]) if (n := re.search(r"(\d+) connections were refused", line)) else 1
               for line in lines), len(lines)


def flooded(w, name, source):
    """Nodes die while strangers knock at the supervisor's door, and each is replaced at the
    first start, although its network is slow; the log has a line each second at most."""
    relay, file = Relay(w), forever(w)
    relay.say("delay 20000")
    began = time.monotonic()
    p = start(w, name, file, *PATIENT, *relay.cluster(2, ", silence: 60s" + KEEP_NODES))
    flood = Flood(w, (w.path / "relay.target").read_text().strip(), source)
    for _ in range(DEATHS):
        flood.has_opened(1000)
        before = nodes_of(p.pid)
        harness.kill(before[0])
        harness.wait_until("another node", lambda: p.poll() is not None or (
            now := nodes_of(p.pid)) and len(now) == 2 and before[0] not in now)
        progress(w, p, name)
    strangers = flood.end()
    known, lines = refusals(p)
    assert len(lost(p)) == DEATHS and "cannot be started" not in p.log.read_text(), \
        p.log.read_text()
    assert known > strangers / 4, (known, strangers)
    assert lines <= time.monotonic() - began + 2, (lines, time.monotonic() - began)
    finish(w, p, name, file, *PATIENT)
    print(f"# {strangers} strangers, {known} refusals in {lines} lines; "
          f"{relay.carried()[2]} connections of nodes")


def test_strangers_at_the_door(w):
    flooded(w, "beside", "127.0.0.2")


def test_strangers_who_seem_to_come_from_where_the_nodes_are(w):
    flooded(w, "among", "127.0.0.1")


# ---- a node that stands still ----

# Its blocks are so large that requests are kept for a replay: a checkpoint has to copy them.
LARGE = (*PATIENT, "--set", "defaults.critic.hidden=[512, 512]")


def test_a_node_stands_still_for_a_moment(w):
    """A checkpoint waits for it, and meanwhile the supervisor answers; the same nodes go on."""
    file = w.small(steps=harness.FOREVER, evaluate=0, checkpoint=INTERVAL)
    p = start(w, "still", file, *LARGE, *cluster(2, ", silence: 60s"))
    nodes, run = nodes_of(p.pid), w.run_dir("still")

    def waits():
        """Unless the newest snapshots happen to be of this moment."""
        progress(w, p, "still")
        step = harness.pause(w, run)
        for node in nodes:
            harness.kill(node, signal.SIGSTOP)
        checkpoint = w.start("checkpoint", "still")
        harness.wait_until("answers, or a checkpoint", lambda: checkpoint.poll() is not None or
                           w.status("still")["env_steps"] == step)
        waiting = checkpoint.poll() is None
        for node in nodes:
            harness.kill(node, signal.SIGCONT)
        assert checkpoint.wait(timeout=harness.DEADLINE_S) == 0, checkpoint.log.read_text()
        w.brood("continue", "still")
        return waiting

    harness.wait_until("a checkpoint that waits", waits)
    assert nodes_of(p.pid) == nodes and not lost(p), p.log.read_text()
    finish(w, p, "still", file, *LARGE)


# ---- many ----

MANY, EACH = (18, 2) if not harness.SANITIZED else (18, 1)
UP_WITHIN_S, NODE_PSS_KIB = 20, 10 * 1024
CROWD = f"""\
run: {{env_steps: 400}}
env: {{id: constant_reward, copies: 1, max_steps: 5, params: {{agents: {MANY * EACH}}}}}
experience: {{capacity: 1000, batch_size: 8, warmup: 64, update_every: 40}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: {INTERVAL}}}
log: {{every_env_steps: 100}}
defaults: {{algorithm: ddpg, actor: {{hidden: [4]}}, critic: {{hidden: [4], input: own}}}}
"""


def pss_kib(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("Pss:")[1].split()[0])


def test_many_nodes_that_come_at_once(w):
    """More of them than strangers may knock at the same time; none is refused."""
    file = w.write("crowd.yaml", CROWD)
    began = time.monotonic()
    p = w.start("run", file, "--name", "there", "--set", f"run.env_steps={harness.FOREVER}",
                "--set", f"cluster={{launcher: local, nodes: {MANY}, silence: 60s}}")
    harness.wait_until("a round", lambda: p.poll() is not None or
                       harness.rows(w.run_dir("there")))
    assert p.poll() is None, p.log.read_text()
    up_s = time.monotonic() - began
    nodes = nodes_of(p.pid)
    assert len(nodes) == MANY and not lost(p) and "refused" not in p.log.read_text()
    # Only root sees the memory of a node.
    most = max(pss_kib(pid) for pid in nodes) if os.geteuid() == 0 else 0
    assert harness.SANITIZED or most < NODE_PSS_KIB, most
    assert up_s < UP_WITHIN_S or up_s < harness.allowed_s(UP_WITHIN_S), up_s
    finish(w, p, "there", file)
    print(f"# {MANY} nodes with {EACH} agents each after {up_s:.1f} s, {most} KiB at most")


# ---- namespaces ----


def test_nodes_on_machines_of_their_own(w):
    net = Machines(w, 3)
    w.brood("run", w.small(), "--name", "here")
    w.brood("run", w.small(), "--name", "there", *net.cluster(), prefix=net.prefix)
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("there")))
    net.assert_empty()


SSH = """\
if [ "$1" = -G ]; then
    echo "hostname $3"
    exit
fi
shift 2
case $1 in
PLACESesac
shift
exec nsenter --net=$ns sh -c "$*"
"""


def test_hosts_in_several_networks_reach_the_supervisor_in_their_own(w):
    """A stand-in for ssh, whose hosts are the namespaces' addresses: nodes connect to the
    supervisor's address in their network, and nobody can at any other address."""
    net = Machines(w, 2)
    (w.path / "bin").mkdir()
    script(w, "bin/ssh", SSH.replace("PLACES", "".join(
        f"10.77.{i}.2) ns={net.path(node)};;\n" for i, node in enumerate(net.nodes))))
    file = forever(w)
    p = start(w, "there", file, "--set",
              "cluster={launcher: ssh, hosts: [10.77.0.2, 10.77.1.2], nodes: 3}",
              prefix=net.prefix, env={"PATH": f"{w.path}/bin:{os.environ['PATH']}"})
    assert listening(harness.supervisor_of(p.pid)) == ["10.77.0.1", "10.77.1.1"]
    finish(w, p, "there", file)
    net.assert_empty()


def test_a_link_that_is_down_for_a_moment(w):
    """Shorter than the silence: the same nodes go on."""
    net, file = Machines(w, 2), forever(w)
    p = start(w, "moment", file, *PATIENT, *net.cluster(", silence: 60s"), prefix=net.prefix)
    nodes, before = nodes_of(p.pid), lost(p)
    # a node that was lost while it started may have left its agents to the other
    one = next(i for i in (1, 0) if agents_on(net.node(p.pid, i) or 0))
    net.link(one, False)
    at = harness.wait_until("a stop", lambda: stands(w, "moment"))
    net.link(one, True)
    harness.wait_until("progress", lambda: w.status("moment")["env_steps"] > at + INTERVAL)
    assert nodes_of(p.pid) == nodes and lost(p) == before, p.log.read_text()
    finish(w, p, "moment", file, *PATIENT)
    net.assert_empty()


def stands(w, name):
    """Its step, if it does not change within a second."""
    at = w.status(name)["env_steps"]
    time.sleep(1)
    return at if w.status(name)["env_steps"] == at else 0


def test_a_link_that_is_down_for_longer_than_the_silence(w):
    """The node ends itself, without being told, and another one comes in its place."""
    net, file = Machines(w, 2), forever(w)
    p = start(w, "longer", file, *PATIENT, *net.cluster(", silence: 3s"), prefix=net.prefix)
    node = harness.wait_until("node 1", lambda: net.node(p.pid, 1))
    agents = agents_on(node)
    assert agents
    net.link(1, False)
    end_of_all([node, *agents.values()])
    net.link(1, True)
    harness.wait_until("another node", lambda: (new := net.node(p.pid, 1)) and
                       agents_on(new).keys() == agents.keys())
    progress(w, p, "longer")
    assert lost(p) and all("node 1" in line for line in lost(p)), p.log.read_text()
    finish(w, p, "longer", file, *PATIENT)
    net.assert_empty()


def test_a_machine_that_does_not_come_back(w):
    """The others take its agents."""
    net, file = Machines(w, 3), forever(w)
    p = start(w, "gone", file, *PATIENT, *net.cluster(", silence: 3s"), prefix=net.prefix)
    node = harness.wait_until("node 1", lambda: net.node(p.pid, 1))
    names = {name for n in nodes_of(p.pid) for name in agents_on(n)}
    net.unplug(1)
    end_of_all([node])
    harness.wait_until("the move", lambda: {
        name for i in (0, 2) for name in agents_on(net.node(p.pid, i) or 0)} == names)
    progress(w, p, "gone")
    line = "node 1 is given up: it cannot be started again: "
    assert line in p.log.read_text(), p.log.read_text()
    finish(w, p, "gone", file, *PATIENT)
    net.assert_empty()


def test_packets_that_are_lost_late_or_out_of_order(w):
    """5 % lost, 50 ms there and back, a tenth of them early; silence is longer than any of TCP's
    pauses here."""
    net, file = Machines(w, 2, has_wires=True), w.small(steps=200, evaluate=0, checkpoint=200)
    for wire in net.wires:
        wire.say("lose 50", "delay 25000", "reorder 100")
    w.brood("run", file, "--name", "here")
    w.brood("run", file, "--name", "there", *net.cluster(), prefix=net.prefix)
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("there")))
    for wire in net.wires:
        carried, lost_, early = wire.counts()
        assert min(carried, lost_, early) > 0, (carried, lost_, early)
        print(f"# {carried} packets carried, {lost_} lost, {early} out of order")
    net.assert_empty()


def test_a_node_that_nobody_answers_ends_at_once(w):
    """It does not wait for its connection when a signal comes, or when its keeper dies."""
    deaf = socket.socket()
    deaf.bind(("127.0.0.1", 0))
    deaf.listen(0)
    address = deaf.getsockname()
    fill = [socket.socket() for _ in range(4)]  # more than its queue holds
    for s in fill:
        s.setblocking(False)
        s.connect_ex(address)
    w.write("key", "0f" * 48 + "\n")
    for signum, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        p = w.start("-c", 'exec "$@" < key', "sh", harness.BROOD, "node", "--connect",
                    "%s:%d" % address, program="sh")
        node = harness.wait_until("the node", lambda p=p: harness.supervisor_of(p.pid))
        harness.wait_until("its try", lambda node=node: connecting(node) == [address])
        everyone = harness.members(p.pid)
        harness.kill(p.pid, signum)
        wait_gone(everyone)
        assert p.wait(timeout=harness.DEADLINE_S) == code, p.log.read_text()
    for s in (deaf, *fill):
        s.close()


def packets(w, net, name, file, more=""):
    """What a capture has of the link of node 0."""
    capture, found = net.capture(0)
    w.brood("run", file, "--name", name, *net.cluster(more), prefix=net.prefix)
    capture.kill()
    capture.wait()
    return found.read_bytes()


def test_no_observation_is_readable_on_the_way(w):
    net = Machines(w, 1)
    file = bridged(w, w.write("marked.py", MARKED), steps=400, evaluate=400, checkpoint=400)
    plain = packets(w, net, "plain", file, ", encrypt: false")
    assert plain.count(MARKER) > 100, len(plain)  # the capture sees what is there
    sealed = packets(w, net, "sealed", file)
    assert len(sealed) > len(plain) / 2 and MARKER not in sealed
    assert MARKER[:8] not in sealed, "a part of an observation"
    harness.assert_same_files(trained(w.run_dir("plain")), trained(w.run_dir("sealed")))
    print(f"# {len(plain)} bytes with {plain.count(MARKER)} observations; {len(sealed)} sealed")
    net.assert_empty()


if __name__ == "__main__":
    harness.main()
