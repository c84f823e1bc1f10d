#!/usr/bin/env python3
"""Measure what browsers at the page of `brood web` cost a run: steps per second, and processor
time of the run's processes per step, with 50 open pages against none. Both are measured in one
run, in alternating slices. Then, if there is a Chromium, how soon a list of 100 runs is painted.

    BROOD_BUILD_DIR=build tests/bench/bench_web.py [--pages 50] [--pairs 4]

A page here is a client that asks for what the page of a run asks for (page/run.js) and draws
nothing. All of them are one process of the lowest priority.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
WARM_STEPS, SLICE_STEPS, GOAL = 40000, 100000, 0.02
RUNS, ROWS, PAINT_GOAL_S = 100, 1000, 0.5
MARK = 1024   # of page/net.js

sys.path.insert(0, str(HERE.parent / "support"))
import chromium
from websocket import WebSocket


class Server:
    """A `brood web`, and its token."""

    def __init__(self, runs):
        self.process = subprocess.Popen([BROOD, "web", "--json", "--read-only", runs],
                                        stdout=subprocess.PIPE, text=True)
        fact = json.loads(self.process.stdout.readline())
        self.url, self.port = fact["url"], fact["port"]
        self.token = self.url.partition("#token=")[2]

    def close(self):
        self.process.terminate()
        self.process.wait()


# ---- pages: a process of their own ----

class Page(threading.Thread):
    """What page/net.js, page/list.js and page/run.js ask for and are sent."""

    def __init__(self, port, token):
        super().__init__(daemon=True)
        self.socket = WebSocket("127.0.0.1", port, "/live", [
            ("Sec-WebSocket-Protocol", "brood"), ("Origin", f"http://127.0.0.1:{port}")], timeout_s=600)
        self.port, self.token = port, token
        self.id, self.rows, self.at = 0, -1, 0
        self.bytes = self.views = self.answers = 0
        self.is_ready = threading.Event()
        self.ask("hello", ("token", token))

    def ask(self, method, *pairs):
        self.id += 1
        self.socket.send(f"{self.id} {method} {urllib.parse.urlencode(pairs)}")

    def read_rows(self):
        """What was appended, after the last KiB once more."""
        while True:
            request = urllib.request.Request(
                f"http://127.0.0.1:{self.port}/file?run=b&name=metrics/progress.csv", headers={
                    "Authorization": f"Bearer {self.token}", "Range": f"bytes={max(0, self.at - MARK)}-"})
            with urllib.request.urlopen(request) as answer:
                self.bytes += len(answer.read())
                place = answer.headers["Content-Range"] or "0-0/1"
            self.answers += 1
            self.at = int(place.split("-")[1].split("/")[0]) + 1
            if self.at == int(place.split("/")[1]):
                break
        self.is_ready.set()

    def run(self):
        self.ask("list")
        self.ask("watch", ("run", "b"))
        while True:
            text = self.socket.receive()
            self.bytes += len(text)
            message = json.loads(text)
            if message.get("push") == "run":
                self.views += 1
                if message["rows"] != self.rows:
                    self.rows = message["rows"]
                    self.read_rows()


def be_pages(port, token, n):
    """Until stdin ends; then prints what they were sent since the line before."""
    os.nice(19)
    pages = [Page(port, token) for _ in range(n)]
    for page in pages:
        page.start()
    for page in pages:
        page.is_ready.wait()
    print("ready", flush=True)
    sys.stdin.readline()
    before = [(p.bytes, p.views, p.answers) for p in pages]
    sys.stdin.readline()
    after = [(p.bytes, p.views, p.answers) for p in pages]
    print(json.dumps([sum(a[i] - b[i] for a, b in zip(after, before)) for i in range(3)]), flush=True)


# ---- slices of a run ----

def cpu_s(*pids):
    """The processor time of these processes, threads included."""
    total = 0
    for pid in pids:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        total += sum(map(int, stat[stat.rindex(")") + 2:].split()[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def status_of(run):
    said = subprocess.run([BROOD, "status", run, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(said.stdout)


def slice_of(run, web, pages):
    """Runs SLICE_STEPS steps: seconds and processor time for each of them, and what the pages
    were sent a second each."""
    client = subprocess.Popen([sys.executable, __file__, "--be-pages", str(pages), "--port",
                               str(web.port), "--token", web.token], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) if pages else None
    if client:
        client.stdout.readline()
        print(file=client.stdin, flush=True)
    status = status_of(run)
    supervisor, agents = status["pid"], [a["pid"] for a in status["agents"]]

    def look():
        return (time.monotonic(), cpu_s(supervisor, *agents), cpu_s(supervisor),
                cpu_s(web.process.pid), cpu_s(client.pid) if client else 0,
                status_of(run)["env_steps"])
    before = look()
    while status_of(run)["env_steps"] < before[-1] + SLICE_STEPS:
        time.sleep(0.5)
    *spent, steps = (b - a for a, b in zip(before, look()))
    sent = [0, 0, 0]
    if client:
        print(file=client.stdin, flush=True)
        sent = json.loads(client.stdout.readline())
        client.stdin.close()
        client.wait()
    keys = ("wall", "run", "supervisor", "web", "clients")
    return {**{k: s / steps * 1e6 for k, s in zip(keys, spent)},   # us a step
            **{k: n / pages / spent[0] if pages else 0 for k, n in zip(("bytes", "views", "answers"), sent)}}


def measure_load(runs, pages, pairs):
    p = subprocess.Popen([BROOD, "run", ROOT / "configs" / "simple_spread.yaml", "-q", "--runs-dir",
                          runs, "--name", "b", "--set", "run.env_steps=1000000000"],
                         stderr=subprocess.DEVNULL)
    run = pathlib.Path(runs) / "b"
    while not (run / "control.sock").exists():
        time.sleep(0.01)
    while status_of(run)["env_steps"] < WARM_STEPS:
        time.sleep(0.5)
    web = Server(runs)
    slices = {0: [], pages: []}
    try:
        for i in range(pairs):
            for n in ((0, pages), (pages, 0))[i % 2]:   # neither is always the first
                slices[n].append(slice_of(run, web, n))
            alone, loaded = slices[0][-1], slices[pages][-1]
            print(f"pair {i + 1}: wall {loaded['wall'] / alone['wall']:.3f}, processor time of the run "
                  f"{loaded['run'] / alone['run']:.3f}, of its supervisor "
                  f"{loaded['supervisor'] / alone['supervisor']:.3f}", flush=True)
    finally:
        web.close()
        p.terminate()
        p.wait()
    alone, loaded = ({k: statistics.median(s[k] for s in slices[n]) for k in slices[n][0]} for n in (0, pages))
    for key, what in (("wall", "time"), ("run", "processor time of the run's processes"),
                      ("supervisor", "of these, its supervisor's")):
        ratio = statistics.median(b[key] / a[key] for a, b in zip(slices[0], slices[pages]))
        print(f"{what}, us a step: {alone[key]:.2f} alone, {loaded[key]:.2f} with {pages} pages: "
              f"{(ratio - 1) * 100:+.1f} %" + (f" (goal: less than {GOAL * 100:.0f} %, on an idle machine)"
                                               if key == "wall" else ""))
    for key, what in (("web", "brood-web"), ("clients", "the pages' own process")):
        print(f"{what} takes {100 * loaded[key] / loaded['wall']:.1f} % of a core, "
              f"{100 * loaded[key] / loaded['run']:.1f} % of what the run does")
    print(f"a page is sent {loaded['bytes'] / 1000:.1f} kB, {loaded['views']:.1f} views and "
          f"{loaded['answers']:.1f} pieces of curves a second")


# ---- the list ----

PAINTED = """(() => {
  const look = () => {
    const rows = [...document.querySelectorAll('tr[data-run]')];
    if (rows.length >= %d && rows.every(r => r.querySelector('.state').dataset.state))
      setTimeout(() => { window.painted = performance.now(); });
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""


def measure_paint(runs):
    runs = pathlib.Path(runs)
    subprocess.run([BROOD, "run", ROOT / "configs" / "simple_spread.yaml", "-q", "--runs-dir", runs,
                    "--name", "r0", "--set", "run.env_steps=6400", "--set", "log.every_env_steps=640"],
                   check=True, stderr=subprocess.DEVNULL)
    csv = runs / "r0" / "metrics" / "progress.csv"
    head, *rows = csv.read_text().splitlines()
    csv.write_text("\n".join([head, *(rows * ROWS)[:ROWS]]) + "\n")
    for i in range(1, RUNS):
        shutil.copytree(runs / "r0", runs / f"r{i}")
    with chromium.Browser() as browser:
        for name in ("a new server", "the same again"):
            if name == "a new server":
                web = Server(runs)
            page = browser.page("about:blank?")
            page.call("Page.addScriptToEvaluateOnNewDocument", source=PAINTED % RUNS)
            page.go(web.url)
            seconds = page.wait("window.painted") / 1000
            print(f"{RUNS} runs of {ROWS} rows, {name}: all are painted after {seconds:.2f} s "
                  f"(goal: {PAINT_GOAL_S} s)")
            page.close()
        web.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=4)
    for name in ("--be-pages", "--port", "--token"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.be_pages:
        be_pages(int(args.port), args.token, int(args.be_pages))
        return
    if not (BROOD.parent / "web" / "brood-web").exists():
        print("no brood-web: it is built if there is libwebsockets-dev")
        return
    with tempfile.TemporaryDirectory(prefix="brood-bench-") as runs:
        measure_load(runs, args.pages, args.pairs)
    if chromium.PROGRAM is not None:
        with tempfile.TemporaryDirectory(prefix="brood-bench-") as runs:
            measure_paint(runs)


if __name__ == "__main__":
    main()
