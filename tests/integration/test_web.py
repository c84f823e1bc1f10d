"""The server of `brood web`, as a client sees it that is no browser: who may connect, what is
refused, what is answered."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse

import damaged_runs
import harness

sys.path.insert(0, str(harness.SOURCE / "tests" / "support"))
from websocket import Refused, WebSocket  # noqa: E402

WEB = harness.BUILD / "supervisor" / "web" / "brood-web"
LONG = 1000000000


class Server:
    """A `brood web`, and what a browser knows of it."""

    PREFIX = ()   # what brood-web runs under, in test_web_memory.py

    def __init__(self, w, *options, program=None, folders=(), prefix=()):
        """program: in place of the one that plays episodes; folders: of runs; prefix: what `brood web`
        runs under."""
        if not WEB.exists():
            raise harness.Skip("no libwebsockets-dev")
        w.runs.mkdir(exist_ok=True)
        folders = folders or [w.runs]
        direct = program or (self.PREFIX and harness.BROOD)
        self.process = w.start("--program", direct, "--json", *options, *folders, program=WEB,
                               prefix=self.PREFIX) if direct else w.start(
            "web", "--json", *options, *folders, prefix=prefix)
        line = harness.wait_until("the address", lambda: harness.output(self.process) or
                                  self.process.poll() is not None)
        assert line is not True, self.process.log.read_text()
        fact = json.loads(line)
        self.url, self.port = fact["url"], fact["port"]
        self.token = self.url.partition("/#token=")[2]

    def get(self, path, method="GET", host=None, more=()):
        """(status, head, body) of one request on a connection of its own."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}",
                 "Connection: close", *more]
        with socket.create_connection(("127.0.0.1", self.port), harness.DEADLINE_S) as s:
            s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            data = b""
            with contextlib.suppress(ConnectionError):
                while piece := s.recv(1 << 16):
                    data += piece
        head, _, body = data.decode("latin-1").partition("\r\n\r\n")
        return int(head.split()[1]) if head else 0, head, body

    def file(self, run, name="metrics/progress.csv", wants="bytes=0-", token=None):
        """(status, content-range or None, body) of a part of a run's file."""
        query = urllib.parse.urlencode({"run": run, "name": name}, quote_via=urllib.parse.quote)
        status, head, body = self.get(f"/file?{query}", more=[
            f"Authorization: Bearer {token or self.token}", *([f"Range: {wants}"] if wants else [])])
        place = re.search(r"(?im)^content-range: bytes (\S+)\r?$", head)
        return status, place and place[1], body

    def connect(self, **changes):
        """A websocket as the page opens it; changes: headers in place of its own, None: none."""
        headers = {"Sec-WebSocket-Protocol": "brood", "Origin": f"http://127.0.0.1:{self.port}"}
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        return WebSocket("127.0.0.1", self.port, "/live",
                         [(k, v) for k, v in headers.items() if v is not None],
                         timeout_s=harness.DEADLINE_S)

    def client(self, **changes):
        return Client(self.connect(**changes), self.token)


class Client:
    """A page's end of a websocket: requests with answers, and what is pushed meanwhile."""

    def __init__(self, socket, token):
        self.socket, self.id, self.pushed = socket, 0, []
        self.result("hello", token=token)

    def send(self, method, *pairs, **params):
        self.id += 1
        text = urllib.parse.urlencode([*pairs, *params.items()])
        self.socket.send(f"{self.id} {method} {text}")
        return self.id

    def ask(self, method, *pairs, **params):
        number = self.send(method, *pairs, **params)
        while True:
            message = self.socket.receive_json()
            if message.get("id") == number:
                return message
            self.pushed.append(message)

    def result(self, method, *pairs, **params):
        answer = self.ask(method, *pairs, **params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, *pairs, **params):
        answer = self.ask(method, *pairs, **params)
        assert "error" in answer, answer
        return answer["error"]["message"]

    def until(self, what, condition):
        """The first pushed message of which the condition holds."""
        for message in self.pushed:
            if condition(message):
                return message
        self.pushed = []
        for _ in range(100000):
            message = self.socket.receive_json()
            if condition(message):
                return message
        raise AssertionError(what)

    def list(self):
        """The whole list, once all runs are read: name -> summary."""
        self.result("list")
        runs = {}

        def take(message):
            if message.get("push") != "list":
                return False
            runs.update({r["run"]: r for r in message["runs"]})
            if "names" in message:
                self.names = message["names"]
            return message["complete"] and set(runs) == set(self.names)
        self.names = []
        self.until("the list", take)
        return runs


def live_run(w, name="live"):
    w.start("run", w.small(steps=LONG), "--name", name, prefix=("nice", "-n", "19"),
            env=harness.VISIBLE)
    run = w.run_dir(name)
    harness.wait_until("a run", lambda: harness.rows(run) > 1)
    return run


def niceness_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])


def refused(fn):
    """The status with which a connection, or its websocket, is refused; None: it is not."""
    try:
        fn().close()
    except Refused as why:
        return why.status
    except (ConnectionError, OSError):
        return 0
    return None


def closed_with(k):
    """The status with which the server closes a websocket; None: without one."""
    with contextlib.suppress(ConnectionError):
        while True:
            k.receive()
    return k.closed


def test_only_who_has_the_token_gets_in(w):
    s = Server(w)
    assert re.fullmatch(rf"http://127\.0\.0\.1:{s.port}/#token=[0-9a-f]{{64}}", s.url), s.url
    other = s.token[:-1] + ("1" if s.token[-1] == "0" else "0")
    for text in (f"1 hello token={other}", "1 hello token=", f"1 hello token={s.token}0", "1 hello ",
                 f"1 hello token={s.token[:-1]}", f"1 list token={s.token}", "1 list ", "", "1",
                 f"1 hello token={other}&token={s.token}", f"1 hello token={s.token}&bad",
                 f"1 hello cookie={s.token}", f"0 hello token={s.token}"):
        k = s.connect()
        k.send(text)
        assert closed_with(k) == 4401, text
    k = s.connect()   # says nothing before it knows who asks, and takes nothing long
    k.send(f"1 hello token={s.token}&more=" + "a" * 300)
    assert closed_with(k) == 1009
    k = s.connect()
    for _ in range(300):
        with contextlib.suppress(ConnectionError):
            k.send_frame(0x01 if k.closed is None else 0x00, b"x")
    assert closed_with(k) != 0
    c = s.client()
    hello = c.until("hello", lambda m: m.get("push") == "hello")
    assert hello["host"] == socket.gethostname(), hello
    assert "no method 'hello'" in c.error("hello", token=other)   # only once
    assert c.result("list") == {}


