#!/usr/bin/python3
"""Drives a run without an environment: four critics, each in a process of its own.

    scripts/brood run configs/node_critics.yaml --name critics -q &
    scripts/drive_critics.py runs/critics --updates 200

This client decides, the critics compute: it asks each critic for the values of the next
states, computes the targets itself, and lets each critic learn from them with importance
weights. Kill a critic at any moment (kill -9): brood starts it again in the same state, the
answer arrives a little later, and the run ends with the same bytes.

Requests are msgpack-rpc over the run's control.sock; a tensor is [dtype, [dims], bytes],
dtype 1 float32, little-endian, row-major. `fetches` are tensors by name; `targets` are
operations; a request with targets changes variables. Needs python3-msgpack.
"""
import argparse
import array
import os
import random
import socket
import sys
import time

import msgpack

FLOAT = 1
STATE, ACTION, BATCH = 54, 15, 32
DISCOUNT = 0.95


class Run:
    """A client of a run's control socket. Several requests may be outstanding."""

    def __init__(self, folder, patience_s=30):
        # A socket's path is limited to 107 bytes; one through the folder's descriptor is short.
        self.folder = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self.socket = socket.socket(socket.AF_UNIX)
        self.unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 27)
        self.next_id = 0
        self.answers = {}
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self.socket.connect(f"/proc/self/fd/{self.folder}/control.sock")
                return
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def send(self, method, **params):
        """Asks; returns what to give to `answer`."""
        self.next_id += 1
        self.socket.sendall(msgpack.packb([0, self.next_id, method, params]))
        return self.next_id

    def receive(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the run is over")
        self.unpacker.feed(data)
        for message in self.unpacker:
            if message[0] == 1:
                self.answers[message[1]] = message[2:]

    def answer(self, request):
        """Waits for the answer to a request."""
        while request not in self.answers:
            self.receive()
        error, result = self.answers.pop(request)
        if error is not None:
            raise RuntimeError(error["message"] if isinstance(error, dict) else error)
        return result

    def call(self, method, **params):
        return self.answer(self.send(method, **params))


def tensor(values, *shape):
    return [FLOAT, list(shape), array.array("f", values).tobytes()]


def floats(value):
    return array.array("f", value[2])


class Critic:
    """One critic: its name, and the samples it learns from."""

    def __init__(self, run, name, seed):
        self.run, self.name = run, name
        self.random = random.Random(f"{seed} {name}")

    def __repr__(self):
        return self.name

    def uniform(self, n):
        return [self.random.uniform(-1, 1) for _ in range(n)]

    def ask(self, fetches, targets=(), **feeds):
        return self.run.send("run", agent=self.name,
                             feeds={f"{self.name}/{k}:0": v for k, v in feeds.items()},
                             fetches=[f"{self.name}/{x}:0" for x in fetches],
                             targets=[f"{self.name}/{x}" for x in targets])

    def draw(self):
        """Draws a batch: states, joint actions, rewards, next states and actions, weights."""
        self.state = self.uniform(BATCH * STATE)
        self.action = self.uniform(BATCH * ACTION)
        self.reward = [sum(self.state[i * STATE:i * STATE + 3]) for i in range(BATCH)]
        self.next_state = self.uniform(BATCH * STATE)
        self.next_action = self.uniform(BATCH * ACTION)
        self.weight = [self.random.uniform(0.5, 1) for _ in range(BATCH)]

    def predict(self):
        return self.ask(["target_q"], inputs=tensor(self.next_state, BATCH, STATE),
                        action=tensor(self.next_action, BATCH, ACTION))

    def train(self, answer):
        q = floats(answer["fetched"][0])
        y = [r + DISCOUNT * v for r, v in zip(self.reward, q)]
        return self.ask(["loss"], ["train", "update_target"],
                        inputs=tensor(self.state, BATCH, STATE),
                        action=tensor(self.action, BATCH, ACTION),
                        q_predicted=tensor(y, BATCH, 1),
                        is_weight=tensor(self.weight, BATCH, 1))


def drive(run, critics, updates):
    for update in range(1, updates + 1):
        for critic in critics:
            critic.draw()
        asked = [critic.predict() for critic in critics]
        asked = [critic.train(run.answer(x)) for critic, x in zip(critics, asked)]
        losses = [floats(run.answer(x)["fetched"][0])[0] for x in asked]
        if update % 50 == 0 or update == updates:
            print(f"update {update}:",
                  "  ".join(f"{c} {x:.5f}" for c, x in zip(critics, losses)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="the run's folder")
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="seed of the samples")
    parser.add_argument("--stop", action="store_true", help="end the run afterwards")
    args = parser.parse_args()
    run = Run(args.run)
    while (status := run.call("status"))["state"] == "starting":
        time.sleep(0.01)
    names = [agent["name"] for agent in status["agents"]]
    drive(run, [Critic(run, name, args.seed) for name in names], args.updates)
    run.call("stop" if args.stop else "checkpoint")


if __name__ == "__main__":
    sys.exit(main())
