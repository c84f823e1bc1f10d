"""Whoever talks to the socket that a run's nodes connect to, without its key or with it: the
supervisor stays, a stranger costs it a bounded amount of memory, and at most one line a second
says what was wrong."""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket

import harness
from network import script
from test_cluster import KEEP_NODES, PATIENT, agents_on, cluster, end_of_all, nodes_of, start
from test_network import finish, forever, lost, progress, refusals

HOSTILE = harness.BUILD / "tests" / "support" / "hostile_node"
PENDING = 129  # LISTENER_FULL, and one for each node
ID, NONCE, HELLO = 16, 32, 57
MUTANTS = 4 if harness.SANITIZED else 10
# What a node does that has the key, and why it is lost.
ATTACKS = (("giant", "a message is longer than"), ("short", "a message of 5 bytes"),
           ("unknown", "a message of the unknown kind"), ("stored", "more than it was sent"),
           ("answer", "a copy that nobody asked for"), ("memory", "a memory that is not there"),
           ("stranger", "of a worker that is not there"), ("too far", "a message about worker"),
           ("order", 'it sent "kill"'), ("hello", 'it sent "hello"|a worker that is not there'),
           ("exit", 'malformed message "exit"'), ("sample", 'malformed message "sample"'),
           ("start", "a process that nobody asked for"))
# Before which of its messages a node stands still: as its first agent starts, as the first values
# are copied, and as a killed agent, the fourth process, has got its values again.
STILL = (("started", 1), ("copy", 1), ("started", 4))


def address_of(p):
    """(host, port) that the nodes of a run have connected to."""
    node = harness.wait_until("a node", lambda: nodes_of(p.pid))[0]
    words = harness.processes()[node][2].split()
    host, port = words[words.index("--connect") + 1].split(":")
    return host, int(port)


def memory_kib(pid):
    return harness.counts(pid)[1]


def hello(draw, magic=b"brood-\x01\n", encrypt=1):
    return magic + bytes([encrypt]) + draw.randbytes(ID + NONCE)


def ended(s):
    """Reads to the end of the connection; what came."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while data := s.recv(4096):
            got += data
    return got


def test_strangers(w):
    """None of them gets an answer but zeros, each is counted, and nothing remains of them."""
    draw = random.Random(3)
    p = start(w, "guarded", forever(w), *cluster(1), env=harness.VISIBLE)
    supervisor, address = harness.supervisor_of(p.pid), address_of(p)
    nodes = nodes_of(p.pid)
    says = (b"", b"\0", b"GET / HTTP/1.1\r\n" * 8, b"\xff" * 4 + b"x" * 200, hello(draw)[:-1],
            hello(draw), hello(draw, encrypt=0), hello(draw, magic=b"brood-\x02\n"),
            hello(draw) + draw.randbytes(100_000))
    progress(w, p, "guarded")
    for i, what in enumerate(says):
        with socket.create_connection(address) as s:
            s.settimeout(harness.DEADLINE_S)
            with contextlib.suppress(OSError):  # it may be refused before all is said
                s.sendall(what)
                s.shutdown(socket.SHUT_WR)
            answer = ended(s)
            assert not any(answer), (what, answer)
            assert not answer or len(what) >= HELLO, what
        harness.wait_until("the refusal", lambda: refusals(p)[0] == i + 1)
    # Those that say nothing, or not all of it: no more than that at once, whatever they send.
    before, memory = harness.counts(supervisor)[0]["descriptors"], memory_kib(supervisor)
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(socket.create_connection(address)) for _ in range(200)]
        for s in many:
            with contextlib.suppress(OSError):
                s.sendall(hello(draw)[:draw.randrange(HELLO)])
        harness.wait_until("refusals", lambda: refusals(p)[0] >= len(says) + 200 - PENDING)
        now = harness.counts(supervisor)[0]["descriptors"]
        assert now <= before + PENDING + 4, (before, now)  # and what the run opens meanwhile
        assert harness.SANITIZED or memory_kib(supervisor) <= memory + 4096
    harness.wait_until("the others' ends", lambda: refusals(p)[0] >= len(says) + 200)
    progress(w, p, "guarded")
    assert refusals(p)[0] == len(says) + 200 and nodes_of(p.pid) == nodes
    finish(w, p, "guarded", forever(w))


def hostile(w):
    """brood as the hostile node, beside the agent."""
    place = w.path / "hostile"
    place.mkdir()
    shutil.copy(HOSTILE, place / "brood")
    shutil.copy(harness.AGENT, place / "brood-agent")
    return place / "brood"


def counted_launcher(w, lines):
    """The nth start, from 0, runs the nth of these lines; later ones brood."""
    cases = "".join(f"{i}) {line};;\n" for i, line in enumerate(lines))
    return script(w, "nth", f"""\