def test_the_pages_own_files_need_no_token(w):
    """They tell nothing of a run, and no cookie is set: one would go to every port."""
    s = Server(w)
    status, head, body = s.get("/")
    assert status == 200 and "<title>brood</title>" in body and s.token not in head + body
    for line in ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'",
                 "frame-ancestors 'none'", "x-content-type-options: nosniff",
                 "referrer-policy: no-referrer", "cache-control: no-store"):
        assert line in head, (line, head)
    assert not re.search(r"<script(?! src)|<style|\sstyle=|\son\w+=|https?://", body), body
    # Asked for at once, not each after the one that imports it.
    modules = {f.name for f in (harness.SOURCE / "supervisor/page").glob("*.js")}
    assert set(re.findall(r'modulepreload" href="/([^"]+)"', body)) == modules - {"app.js", "uplot.js"}
    for path in ("/", "/app.js", "/nothing", f"/?token={s.token}"):
        status, head, _ = s.get(path)
        assert status == (404 if path == "/nothing" else 200), path
        assert "set-cookie" not in head.lower() and "location:" not in head.lower(), head
    for path in ("/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/runs", "/live"):
        assert s.get(path)[0] in (0, 403, 404), path
    assert s.get("/", method="POST", more=["Content-Length: 0"])[0] == 405


def test_cookies_of_other_ports_do_not_hinder(w):
    """A browser sends those of every program on 127.0.0.1, as many as 180."""
    s = Server(w)
    others = "; ".join(f"other-{port}={'a' * 64}" for port in range(30000, 30179))
    assert s.get("/", more=[f"Cookie: {others}"])[0] == 200
    assert s.client(Cookie=others).result("list") == {}
    assert s.get("/", more=[f"Cookie: {others}; {others}"])[0] in (0, 200, 403, 431)


def test_other_pages_are_kept_out(w):
    """A page of another origin, and a name that leads here (rebinding)."""
    s = Server(w)
    for host in ("evil.example", f"evil.example:{s.port}", "127.0.0.1", f"127.0.0.1:{s.port + 1}",
                 f"127.0.0.1.evil.example:{s.port}", "x" * 3000):
        assert s.get("/", host=host)[0] in (0, 403), host
        assert refused(lambda: s.connect(Host=host)) in (0, 403), host
    assert s.get("/", host=f"localhost:{s.port}")[0] == 200
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{s.port}",
                   f"http://127.0.0.1:{s.port}0", "http://127.0.0.1"):
        assert s.get("/", more=[f"Origin: {origin}"])[0] == 403, origin
        assert refused(lambda: s.connect(Origin=origin)) == 403, origin
    assert refused(lambda: s.connect(Origin=None)) == 403
    assert refused(lambda: s.connect(Sec_WebSocket_Protocol=None)) is not None
    assert refused(lambda: s.connect(Sec_WebSocket_Protocol="other")) is not None
    assert refused(lambda: s.connect(Origin=f"http://localhost:{s.port}")) is None
    with socket.socket() as other:   # only this machine's own address
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", s.port)) != 0


def test_what_is_no_request_is_refused(w):
    s = Server(w)
    c = s.client()
    assert "no method 'fly'" in c.error("fly")
    assert "no run '../../etc'" in c.error("config", run="../../etc")
    w.small(steps=200)
    w.brood("run", w.path / "small.yaml", "--name", "over", "-q")
    assert set(c.list()) == {"over"}
    for name in ("over/../over", "./over", "over/", "/over", "", str(w.run_dir("over")), "OVER",
                 "over/checkpoints"):
        assert "there is no run" in c.error("config", run=name), name
        assert s.file(name)[0] == 404, name
    for log in ("../config", "../journal", "..", "", "journal/", "supervisor.log", "%2e%2e", "config.yaml",
                "metrics/../config.yaml"):
        status, _, says = s.file("over", log)
        assert status == 404 and "there is no log" in says, (log, status, says)
    assert s.file("over", "journal\0")[0] in (0, 404)
    (w.run_dir("over") / "logs" / "link.log").symlink_to("/etc/passwd")
    assert s.file("over", "link")[0] == 503
    for text in ("", "x", "1", "0 list ", "99999999999 list ", "1 list a", "1 list =1",
                 "1 list a=%", "1 list a=%0", "1 list a=%00", "1 list " + "a=1&" * 300):
        c.socket.send(text)
        answer = c.socket.receive_json()
        while "error" not in answer:
            answer = c.socket.receive_json()
        assert answer["error"]["message"], (text, answer)
    assert c.result("logs", run="over")[0] == "journal"
    for send, code in (
            (lambda k: k.send("1 list " + "a" * (1 << 16)), 1009),
            (lambda k: k.socket_fragments(), 1009),
            (lambda k: k.send_frame(0x82, b"1 list "), 1003),
            (lambda k: k.send_frame(0x81, b"1 list \xff\xfe"), 1007)):
        k = s.client().socket
        k.socket_fragments = lambda k=k: [k.send_frame(0x01, b"1 list a=" + b"b" * 30000)] + [
            k.send_frame(0x00, b"b" * 30000) for _ in range(3)]
        with contextlib.suppress(ConnectionError):
            send(k)
            for _ in range(1000):
                k.receive()
        assert k.closed in (code, None), (k.closed, code)
        assert k.closed == code or code == 1009, (k.closed, code)
    k = s.client().socket   # a length that nobody has memory for
    with contextlib.suppress(ConnectionError):
        k.sock.sendall(b"\x81\xff" + (1 << 40).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 70000)
        for _ in range(1000):
            k.receive()
    assert c.result("logs", run="over")   # it lives


def raw(s, text):
    """A connection on which this was sent; {host}: the header that every request needs."""
    c = socket.create_connection(("127.0.0.1", s.port), harness.DEADLINE_S)
    c.sendall(text.replace("{host}", f"Host: 127.0.0.1:{s.port}\r\n").encode())
    return c


