"""Networks between the supervisor and the nodes of a run: a relay (tests/support/relay.c) that
delays or damages what it carries, and network namespaces with links that go down, or that lose,
delay and reorder packets (tests/support/wire.c); and strangers who flood an address.

Namespaces have no names: each lasts as long as a process in it, the holder, whose standard
input is a pipe of the test. So nothing is left, however the test ends."""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading

import harness
from test_cluster import nodes_of

SUPPORT = harness.BUILD / "tests" / "support"
SUPERVISOR = "10.77.255.1"  # in its namespace; node i has 10.77.i.2
CAPTURE = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
s.bind((sys.argv[1], 3))
with open(sys.argv[2], "wb", buffering=0) as f:
    f.write(b"begun\\n")
    while True:
        f.write(s.recv(1 << 17))
"""
# Opens two connections a millisecond, and keeps the newest of them. Each says nothing, or HTTP, or
# is closed at once, or claims a key that nobody has.
FLOOD = """
import collections, random, socket, sys, time
host, port = sys.argv[1].rsplit(":", 1)
says = [b"", b"", b"GET / HTTP/1.1\\r\\n" * 8, b"brood-\\1\\n\\1" + bytes(48), None]
draw, kept, n = random.Random(1), collections.deque(), 0
while True:
    for _ in range(20):
        s = socket.socket()
        s.setblocking(False)
        s.bind((sys.argv[2], 0))
        s.connect_ex((host, int(port)))
        kept.append((s, draw.choice(says)))
        n += 1
        if len(kept) > 500:
            kept.popleft()[0].close()
        s, text = kept[-10] if len(kept) > 10 else kept[0]
        if text is None:
            s.close()
        elif text:
            try:
                s.send(text)
            except OSError:
                pass
    print(n, flush=True)
    time.sleep(0.01)
"""


def attach(w, p, name):
    """Lets the workplace end a process, which has no log of its own."""
    p.log = w.path / f"{name}.log"
    w.started.append(p)
    return p


def script(w, name, text):
    path = w.write(name, "#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def node_processes(among):
    """The pids of the nodes among these processes. Each has a sweeper above it, and that a
    keeper (harness.supervisor_of)."""
    found = {pid: seen for pid in among if (seen := harness.look_at(pid)) and seen[0] != "Z"
             and seen[2].startswith(f"{harness.BROOD} node ")}
    keepers = sorted({seen[1] for seen in found.values()} & set(found))
    return sorted({node for node in map(harness.supervisor_of, keepers) if node is not None})


def sockets(pid, state):
    """The own and the other address of each TCP socket of a process, of IPv4, in this state."""
    mine = set()
    for fd in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            mine.add(os.readlink(fd.path))
    found = []
    with open(f"/proc/{pid}/net/tcp") as f:
        for line in list(f)[1:]:
            words = line.split()
            if words[3] == state and f"socket:[{words[9]}]" in mine:
                found.append(tuple(map(address_of, words[1:3])))
    return sorted(found)


def address_of(text):
    host, port = text.split(":")
    return socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)


def listening(pid):
    """The addresses at which a process takes TCP connections, of IPv4."""
    return sorted(own[0] for own, _ in sockets(pid, "0A"))


def connecting(pid):
    """The addresses to which a process is about to connect, of IPv4."""
    return [other for _, other in sockets(pid, "02")]


class Simulated:
    """A program that simulates a network, and obeys commands (tests/support/simulated.h)."""

    def __init__(self, w, name, *args, seed):
        self.p = attach(w, subprocess.Popen([SUPPORT / name, *args], stdin=subprocess.PIPE,
                                            text=True, stdout=subprocess.PIPE), name)
        self.first = self.p.stdout.readline().split()
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()
        self.say(f"seed {seed}")

    def read(self):
        for line in self.p.stdout:
            self.lines.append(line.strip())

    def say(self, *commands):
        self.p.stdin.write("".join(c + "\n" for c in commands))
        self.p.stdin.flush()

    def count(self, what):
        return sum(line.split()[0] == what for line in list(self.lines))

    def counts(self):
        """The numbers of its answer to `count`."""
        before = self.count("count")
        self.say("count")
        harness.wait_until("the counts", lambda: self.count("count") > before)
        return tuple(map(int, [x for x in self.lines if x.startswith("count")][-1].split()[1:]))


class Relay(Simulated):
    """A relay that nodes connect to in place of the supervisor."""

    def __init__(self, w, seed=1):
        target = w.path / "relay.target"
        super().__init__(w, "relay", target, seed=seed)
        self.address = self.first[1]
        # What the supervisor starts: brood node --connect ADDRESS ...
        self.launcher = script(w, "through-relay", f"""\
