"""Agents on nodes, `brood node` processes that a launcher starts: the bytes are those of a run
on one machine, whatever dies, and nothing is left behind."""
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import time

import numpy

import harness
from test_environments import FAKE_ENV, config as foreign
from test_exactness import outcome
from test_share import WINDOWS, config as sharing

KILLS = int(os.environ.get("BROOD_KILLS", 4 if harness.SANITIZED else 8))
PATIENT = ("--set", "defaults.restart={max_restarts: 1000000, delay: 0s, max_delay: 0s}")
KEEP_NODES = ", restart: {max_restarts: 1000000, delay: 0s}"
SHELL = """[sh, -c, 'exec "$0" "$@" # {node} {host}']"""


def cluster(nodes, more="", launcher="local"):
    return ("--set", f"cluster={{launcher: {launcher}, nodes: {nodes}{more}}}")


def trained(run):
    """What training gives; run.state also has the configuration, which differs."""
    return {name: data for name, data in outcome(run).items() if not name.endswith("run.state")}


def nodes_of(keeper):
    """The pids of a live run's nodes, in order of their starts. Each has a keeper."""
    keepers = [pid for pid, (state, _, command) in sorted(
        harness.children(harness.supervisor_of(keeper) or 0).items())
        if " node --connect " in command and state != "Z"]
    return [node for node in map(harness.supervisor_of, keepers) if node is not None]


def agents_on(node):
    """name -> pid of a node's agents."""
    return {command.split()[3]: pid for pid, (state, _, command)
            in harness.children(node).items()
            if state != "Z" and len(command.split()) >= 4 and command.split()[1] == "agent"}


def start(w, name, file, *args, **more):
    """A live run on nodes, when its agents run."""
    p = w.start("run", file, "--name", name, *args, **more)
    harness.wait_until("a round", lambda: harness.checkpoints(w.run_dir(name)) or
                       p.poll() is not None)
    assert p.poll() is None, p.log.read_text()
    return p


def end_of_all(pids):
    """Waits until all of these processes are gone."""
    harness.wait_until("the end of all", lambda: not list(filter(harness.alive, pids)))


def compare(w, file, nodes=3, *args):
    w.brood("run", file, "--name", "here", *args)
    w.brood("run", file, "--name", "there", *args, *cluster(nodes))
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("there")))


def test_the_same_bytes_as_on_one_machine(w):
    compare(w, w.small())


# Each member of a group of three on a node of its own, the ps beside the first.
SPREAD = tuple(word for i in range(3) for word in (
    "--set", f"agents.agent_{i}.device=/job:worker/task:{i}"))


def test_agents_that_share_parameters(w):
    compare(w, sharing(w), 2)


def test_agents_that_share_parameters_on_several_nodes(w):
    compare(w, sharing(w), 3, *SPREAD)
    for name in ("here", "there"):
        w.brood("rm", name)
    compare(w, w.write("windows.yaml", WINDOWS), 3, *SPREAD)


def test_environments_in_processes_stay_here(w):
    compare(w, foreign(w, FAKE_ENV), 2)


def test_windows_and_a_recurrent_policy(w):
    compare(w, w.small(), 2, "--set", "defaults.algorithm=mappo", "--set",
            "experience={update_every: 100}", "--set", "env.stack=3")


def test_rows_that_are_sent_part_by_part(w):
    """Rows of 20 agents have more than ROW_PARTS_WHOLE_BYTES; stacked ones are parts of several."""
    compare(w, w.small(steps=400), 2, "--set", "env.params.agents=20", "--set",
            "defaults.algorithm=ddpg", "--set", "env.stack=2")


def test_where_agents_are(w):
    """status says it, devices decide it."""
    p = start(w, "placed", w.small(steps=harness.FOREVER), *cluster(3), "--set",
              "agents.agent_0.device=/job:worker/task:2", "--set",
              "agents.agent_2.device=/task:0")
    nodes = harness.wait_until("the nodes", lambda: (
        n := nodes_of(p.pid)) and len(n) == 3 and n)
    assert [sorted(agents_on(n)) for n in nodes] == [["agent_2"], ["agent_1"], ["agent_0"]]
    status = w.status("placed")
    assert [a["host"] for a in status["agents"]] == [os.uname().nodename] * 3, status
    assert all(a["rss_bytes"] > 0 for a in status["agents"]) or \
        harness.wait_until("samples", lambda: all(
            a["rss_bytes"] > 0 for a in w.status("placed")["agents"]))
    everybody = harness.members(p.pid)
    w.brood("stop", w.run_dir("placed"))
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    end_of_all(everybody)
    assert not [pid for pid in nodes if harness.alive(pid)]