def all_of(c):
    """What comes until the other side closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := c.recv(1 << 16):
            data += piece
    return data


def test_only_http_and_websockets_are_spoken(w):
    """What asks for another protocol is refused, and its connection closed."""
    s = Server(w)
    get = "GET /nothing HTTP/1.1\r\n{host}\r\n"   # answered, and the next one is read
    foo = "GET / HTTP/1.1\r\n{host}Connection: upgrade\r\nUpgrade: foo\r\n\r\n"
    c = raw(s, get)
    assert c.recv(1 << 16)
    c.sendall(foo.replace("{host}", f"Host: 127.0.0.1:{s.port}\r\n").encode())
    assert b"101" not in all_of(c)
    for text in (get + foo, foo + get, foo.replace("foo", "h2c, foo"), foo.replace("foo", "x" * 3000),
                 foo.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n12345" + get),
                 foo.replace("GET", "POST"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n\r\n",
                 "CONNECT x HTTP/1.1\r\n{host}\r\n", "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n",
                 get + "CONNECT x HTTP/1.1\r\n{host}\r\n"):
        assert b" 101 " not in all_of(raw(s, text)), text
    h2c = foo.replace("foo", "h2c").replace("upgrade\r", "upgrade, HTTP2-Settings\r") \
        .replace("\r\n\r\n", "\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")
    assert b" 101 " not in all_of(raw(s, h2c))
    s.client().result("list")   # it lives


def gets_in(s):
    """As the page tries again when its connection is lost. It may be among the connections that
    make room for others, more so as long as the server has not seen all of those."""
    with contextlib.suppress(Refused, ConnectionError):
        return s.client().result("list") == {}
    return False


def test_strangers_do_not_keep_the_owner_out(w):
    """Connections that are held open, however many, in whatever state."""
    s = Server(w)
    held = []
    for text in ("CONNECT x HTTP/1.1\r\n{host}\r\n", "", "GET / HTTP/1.1\r\n",
                 "POST / HTTP/1.1\r\n{host}Content-Length: 100\r\n\r\n", "GET /live HTTP/1.1\r\n{host}"
                 "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                 "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: brood\r\n"
                 f"Origin: http://127.0.0.1:{s.port}\r\n\r\n"):
        for _ in range(256):
            with contextlib.suppress(ConnectionError):
                held.append(raw(s, text))
        harness.wait_until(f"the owner's way in beside {text}", lambda: gets_in(s))
        harness.wait_until("the page's file", lambda: s.get("/app.js")[0] == 200)
    harness.wait_until("the end of most of them", lambda: len(os.listdir(f"/proc/{s.process.pid}/fd")) < 130)


def test_no_state_of_a_connection_lasts(w):
    """All but a websocket of the owner end at a deadline."""
    if harness.SANITIZED:
        raise harness.Skip("it waits for the deadlines, and is in test_web_memory.py under valgrind")
    s = Server(w)
    owner = s.client()
    owner.result("list")
    before = sockets_of(s.process.pid)
    get = "GET /uplot.js HTTP/1.1\r\n{host}\r\n"
    states = {
        "silent": "", "half a request": "GET / HTTP/1.1\r\n{host}",
        "a body that does not come": "POST / HTTP/1.1\r\n{host}Content-Length: 100\r\n\r\n1",
        "no upgrade": "GET /live HTTP/1.1\r\n{host}Connection: upgrade\r\nUpgrade: foo\r\n\r\n",
        "more requests than are read": get * 300}
    held = {}
    asked = [s.connect(), s.connect()]   # without a first message, and with half of one
    asked[1].send_frame(0x01, b"1 hello")
    for name, text in states.items():
        held[name] = raw(s, text)
        assert s.get("/app.js")[0] == 200   # it has seen that one
    assert sockets_of(s.process.pid) > before
    harness.wait_until("the end of all of them", lambda: sockets_of(s.process.pid) == before)
    assert owner.result("list") == {}


def test_the_list_and_the_status_are_those_of_the_command_line(w):
    run = live_run(w)
    w.brood("run", w.write("other.yaml", harness.SMALL.format(steps=400, evaluate=200, checkpoint=200)),
            "--name", "over", "-q")
    s = Server(w)
    c = s.client()
    runs = c.list()
    assert list(c.names) == ["over", "live"], c.names   # the newest first
    told = {r["run"]: r for r in harness.json_lines(w.brood("runs", "--json")[0])}
    for key in ("state", "exit_code", "env_steps", "total_steps", "checkpoint_step", "team_return_mean", "returns", "tags", "note"):
        assert runs["over"][key] == told["over"][key], key
    assert [runs["over"][key] for key in ("environment", "algorithms", "seed", "tags")] == ["simple_spread", "maddpg", 1, []]
    assert runs["live"]["state"] == "running" and runs["live"]["live"] and not runs["over"]["live"]
    rows = [line.split(",") for line in (w.run_dir("over") / "metrics/progress.csv").read_text().splitlines()]
    column = rows[0].index("rollout/team_return/agent")
    values = [float(row[column]) for row in rows[1:] if row[column]]
    assert runs["over"]["steps_per_second"] == float(rows[-1][rows[0].index("time/env_steps_per_second")])
    assert runs["live"]["agents"] == 3 and runs["over"]["spark"] == [float(f"{v:.5g}") for v in values], runs["over"]
    c.result("watch", run="over")
    view = c.until("a view", lambda m: m.get("push") == "run" and m["run"] == "over")
    says = harness.json_lines(w.brood("status", "over", "--json")[0])[0]
    assert says.pop("metrics")["env_steps"] == 400
    assert view["status"] == says, (view["status"], says)
    w.brood("pause", run)
    c.result("watch", run="live")

    def strip(status):   # memory and states of processes, rates, times; what the view has not
        return {k: v for k, v in status.items() if k not in (
            "elapsed_seconds", "total_seconds", "agents", "steps_per_second", "metrics")}
    c.until("the same", lambda m: m.get("push") == "run" and m["run"] == "live" and
            m["status"]["state"] == "paused" and strip(m["status"]) ==
            strip(harness.json_lines(w.brood("status", run, "--json")[0])[0]))
    w.brood("stop", run)
    c.until("its end", lambda m: m.get("push") == "run" and m["run"] == "live" and not m["live"])
    shutil.rmtree(w.run_dir("over"))
    c.until("its removal", lambda m: m.get("names") == ["live"])
    assert "there is no run" in c.error("config", run="over")


def test_many_runs_are_read_at_once(w):
    """Configurations are read by threads, one at a time."""
    w.brood("run", w.small(steps=200), "--name", "r0", "-q")
    for i in range(1, 60):
        shutil.copytree(w.run_dir("r0"), w.run_dir(f"r{i}"))
    c = Server(w).client()
    for _ in range(3):
        assert len(c.list()) == 60
        for i in range(60):
            assert c.result("config", run=f"r{i}")
            (w.run_dir(f"r{i}") / "journal").touch()


def test_a_file_is_read_by_ranges(w):
    """As a page goes on reading it; only with the token."""
    w.brood("run", w.small(), "--name", "over", "-q")
    csv = w.run_dir("over") / "metrics" / "progress.csv"
    s = Server(w)
    c = s.client()
    c.list()
    text = csv.read_text()
    n = len(text)
    assert s.file("over") == (206, f"0-{n - 1}/{n}", text)
    for wants, (begin, end) in {"bytes=5-": (5, n), "bytes=5-9": (5, 10), "bytes=0-0": (0, 1), "bytes=-7": (n - 7, n),
                                f"bytes={n - 1}-": (n - 1, n), f"bytes=3-{10 * n}": (3, n), f"bytes=-{10 * n}": (0, n),
                                "bytes=2-" + "9" * 18: (2, n)}.items():
        assert s.file("over", wants=wants) == (206, f"{begin}-{end - 1}/{n}", text[begin:end]), wants
    with open(csv, "a") as f:   # only what was appended
        f.write("more\n")
    assert s.file("over", wants=f"bytes={n}-") == (206, f"{n}-{n + 4}/{n + 5}", "more\n")
    csv.write_text(text[:n // 2])   # cut, as by a resume from an earlier checkpoint
    for begin in (n // 2, n, 10 ** 15):
        assert s.file("over", wants=f"bytes={begin}-")[:2] == (416, f"*/{n // 2}"), begin
    for wants in (None, "", "bytes", "bytes=", "bytes=-", "bytes=-0", "bytes=x-", "bytes=5-3", "bytes=0-1,3-4", "lines=0-",
                  "bytes=+1-", "bytes= 1-", "bytes=1-2x", "bytes=" + "9" * 30 + "-"):
        status, place, says = s.file("over", wants=wants)
        assert status == 400 and place is None and "Range: bytes=0-" in says, (wants, status)
    csv.write_text("")   # no range fits: there is nothing yet
    assert s.file("over") == (200, None, "")
    csv.unlink()
    assert s.file("over") == (200, None, "")
    assert s.file("over", "journal")[2] == (w.run_dir("over") / "journal").read_text()
    other = s.token[:-1] + ("1" if s.token[-1] == "0" else "0")
    for token in (other, s.token + "0", "x"):
        assert s.file("over", "journal", token=token)[0] == 401, token
    assert s.get("/file?run=over&name=journal", more=["Range: bytes=0-"])[0] == 401
    assert s.get(f"/file?run=over&name=journal&token={s.token}", more=["Range: bytes=0-"])[0] == 401
    bearer = f"Authorization: Bearer {s.token}"
    assert s.get("/file?run=over&name=journal", host="evil.example", more=[bearer])[0] == 403
    assert s.get("/file?run=over&name=journal", more=[bearer, "Origin: http://evil.example"])[0] == 403
    assert s.get("/file?run=over", more=[bearer])[0] == 404 and s.get("/file", more=[bearer])[0] == 404


def test_a_part_has_a_bound(w):
    """Whatever the file's size: this one has no blocks."""
    w.brood("run", w.small(steps=200), "--name", "over", "-q")
    s = Server(w)
    s.client().list()
    size, most = 400 << 20, 512 << 10
    with open(w.run_dir("over") / "logs" / "agent_0.log", "wb") as f:
        f.truncate(size)
        f.seek(size - 5)
        f.write(b"last\n")
    status, place, body = s.file("over", "agent_0")
    assert (status, place, len(body)) == (206, f"0-{most - 1}/{size}", most)
    assert s.file("over", "agent_0", wants="bytes=-5") == (206, f"{size - 5}-{size - 1}/{size}", "last\n")
    assert s.file("over", "agent_0", wants=f"bytes={size - 5}-")[2] == "last\n"
    for _ in range(20):   # who goes away takes what was read along
        raw(s, f"GET /file?run=over&name=agent_0 HTTP/1.1\r\n{{host}}Range: bytes=0-\r\n"
            f"Authorization: Bearer {s.token}\r\n\r\n").close()
    assert s.file("over", "agent_0", wants="bytes=-5")[2] == "last\n"


