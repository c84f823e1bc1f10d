"""Nodes that a real sshd starts, on loopback, with a configuration, keys and a port of its own:
the bytes are those of a run here, whatever dies, and nothing is left behind."""
import os
import shutil
import signal
import socket
import subprocess

import harness
from network import attach, listening, node_processes
from test_cluster import KEEP_NODES, PATIENT, agents_on, end_of_all, start, trained
from test_network import INTERVAL, finish, forever, lost, progress

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
CLIENT = """\
Host one two
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking accept-new
  BatchMode yes
"""


class Server:
    """An sshd that lets in whoever has the user's key, as root."""

    def __init__(self, w):
        sshd = shutil.which("sshd", path=PATH)
        if not sshd or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
            raise harness.Skip("there is no sshd, or no ssh")
        if os.geteuid() != 0:
            raise harness.Skip("an sshd that starts processes needs root")
        self.w = w
        for name in ("host", "user", "stranger"):
            self.make_key(name)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        values = {"port": self.port, "folder": w.path}
        self.client = w.write("ssh_config", CLIENT.format(**values))
        w.write("sshd_config", SERVER.format(**values))
        # It wants a folder of its own there, which some machines have only when it is a service.
        command = f"exec {sshd} -D -e -f {w.path}/sshd_config"
        if not os.path.isdir("/run/sshd"):
            command = "mount -t tmpfs none /run && mkdir /run/sshd && " + command
        with open(w.path / "sshd.log", "wb") as log:
            self.p = attach(w, subprocess.Popen(["unshare", "--mount", "sh", "-c", command],
                                                stderr=log, stdin=subprocess.DEVNULL), "sshd")
        harness.wait_until("sshd", lambda: self.p.poll() is not None or
                           b"Server listening" in self.p.log.read_bytes())
        # It may be forbidden to it, or root's account be locked: then ssh says so.
        tried = subprocess.run(["ssh", "-T", *self.options(), "one", "exit 7"],
                               capture_output=True, timeout=harness.DEADLINE_S)
        if tried.returncode != 7:
            raise harness.Skip(f"no sshd works here: {tried.stderr.decode().strip()[-200:]}")

    def make_key(self, name):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.w.path / name],
                       check=True)

    def options(self):
        return ["-F", str(self.client)]

    def cluster(self, more="", hosts="one, two"):
        words = ", ".join(self.options())
        return ("--set", f"cluster={{launcher: ssh, hosts: [{hosts}], options: [{words}]"
                         f"{more}}}")

    def below(self):
        """pid -> command line of all that sshd has started."""
        mine = harness.members(self.p.pid) - {self.p.pid}
        return {pid: seen[2] for pid, seen in harness.processes().items() if pid in mine}

    def nodes(self):
        return node_processes(self.below())

    def assert_idle(self):
        harness.wait_until("the end of what sshd has started", lambda: not self.below())


def clients_of(keeper):
    """The pids of a run's ssh processes."""
    return [pid for pid, (state, _, command) in
            harness.children(harness.supervisor_of(keeper) or 0).items()
            if command.startswith("ssh -T ") and state != "Z"]


def test_the_same_bytes_over_two_hosts(w):
    ssh = Server(w)
    w.brood("run", w.small(), "--name", "here")
    p = start(w, "there", w.small(), *ssh.cluster())
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("there")))
    assert ssh.p.log.read_text().count("Accepted publickey") == 3  # and the Server's own
    ssh.assert_idle()


def test_the_supervisor_listens_where_its_hosts_are(w):
    """Their names are those of ssh's configuration, and both are on loopback."""
    ssh = Server(w)
    p = start(w, "near", w.small(steps=harness.FOREVER), *ssh.cluster())
    assert set(listening(harness.supervisor_of(p.pid))) == {"127.0.0.1"}
    w.brood("stop", "near")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    ssh.assert_idle()


def test_deaths_of_nodes_and_of_their_ssh(w):
    ssh, file = Server(w), forever(w)
    p = start(w, "killed", file, *PATIENT, *ssh.cluster(", silence: 3s" + KEEP_NODES))
    nodes = harness.wait_until("two nodes", lambda: len(n := ssh.nodes()) == 2 and n)
    for signum in (signal.SIGKILL, signal.SIGTERM):
        before = len(lost(p))
        agents = list(agents_on(nodes[0]).values())
        harness.kill(nodes[0], signum)
        end_of_all([nodes[0], *agents])
        progress(w, p, "killed")
        assert len(lost(p)) == before + 1, p.log.read_text()
        nodes = harness.wait_until("two nodes", lambda: len(n := ssh.nodes()) == 2 and n)
    # The node does not need its ssh any more: it has a connection of its own.
    for client in clients_of(p.pid):
        harness.kill_and_wait(client)
    progress(w, p, "killed")
    assert len(lost(p)) == 2 and all(map(harness.alive, nodes)), p.log.read_text()
    finish(w, p, "killed", file, *PATIENT)
    end_of_all(nodes)
    ssh.assert_idle()


def test_the_supervisor_dies(w):
    """And the machines that ssh reached are empty at once."""
    ssh, file = Server(w), forever(w)
    p = start(w, "dead", file, *ssh.cluster())
    everybody = harness.members(p.pid) | set(ssh.below())
    harness.kill_holder(p, w.run_dir("dead"))
    end_of_all(everybody)
    ssh.assert_idle()
    length = f"run.env_steps={harness.checkpoints(w.run_dir('dead'))[-1] + INTERVAL}"
    w.brood("resume", w.run_dir("dead"), "--set", length)
    w.brood("run", file, "--name", "calm", "--set", length)
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("dead")))
    ssh.assert_idle()


def refused(w, *args):
    """The one line of a run that cannot begin."""
    _, err = w.brood("run", w.small(), "--name", "refused", "-q", "--force", *args,
                     code=1)
    line, = err.splitlines()
    assert "node 0 (one)" in line or "node 1 (two)" in line, line
    return line


def test_what_ssh_refuses_is_said_in_one_line(w):
    ssh = Server(w)
    config = ssh.client.read_text()
    ssh.client.write_text(config.replace("/user\n", "/stranger\n"))
    line = refused(w, *ssh.cluster())
    assert "Permission denied" in line and "code 255" in line, line
    ssh.client.write_text(config)
    (w.path / "known").write_text(f"[127.0.0.1]:{ssh.port} "
                                  + (w.path / "stranger.pub").read_text())
    line = refused(w, *ssh.cluster())
    assert "Host key verification failed" in line, line
    ssh.client.write_text(config.replace(f"Port {ssh.port}", "Port 1"))
    line = refused(w, *ssh.cluster())
    assert "Connection refused" in line, line
    ssh.assert_idle()


if __name__ == "__main__":
    harness.main()