def columns_of(log):
    """The experience log's columns, or those of a node's copy: name -> (dtype, values of rows)."""
    header = struct.unpack_from("<QIIQQ", log)
    start, row_bytes = 1 << 20, header[3]
    n = (len(log) - start) // row_bytes
    rows = numpy.frombuffer(log, numpy.uint8, n * row_bytes, start).reshape(n, row_bytes)
    found = {}
    for i in range(header[2]):
        name, dtype, elements, offset = struct.unpack_from("<112sIIQ", log, 32 + 128 * i)
        end = offset + elements * (1 if dtype == 4 else 4)
        found[name.rstrip(b"\0").decode()] = rows[:, offset:end]
    return found


def copy_on(node, log):
    """A node's copy of an experience log."""
    for fd in pathlib.Path(f"/proc/{node}/fd").iterdir():
        if fd.is_file() and os.access(fd, os.R_OK):  # a pipe must not be opened
            with open(fd, "rb") as f:  # nor a block read, which is large
                if f.read(32) == log[:32]:
                    f.seek(0)
                    return columns_of(f.read())
    raise AssertionError(f"node {node} has no copy")


def check_copy(w, name, node, agents):
    """A paused run's node has its agents' columns of all rows, and nothing else; but those of the
    last round go with the next one's requests."""
    log = (w.run_dir(name) / "experience").read_bytes()
    all_of, copy = columns_of(log), copy_on(node, log)
    assert set(copy) == set(all_of)
    for column, rows in copy.items():
        there = all_of[column][:len(rows)]
        assert 100 < len(rows) == len(there) > len(all_of[column]) - 64, column
        expected = there if column.split("/")[0] in agents else 0 * there
        assert (rows == expected).all(), column


def test_nodes_get_the_columns_that_their_agents_read(w):
    """Also those of agents that come later, of rows that were there before."""
    if os.geteuid() != 0:
        raise harness.Skip("only root sees a node's descriptors")
    once = """[sh, -c, 'mkdir started-{node} && exec "$0" "$@"']"""
    p = start(w, "columns", w.small(steps=harness.FOREVER), *PATIENT, "--set",
              "defaults.algorithm=ddpg", "--set", "experience.keep=true",
              *cluster(2, f", command: {once}", "command"))
    first, second = harness.wait_until("the nodes", lambda: (
        n := nodes_of(p.pid)) and len(n) == 2 and n)
    harness.wait_until("rows", lambda: w.status("columns")["env_steps"] > 100)
    w.brood("pause", w.run_dir("columns"))
    check_copy(w, "columns", first, ("agent_0", "agent_1"))
    check_copy(w, "columns", second, ("agent_2",))
    w.brood("continue", w.run_dir("columns"))
    harness.kill(second)
    harness.wait_until("the move", lambda: len(agents_on(first)) == 3)
    at = w.status("columns")["env_steps"]
    harness.wait_until("progress", lambda: w.status("columns")["env_steps"] > at)
    w.brood("pause", w.run_dir("columns"))
    check_copy(w, "columns", first, ("agent_0", "agent_1", "agent_2"))
    everybody = harness.members(p.pid)
    harness.kill(p.pid, signal.SIGKILL)
    p.wait(timeout=harness.DEADLINE_S)
    end_of_all(everybody)


def most_at_once(log, methods):
    """How many of these requests waited for their answers at once, by a log of level debug."""
    waiting, most = {}, 0
    for word, agent, what, request in re.findall(
            r"(to|from) (agent_\d): (.+?), request (\d+)", log):
        if word == "from":
            waiting.pop((agent, request), None)
        elif what in methods:
            waiting[agent, request] = what
            most = max(most, len(waiting))
    return most