def test_configuration_and_checkpoints(w):
    w.brood("run", w.small(), "--name", "over", "-q", "--set",
            "checkpoint.keep_best=eval/team_return/agent")
    run = w.run_dir("over")
    c = Server(w).client()
    c.list()
    config = {k: (v, live) for k, v, live in c.result("config", run="over")}
    assert config["env.copies"] == ("4", False) and config["defaults.discount"][1]
    assert config["defaults.actor.hidden"] == ("[16, 16]", False), config
    there = c.result("checkpoints", run="over")
    assert [one["best"] for one in there if one["step"] == 0] == [False], there
    assert sum(one["best"] for one in there) == 1, there
    steps = [one["step"] for one in there]
    assert steps == sorted(map(int, os.listdir(run / "checkpoints")), reverse=True)


def test_an_episode_is_played_by_a_process_of_its_own(w):
    w.brood("run", w.small(steps=400), "--name", "over", "-q")
    c = Server(w).client()
    c.list()
    head, *frames = c.result("evaluate", run="over", step=400, seed=3)
    w.brood("eval", "over", "--episodes", 1, "--copies", 1, "--seed", 3, "--render", "x.jsonl", "-q")
    told = [json.loads(line) for line in (w.path / "x.jsonl").read_text().splitlines()]
    assert [head, *frames] == told
    head = c.result("evaluate", run="over", step=400, pick="best")[0]
    out, _ = w.brood("eval", "over", "--episodes", 20, "--episode", "best", "--render", "x.jsonl")
    assert f"episode {head['episode']}, the best, is drawn" in out, (head, out)
    assert c.error("evaluate", run="over", pick="-x") == "pick -x: expected best or worst"
    for key in ("seed", "step"):
        for value in ("x", "-1", "1.5", "", "9" * 30):
            says = c.error("evaluate", run="over", **{key: value})
            assert says == f"{key} {value}: expected a whole number", says
    message = c.error("evaluate", run="over", step=77)
    _, err = w.brood("eval", "over", "--checkpoint", 77, "--episodes", 1, code=3)
    assert err.rstrip().endswith(message.partition("/runs/")[2]), (err, message)


def test_a_child_dies_with_the_server(w):
    """However that ends, and the next server removes what was left."""
    w.brood("run", w.small(steps=400), "--name", "over", "-q")
    program = w.write("player.sh", "#!/bin/sh\necho $$ > $(dirname $0)/child\nls /proc/$$/fd "
                      "> $(dirname $0)/fds\nexec sleep 1000\n")
    program.chmod(0o755)
    s = Server(w, program=program)
    c = s.client()
    c.list()
    c.send("evaluate", run="over")
    child = int(harness.wait_until("the child", lambda: (w.path / "child").exists() and
                                   (w.path / "child").read_text()))
    cmdline = harness.wait_until("sleep", lambda: (lambda t: b"sleep" in t and t)(
        open(f"/proc/{child}/cmdline", "rb").read()))
    assert cmdline, child
    left = set((w.path / "fds").read_text().split()) - {"0", "1", "2"}
    assert len(left) <= 2, left   # the shell's own script and the listed folder
    assert sockets_of(child) <= 1, "its stderr alone may be one"
    folders = list(pathlib.Path("/tmp").glob(f"brood-web-{s.process.pid}-*"))
    assert len(folders) == 1, folders
    harness.kill(s.process.pid)
    s.process.wait(timeout=harness.DEADLINE_S)
    harness.wait_until("the child's end", lambda: not harness.alive(child))
    assert folders[0].exists()
    s = Server(w)
    assert not folders[0].exists()
    s.process.send_signal(signal.SIGHUP)   # the terminal is closed
    assert s.process.wait(timeout=harness.DEADLINE_S) == 0