echo "$4" > {target}.$$ && mv {target}.$$ {target}
brood=$1; shift 4
exec "$brood" node --connect {self.address} "$@"
""")

    def carried(self):
        """(bytes from the nodes, bytes to them, connections) so far."""
        return self.counts()

    def cluster(self, nodes, more=""):
        return ("--set", f"cluster={{launcher: command, nodes: {nodes}, listen: 127.0.0.1, "
                         f"command: [{self.launcher}]{more}}}")


class Flood:
    """Strangers at an address, "HOST:PORT", until end(); from an address of this machine."""

    def __init__(self, w, address, source="127.0.0.1"):
        self.lines = 0
        self.p = attach(w, subprocess.Popen([sys.executable, "-c", FLOOD, address, source],
                                            stdout=subprocess.PIPE, text=True), "flood")
        threading.Thread(target=self.read, daemon=True).start()
        self.has_opened(1)

    def read(self):
        for line in self.p.stdout:
            self.opened = int(line)
            self.lines += 1

    def has_opened(self, more):
        """Waits until there were so many connections more."""
        before = self.opened if self.lines else 0
        harness.wait_until("a flood", lambda: self.p.poll() is not None or
                           self.lines and self.opened >= before + more)
        assert self.p.poll() is None

    def end(self):
        """Returns how many connections there were."""
        self.p.kill()
        self.p.wait()
        return self.opened


class Machines:
    """A namespace for the supervisor and one for each node, with a link between them: a pair of
    veth devices, or with has_wires a simulated one that obeys commands. It raises Skip where
    this cannot be had."""

    def __init__(self, w, n, has_wires=False, seed=1):
        for program in ("ip", "nsenter", "unshare"):
            if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
                raise harness.Skip(f"there is no {program}")
        if os.geteuid() != 0:
            raise harness.Skip("network namespaces need root")
        if has_wires and not os.path.exists("/dev/net/tun"):
            raise harness.Skip("there is no /dev/net/tun")
        self.w = w
        self.own, *self.nodes = [self.hold() for _ in range(n + 1)]
        self.wires = [Simulated(w, "wire", self.path(self.own), f"node{i}", self.path(node),
                                "eth0", seed=seed + i)
                      for i, node in enumerate(self.nodes) if has_wires]
        self.inside(self.own, "ip", "link", "set", "lo", "up")
        self.inside(self.own, "ip", "address", "add", f"{SUPERVISOR}/32", "dev", "lo")
        for i, node in enumerate(self.nodes):
            self.connect(i, node)
        self.prefix = ("nsenter", f"--net={self.path(self.own)}")
        places = "".join(f"{i}) ns={self.path(node)};;\n" for i, node in enumerate(self.nodes))
        self.launcher = script(w, "in-namespace", f"""\
node=$1; shift
case $node in
{places}esac
exec nsenter --net=$ns "$@"
""")

    def hold(self):
        p = attach(self.w, subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE,
                                            stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL), "holder")
        here = os.readlink("/proc/self/ns/net")

        def is_there():
            with contextlib.suppress(OSError):
                return p.poll() is not None or os.readlink(self.path(p)) != here
        harness.wait_until("a namespace", is_there)
        if p.poll() is not None:
            raise harness.Skip("this root may not make network namespaces")
        return p

    @staticmethod
    def path(holder):
        return f"/proc/{holder.pid}/ns/net"

    def inside(self, holder, *command):
        subprocess.run(["nsenter", f"--net={self.path(holder)}", *command], check=True)

    def connect(self, i, node):
        if not self.wires:
            self.inside(self.own, "ip", "link", "add", f"node{i}", "type", "veth", "peer", "name",
                        "eth0", "netns", str(node.pid))
        self.inside(self.own, "ip", "address", "add", f"10.77.{i}.1/24", "dev", f"node{i}")
        self.link(i, True)
        self.inside(node, "ip", "link", "set", "lo", "up")
        self.inside(node, "ip", "address", "add", f"10.77.{i}.2/24", "dev", "eth0")
        self.plug(i)

    def link(self, i, up):
        """On the supervisor's side: packets are lost, and nobody is told."""
        self.inside(self.own, "ip", "link", "set", f"node{i}", "up" if up else "down")

    def plug(self, i):
        self.inside(self.nodes[i], "ip", "link", "set", "eth0", "up")
        self.inside(self.nodes[i], "ip", "route", "replace", "default", "via", f"10.77.{i}.1")

    def unplug(self, i):
        """On the node's side, which has no network from then on, and knows it."""
        self.inside(self.nodes[i], "ip", "link", "set", "eth0", "down")

    def cluster(self, more=""):
        return ("--set", f"cluster={{launcher: command, nodes: {len(self.nodes)}, listen: "
                         f"{SUPERVISOR}, command: [{self.launcher}, '{{node}}']{more}}}")

    def node(self, keeper, i):
        """The pid of the node that runs in that namespace now; None: there is none."""
        there = os.readlink(self.path(self.nodes[i]))
        for pid in nodes_of(keeper):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/net") == there:
                    return pid
        return None

    def inhabitants(self):
        """The processes in these namespaces, but for those that hold and join them."""
        holders = [self.own, *self.nodes]
        own = {p.pid for p in (*holders, *(wire.p for wire in self.wires))}
        spaces = {os.readlink(self.path(h)) for h in holders}
        found = set()
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(f"{entry.path}/ns/net") in spaces:
                    found.add(int(entry.name))
        return found - own

    def assert_empty(self):
        harness.wait_until("empty namespaces", lambda: not self.inhabitants())

    def capture(self, i):
        """Records what goes over a link, from now on; (process, file)."""
        file = self.w.path / f"packets-{i}"
        p = attach(self.w, subprocess.Popen(
            [*self.prefix, sys.executable, "-c", CAPTURE, f"node{i}", file]), "capture")
        harness.wait_until("the capture", lambda: file.exists() and file.stat().st_size > 0)
        return p, file