def test_the_supervisors_cores_do_not_bound_its_nodes(w):
    """All agents update at once, also if the supervisor has one core; here they take turns."""
    cpu = str(min(os.sched_getaffinity(0)))
    for name, args, most in (("there", cluster(2), 3), ("here", (), 1)):
        w.brood("run", w.small(steps=400), "--name", name, *args, prefix=("taskset", "-c", cpu),
                env={"BROOD_LOG": "debug"})
        log = (w.run_dir(name) / "logs" / "supervisor.log").read_text()
        assert most_at_once(log, ("learn",)) == most, name


def kill_something(p, draw, kinds):
    """Kill or stop an agent or a node; wait until it is gone, by the watchdog or silence."""
    nodes = harness.wait_until("a node", lambda: nodes_of(p.pid))
    kind, node = draw.choice(kinds), draw.choice(nodes)
    if kind == "agent":
        agents = agents_on(node)
        if not agents:
            return
        pid = draw.choice(sorted(agents.values()))
        harness.kill(pid, draw.choice((signal.SIGKILL, signal.SIGSTOP)))
    else:
        pid = node
        harness.kill(pid, signal.SIGSTOP if kind == "stop" else signal.SIGKILL)
    harness.wait_until(f"the end of {kind} {pid}", lambda: not harness.alive(pid))


def end_as_calm(w, p, name, file, multiple, *args, others=()):
    """Let a run end soon: no process is left, and its bytes are those of a calm run here. Returns
    its steps. others: processes that are no descendants of its keeper."""
    steps = harness.set_last_step(w, w.run_dir(name), multiple)
    everybody = harness.members(p.pid) | set(others)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    end_of_all(everybody)
    assert "not reproducible" not in p.log.read_text()
    w.brood("run", file, "--name", "calm", *PATIENT, *args, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir(name)))
    return steps


def deaths(w, file, step, kinds, nodes, kills, *args):
    """Kills change no byte and leave nothing."""
    draw = random.Random(7)
    p = start(w, "killed", file, *PATIENT, "--set", "defaults.respond_within=2s", *args,
              *cluster(nodes, ", silence: 2s" + KEEP_NODES))
    for _ in range(kills):
        at = w.status("killed")["env_steps"]
        kill_something(p, draw, kinds)
        harness.wait_until("progress", lambda: p.poll() is not None or
                           w.status("killed")["env_steps"] > at + step // 4)
        assert p.poll() is None, p.log.read_text()
    steps = end_as_calm(w, p, "killed", file, step, *args)
    print(f"# {kills} deaths in {steps} steps")


def test_deaths_of_agents_and_nodes_change_no_byte(w):
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    deaths(w, file, 400, ("agent", "node"), 3, KILLS)


def test_a_silent_node_is_replaced(w):
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    deaths(w, file, 400, ("stop",), 2, 2)


def test_deaths_of_nodes_with_shared_parameters_change_no_byte(w):
    deaths(w, sharing(w, steps=harness.FOREVER), 400, ("node", "agent"), 2, KILLS)


def test_deaths_of_nodes_with_a_part_of_a_group_change_no_byte(w):
    deaths(w, sharing(w, steps=harness.FOREVER), 400, ("node", "agent"), 3, KILLS, *SPREAD)


def test_deaths_between_the_parts_of_a_step_change_no_byte(w):
    """Members write their vectors in two parts, for actor and critic."""
    file = w.write("windows.yaml", WINDOWS.replace(
        "env_steps: 800}", f"env_steps: {harness.FOREVER}}}"))
    deaths(w, file, 400, ("node",), 2, KILLS)
    for name in ("calm", "killed"):
        w.brood("rm", name)
    deaths(w, file, 400, ("node", "agent"), 3, KILLS, *SPREAD)


def test_other_nodes_take_what_one_cannot_start_again(w):
    """And when none is left, the run fails with one line, and resumes."""
    once = """[sh, -c, 'mkdir started-{node} && exec "$0" "$@"']"""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = start(w, "fewer", file, *PATIENT, *cluster(2, f", command: {once}", "command"))
    first, second = harness.wait_until("the nodes", lambda: (
        n := nodes_of(p.pid)) and len(n) == 2 and n)
    harness.kill(second)
    harness.wait_until("the move", lambda: len(agents_on(first)) == 3)
    at = w.status("fewer")["env_steps"]
    harness.wait_until("progress", lambda: w.status("fewer")["env_steps"] > at)
    assert "cannot be started again" in p.log.read_text(), p.log.read_text()
    everybody = harness.members(p.pid)
    harness.kill(first)
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    assert "no node is left: node 0" in p.log.read_text(), p.log.read_text()
    end_of_all(everybody)
    for n in range(2):
        (w.path / f"started-{n}").rmdir()
    steps = harness.checkpoints(w.run_dir("fewer"))[-1] + 400
    w.brood("resume", w.run_dir("fewer"), "--set", f"run.env_steps={steps}")
    w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("fewer")))