def test_looking_executes_nothing(w):
    """A run may be another user's: only to resume or play it executes what it names."""
    w.brood("run", w.small(steps=400), "--name", "over", "-q")
    foreign = w.runs / "foreign"
    shutil.copytree(w.run_dir("over"), foreign)
    made = w.path / "made"
    (foreign / "config.yaml").write_text(
        "run: {env_steps: 400}\n"
        f"env: {{copies: 4, command: [sh, -c, 'touch {made}']}}\n")
    shutil.rmtree(foreign / "checkpoints")
    (foreign / "checkpoints").mkdir()
    (foreign / "checkpoints" / "600").symlink_to("/")
    study = w.runs / "study"
    study.mkdir()
    shutil.copy(foreign / "config.yaml", study / "base.yaml")
    (study / "study.yaml").write_text("base: base.yaml\nmethod: grid\n"
                                      "search: {defaults.discount: [0.9, 0.95]}\n")
    for args in (["runs"], ["runs", "--where", "env=*"], ["status", "foreign"],
                 ["status", "study"]):
        w.brood(*args)
        assert not made.exists(), args
    c = Server(w).client()
    assert c.list()["foreign"]["total_steps"] == 400
    assert not made.exists()
    c.result("watch", run="foreign")
    c.until("a view", lambda m: m.get("push") == "run" and m["status"]["total_steps"] == 400)
    config = {k: v for k, v, _ in c.result("config", run="foreign")}
    assert "touch" in config["env.command"], config
    assert c.result("checkpoints", run="foreign") == []   # a link is none
    assert not made.exists()


def test_a_run_that_is_over_is_read_when_it_changes(w):
    w.brood("run", w.small(steps=400), "--name", "over", "-q")
    s = Server(w)
    c = s.client()
    c.list()
    c.result("list", on="false")
    c.result("watch", run="over")
    c.until("a view", lambda m: m.get("push") == "run")
    w.brood("tag", "over", "paper")
    c.until("its tag", lambda m: m.get("push") == "run" and m["status"]["tags"] == ["paper"])
    shutil.rmtree(w.run_dir("over"))
    c.until("its end", lambda m: m.get("push") == "run" and m["status"]["state"] == "deleted")


def test_a_run_that_takes_the_place_of_another_is_shown(w):
    """As `run --force` does it, while a page shows the old run."""
    w.brood("run", w.small(steps=400), "--name", "x", "-q")
    w.brood("run", w.small(steps=800), "--name", "new", "-q")
    c = Server(w).client()
    c.list()
    c.result("list", on="false")
    c.result("watch", run="x")
    c.until("a view", lambda m: m.get("push") == "run" and m["status"]["env_steps"] == 400)
    shutil.rmtree(w.run_dir("x"))
    w.run_dir("new").rename(w.run_dir("x"))
    c.until("the new run", lambda m: m.get("push") == "run" and m["status"]["env_steps"] == 800)


def test_a_link_that_takes_the_place_of_a_run_is_not_followed(w):
    """In a folder that everybody may write: whoever had a run there puts a link to a run of the
    page's user in its place, after the page has listed it."""
    if os.geteuid() != 0:
        raise harness.Skip("only root can be a second user")
    for name in ("theirs", "mine"):
        w.brood("run", w.small(steps=400), "--name", name, "-q")
    private = w.path / "private"
    private.mkdir()
    w.run_dir("mine").rename(private / "mine")
    s = Server(w)
    c = s.client()
    c.list()
    c.result("list", on="false")
    c.result("watch", run="theirs")
    c.until("a view", lambda m: m.get("push") == "run" and m["status"]["state"] == "done")
    shutil.rmtree(w.run_dir("theirs"))
    w.run_dir("theirs").symlink_to(private / "mine")
    os.lchown(w.run_dir("theirs"), damaged_runs.OTHER, damaged_runs.OTHER)
    for method in ("config", "logs", "checkpoints", "stop"):
        why = c.error(method, run="theirs")
        assert "is a link that user" in why, (method, why)
    for name in ("metrics/progress.csv", "journal"):
        status, _, why = s.file("theirs", name)
        assert status == 503 and "is a link that user" in why, (name, why)
    c.until("what the page says of it",
            lambda m: m.get("push") == "run" and m["status"]["state"] == "unreadable")


def test_a_request_outlives_the_look_at_the_run(w):
    """As when one goes to another run before the answer has come."""
    live_run(w)
    c = Server(w).client()
    c.list()
    c.result("watch", run="live")
    number = c.send("pause", run="live")
    c.send("unwatch", run="live")
    answer = {}

    def take(m):
        if m.get("id") == number:
            answer.update(m)
        return bool(answer)
    c.until("the answer", take)
    assert answer["result"]["env_steps"] > 0, answer


def test_a_study_is_read_once_for_all_who_ask(w):
    study = w.write("lr.yaml", f"base: {w.small(steps=100, evaluate=0, checkpoint=0)}\n"
                    "search:\n  defaults.discount: [0.9, 0.95]\nseeds: [1]\n")
    w.brood("sweep", study, "-q")
    c = Server(w).client()
    c.list()
    waits = {c.send("study", study="lr") for _ in range(600)}
    trials = 0
    while waits:   # each has one answer, be it that too many wait
        m = c.socket.receive_json()
        if "id" not in m:
            continue
        waits.remove(m["id"])
        if "result" in m:
            trials += len(m["result"]["trials"]) == 2
        else:
            assert "wait for the study already" in m["error"]["message"], m
    assert trials >= 2, trials


