"""`brood serve`: the actions are those of the policies, over HTTP and a Unix socket; what clients send
wrongly is said in a line; agents that die are replaced; nothing is left behind."""
import http.client
import importlib.util
import json
import random
import signal
import socket
import stat
import struct
import threading

import harness
import msgpack
import peers
from test_export_policy import WITH_ONNX, computed, draw, export, first_agent, needs_onnx

SERVER = harness.BUILD / "supervisor" / "serve" / "brood-serve"


class Local(http.client.HTTPConnection):
    """HTTP at a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


class Server:
    def __init__(self, w, *args):
        self.process = w.start("serve", *args, "--socket", "s", "--json")
        p = self.process
        harness.wait_until("its address", lambda: p.poll() is not None or
                           "\n" in harness.output(p))
        assert p.poll() is None, p.log.read_text()
        self.facts = json.loads(harness.output(p))
        self.local = w.path / "s"

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.facts["port"])

    def ask(self, body, path="/act", connection=None, method="POST", **headers):
        """(status, answer)"""
        c = connection or self.connect()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        c.request(method, path, data, {"Authorization": "Bearer " + self.facts["token"],
                                       **headers})
        r = c.getresponse()
        data = r.read()
        packed = r.headers["content-type"] == "application/msgpack"
        return r.status, msgpack.unpackb(data) if packed else json.loads(data)

    def act(self, connection=None, **request):
        status, answer = self.ask(request, connection=connection)
        assert status == 200, answer
        return answer["action"]

    def end(self, signum=signal.SIGTERM):
        children = list(harness.children(self.process.pid))
        assert children
        self.process.send_signal(signum)
        harness.wait_within("its end", lambda: self.process.poll() is not None, 1)
        assert self.process.returncode == 0, self.process.log.read_text()
        assert not harness.left_of(children)
        assert not self.local.exists()


def as_choice(row, heads):
    """An action as the server has it, of one-hot vectors."""
    found, at = [], 0
    for n in heads:
        found.append(max(range(n), key=lambda i: row[at + i]))
        at += n
    return found[0] if len(found) == 1 else found


def test_actions_are_those_of_the_exported_policy(w):
    """Every kind of policy: choices, numbers, both; with masks, memory, last actions, pictures."""
    needs_onnx()
    for name in ("perceptron", "two_parts", "normal", "gru", "lstm", "value_of_two", "hybrid",
                 "masks", "pictures"):
        file = export(w, name)[0]
        agent = first_agent(w, name)
        python = peers.python_with_peers()
        ports = computed(python, WITH_ONNX, file, {}, "ports")
        fed = draw(name, ports)
        s = Server(w, name)
        space = s.ask(None, "/", method="GET")[1]["agents"][agent]["action"]
        dtype = s.ask(None, "/", method="GET")[1]["agents"][agent]["dtype"]
        if dtype == "uint8":
            fed["observation"] = [[float(abs(int(50 * x)) % 256) for x in row]
                                  for row in fed["observation"]]
        if "state" in fed:
            fed["state"] = [[0.0] * len(row) for row in fed["state"]]
        for step in range(3):
            wanted = computed(python, WITH_ONNX, file, fed)
            request = {"agent": agent, "observation": fed["observation"], "episode": "one",
                       "first": step == 0}
            if "mask" in fed:
                request["mask"] = fed["mask"]
            found = s.act(**request)
            for row, action in zip(wanted["action"], found):
                heads = space.get("choices", [])
                n = sum(heads)
                if space["kind"] == "discrete":
                    assert action == as_choice(row, heads), (name, step, row, action)
                    continue
                numbers = action if space["kind"] == "continuous" else action["numbers"]
                assert all(abs(a - b) < 1e-5 for a, b in zip(numbers, row[n:])), (name, row, action)
                if n:
                    assert action["choices"] == as_choice(row, heads), (name, row, action)
            if "state" in fed:
                fed["state"] = wanted["next_state"]
        s.end()


def test_observations_are_stacked(w):
    """The server keeps the observations before; the first one stands for those that are not
    there."""
    needs_onnx()
    file = export(w, "stacked")[0]
    s = Server(w, "stacked")
    seen = rows(5)
    for first in (0, 3):  # where the episode begins
        for i in range(first, len(seen)):
            fed = {"observation": [sum((seen[max(i - k, first)] for k in (2, 1, 0)), [])]}
            wanted = computed(peers.python_with_peers(), WITH_ONNX, file, fed)["action"][0]
            assert s.act(agent="agent_0", observation=seen[i], episode="e",
                         first=i == first) == as_choice(wanted, [5]), (first, i)
    s.end()


MEMORY = """
run: {name: memory, env_steps: 128, seed: 3}
env: {id: simple_spread, copies: 4, max_steps: 8}
experience: {update_every: 64}
evaluation: {every_env_steps: 0}
defaults: {algorithm: ippo, actor: {hidden: [8]}, critic: {hidden: [8]},
           settings: {recurrent: 6, chunk: 4}}