def test_the_loss_of_a_node_is_no_death_of_its_agents(w):
    """Not even of one that had made no progress, whose deaths count."""
    file = w.small(steps=400)
    p = w.start("run", file, "--name", "lost", "--set", "defaults.restart={max_restarts: 0}",
                *cluster(1, KEEP_NODES), program=w.program_with_agent(harness.FAULT_AGENT),
                env={"BROOD_FAULT": "agent_1:configure:before-reply:1,stop"})

    def stuck():
        assert p.poll() is None, p.log.read_text()
        return any(harness.is_stopped(agents_on(node).get("agent_1", 0))
                   for node in nodes_of(p.pid))
    harness.wait_until("a process that does not begin", stuck)
    harness.kill(nodes_of(p.pid)[0])
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    assert "agent_1 was respawned" in p.log.read_text(), p.log.read_text()
    w.brood("run", file, "--name", "calm")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("lost")))


def test_a_node_that_is_started_again_takes_what_another_one_gives_up(w):
    """Although it is not up yet when the other one cannot be started again."""
    again = """[sh, -c, 'if mkdir started-{node}; then exec "$0" "$@"; fi; [ {node} = 1 ] ||
                exit 1; until [ -e go ]; do sleep 0.05; done; exec "$0" "$@"']"""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = start(w, "both", file, *PATIENT,
              *cluster(2, f", command: {again}" + KEEP_NODES, "command"))
    first, second = harness.wait_until("the nodes", lambda: (
        n := nodes_of(p.pid)) and len(n) == 2 and n)

    def states():
        assert p.poll() is None, p.log.read_text()
        return [(n["state"], n["restarts"]) for n in w.status("both")["nodes"]]
    harness.kill(second)
    harness.wait_until("its next start", lambda: states()[1] == ("starting", 1))
    harness.kill(first)
    harness.wait_until("the last try", lambda: states()[0] == ("waiting", 3))
    (w.path / "go").touch()
    harness.wait_until("the move", lambda: states() == [("gone", 3), ("up", 1)])
    at = w.status("both")["env_steps"]
    harness.wait_until("progress", lambda: w.status("both")["env_steps"] > at)
    end_as_calm(w, p, "both", file, 400)


def test_a_command_of_many_and_of_long_words(w):
    """No word is cut, and what is too much for a start is refused by `brood check`."""
    said = "x" * 5000
    command = f"""[sh, -c, ': {said}; touch end-{{node}}; shift 56; exec "$@"'"""
    file = w.small(steps=400)
    w.brood("run", file, *cluster(2, f", command: {command}{', a' * 57}]", "command"))
    assert sorted(path.name for path in w.path.glob("end-*")) == ["end-0", "end-1"]
    for words in (cluster(2, f", command: {command}{', a' * 58}]", "command"),
                  cluster(2, f", hosts: [a], options: [{', '.join(['-v'] * 61)}]", "ssh")):
        _, err = w.brood("check", file, *words, code=2)
        assert "found 61 words, expected at most 60" in err, err


def node_pids(w, name):
    """The pids of the nodes that are up, by their places; 0: it is not."""
    return [n["pid"] if n["state"] == "up" else 0 for n in w.status(name)["nodes"]]