def test_a_run_is_steered_as_from_the_command_line(w):
    run = live_run(w)
    s = Server(w)
    c = s.client()
    c.list()
    at = c.result("pause", run="live")["env_steps"]
    assert f"step={at} event=pause" in (run / "journal").read_text()
    for change in ("agents.agent_0.polyac=1", "defaults.discount=2", "env.copies=8",
                   "run.env_steps=1", "nothing=1", "defaults.discount=<b>"):
        _, err = w.brood("set", run, change, code=2)
        message = c.error("set", run="live", change=change)
        assert err == f"brood set: {message}\n", (err, message)
    for change in ("env.command=[sh]", "env.plugin=x.so", "on.give_up=[sh]", "run.launcher=sh",
                   "cluster.options=[-oProxyCommand=sh]"):
        assert "cannot be set from the page" in c.error("set", run="live", change=change)
    assert "past" in c.error("set", run="live", change="defaults.polyak=0.5", at="1")
    assert "expected a whole number" in c.error("set", run="live", change="defaults.polyak=0.5", at="x")
    result = c.result("set", run="live", change="defaults.discount=0.9")
    assert result["changes"] == "defaults.discount=0.9", result
    c.result("set", run="live", change="defaults.polyak=0.5", at=str(LONG - 1))
    # A supervisor that has not answered for two seconds is shown by what it has written.
    harness.wait_until("both changes wait", lambda: {
        p["key"] for p in harness.json_lines(w.brood("status", run, "--json")[0])[0]["pending"]
    } == {"defaults.discount", "defaults.polyak"})
    c.result("cancel", run="live", key="defaults.polyak")
    assert c.result("continue", run="live")["was_paused"]
    harness.wait_until("the change", lambda: "event=changed" in (run / "journal").read_text())
    config = {k: v for k, v, _ in c.result("config", run="live")}
    assert config["defaults.discount"] == "0.9" and config["defaults.polyak"] != "0.5"
    restarts = {}

    def take(m):
        if m.get("push") == "run":
            restarts.update({a["name"]: a["restarts"] for a in m["status"]["agents"]})
        return restarts.get("agent_1") == 1
    c.result("kill", run="live", agent="agent_1")
    c.until("a restart", take)
    _, err = w.brood("kill", run, "agent_9", code=3)
    assert err == f"brood kill: {c.error('kill', run='live', agent='agent_9')}\n", err
    before = (run / "journal").read_text().count("event=checkpoint")
    c.result("checkpoint", run="live")
    assert (run / "journal").read_text().count("event=checkpoint") > before
    supervisor = harness.holder_of(run)
    harness.kill(supervisor, signal.SIGSTOP)
    harness.wait_until("it is stopped", lambda: harness.look_at(supervisor)[0] == "T")
    try:
        assert "`kill -CONT" in c.error("pause", run="live")
        c.until("it is silent", lambda m: m.get("push") == "run" and
                m["status"]["state"] == "suspended")
    finally:
        harness.kill(supervisor, signal.SIGCONT)
    c.until("it answers", lambda m: m.get("push") == "run" and m["status"]["state"] == "running")
    c.result("stop", run="live")
    harness.wait_until("its end", lambda: "event=end" in (run / "journal").read_text())
    assert "not running" in c.error("pause", run="live") or harness.holder_of(run)


def test_commands_are_executed_for_a_page(w):
    """With their checks and messages; a run that is resumed has the priority of others."""
    run = live_run(w)
    w.brood("run", w.small(steps=200), "--name", "over", "-q")
    c = Server(w).client()
    c.list()
    for name, method, more, args in (
            ("live", "rm", {}, ["rm", run]), ("live", "resume", {}, ["resume", run]),
            ("over", "tag", {"remove": "none"}, ["tag", "over", "--remove", "none"]),
            ("over", "tag", {"add": "-x y"}, ["tag", "over", "--", "-x y"])):
        _, err = w.brood(*args, code=2)
        assert err == f"brood {method}: {c.error(method, run=name, **more)}\n", (method, err)
    assert "expected a tag" in c.error("tag", run="over")
    assert c.result("tag", ("add", "a"), ("add", "b"), ("note", "figure 3"), run="over") == "over: a, b; figure 3"
    harness.wait_until("the tags", lambda: c.list()["over"]["tags"] == ["a", "b"])
    assert c.result("tag", ("remove", "a"), ("note", ""), run="over") == "over: b"
    harness.wait_until("no note", lambda: c.list()["over"]["note"] is None)
    assert "was removed" in c.result("rm", run="over") and not w.run_dir("over").exists()
    c.until("its removal", lambda m: m.get("names") == ["live"])
    supervisor = harness.holder_of(run)
    c.result("stop", run="live")
    harness.wait_until("its end", lambda: not harness.alive(supervisor))
    assert "live: running as pid" in c.result("resume", run="live")
    assert niceness_of(harness.holder_of(run)) == os.nice(0)
    w.brood("stop", run)


