#!/usr/bin/env python3
"""Measure what an action costs by `brood serve`: the time from a request to its answer, over TCP and
a Unix socket, as JSON and as msgpack, beside that of a step of `brood eval` (in which each agent acts
once, over the same pipes) and of a request that asks no agent. Then actions per second, by several
connections and in batches.

    BROOD_BUILD_DIR=build tests/bench/bench_serve.py [--requests 2000]
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
WIDTH, BATCH, CONNECTIONS, PAIRS = 18, 256, 8, 5
CONFIG = """
run: {name: served, env_steps: 400}
env: {id: simple_spread, copies: 4}
experience: {update_every: 100, batch_size: 32, warmup: 100}
evaluation: {every_env_steps: 0}
defaults: {algorithm: maddpg, actor: {hidden: [64, 64]}, critic: {hidden: [64, 64]}}
"""
ROWS = [[0.25 * (i % 7) for i in range(WIDTH)]] * BATCH


def http(path, token, body=None, kind="application/json"):
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\n" \
           f"Authorization: Bearer {token}\r\n"
    if body is not None:
        head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + (body or b"")


def packed(rows):
    """The request in msgpack, by hand: a map of agent and observation."""
    data = b"".join(struct.pack(f"<{WIDTH}f", *row) for row in rows)
    return b"\x82\xa5agent\xa7agent_0\xabobservation\xc6" + struct.pack(">I", len(data)) + data


def in_json(rows):
    return json.dumps({"agent": "agent_0",
                       "observation": rows if len(rows) > 1 else rows[0]}).encode()


def read_answer(s):
    data = b""
    while b"\r\n\r\n" not in data:
        data += s.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), data
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += s.recv(65536)


def seconds_each(s, request, n):
    """The median of n answers, and the 99th hundredth."""
    taken = []
    for _ in range(n):
        begun = time.perf_counter()
        s.sendall(request)
        read_answer(s)
        taken.append(time.perf_counter() - begun)
    taken.sort()
    return statistics.median(taken), taken[len(taken) * 99 // 100]


def answers_a_second(sockets, request, n):
    begun = time.perf_counter()
    for s in sockets:
        s.sendall(request)
    for i in range(n):
        s = sockets[i % len(sockets)]
        read_answer(s)
        s.sendall(request)
    for s in sockets:
        read_answer(s)
    return (n + len(sockets)) / (time.perf_counter() - begun)


def seconds_of_eval(runs, episodes):
    begun = time.perf_counter()
    out = subprocess.run([BROOD, "eval", "served", "--runs-dir", runs, "--episodes", str(episodes),
                          "--copies", "1", "--json"], check=True, capture_output=True, text=True)
    return time.perf_counter() - begun, json.loads(out.stdout)["length_mean"] * episodes


def step_of_eval(runs):
    """What further episodes take, so that the start of the processes does not count."""
    few, n_few = seconds_of_eval(runs, 10)
    many, n_many = seconds_of_eval(runs, 110)
    return (many - few) / (n_many - n_few)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--requests", type=int, default=2000)
    n = options.parse_args().requests
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "served.yaml")
        config.write_text(CONFIG)
        subprocess.run([BROOD, "run", config, "--runs-dir", folder, "-q"], check=True)
        path = os.path.join(folder, "socket")
        server = subprocess.Popen([BROOD, "serve", "served", "--runs-dir", folder, "--socket",
                                   path, "--json"], stdout=subprocess.PIPE, text=True)
        facts = json.loads(server.stdout.readline())
        token = facts["token"]

        def tcp():
            s = socket.create_connection(("127.0.0.1", facts["port"]))
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return s
        local = socket.socket(socket.AF_UNIX)
        local.connect(path)
        head = http("/act", token, in_json(ROWS[:1])).replace(
            b"Host: localhost", f"Host: localhost:{facts['port']}".encode())
        as_json = head
        as_msgpack = http("/act", token, packed(ROWS[:1]), "application/msgpack")
        cases = {"an action over TCP, JSON": (tcp(), as_json),
                 "a Unix socket, JSON": (local, as_json),
                 "a Unix socket, msgpack": (local, as_msgpack),
                 "a request that asks no agent": (local, http("/", token))}
        found = {name: [] for name in [*cases, "eval"]}
        for _ in range(PAIRS):
            for name, (s, request) in cases.items():
                found[name].append(seconds_each(s, request, n // PAIRS))
            found["eval"].append((step_of_eval(folder), 0))
        step = statistics.median(x for x, _ in found["eval"])
        print(f"a step of brood eval, one copy, three agents: {step * 1e6:.0f} us")
        for name in cases:
            median = statistics.median(x for x, _ in found[name])
            late = statistics.median(x for _, x in found[name])
            print(f"{name}: {median * 1e6:.0f} us ({late * 1e6:.0f} us in one of a hundred), "
                  f"{median / step:.2f} steps of eval")
        alone = answers_a_second([local], as_msgpack, n)
        several = answers_a_second([tcp() for _ in range(CONNECTIONS)], as_json, n)
        batches = answers_a_second([local], http("/act", token, packed(ROWS),
                                                 "application/msgpack"), n // 10) * BATCH
        print(f"actions a second: {alone:.0f} by one connection, {several:.0f} by {CONNECTIONS} "
              f"({several / alone:.2f}), {batches:.0f} in batches of {BATCH} "
              f"({batches / alone:.1f})")
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