def events_of_nodes(text):
    """(event, node, generation) of the lines of JSON that are about nodes."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [(e["event"].replace("-", "_"), e["node"], e.get("generation"))
            for e in lines if "node" in e]


def test_what_happens_to_nodes_is_told(w):
    """In the journal, `run --json`, status, a hook and the report."""
    file = w.small(steps=harness.FOREVER, evaluate=0, checkpoint=400)
    p = start(w, "told", file, *PATIENT, "--json", *cluster(2),
              "--set", "on.node_lost=[sh, -c, 'cat > hooked']")
    before = node_pids(w, "told")
    harness.kill(before[1])
    harness.wait_until("another node", lambda: node_pids(w, "told")[1] not in (0, before[1]))
    nodes = w.status("told")["nodes"]
    assert [n["restarts"] for n in nodes] == [0, 1] and nodes[0]["why"] is None, nodes
    assert "connection" in nodes[1]["why"].lower(), nodes
    harness.wait_until("the hook", lambda: (w.path / "hooked").exists() and
                       (w.path / "hooked").read_text().endswith("\n"))
    assert events_of_nodes((w.path / "hooked").read_text()) == [("node_lost", "node-1", 1)]
    w.brood("stop", "told")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    expected = [(f"node_{what}", "node-1", n) for what, n in (
        ("start", 1), ("connect", 1), ("up", 1), ("lost", 1), ("fence", 1), ("restart", 2),
        ("connect", 2), ("up", 2))]
    for text in (harness.output(p), w.brood("logs", "told", "journal", "--json")[0]):
        assert [e for e in events_of_nodes(text) if e[1] == "node-1"] == expected, text
    over = w.status("told")["nodes"]
    assert [(n["name"], n["state"], n["restarts"], n["agents"]) for n in over] == \
        [("node-0", "gone", 0, None), ("node-1", "gone", 1, None)], over
    assert over[1]["why"] == nodes[1]["why"], over
    assert re.search(r"node-1 +0  gone +1 +-  ", w.brood("status", "told")[0])
    w.brood("report", "told", "--html", w.path / "page.html")
    page = (w.path / "page.html").read_text()
    assert "node-1" in page and '"node_lost"' in page and '"node_restart"' in page


def test_a_node_that_dies_again_and_again_is_given_up(w):
    """Also while the run is paused and nothing is asked of it."""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = start(w, "often", file, *PATIENT, *cluster(
        2, ", restart: {max_restarts: 2, within: 1h, delay: 10ms}"))
    harness.pause(w, "often")
    for n in range(3):
        pid = harness.wait_until("a node", lambda: node_pids(w, "often")[1])
        assert w.status("often")["nodes"][1]["restarts"] == n
        harness.kill_and_wait(pid)
        harness.wait_until("its loss", lambda: node_pids(w, "often")[1] != pid)
    harness.wait_until("the give-up", lambda: states(w, "often")[1] == ["up", "gone"])
    assert [n["agents"] for n in w.status("often")["nodes"]] == [3, 0]
    assert "node 1 is given up: it was lost 3 times within 3600 s" in p.log.read_text(), \
        p.log.read_text()
    journal = (w.run_dir("often") / "journal").read_text()
    assert len(re.findall("event=node-wait node=node-1 delay_ms=", journal)) == 1, journal
    assert re.search(r"event=node-give-up node=node-1 .* to=node-0 why=", journal), journal
    steps = harness.set_last_step(w, w.run_dir("often"), 400)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("often")))


SMALL_DISK = """#!/bin/sh
node=$1
shift
[ "$node" = 1 ] || exec "$@"
exec unshare -rm sh -c 'mount -t tmpfs -o size=400k brood "$0" && TMPDIR=$0 exec "$@"' PLACE "$@"
"""


def test_a_node_whose_disk_is_full_is_given_up(w):
    """In one line; its agents go on elsewhere."""
    (w.path / "disk").mkdir()
    try:
        harness.subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "brood",
                                str(w.path / "disk")], check=True, capture_output=True)
    except (OSError, harness.subprocess.CalledProcessError) as e:
        raise harness.Skip(f"no disk of one's own can be mounted here: {e}")
    launcher = w.write("launch", SMALL_DISK.replace("PLACE", str(w.path / "disk")))
    launcher.chmod(0o755)
    file = w.small(steps=harness.FOREVER, evaluate=0, checkpoint=400)
    p = start(w, "full", file, *PATIENT, *cluster(
        2, f', command: ["{launcher}", "{{node}}"]', "command"))
    harness.wait_until("the give-up", lambda: p.poll() is not None or
                       states(w, "full")[1] == ["up", "gone"])
    line, = [line for line in p.log.read_text().splitlines() if "node 1" in line]
    assert "is given up: its disk is full: its copy of the experience log: No space" in line, \
        line
    assert [n["agents"] for n in w.status("full")["nodes"]] == [3, 0]
    steps = harness.set_last_step(w, w.run_dir("full"), 400)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("full")))


def test_ssh_starts_the_nodes(w):
    """A stand-in for ssh notes its words, and gives a shell those behind the host."""
    (w.path / "bin").mkdir()
    ssh = w.write("bin/ssh", '#!/bin/sh\necho "$1 $2 $3 $4" >> "$HOME/called"\nshift 4\n'
                             'exec sh -c "$*"\n')
    ssh.chmod(0o755)
    env = {"PATH": f"{ssh.parent}:{os.environ['PATH']}", "HOME": str(w.path)}
    w.brood("run", w.small(), "--name", "here")
    w.brood("run", w.small(), "--name", "there", "--set", "cluster={launcher: ssh, "
            "hosts: [one, two], options: [-oPort=22022], listen: 127.0.0.1}", env=env)
    assert sorted((w.path / "called").read_text().splitlines()) == \
        ["-T -oPort=22022 -- one", "-T -oPort=22022 -- two"]
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("there")))


def test_a_host_is_no_option_and_no_shell_text(w):
    file = w.small()
    for i, host in enumerate(("-oProxyCommand=touch made", "user@-oProxyCommand", "a b",
                              "$(touch made)", "a;touch made", "")):
        text = f"cluster:\n  launcher: ssh\n  hosts:\n    - ok{i}\n    - '{host}'\n"
        bad = w.write(f"bad-{i}.yaml", file.read_text().lstrip() + text)
        line = bad.read_text().count("\n")
        for command in ("check", "run"):
            _, err = w.brood(command, bad, code=2)
            assert f"bad-{i}.yaml:{line}: cluster.hosts: found '{host}'" in err, err
    _, err = w.brood("run", file, "--set", "cluster={launcher: ssh, hosts: [-oProxyCommand=x]}",
                     code=2)
    assert "cluster.hosts: found '-oProxyCommand=x', expected a host's name" in err, err
    assert not (w.path / "made").exists()
    w.brood("check", file, "--set", "cluster={launcher: command, command: [true], "
            "hosts: ['ssh://me@a-1.example.org:22', 'me@10.0.0.1', '::1', 'fe80::1%eth0']}")


def gated(w, nodes, more=""):
    """Nodes that start once the file GATE-<n> exists."""
    wait = "while [ ! -e gate-{node} ]; do sleep 0.05; done; "
    return cluster(nodes, f""", command: [sh, -c, '{wait}exec "$0" "$@"']{more}""", "command")


def launched(p, pattern):
    """The programs that a run has launched whose command matches; they have begun."""
    return harness.wait_until("the launched programs", lambda: [
        pid for pid, seen in harness.processes().items()
        if re.match(pattern, seen[2])  # brood's own words have it, too
        and seen[1] in harness.members(p.pid)])


def states(w, name):
    """The states of a live run's nodes; None before it answers."""
    status = w.status(name)
    return status["state"], [n["state"] for n in status["nodes"]]