def test_commands_get_the_folder_of_runs(w):
    """Of the server: theirs would be ./runs, or $BROOD_RUNS_DIR."""
    w.brood("run", w.small(steps=200), "--name", "over", "-q")
    program = w.write("says", '#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    c = Server(w, program=program).client()
    c.list()
    assert c.result("rm", run="over") == f"rm --runs-dir {w.runs} -- {w.run_dir('over')}"
    assert c.result("tag", run="over", add="-x") == f"tag --runs-dir {w.runs} -- {w.run_dir('over')} -x"


STEERING = (("pause", {}), ("continue", {}), ("checkpoint", {}), ("stop", {}),
            ("kill", {"agent": "agent_0"}), ("respawn", {"agent": "agent_0"}),
            ("set", {"change": "defaults.discount=0.9"}), ("cancel", {}),
            ("rm", {}), ("resume", {}), ("tag", {"add": "a"}))


def test_read_only(w):
    run = live_run(w)
    c = Server(w, "--read-only").client()
    hello = c.until("hello", lambda m: m.get("push") == "hello")
    assert hello["read_only"] and hello["host"] == socket.gethostname(), hello
    c.list()
    before = (run / "journal").read_text()
    for method, more in STEERING:
        assert "read-only" in c.error(method, run="live", **more), method
    assert c.result("config", run="live")
    events = set(re.findall(r"event=(\w+)", (run / "journal").read_text()[len(before):]))
    assert not events - {"checkpoint"}, events


def two_folders(w):
    """Those of anna and ben: each has a run "same", and anna a study."""
    folders = [w.path / user / "runs" for user in ("anna", "ben")]
    for steps, folder in ((200, folders[0]), (400, folders[1])):
        w.brood("run", w.small(steps=steps, evaluate=100), "--name", "same", "-q", "--runs-dir", folder)
    study = w.write("lr.yaml", f"base: {w.small(steps=100, evaluate=0, checkpoint=0)}\n"
                    "search:\n  defaults.discount: [0.9, 0.95]\nseeds: [1]\n")
    w.brood("sweep", study, "-q", "--runs-dir", folders[0])
    return folders


def folders_of(c):
    """The folders of a list, by label."""
    c.result("list", on="false")
    c.result("list")
    return {f["folder"]: f for f in c.until("the folders", lambda m: m.get("folders"))["folders"]}


def test_folders_of_several_users_are_shown_side_by_side(w):
    """Read-only; runs of the same name are told apart, and everything is served of each."""
    anna, ben = two_folders(w)
    s = Server(w, folders=(anna, ben))
    c = s.client()
    assert c.until("hello", lambda m: m.get("push") == "hello")["read_only"]
    runs = c.list()
    trials = [f"anna/lr/{k}-s1" for k in (1, 2)]
    assert set(runs) == {"anna/same", "ben/same", *trials}, runs.keys()
    assert [runs[f"{user}/same"]["env_steps"] for user in ("anna", "ben")] == [200, 400]
    assert {r["folder"] for r in runs.values()} == {"anna", "ben"}
    assert runs[trials[0]]["study"] == "anna/lr" and runs["ben/same"]["study"] is None
    assert len(c.result("study", study="anna/lr")["trials"]) == 2
    assert "there is no study" in c.error("study", study="ben/lr")
    assert folders_of(c) == {f"{user}": {"folder": f"{user}", "path": str(path), "why": None}
                             for user, path in (("anna", anna), ("ben", ben))}
    for user, path in (("anna", anna), ("ben", ben)):
        name, run = f"{user}/same", path / "same"
        assert s.file(name)[2].encode("latin-1") == (run / "metrics" / "progress.csv").read_bytes()
        assert ["run.env_steps", str(runs[name]["env_steps"]), True] in c.result("config", run=name)
        assert c.result("checkpoints", run=name)[0]["step"] == runs[name]["env_steps"]
        assert "agent_0" in c.result("logs", run=name) and c.result("record", run=name)["seconds"] > 0
        assert c.result("pictures", run=name) == []
        assert c.result("evaluate", run=name, seed=3)[0]["seed"] == 3
        c.result("watch", run=name)
        c.until("a view", lambda m, name=name: m.get("push") == "run" and m["run"] == name and m["status"]["state"] == "done")
    for method, more in STEERING:
        assert "read-only" in c.error(method, run="anna/same", **more), method
    for name in ("same", "runs/same", "anna/runs/same", "anna/../../ben/same", f"{anna}/same"):
        assert "there is no run" in c.error("config", run=name), name
        assert s.file(name)[0] == 404, name


def test_commands_get_the_folder_of_the_run(w):
    anna, ben = two_folders(w)
    program = w.write("says", '#!/bin/sh\necho "$@" >&2\nexit 1\n')
    program.chmod(0o755)
    c = Server(w, program=program, folders=(anna, ben)).client()
    c.list()
    for folder, name in ((anna, "same"), (ben, "same"), (anna, "lr/2-s1")):
        says = c.error("evaluate", run=f"{folder.parent.name}/{name}")
        assert f"--runs-dir {folder} " in says and says.endswith(f" -- {folder}/{name}"), says


def test_a_folder_that_is_lost_is_said_to_be(w):
    """And shown again when it comes back; the others are shown meanwhile."""
    anna, ben = two_folders(w)
    away = w.path / "away"
    ben.rename(away)
    s = Server(w, folders=(anna, ben))
    c = s.client()
    assert len(c.list()) == 3
    for _ in range(2):
        found = folders_of(c)
        assert found["ben"]["why"] == f"{ben}: No such file or directory" and found["anna"]["why"] is None, found
        away.rename(ben)
        c.until("its run", lambda m: any(r["run"] == "ben/same" for r in m.get("runs", ())))
        assert folders_of(c)["ben"]["why"] is None
        assert c.result("config", run="ben/same") and c.result("config", run="anna/same")
        ben.rename(away)
        c.until("that its run is gone", lambda m: m.get("names") and "ben/same" not in m["names"])
        assert "there is no run" in c.error("config", run="ben/same")
    assert s.process.poll() is None
    lines = s.process.log.read_text().splitlines()
    assert len(lines) == 3 and set(lines) == {f"brood web: {ben}: No such file or directory"}, lines


def test_a_folder_is_called_after_its_owner(w):
    """Whom who looks at it may not be: what may not be read is said to be."""
    setpriv = shutil.which("setpriv")
    users = [u for u in ("daemon", "bin", "games") if u in {p.pw_name for p in pwd.getpwall()}]
    if os.geteuid() != 0 or setpriv is None or len(users) < 3:
        raise harness.Skip("only root has files of several users")
    folders = [*two_folders(w), w.path / "closed"]
    folders[2].mkdir()
    w.path.chmod(0o777)
    harness.copy_run(folders[1] / "same", folders[1] / "secret")
    for user, folder in zip(users, folders):
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, user, user)
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    for path in (folders[1] / "secret", folders[2]):
        path.chmod(0o700)
    nobody = (setpriv, "--reuid=65534", "--regid=65534", "--clear-groups")
    try:
        s = Server(w, folders=folders, prefix=nobody)
    except (AssertionError, PermissionError) as e:
        raise harness.Skip("somebody else may not execute what was built here") from e
    c = s.client()
    runs = c.list()
    assert set(runs) == {"daemon/same", "daemon/lr/1-s1", "daemon/lr/2-s1", "bin/same", "bin/secret"}, runs.keys()
    assert (runs["bin/same"]["state"], runs["bin/secret"]["state"]) == ("done", "no permission"), runs
    assert runs["bin/same"]["why"] is None and "its owner alone" in runs["bin/secret"]["why"]
    assert "belongs to" in c.error("evaluate", run="bin/same")   # its configuration may name programs
    assert "Permission denied" in c.error("config", run="bin/secret")
    found = folders_of(c)
    assert found["games"]["why"] == f"{folders[2]}: Permission denied" and found["bin"]["why"] is None, found


def test_fifty_browsers_share_one_connection(w):
    """And the end of `brood web`, however it comes, is nothing to the run."""
    run = live_run(w)
    supervisor = harness.holder_of(run)
    before = sockets_of(supervisor)
    s = Server(w)
    clients = [s.client() for _ in range(50)]
    for c in clients:
        c.result("list")
    clients[0].until("the run is known", lambda m: "live" in m.get("names", []))
    for c in clients:
        c.result("watch", run="live")
        c.until("a view", lambda m: m.get("push") == "run")
    assert sockets_of(supervisor) == before + 1
    assert clients[0].result("pause", run="live")["env_steps"] > 0
    for c in clients:
        c.until("the pause", lambda m: m.get("push") == "run" and m["status"]["state"] == "paused")
    assert refused_at_last(s)
    harness.kill(s.process.pid)
    s.process.wait(timeout=harness.DEADLINE_S)
    assert harness.json_lines(w.brood("status", run, "--json")[0])[0]["state"] == "paused"
    w.brood("continue", run)
    assert harness.alive(supervisor)


def sockets_of(pid):
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):   # it was open for a moment
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return sum(name.startswith("socket:") for name in names)


def refused_at_last(s):
    """Whether connections are bounded."""
    more = []
    try:
        for _ in range(200):
            more.append(s.client().socket)
    except (Refused, ConnectionError, OSError):
        return True
    finally:
        for one in more:
            one.close()
    return False