"""
ROW = [0.5, -1.0] * 9


def rows(n, seed=1):
    drawn = random.Random(seed)
    return [[drawn.gauss(0, 1) for _ in range(18)] for _ in range(n)]


def test_batches_modes_and_bodies(w):
    w.brood("run", w.small(steps=400), "--name", "a")
    s = Server(w, "a@400", "--seed", "3")
    about = s.ask(None, "/", method="GET")[1]
    assert about["run"] == "a" and about["step"] == 400 and len(about["agents"]) == 3, about
    many = rows(9)
    found = s.act(agent="agent_1", observation=many)
    assert found == [s.act(agent="agent_1", observation=row) for row in many]
    packed = msgpack.packb({"agent": "agent_1", "observation": b"".join(
        struct.pack("<18f", *row) for row in many)})
    kind = {"Content-Type": "application/msgpack"}
    assert s.ask(packed, **kind) == (200, {"action": found})
    assert s.ask(packed, connection=Local(s.local), **kind) == (200, {"action": found})
    one = s.connect()  # a connection is kept
    again = [s.act(one, agent="agent_1", observation=many, mode="sample", seed=k) for k in (1, 2, 1)]
    assert again[0] == again[2] != again[1], again
    free = [s.act(one, agent="agent_1", observation=ROW, mode="sample") for _ in range(40)]
    assert len(set(free)) > 1, free
    s.end()


def test_episodes_are_remembered_and_forgotten(w):
    w.brood("run", w.write("memory.yaml", MEMORY))
    s = Server(w, "memory", "--episodes", "2")
    seen = rows(8)

    def play(name):
        return [s.act(agent="agent_0", observation=row, episode=name, first=i == 0, mode="sample")
                for i, row in enumerate(seen)]
    alone = play("a")
    assert play("a") == alone  # the same name draws the same
    # three at once: the one that was used least recently is forgotten
    for name in "xyz":
        s.act(agent="agent_0", observation=seen[0], episode=name, first=True)
    status, answer = s.ask({"agent": "agent_0", "observation": ROW, "episode": "x"})
    assert status == 410 and "episode 'x' is not known" in answer["error"] and \
        "2 are remembered" in answer["error"], answer
    for name in "yz":
        s.act(agent="agent_0", observation=ROW, episode=name)
    # rows of one episode begin each for itself
    s.act(agent="agent_1", observation=seen[:2], episode="b", first=True)
    s.act(agent="agent_1", observation=seen[:2], episode="b", first=[True, False])
    status, answer = s.ask({"agent": "agent_1", "observation": seen[:3], "episode": "b"})
    assert status == 400 and "has 2 rows, the request 3" in answer["error"], answer
    s.end(signal.SIGINT)


def test_what_is_wrong_is_one_line(w):
    w.brood("run", w.write("memory.yaml", MEMORY))
    s = Server(w, "memory")
    ok = {"agent": "agent_0", "observation": ROW, "episode": "a", "first": True}
    for body, status, says in (
            (b"", 411, "Content-Length"), (b"{", 400, "JSON: a key is missing at byte 2"),
            (b"[1]", 400, "a request is an object"), (b"[[" * 9000, 400, "levels"),
            (b'{"agent": "agent_0"} x', 400, "more than one value"),
            ({**ok, "agent": "nobody"}, 404, "there is no agent 'nobody'"),
            ({**ok, "agent": 3}, 400, "agent"), ({"observation": ROW}, 400, "agent is missing"),
            ({**ok, "observation": ROW[1:]}, 400, "a row of 18 numbers"),
            ({**ok, "observation": []}, 400, "a list of 18 numbers"),
            ({**ok, "observation": [ROW, ROW[1:]]}, 400, "a row of 18 numbers"),
            ({**ok, "observation": ["x"] * 18}, 400, "element 0 is no number"),
            ({**ok, "observation": [1e300] * 18}, 400, "element 0 is not finite"),
            ({**ok, "observation": [ROW] * 5000}, 413, "at most 4096 rows"),
            ({**ok, "mask": [1]}, 400, "mask"),
            ({**ok, "mask": [1, 0, 2, 0, 0]}, 400, "mask: element 2 of row 0 is not 1 or 0"),
            ({**ok, "first": 1}, 400, "first"),
            ({**ok, "mode": "best"}, 400, "\"greedy\" or \"sample\""),
            ({**ok, "seed": -1}, 400, "seed"), ({**ok, "episode": "x" * 65}, 400, "episode"),
            ({**ok, "extra": 1}, 400, "a key that is none of"),
            ({"agent": "agent_0", "observation": ROW}, 400, "has a memory: name an episode")):
        found, answer = s.ask(body)
        assert found == status and says in answer["error"] and "\n" not in answer["error"], \
            (body if len(str(body)) < 300 else "", found, answer)
    for args, status in ((dict(path="/x"), 404), (dict(method="GET"), 405),
                         (dict(path="/"), 405), (dict(Authorization="Bearer x"), 401),
                         (dict(Host="evil.example"), 403), (dict(Origin="http://evil"), 403)):
        assert s.ask(ok, **args)[0] == status, args
    c = s.connect()
    c.request("POST", "/act", headers={"Authorization": "Bearer " + s.facts["token"],
                                       "Content-Length": str(1 << 40)})
    assert c.getresponse().status == 413
    packed = msgpack.packb({**ok, "mask": bytes([1, 0, 2, 0, 0])})
    status, answer = s.ask(packed, **{"Content-Type": "application/msgpack"})
    assert status == 400 and "mask: element 2" in answer["error"], answer
    assert s.act(**ok) in range(5)
    assert stat.S_IMODE(s.local.stat().st_mode) == 0o600
    _, err = w.brood("serve", "memory", "--socket", "s", code=1)
    assert "s is in use" in err and len(err.splitlines()) == 1, err
    assert s.ask(ok, connection=Local(s.local))[0] == 200
    s.end()
    _, err = w.brood("serve", "nobody", code=3)
    assert "there is no run nobody" in err and len(err.splitlines()) == 1, err
    _, err = w.brood("serve", "memory@7", code=1)
    assert "no checkpoint of step 7" in err and len(err.splitlines()) == 1, err
    (w.path / "file").write_text("")
    _, err = w.brood("serve", "memory", "--socket", "file", code=1)
    assert "is no socket" in err and len(err.splitlines()) == 1, err
    assert (w.path / "file").exists()
    _, err = w.brood("serve", "memory", "--socket", "@name", code=1)
    assert "@name: the path of a socket begins with no @" in err, err


def test_the_server_checks_the_run_that_it_reads(w):
    """Not only the command before it: the run's folder may be another one by then."""
    w.brood("run", w.small(steps=400), "--name", "a")
    config = w.run_dir("a") / "config.yaml"
    config.chmod(0o666)
    run = ["--seed", "0", "--episodes", "9", "--", str(w.run_dir("a"))]
    _, err = w.brood(*run, program=SERVER, code=1)
    assert "everybody may write its config.yaml" in err and len(err.splitlines()) == 1, err
    assert "everybody may write" in w.brood("serve", "a", code=2)[1]
    Server(w, "a", "--trust").end()
    config.chmod(0o600)
    folder = w.run_dir("a") / "checkpoints"
    folder.rename(w.path / "elsewhere")
    folder.symlink_to(w.path / "elsewhere")
    _, err = w.brood("serve", "a", code=1)
    assert len(err.splitlines()) == 1, err