def test_a_run_answers_while_its_nodes_start(w):
    """status says which are awaited, a pause is kept until there is a round, and the bytes
    are those of any other run."""
    file = w.small()
    p = w.start("run", file, "--name", "there", *gated(w, 2, ", hosts: [a, b]"))
    harness.wait_until("its socket", lambda: (w.run_dir("there") / "control.sock").exists())
    harness.wait_until("the wait for nodes", lambda: states(w, "there") ==
                       ("starting", ["starting", "starting"]))
    w.write("gate-1", "")
    harness.wait_until("one node", lambda: states(w, "there")[1] == ["starting", "up"])
    status = w.status("there")
    assert [(n["name"], n["agents"], n["restarts"]) for n in status["nodes"]] == \
        [("node-0", 2, 0), ("node-1", 1, 0)], status
    assert [n["host"] for n in status["nodes"]] == ["a", os.uname().nodename], status
    assert all(a["pid"] == 0 for a in status["agents"]), status
    text, _ = w.brood("status", "there")
    assert re.search(r"node-0 +0  starting +0 +2  a ", text), text
    _, err = w.brood("kill", "there", "agent_0", code=1)
    assert "no process" in err, err
    attached = w.start("attach", "there")
    paused = w.start("pause", "there")
    w.write("gate-0", "")
    assert paused.wait(timeout=harness.DEADLINE_S) == 0, paused.log.read_text()
    assert states(w, "there") == ("paused", ["up", "up"])
    w.brood("continue", "there")
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    assert attached.wait(timeout=harness.DEADLINE_S) == 0, attached.log.read_text()
    w.brood("run", file, "--name", "here")
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("there")))


