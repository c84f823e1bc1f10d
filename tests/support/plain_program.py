#!/usr/bin/env python3
"""An agent that is a program, on the protocol alone (common/msg/protocol.h), without NumPy.

It has one variable, w, of four numbers. It chooses by w and the observations' bytes, and learns
by adding to w what the rows of its batches are. FAULT in the environment breaks one thing:
    exit, raise, text    instead of describing itself
    hidden               it counts updates outside of its variable
    write                it writes a file
    waits                before it describes itself: for the file that GO names
    dies                 its first process, in the middle of the hundredth update
"""
import mmap
import os
import struct
import sys
import time
import zlib

import msgpack

IN, OUT, BLOCK, REQUEST = 3, 4, 5, 8
FAULTS = os.environ.get("FAULT", "").split("+")
DESCRIPTION = {
    "name": "plain", "summary": "adds up the numbers of rows", "use": "tests", "source": os.path.basename(__file__),
    "stages": "learn(all, writes)", "rows": "transitions", "defaults": {"discount": "0.5"}, "is": [],
    "identity": [f"plain_program.py {zlib.crc32(open(__file__, 'rb').read())}"],
    "settings": [
        {"key": "step", "type": "schedule", "doc": "what a row adds", "default": "0.25", "min": 0.0,
         "max": 1.0, "change": "setting", "flags": []},
        {"key": "words", "type": "choice", "doc": "of no use", "default": "few",
         "names": ["few", "many"], "flags": ["variables"]},
        {"key": "pace", "type": "choice", "doc": "slow: it begins when there is the file that GO names; never: it fails",
         "default": "even", "names": ["even", "slow", "never"], "change": "respawn", "flags": []}]}


def tensor(dtype, shape, data):
    return [dtype, shape, data]


class Agent:
    def __init__(self, conf):
        self.name, self.n_updates, self.is_first = conf["name"], 0, not conf["restored"]
        me = next(a for a in conf["agents"] if a["name"] == self.name)
        self.obs, self.width = me["obs"], me["action"]["width"]
        self.block = mmap.mmap(BLOCK, 4096)
        pace = conf["config"]["settings"]["pace"]
        if pace == "never":
            raise ValueError("it never begins")
        if pace == "slow":
            wait_for_go()
        step = conf["config"]["settings"]["step"]
        self.step = step if isinstance(step, float) else step[0]
        if not conf["restored"]:
            self.block[:20] = struct.pack("<5f", 1, 2, 3, 4, self.step)

    def describe(self):
        return {"variables": [[f"{self.name}/w", 1, [4], 0, "variables"],
                              [f"{self.name}/step", 1, [], 16, "local_variables"]],
                "block_bytes": 64, "carry": 0, "columns": [], "reads": [f"{self.name}/obs"],
                "stages": [{"name": "learn", "runner": "learners", "reads": [], "writes": True}],
                "portable": True}

    def act(self, body):
        obs, n = body["obs"][2], body["obs"][1][0]
        actions = b""
        for e in range(n):
            mine = obs[4 * self.obs * e:4 * self.obs * (e + 1)] + self.block[:16]
            choice = zlib.crc32(mine) % self.width
            actions += struct.pack(f"<{self.width}f", *(i == choice for i in range(self.width)))
        return {"actions": tensor(1, [n, self.width], actions)}

    def learn(self, body):
        w = list(struct.unpack("<4f", self.block[:16]))
        step, = struct.unpack("<f", self.block[16:20])
        rows = struct.unpack(f"<{len(body['rows'][2]) // 8}Q", body["rows"][2])
        for i, row in enumerate(rows):
            w[i % 4] += step * (row % 7)
        self.n_updates += 1
        if "hidden" in FAULTS:
            w[0] += self.n_updates
        if "dies" in FAULTS and self.is_first and self.n_updates == 100:
            self.block[:8] = bytes(8)
            os.abort()
        self.block[:16] = struct.pack("<4f", *w)
        return {"outputs": {}, "scalars": {"critic_loss": w[0], "first_weight": w[0]}}

    def set(self, body):
        for value in body["changes"].values():
            self.block[16:20] = struct.pack("<f", value)
        return {}

    def restore(self, body):
        if "block" in body:
            self.block[:64] = body["block"]
        places = {f"{self.name}/w": 0, f"{self.name}/step": 16}
        for name, (_, _, data) in body.get("values", {}).items():
            if name not in places:
                raise KeyError(f"no variable {name}")
            self.block[places[name]:places[name] + len(data)] = data
        return {}

    def handle(self, method, body):
        if method == "snapshot":
            return {"block": self.block[:64]}
        if method in ("act", "learn", "set", "restore"):
            return getattr(self, method)(body)
        return {}


def receive(fd, held):
    while len(held) < 4 or len(held) < 4 + int.from_bytes(held[:4], "little"):
        more = os.read(fd, 1 << 16) or (os.read(IN, 1 << 16) if fd == REQUEST else b"")
        if not more:
            return None
        held += more
    n = 4 + int.from_bytes(held[:4], "little")
    message = msgpack.unpackb(bytes(held[4:n]))
    del held[:n]
    return message


def send(message):
    data = msgpack.packb(message)
    os.write(OUT, len(data).to_bytes(4, "little") + data)


def wait_for_go():
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)


def break_something():
    if "exit" in FAULTS:
        sys.exit("it has no time")
    if "raise" in FAULTS:
        raise ValueError("it does not want to")
    if "text" in FAULTS:
        os.write(OUT, b"hello")
    if "waits" in FAULTS:
        wait_for_go()
    if "write" in FAULTS:
        with open("/tmp/of_a_program", "w", encoding="ascii"):
            pass


def main():
    agent, held, fd = None, bytearray(), REQUEST
    while (message := receive(fd, held)) is not None:
        fd = IN
        if message[0] != 0:
            continue
        _, number, method, body = message
        if method == "describe":
            break_something()
            answer = {"protocol": 1, "algorithms": [DESCRIPTION]}
        elif method == "configure":
            agent = Agent(body)
            answer = agent.describe()
        else:
            answer = agent.handle(method, body) if agent else {}
        send([1, number, None, answer])
        if method == "shutdown":
            break


if __name__ == "__main__":
    main()