def test_agents_that_die_are_replaced(w):
    """kill -9 before and while requests wait: each has its answer, and the episodes go on."""
    w.brood("run", w.write("memory.yaml", MEMORY))
    s = Server(w, "memory")
    seen = rows(12)

    def play(name, between=lambda i: None):
        found = []
        for i, row in enumerate(seen):
            between(i)
            found.append(s.act(agent="agent_0", observation=row, episode=name, first=i == 0))
        return found
    calm = play("calm")

    def kill(_):
        for pid in harness.children(s.process.pid):
            harness.kill(pid)
    assert play("killed", kill) == calm
    done, answered, kills = threading.Event(), threading.Event(), []

    def keep_killing():
        while not done.is_set():
            answered.clear()
            for pid in harness.children(s.process.pid):
                harness.kill(pid)
                kills.append(pid)
            answered.wait(harness.DEADLINE_S)
    t = threading.Thread(target=keep_killing)
    t.start()
    try:
        while len(kills) < 20:
            assert play("again", lambda _: answered.set()) == calm
    finally:
        done.set()
        answered.set()
        t.join()
    s.act(agent="agent_0", observation=ROW, episode="calm")
    s.end()


def agent_of(s, name):
    return next(pid for pid in harness.children(s.process.pid)
                if harness.look_at(pid)[2].split()[-1] == name)