def test_an_interrupt_while_nodes_start(w):
    """Code 4 and nothing left, as at any other time; by a request, too. A run that was so
    resumed in vain is as it was, and resumes."""
    program = r"(\S*sh -c )?sleep 4242"
    never = cluster(2, ", command: [sh, -c, 'sleep 4242']", "command")
    p = w.start("run", w.small(), "--name", "waits", *never)
    everybody = harness.members(p.pid) | set(launched(p, program))
    harness.kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert "interrupted (Terminated): stopping while the nodes start" in p.log.read_text(), \
        p.log.read_text()
    end_of_all(everybody)
    w.brood("run", w.small(steps=1000), "--name", "stopped")
    before = harness.tree_bytes(w.run_dir("stopped"), lambda path: path.parent.name != "logs"
                                and path.name not in ("lock", "control.sock", "journal"))
    p = w.start("resume", "stopped", "--set", "run.env_steps=2000", *never)
    everybody = harness.members(p.pid) | set(launched(p, program))
    harness.wait_until("its answers", lambda: states(w, "stopped")[0] == "starting")
    w.brood("stop", "stopped")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    end_of_all(everybody)
    harness.assert_same_files(before, harness.tree_bytes(
        w.run_dir("stopped"), lambda path: path.parent.name != "logs"
        and path.name not in ("lock", "control.sock", "journal")))
    w.brood("resume", "stopped", "--set", "run.env_steps=2000", *cluster(2))
    w.brood("run", w.small(steps=2000), "--name", "calm")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("stopped")))


def test_a_node_that_does_not_connect_in_time(w):
    _, err = w.brood("run", w.small(), "--name", "late", *cluster(
        2, ", start_within: 1s, command: [sh, -c, 'echo no such host; sleep 4242']",
        "command"), code=1)
    line, = [line for line in err.splitlines() if "node " in line]
    assert "it did not connect within 1 s" in line and "no such host" in line, err
    path, = re.findall(r"its log is (\S+\.log)", line)
    assert "no such host" in (w.path / path).read_text(), line


def test_a_supervisor_that_stood_still_gets_other_nodes(w):
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    p = start(w, "stood", file, *PATIENT, *cluster(2, ", silence: 1s"))
    nodes, supervisor = nodes_of(p.pid), harness.supervisor_of(p.pid)
    harness.kill(supervisor, signal.SIGSTOP)
    harness.wait_until("their ends", lambda: not list(filter(harness.alive, nodes)))
    harness.kill(supervisor, signal.SIGCONT)
    harness.wait_until("others", lambda: len(nodes_of(p.pid)) == 2)
    steps = harness.set_last_step(w, w.run_dir("stood"), 400)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("run", file, "--name", "calm", *PATIENT, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(w.run_dir("stood")))