n=$(cat {w.path}/n 2>/dev/null || echo 0)
echo $((n + 1)) > {w.path}/n
case $n in
{cases}*) exec "$@";;
esac
""")


def by(launcher, silence=3):
    return cluster(1, f", silence: {silence}s, listen: 127.0.0.1, command: [{launcher}]{KEEP_NODES}",
                   "command")


def test_a_node_that_turns_against_its_supervisor(w):
    """It has the key, so that its messages are read: each attack ends this node alone."""
    program, file = hostile(w), forever(w)
    nth = counted_launcher(w, [f"shift; exec {program} '{kind}' 1 \"$@\""
                               for kind, _ in ATTACKS])
    p = w.start("run", file, "--name", "hostile", *PATIENT, *by(nth))
    harness.wait_until("the last loss", lambda: p.poll() is not None or
                       len(lost(p)) >= len(ATTACKS))
    harness.wait_until("a round", lambda: p.poll() is not None or
                       harness.checkpoints(w.run_dir("hostile")))
    assert p.poll() is None, p.log.read_text()
    for line, (kind, why) in zip(lost(p), ATTACKS, strict=True):
        assert re.search(why, line), (kind, line)
    finish(w, p, "hostile", file, *PATIENT)


def test_a_node_that_stands_still_holds_up_nobody(w):
    """The supervisor answers meanwhile; then all goes on with the same processes."""
    program, file = hostile(w), forever(w)
    for message, nth in STILL:
        name = f"{message}-{nth}"
        launcher = script(w, name, f"shift; exec {program} 'still {message}' {nth} \"$@\"\n")
        p = w.start("run", file, "--name", name, *PATIENT, *by(launcher, silence=3600))
        if nth > 1:
            harness.wait_until("a round", lambda name=name: harness.checkpoints(w.run_dir(name)))
            harness.kill(next(iter(agents_on(nodes_of(p.pid)[0]).values())))

        def stopped_node(p=p):
            return next(filter(harness.is_stopped, nodes_of(p.pid)), None)

        node = harness.wait_until("the stop", stopped_node)
        steps = {w.status(name)["env_steps"] for _ in range(3)}
        assert harness.is_stopped(node) and len(steps) == 1, (message, steps)
        harness.kill(node, signal.SIGCONT)
        progress(w, p, name)
        assert nodes_of(p.pid) == [node] and not lost(p), p.log.read_text()
        finish(w, p, name, file, *PATIENT)


class Damaged:
    """Runs whose nodes damage their messages. A damaged answer may look right, so that what is
    wrong is found later, and ends the run with a line about an agent; another run then has the
    next nodes."""

    def __init__(self, w, program):
        self.w, self.program, self.runs, self.watches = w, program, [], {}
        self.launcher = counted_launcher(w, [f"shift; exec {program} mutate {seed} \"$@\""
                                             for seed in range(MUTANTS)])
        self.start()

    def start(self):
        self.name = f"mutant-{len(self.runs)}"
        self.p = self.w.start("run", forever(self.w), "--name", self.name, *PATIENT,
                              "--set", "defaults.respond_within=3s", *by(self.launcher))
        self.runs.append(self.p)

    def go_on(self):
        if self.p.poll() is not None:  # also if its supervisor has died
            text = self.p.log.read_text()
            assert self.p.returncode == 1, text
            assert re.match(r"brood run: (agent )?agent_\d\b", text.splitlines()[-1]), text
            self.start()

    def is_over(self):
        """Whether all have had their turn. One may do nothing that is noticed; then this ends
        it."""
        self.go_on()
        count = self.w.path / "n"
        if count.exists() and int(count.read_text() or 0) > MUTANTS:
            return True
        for node in nodes_of(self.p.pid):
            if (seen := harness.look_at(node)) and seen[2].startswith(str(self.program)) and \
                    self.watches.setdefault(node, harness.Stopwatch()).seconds() > 4:
                harness.kill(node)
        return False

    def trains(self):
        """Whether it has a checkpoint that was made with a good node alone."""
        before = (self.name, harness.checkpoints(self.w.run_dir(self.name))[-1:])
        harness.wait_until("another checkpoint", lambda: self.p.poll() is not None or
                           harness.checkpoints(self.w.run_dir(self.name))[-1:] != before[1])
        self.go_on()
        return self.name == before[0]


def test_a_node_whose_messages_are_damaged(w):
    """They may look right, so that answers are wrong: the supervisor survives all of them, and
    the next node takes the place."""
    r = Damaged(w, hostile(w))
    harness.wait_until("the last mutant", r.is_over)
    harness.wait_until("training with a good node", r.trains)
    everybody = harness.members(r.p.pid)
    w.brood("stop", w.run_dir(r.name))
    assert r.p.wait(timeout=harness.DEADLINE_S) == 4, r.p.log.read_text()
    end_of_all(everybody)
    found = re.findall("is lost: (.*); it is started",
                       "".join(p.log.read_text() for p in r.runs))
    for line in sorted({re.sub(r"\d+", "N", line) for line in found}):
        print(f"# {line}")
    print(f"# {len(found)} losses in {len(r.runs)} runs")


if __name__ == "__main__":
    harness.main()