def asked_at_once(s, agent, requests):
    """Answers of requests of which all but the first wait when the agent has answered that; and how
    many batches they were."""
    def count():
        return s.ask(None, "/", method="GET")[1]["agents"][agent]
    before, pid = count(), agent_of(s, agent)
    harness.kill(pid, signal.SIGSTOP)
    harness.wait_until("it is stopped", lambda: harness.look_at(pid)[0] == "T")
    connections = []
    for request in requests:
        c = Local(s.local)
        c.request("POST", "/act", json.dumps({"agent": agent, **request}).encode())
        connections.append(c)
        harness.wait_until("the server has it", lambda: count()["requests"] - before["requests"]
                           == len(connections))
    harness.kill(pid, signal.SIGCONT)
    answers = [c.getresponse() for c in connections]
    found = [(a.status, json.loads(a.read())) for a in answers]
    return found, count()["batches"] - before["batches"]


def test_requests_that_wait_are_one_batch(w):
    """Their answers are those of requests one by one: of memories, samples and batches, too."""
    w.brood("run", w.write("memory.yaml", MEMORY))
    s = Server(w, "memory", "--seed", "5")
    seen = rows(60)

    def step(k, t):
        name = f"e{k}"
        return {"observation": seen[10 * t + k:10 * t + k + 2] if k % 3 == 0 else seen[10 * t + k],
                "episode": name, "first": t == 0, "mode": "sample"}
    calm = [[s.act(agent="agent_0", **step(k, t)) for k in range(8)] for t in range(5)]
    for t in range(5):
        found, batches = asked_at_once(s, "agent_0", [step(k, t) for k in range(8)])
        assert found == [(200, {"action": a}) for a in calm[t]], t
        assert batches == 2, batches
    # what differs in mode or seed, goes on with an episode, or is large is another batch
    def plain(**more):
        return {"observation": seen[0], "episode": "p", "first": True, **more}
    first = plain(episode="o")
    for requests, wanted in (([plain(), plain(episode="q")], 2), ([plain(), plain()], 3),
                             ([plain(), plain(episode="q", mode="sample")], 3),
                             ([plain(), plain(episode="q", seed=1)], 3),
                             ([plain(), plain(episode="q", observation=seen * 2)], 3)):
        assert asked_at_once(s, "agent_0", [first, *requests])[1] == wanted, requests
    # of one that is wrong the others know nothing
    found, batches = asked_at_once(s, "agent_0", [first, plain(), {
        "observation": seen[0], "episode": "never begun"}, plain(episode="q")])
    assert [status for status, _ in found] == [200, 200, 410, 200] and batches == 2, found
    s.end()


def test_what_cannot_be_answered_in_a_batch_fails_alone(w):
    w.brood("run", w.small(steps=400), "--name", "a", "--set", "env.actions=continuous",
            "--set", "defaults.algorithm=masac")
    s = Server(w, "a")
    seen = rows(4)
    wanted = [(200, {"action": s.act(agent="agent_0", observation=row)}) for row in seen]
    found, batches = asked_at_once(s, "agent_0", [{"observation": row} for row in (
        seen[0], seen[1], [3e38, -3e38] * 9, seen[2], seen[3])])
    status, answer = found.pop(2)
    assert status == 500 and "agent_0: " in answer["error"], answer
    assert found == wanted and batches == 6, (found, batches)
    s.end()