def test_a_reader_that_does_not_read_takes_no_memory(w):
    w.brood("run", w.small(steps=2000), "--name", "over", "-q")
    with open(w.run_dir("over") / "logs" / "agent_0.log", "wb") as f:
        f.truncate(400 << 20)
    s = Server(w)
    other = s.client()
    other.list()

    def rss_kib():
        status = open(f"/proc/{s.process.pid}/status").read()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])
    other.result("record", run="over")
    before = rss_kib()
    c = s.client()
    c.socket.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    c.socket.sock.settimeout(0.5)
    with contextlib.suppress(TimeoutError):   # once nothing more is taken from it
        for _ in range(20000):
            c.send("record", run="over")
    parts = [raw(s, "GET /file?run=over&name=agent_0 HTTP/1.1\r\n{host}Range: bytes=0-\r\n"
                 f"Authorization: Bearer {s.token}\r\n\r\n") for _ in range(60)]
    for _ in range(5):   # others are served
        other.result("config", run="over")
    assert s.file("over", "agent_0")[0] == 206
    grown = rss_kib() - before
    print(f"# {grown} KiB more, {len(parts)} parts unread")
    assert harness.SANITIZED or grown < 64 << 10, grown


# Of damaged_runs.py: one of each way in which a run costs time.
DAMAGED = ("huge-tags", "huge-journal", "huge-logs-agent_0.log", "zeros-metrics-progress.csv", "wide",
           "wide-and-long", "long-journal", "fifo-journal", "fifo-lock", "fifo-config.yaml", "many-logs",
           "many-checkpoints", "deep", "yaml", "live-floods", "live-silent", "live-slow")


def test_a_neighbours_run_holds_up_nobody(w):
    """In a folder that users share: whatever a run is, each request about it has its answer within
    seconds, and what is asked of other runs meanwhile is answered at once."""
    w.brood("run", w.small(steps=200, checkpoint=int(damaged_runs.STEP)), "--name", "mine", "-q")
    names, pretenders = damaged_runs.make(w.runs, w.run_dir("mine"), lambda name: name in DAMAGED)
    try:
        ask_about_all(w, names)
    finally:
        for p in pretenders:
            p.close()


def ask_about_all(w, names):
    s = Server(w)
    c, mine = s.client(), s.client()
    harness.wait_until("the list", lambda: "result" in mine.ask("logs", run="mine"))
    harness.wait_until("the neighbour's runs", lambda: all(
        "there is no run" not in c.ask("logs", run=name).get("error", {}).get("message", "") for name in names))
    waits, longest = {}, 0
    for name in names:
        for method in ("watch", "config", "checkpoints", "logs"):
            waits[c.send(method, run=name)] = f"{method} {name}"
    parts = concurrent.futures.ThreadPoolExecutor()
    files = [parts.submit(s.file, name, file) for name in names for file in ("metrics/progress.csv", "journal", "agent_0")]
    watch, patience = harness.Stopwatch(), harness.allowed_s(1)
    while waits:
        if c.socket.buffer or select.select([c.socket.sock], [], [], 0.01)[0]:
            waits.pop(c.socket.receive_json().get("id"), None)
        before = watch.seconds()
        assert len(mine.result("logs", run="mine")) > 1
        longest = max(longest, watch.seconds() - before)
        assert watch.seconds() < 60 * patience, waits
    assert {one.result()[0] for one in files} <= {200, 206, 404, 503}
    print(f"# all after {watch.seconds():.1f} s, those of another run within {longest:.2f} s")
    assert longest < patience, longest
    runs = mine.list()
    assert runs["mine"]["state"] == "done" and set(runs) == {"mine", *names}
    s.process.send_signal(signal.SIGTERM)   # also while a thread reads
    assert s.process.wait(timeout=harness.DEADLINE_S) == 0


def test_runs_go_first(w):
    """The page's server has a lower priority than what starts it."""
    s = Server(w)
    assert niceness_of(s.process.pid) == min(os.nice(0) + 5, 19)


def test_it_has_threads_and_descriptors_enough_or_says_so(w):
    """Threads in place of those that hang in what they read, and descriptors for all connections."""
    w.runs.mkdir()
    for limit, is_enough in (("64:4096", True), ("64:500", False)):
        p = w.start("--program", harness.BROOD, w.runs, program=WEB, prefix=("prlimit", f"--nofile={limit}"))
        harness.wait_until("the address or an error", lambda p=p: harness.output(p) or p.poll() is not None)
        if is_enough:
            assert len(os.listdir(f"/proc/{p.pid}/task")) > 16
        else:
            says = p.log.read_text()
            assert p.returncode == 1 and "at most 500 open files" in says and says.count("\n") == 1, says


def test_nothing_is_pushed_twice(w):
    """Of an empty folder, too; what is new comes at once."""
    c = Server(w).client()
    assert c.list() == {}
    pushed = []
    for _ in range(20):   # answers come in between, if anything does
        c.result("list", on="false")
    pushed += [m for m in c.pushed if m.get("push") == "list"]
    assert not pushed, pushed[:3]


def test_it_ends_in_order(w):
    for signum in (signal.SIGINT, signal.SIGTERM):
        s = Server(w)
        c = s.client()
        c.result("list")
        s.process.send_signal(signum)
        s.process.wait(timeout=harness.DEADLINE_S)
        assert s.process.returncode == 0 and not s.process.log.read_text(), s.process.log.read_text()


def test_errors_are_one_line(w):
    s = Server(w)
    (w.path / "a-run").mkdir()
    for args, code, says in (
            (["--port", s.port, w.runs], 1, f"port {s.port} is in use"),
            (["nothing-here"], 3, "there is no folder nothing-here"),
            (["--port", "99999"], 2, "--port 99999: expected a whole number from 0 to 65535"),
            ([w.write("a-run/config.yaml", "").parent], 2, "is a run: name the folder"),
            ([w.runs, w.runs / "."], 2, "are the same folder"),
            ([w.runs, w.path / "a-run"], 2, "is a run: name the folder"),
            (["a", "b"], 3, "there is no folder a")):
        _, err = w.brood("web", *args, code=code)
        assert err.startswith("brood web: ") and says in err and err.count("\n") == 1, err
    place = w.path / "alone"
    place.mkdir()
    shutil.copy(harness.BROOD, place / "brood")
    _, err = w.brood("web", program=place / "brood", code=1)
    assert "libwebsockets-dev" in err and err.count("\n") == 1, err
    assert "websockets" not in subprocess.run(["ldd", harness.BROOD], capture_output=True,
                                              text=True, check=False).stdout


if __name__ == "__main__":
    harness.main()