def test_the_supervisor_dies(w):
    """Nothing remains, and the run resumes elsewhere, with other nodes or none."""
    file = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=400)
    for whom, where in (("supervisor", "nodes=2"), ("keeper", "launcher=none")):
        p = start(w, whom, file, *cluster(3))
        everybody = harness.members(p.pid)
        assert len(everybody) >= 9, everybody
        if whom == "keeper":
            harness.kill_and_wait(p.pid)
        else:
            harness.kill_holder(p, w.run_dir(whom))
        end_of_all(everybody)
        length = f"run.env_steps={harness.checkpoints(w.run_dir(whom))[-1] + 400}"
        w.brood("resume", w.run_dir(whom), "--set", f"cluster.{where}", "--set", length)
        w.brood("run", file, "--name", f"calm-{whom}", "--set", length)
        harness.assert_same_files(trained(w.run_dir(f"calm-{whom}")), trained(w.run_dir(whom)))


def test_a_node_with_a_wrong_key_is_refused(w):
    p = start(w, "guarded", w.small(steps=harness.FOREVER), *cluster(1))
    node, = harness.wait_until("the node", lambda: nodes_of(p.pid))
    words = harness.processes()[node][2].split()
    address = words[words.index("--connect") + 1]
    key = w.write("key", "0f" * 48 + "\n")
    for given in (key, os.devnull):
        with open(given) as f:
            before = w.status("guarded")["env_steps"]
            stranger = harness.subprocess.run(
                [harness.BROOD, "node", "--connect", address], stdin=f, text=True,
                capture_output=True, timeout=harness.DEADLINE_S)
        assert stranger.returncode in (1, 2), stranger
        assert stranger.stderr.count("\n") == 1, stranger.stderr
        harness.wait_until("progress", lambda: w.status("guarded")["env_steps"] > before)
    assert nodes_of(p.pid) == [node]
    assert "was refused" in p.log.read_text(), p.log.read_text()


def test_a_dropped_node_tries_again_and_a_refused_one_does_not(w):
    """Later each time; zeros in place of the supervisor's proof mean that its key is refused."""
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)

    def comes():
        assert p.poll() is None, p.log.read_text()
        with contextlib.suppress(BlockingIOError):
            return server.accept()[0]
    address = f"127.0.0.1:{server.getsockname()[1]}"
    w.write("key", "0f" * 48 + "\n")
    p = w.start("-c", 'exec "$@" < key', "sh", harness.BROOD, "node", "--connect", address,
                program="sh")
    times = []
    for i in range(5):
        node = harness.wait_until("a node", comes)
        node.setblocking(True)
        times.append(time.monotonic())
        if i == 4:
            hello = b""
            while len(hello) < 57 and (part := node.recv(57 - len(hello))):
                hello += part
            node.sendall(bytes(64))
        elif i % 2:  # with its bytes unread: a reset
            node.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        node.close()
    assert p.wait(timeout=harness.DEADLINE_S) == 1
    assert p.log.read_text() == f"brood node: the supervisor at {address} refused the key\n"
    assert times[-1] - times[0] > 0.025 + 0.05 + 0.1 + 0.2, times
    with contextlib.suppress(BlockingIOError):
        raise AssertionError(f"it came again: {server.accept()}")


def test_a_command_starts_the_nodes(w):
    w.brood("run", w.small(), "--name", "here")
    w.brood("run", w.small(), "--name", "there",
            *cluster(2, f", hosts: [a, b], encrypt: false, command: {SHELL}", "command"))
    harness.assert_same_files(trained(w.run_dir("here")), trained(w.run_dir("there")))


def test_what_cannot_be_is_refused_in_one_line(w):
    def refused(code, *args):
        _, err = w.brood("run", w.small(), "--name", "refused", "-q", *args, code=code)
        line, = err.splitlines()
        return line
    assert "agents.agent_1.device" in refused(
        2, *cluster(2), "--set", "agents.agent_1.device=/job:worker/task:2")
    assert "expected a device such as" in refused(
        2, *cluster(2), "--set", "agents.agent_1.device=gpu")
    assert "hosts" in refused(2, *cluster(2, launcher="ssh"))
    err = refused(1, *cluster(2, ", command: [sh, -c, 'echo nobody home; exit 3']", "command"))
    assert "node " in err and "code 3" in err and "nobody home" in err, err


if __name__ == "__main__":
    harness.main()