def test_what_is_not_answered_changes_nothing(w):
    """A client leaves; an agent answers too late: the episode is as it was, or not begun."""
    w.brood("run", w.write("memory.yaml", MEMORY))
    s = Server(w, "memory")
    seen = rows(24)

    def step(i, name="a"):
        return dict(agent="agent_0", observation=seen[i], episode=name, first=i == 0,
                    mode="sample")
    calm = [s.act(**step(i)) for i in range(len(seen))]
    found = [s.act(**step(i)) for i in range(4)]
    agent = agent_of(s, "agent_0")

    def stop():
        harness.kill(agent, signal.SIGSTOP)
        harness.wait_until("it is stopped", lambda: harness.look_at(agent)[0] == "T")
    stop()
    for request in (step(9), step(0), step(0, "left")):
        c = Local(s.local)
        c.request("POST", "/act", json.dumps(request).encode())
        for _ in range(3):  # by then the server has it
            assert s.ask(None, "/", method="GET")[0] == 200
        c.close()
    harness.kill(agent, signal.SIGCONT)
    found += [s.act(**step(i)) for i in range(4, 8)]
    assert s.ask(step(1, "left"))[0] == 410
    stop()
    late = [None, None]

    def ask(k, request):
        late[k] = s.ask(request)
    threads = [threading.Thread(target=ask, args=(k, step(0, name)))
               for k, name in enumerate(("a", "late"))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    harness.kill(agent, signal.SIGCONT)
    for status, answer in late:
        assert status == 503 and "has not answered within 10 s" in answer["error"], late
    found += [s.act(**step(i)) for i in range(8, len(seen))]
    assert found == calm
    assert s.ask(step(1, "late"))[0] == 410
    s.end()


def test_what_an_agent_cannot_answer_fails_alone(w):
    """An exception of an agent's program, and a request of which every process dies."""
    if importlib.util.find_spec("numpy") is None:
        raise harness.Skip("Python has no numpy")
    w.brood("new", "simple_spread", "--agent", "picky.py")
    code, head = (w.path / "picky.py").read_text(), "def act(self, obs, ctx):\n"
    at = code.index(head) + len(head)
    (w.path / "picky.py").write_text(
        code[:at] + "        if obs[0, 0] == 7:\n            raise ValueError('no good')\n"
        "        if obs[0, 0] == 8:\n            __import__('os').abort()\n" + code[at:])
    w.brood("run", "picky.yaml", "--name", "picky", "--set", "run.env_steps=200",
            "--set", "experience.warmup=100", "--set", "evaluation.every_env_steps=0")
    s = Server(w, "picky")
    many = rows(9)
    wanted = s.act(agent="agent_0", observation=many)
    for number, says in ((7, "agent_0: "), (8, "agent_0: act ended it 3 times")):
        for _ in range(2):
            status, answer = s.ask({"agent": "agent_0", "observation": [number] * 18})
            assert status == 500 and says in answer["error"] and "\n" not in answer["error"], answer
            assert number != 7 or "ValueError: no good" in answer["error"], answer
            assert s.act(agent="agent_0", observation=many) == wanted
            s.act(agent="agent_1", observation=many)
    s.end()


def test_many_clients_at_once(w):
    w.brood("run", w.small(steps=400), "--name", "a")
    s = Server(w, "a")
    seen = rows(30)
    wanted = s.act(agent="agent_2", observation=seen)
    failures = []

    def ask():
        c = s.connect()
        found = [s.act(c, agent="agent_2", observation=row) for row in seen]
        if found != wanted:
            failures.append(found)
    threads = [threading.Thread(target=ask) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]
    idle = s.connect()  # that waits does not keep the server
    s.act(idle, agent="agent_2", observation=seen[0])
    children = list(harness.children(s.process.pid))
    harness.kill(s.process.pid)  # and nothing outlives it
    harness.wait_until("the end of the agents", lambda: not harness.left_of(children))


if __name__ == "__main__":
    harness.main()
