"""log.images and log.histograms: event files for TensorBoard beside those of the rows."""
import struct
import subprocess

import harness
import peers
from test_exactness import outcome
from test_renders import config

BOTH = ("--set", "log.images=true", "--set", "log.histograms=true")
# Summary.Value: tag, image, histo; Image: height, width, encoded; HistogramProto: num, bucket
TAG, IMAGE, HISTO, HEIGHT, WIDTH, ENCODED, NUM, BUCKET = 1, 4, 5, 1, 2, 4, 3, 7
# Prints what TensorBoard's own reader, without TensorFlow, finds in folders.
READER = """
import sys, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
for folder in sys.argv[1:]:
    a = EventAccumulator(folder, size_guidance={"images": 0, "histograms": 0})
    a.Reload()
    for tag in a.Tags()["images"]:
        print(tag, *[e.step for e in a.Images(tag)])
    for tag in a.Tags()["histograms"]:
        print(tag, *[e.step for e in a.Histograms(tag)])
"""


def can_draw(w):
    if "pictures cannot be drawn" in w.brood("check", config(w), *BOTH, code=None)[1]:
        raise harness.Skip("cairo is not installed")


def fields(b):
    """{number: the last value of this number} of a message; strings are bytes."""
    at, ret = 0, {}

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (b[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if b[at - 1] < 128:
                return value

    while at < len(b):
        key = varint()
        n = varint() if key & 7 == 2 else {1: 8, 5: 4}.get(key & 7, 0)
        value = varint() if key & 7 == 0 else b[at:at + n]
        at += n
        ret.setdefault(key >> 3, []).append(value)
    return ret


def events(run, kind):
    """[(step, {tag: message})] of the files metrics/<kind>/."""
    ret, field = [], {"images": IMAGE, "weights": HISTO}[kind]
    for path in sorted((run / "metrics" / kind).glob("events.out.tfevents.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            n, = struct.unpack_from("<Q", data, at)
            event = fields(data[at + 12:at + 12 + n])
            at += 16 + n
            if 5 in event:
                values = [fields(v) for v in fields(event[5][0])[1]]
                ret.append((event[2][0], {v[TAG][0].decode(): v[field][0] for v in values}))
    return ret


def test_pictures_and_weights_are_in_event_files(w):
    can_draw(w)
    w.brood("run", config(w), "--name", "plain")
    w.brood("run", config(w), "--name", "seen", *BOTH, "--set", "evaluation.render=gif")
    run = w.run_dir("seen")
    harness.assert_same_files(outcome(w.run_dir("plain")), outcome(run))
    assert not [p for p in (w.run_dir("plain") / "metrics").iterdir() if p.is_dir()]

    images = events(run, "images")
    assert [step for step, _ in images] == list(range(80, 641, 80)), images
    for step, values in images:
        picture = fields(values.pop("eval/episode"))
        file = run / "renders" / f"{step}.gif"
        if file.exists():
            assert picture[ENCODED][0] == file.read_bytes()
        size = struct.unpack_from("<HH", picture[ENCODED][0], 6)
        assert (picture[WIDTH][0], picture[HEIGHT][0]) == size and not values

    weights = events(run, "weights")
    assert [step for step, _ in weights] == harness.checkpoints(run), weights
    for name, histogram in weights[-1][1].items():
        found = fields(histogram)
        num, = struct.unpack("<d", found[NUM][0])
        buckets = struct.unpack(f"<{len(found[BUCKET][0]) // 8}d", found[BUCKET][0])
        assert num == sum(buckets) > 0, name
    names = sorted(weights[-1][1])
    assert any(n.startswith("agent_2/p_func/") for n in names) and not [
        n for n in names if "Adam" in n or "power" in n], names


def test_what_a_resume_writes_again(w):
    can_draw(w)
    run = w.path / "killed" / "r"  # a picture names its run
    p = w.start("run", config(w), "--name", "r", "--runs-dir", run.parent, *BOTH, "--set",
                f"run.env_steps={harness.FOREVER}")
    harness.wait_until("checkpoints", lambda: p.poll() is not None or
                       (harness.checkpoints(run) or [0])[-1] >= 640)
    harness.kill_holder(p, run)
    newest = harness.checkpoints(run)[-1]
    w.brood("resume", run, "--from", newest - 320, "--set", f"run.env_steps={newest + 320}")
    w.brood("run", config(w), "--name", "r", *BOTH, "--set", f"run.env_steps={newest + 320}")
    for kind in ("images", "weights"):
        assert events(run, kind) == events(w.run_dir("r"), kind), kind


def test_a_live_run_begins_and_ends_them(w):
    can_draw(w)
    p = w.start("run", config(w), "--name", "a", "--set", f"run.env_steps={harness.FOREVER}")
    run = w.run_dir("a")
    harness.wait_until("the rounds", lambda: p.poll() is not None or
                       (run / "control.sock").exists() and w.status("a")["env_steps"] > 0)
    w.brood("set", "a", "log.images=true", "log.histograms=true")
    for kind in ("images", "weights"):
        harness.wait_until(kind, lambda kind=kind: p.poll() is not None or events(run, kind))
    w.brood("set", "a", "log.images=false", "log.histograms=false")
    w.brood("stop", "a")
    p.wait(harness.DEADLINE_S)


def test_tensorboard_reads_them(w):
    python = peers.python_with_peers()
    if python is None:
        raise harness.Skip("TensorBoard is not installed")
    can_draw(w)
    w.brood("run", config(w), "--name", "a", *BOTH, "--set", "run.env_steps=320")
    kinds = ("images", "weights")
    p = subprocess.run([python, "-W", "ignore", "-c", READER,
                        *(w.run_dir("a") / "metrics" / kind for kind in kinds)],
                       capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stderr
    found = {tag: list(map(int, steps))
             for tag, *steps in (line.split(" ") for line in p.stdout.splitlines())}
    written = {}
    for step, values in (e for kind in kinds for e in events(w.run_dir("a"), kind)):
        for tag in values:
            written.setdefault(tag, []).append(step)
    assert found == written and len(found) > 20, found


if __name__ == "__main__":
    harness.main()
