#!/usr/bin/env python3
"""A client that sends valid and invalid requests to a live run, and checks every answer.

    control_load.py RUN_DIR (--seconds S | --requests N) [--rate N] [--window W] [--seed N]

For so long, or so many requests. Sends N requests per second or, without --rate, as many as
are answered, with W requests outstanding at once. It runs with nice 19, like a dashboard.
Prints one line of JSON: the numbers of requests and answers, the first few wrong answers, how
often it was disconnected (which it provokes, and then connects again), and the answer times.
Needs python3-msgpack.
"""
import argparse
import json
import os
import random
import socket
import statistics
import time

import msgpack

AGENTS = ["agent_0", "agent_1", "agent_2"]
CHANGE = "agents.agent_1.optimizer.learning_rate=0.002"
GARBAGE = b"\xc1\xdd\xff\x00\x00\x00"
PATIENCE_S = 60


class Wrong(Exception):
    pass


def check(what, holds):
    if not holds:
        raise Wrong(what)


class Client:
    def __init__(self, folder):
        self.folder = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self.next_id = self.env_steps = 0
        self.connect()

    def connect(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(f"/proc/self/fd/{self.folder}/control.sock")
        self.unpacker = msgpack.Unpacker(raw=False)

    # ---- expected answers ----

    def is_status(self, result):
        check(f"status: {result}", result["state"] == "running" and
              [a["name"] for a in result["agents"]] == AGENTS)
        check(f"{result['env_steps']} steps after {self.env_steps}",
              result["env_steps"] >= self.env_steps)
        self.env_steps = result["env_steps"]

    def is_journal(self, result):
        lines = result["text"].splitlines()
        check(f"journal: {lines}", lines and all(x.startswith(b"20") and b" event=" in x
                                                 for x in lines))

    def is_text(self, result):
        check(f"log: {result}", list(result) == ["text"] and len(result["text"]) <= 100)

    def is_change(self, result):
        """Expect a change for the first request; later ones find the value set already."""
        check(f"set: {result}", result["changes"] in ("", CHANGE) and not result["waits"])

    def is_continued(self, result):
        check(f"continued: {result}", result["was_paused"] is False and
              result["env_steps"] >= self.env_steps)

    # How often, the method, its params, and what the answer is: a check of the result, or
    # a part of the error's text.
    ASK = (
        (12, "status", {}, is_status),
        (4, "logs", {}, is_journal),
        (4, "logs", {"agent": "agent_1", "bytes": 100}, is_text),
        (4, "continue", {}, is_continued),
        (1, "set", {"changes": [CHANGE]}, is_change),
        (2, "fly", {}, "there is no method 'fly'"),
        (2, "kill", {}, "agent is missing"),
        (2, "kill", {"agent": "bob"}, "there are: agent_0, agent_1, agent_2"),
        (2, "respawn", {"agent": 7}, "agent"),
        (2, "logs", {"agent": "../journal"}, "no agent ../journal"),
        (2, "logs", {"bytes": 1 << 30}, "bytes"),
        (2, "set", {}, "changes is missing"),
        (1, "set", {"changes": ["defaults.discount=2"]}, "discount"),
        (1, "set", {"changes": ["no.such.key=1"]}, "no.such.key"),
        (2, "run", {"agent": "agent_0", "targets": ["init"]}, "has an environment"),
    )

    # ---- requests ----

    def ask(self, draw, n):
        """Sends this many requests at once; every answer must come and be the expected one."""
        waiting, out = {}, []
        for row in draw.choices(self.ASK, self.weights, k=n):
            self.next_id = self.next_id % 0xffffffff + 1
            waiting[self.next_id] = row
            out.append(msgpack.packb([0, self.next_id, row[1], row[2]]))
        self.socket.sendall(b"".join(out))
        while waiting:
            self.receive()
            for message in self.unpacker:
                check(f"not asked for: {message}", message[0] == 1 and message[1] in waiting)
                self.judge(waiting.pop(message[1]), *message[2:])

    def judge(self, row, error, result):
        _, method, params, right = row
        what = f"{method} {params}: {error} {result}"
        if isinstance(right, str):
            check(what, result is None and right in error["message"])
            return
        check(what, error is None)
        right(self, result)

    def receive(self):
        data = self.socket.recv(1 << 16)
        check("the run let go of its client", data)
        self.unpacker.feed(data)

    def be_cut_off(self):
        """Sends a malformed message: gets an error, is disconnected, and can connect again."""
        self.socket.sendall(GARBAGE)
        said = b""
        while part := self.socket.recv(1 << 16):
            said += part
        check(f"cut off with {said}", b"error" in said)
        self.socket.close()
        self.connect()

    weights = [row[0] for row in ASK]


def keep_asking(client, args):
    draw = random.Random(args.seed)
    begin = time.monotonic()
    asked, cut_off, took = 0, 0, []
    while (now := time.monotonic()) < begin + (args.seconds or float("inf")) and \
            asked < (args.requests or float("inf")):
        if args.rate and now < (due := begin + asked / args.rate):
            time.sleep(due - now)
        before = time.monotonic()
        if draw.random() < 0.005:
            client.be_cut_off()
            cut_off += 1
            asked += 1
        else:
            client.ask(draw, args.window)
            asked += args.window
        took.append(time.monotonic() - before)
    took.sort()
    return {"asked": asked, "per_second": round(asked / (time.monotonic() - begin)),
            "cut_off": cut_off, "median_ms": round(statistics.median(took) * 1e3, 3),
            "p99_ms": round(took[len(took) * 99 // 100] * 1e3, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="the run's folder")
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--seconds", type=float)
    end.add_argument("--requests", type=int)
    parser.add_argument("--rate", type=float, help="requests a second")
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.nice(19)
    client = Client(args.run)
    try:
        print(json.dumps({**keep_asking(client, args), "wrong": None}))
    except (Wrong, OSError) as why:
        print(json.dumps({"asked": client.next_id, "wrong": f"{type(why).__name__}: {why}"}))


if __name__ == "__main__":
    main()
