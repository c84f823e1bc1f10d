"""brood eval --render: things are drawn at their places, and a browser shows the pictures."""
import contextlib
import json
import os
import shutil
import signal
import subprocess

import numpy as np

import harness

try:
    from PIL import Image
except ImportError:
    Image = None

CONFIG = """
run: {{name: seen, seed: 1, env_steps: 40}}
env: {env}
experience: {{capacity: 4000, batch_size: 64, warmup: 4000}}
evaluation: {{every_env_steps: 0}}
defaults: {{actor: {{hidden: [8]}}, critic: {{hidden: [8]}}}}
"""
REFERENCE_SEED = 1000
GROUND = (0xf8, 0xf8, 0xf5)
# What a kind's area is filled with, where that is not an agent's colour.
FILL = {"landmark": "#9aa1a8", "obstacle": "#5b6269", "food": "#b9c840", "forest": "#d3e6cd",
        "goal": "#f0c000", "contact": "#f7ee55", "chosen": "#23282d"}
AGENTS = ("agent", "adversary", "leader", "speaker")
WIDTH, HEIGHT = 900, 800  # of a browser's window


def need_pil():
    if Image is None:
        raise harness.Skip("no python3-pil")


def train(w, name, env):
    config = w.write(name + ".yaml", CONFIG.format(env=env))
    w.brood("run", config, "--name", name, "-q")


def render(w, name, file, *more, episodes=1):
    """The path of the file, and eval's output."""
    path = w.path / file
    out, _ = w.brood("eval", name, "--episodes", episodes, "--render", path, "--json", *more)
    return path, json.loads(out)


def data_of(w, name, *more, episodes=1):
    """The object of the episode and those of its frames, from a .jsonl file."""
    path, _ = render(w, name, name + ".jsonl", *more, episodes=episodes)
    head, *frames = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(frames) == head["steps"] + 1
    assert [f["step"] for f in frames] == list(range(len(frames)))
    return head, frames


def frames_of(path):
    """Every frame of a GIF as the viewer would show it, and how long, in ms."""
    image = Image.open(path)
    frames, durations = [], []
    for i in range(image.n_frames):
        image.seek(i)
        frames.append(np.asarray(image.convert("RGB")))
        durations.append(image.info["duration"])
    return frames, durations


def rgb(text):
    return tuple(int(text[i:i + 2], 16) for i in (1, 3, 5))


def mix(a, b, part):
    return tuple(int(part * x + (1 - part) * y + 0.5) for x, y in zip(a, b))


def world_part(picture):
    return picture[:584, :584]


def coloured(picture, colour, slack=0):
    """Which pixels of the world's part have a colour."""
    part, found = world_part(picture), True
    for i in range(3):  # faster than all three at once
        found = found & (part[:, :, i] == colour[i] if slack == 0 else
                         np.abs(part[:, :, i].astype(int) - colour[i]) <= slack)
    return found


def inside(pixels):
    """Without those that have others around them: without thin lines."""
    rows = pixels[:-2] & pixels[1:-1] & pixels[2:]
    return np.pad(rows[:, :-2] & rows[:, 1:-1] & rows[:, 2:], 1)


def where(pixels):
    """Their (x, y)."""
    y, x = np.nonzero(pixels)
    return x, y


def centre(x, y):
    """Of what is as wide and high as these pixels; a pixel's middle is at a half."""
    return (x.min() + x.max() + 1) / 2, (y.min() + y.max() + 1) / 2


def on_page(head, x, y):
    page = head["page"]
    return page["x"] + x * page["scale"], page["y"] - y * page["scale"]


def stands_alone(head, thing, things, edge=12):
    """Whether nothing is drawn near the thing, except its own marks."""
    for other in things:
        room = (thing["size"] + 1.3 * other["size"]) + edge / head["page"]["scale"]
        if 0 < np.hypot(other["x"] - thing["x"], other["y"] - thing["y"]) < room:
            return False
    return True


def check_agents(head, frame, picture, places=None):
    """Recover where agents are from the pixels; how many could be compared."""
    seen = 0
    for thing in frame["things"]:
        if thing["kind"] != "agent" or not stands_alone(head, thing, frame["things"]):
            continue
        colour = rgb(head["agents"][thing["agent"]]["colour"])
        found = centre(*where(inside(coloured(picture, colour))))
        x, y = (thing["x"], thing["y"]) if places is None else places[thing["agent"]]
        assert np.allclose(found, on_page(head, x, y), atol=1), (frame["step"], thing, found)
        seen += 1
    return seen


def test_places_are_right_within_a_pixel(w):
    """Five first frames, whose places NumPy draws as the reference does, and later ones."""
    need_pil()
    train(w, "spread", "{id: simple_spread, params: {reference_seed: %d}}" % REFERENCE_SEED)
    first = later = 0
    for k in range(5):
        which = ("--episode", k, "--stochastic")
        head, data = data_of(w, "spread", *which, episodes=5)
        path, _ = render(w, "spread", "spread.gif", *which, episodes=5)
        pictures, durations = frames_of(path)
        assert len(pictures) == len(data) == 26 and head["episode"] == k
        assert durations[1:-1] == [120] * 24 and durations[-1] > 1000
        draw = np.random.Generator(np.random.PCG64(np.random.SeedSequence(REFERENCE_SEED + k)))
        places = draw.uniform(-1, 1, (6, 2))
        for thing in data[0]["things"]:
            if "id" in thing:
                assert (thing["x"], thing["y"]) == tuple(places[thing["id"]])
        first += check_agents(head, data[0], pictures[0], places)
        for i in (7, 14, 25):
            later += check_agents(head, data[i], pictures[i])
    assert first >= 8 and later >= 15, (first, later)


def test_every_world_shows_what_is_in_it(w):
    need_pil()
    envs = ["simple", "simple_adversary", "simple_crypto", "simple_push",
            "simple_reference", "simple_speaker_listener", "simple_spread", "simple_tag",
            "simple_world_comm", "simple_formation", "collect_treasure", "foraging", "rware", "overcooked",
            "climbing", "penalty", "prisoners_dilemma", "stag_hunt", "matrix_game"]
    kinds = set()
    for env in envs:
        train(w, env, "{id: %s, max_steps: 12}" % env)
        head, data = data_of(w, env, "--stochastic")
        path, _ = render(w, env, env + ".gif", "--stochastic")
        pictures, _ = frames_of(path)
        assert len(pictures) == len(data)
        assert head["env"] == env
        assert any((a != b).any() for a, b in zip(pictures, pictures[1:])), env
        # Things move little from one frame to the next, and to look for them takes long.
        for frame, picture in list(zip(data, pictures))[::3]:
            for thing in frame["things"]:
                colour = FILL.get(thing["kind"])
                if thing["kind"] in AGENTS or (thing["kind"] == "goal" and "agent" in thing):
                    colour = head["agents"][thing["agent"]]["colour"]
                large = thing["kind"] in ("obstacle", "forest", "chosen")
                if colour and (large or stands_alone(head, thing, frame["things"], edge=0)):
                    kinds.add(thing["kind"])
                    assert np.count_nonzero(coloured(picture, rgb(colour))) > 10, \
                        (env, thing)
    assert kinds >= {*AGENTS, *FILL} - {"contact"}, kinds


def test_the_joint_action_is_framed(w):
    need_pil()
    train(w, "climbing", "{id: climbing}")
    head, data = data_of(w, "climbing", "--stochastic")
    path, _ = render(w, "climbing", "climbing.gif", "--stochastic")
    pictures, _ = frames_of(path)
    cells = set()
    for frame, picture in zip(data[1:], pictures[1:]):
        row, column = int(frame["plays"]["agent_0"]), int(frame["plays"]["agent_1"])
        cells.add((row, column))
        for cell in ((r, c) for r in range(3) for c in range(3)):
            x, y = on_page(head, cell[1] + 0.5, 2.5 - cell[0])
            half = head["page"]["scale"] / 2 - 2.5
            edge = [picture[int(y + dy * half), int(x + dx * half)]
                    for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1))]
            framed = [tuple(p) == rgb(FILL["chosen"]) for p in edge]
            assert framed == [cell == (row, column)] * 4, (frame["step"], cell, framed)
    assert len(cells) > 2
    paid = {(0, 0): 11, (0, 1): -30, (0, 2): 0, (1, 0): -30, (1, 1): 7, (1, 2): 6,
            (2, 0): 0, (2, 1): 0, (2, 2): 5}
    so_far = 0
    for frame in data[1:]:
        so_far += paid[int(frame["plays"]["agent_0"]), int(frame["plays"]["agent_1"])]
        assert frame["returns"] == {"agent_0": so_far, "agent_1": so_far}


def test_drawing_changes_no_return(w):
    train(w, "tag", "{id: simple_tag}")
    out, _ = w.brood("eval", "tag", "--episodes", 9, "--json")
    plain, files = json.loads(out), {}
    for file in ("a.gif", "a.svg", "a.jsonl"):
        for copies in ("1", "32"):
            path, result = render(w, "tag", file, "--episode", 7, "--copies", copies,
                                  episodes=9)
            assert result == plain
            assert files.setdefault(file, path.read_bytes()) == path.read_bytes(), file
            path.unlink()
    _, _, *last = files["a.jsonl"].decode().splitlines()
    assert json.loads(last[-1])["step"] == 25
    assert not [p for p in w.path.iterdir() if p.name.startswith("a.")]


def test_the_best_and_the_worst_episode_are_picked(w):
    """By the first team's return, however many are played side by side."""
    train(w, "tag", "{id: simple_tag}")
    n = 6
    for more in ((), ("--stochastic", "--seed", 5)):
        files, returns = [], []
        for k in range(n):
            path, plain = render(w, "tag", "x.jsonl", "--episode", k, *more, episodes=n)
            files.append(path.read_bytes())
            last = json.loads(path.read_text().splitlines()[-1])["returns"]
            returns.append(sum(v for name, v in last.items() if name.startswith("adversary")))
        assert len(set(returns)) > 1
        for pick, k in (("best", returns.index(max(returns))), ("worst", returns.index(min(returns)))):
            for copies in (1, 4):
                path, result = render(w, "tag", "x.jsonl", "--episode", pick, "--copies", copies, *more, episodes=n)
                assert path.read_bytes() == files[k] and result == plain, (pick, k, returns)
        out, _ = w.brood("eval", "tag", "--episodes", n, "--episode", "worst", "--render", path, *more)
        assert out.endswith(f"\n  episode {k}, the worst, is drawn in {path}\n"), out


def test_the_drawn_returns_are_those_of_the_evaluation(w):
    train(w, "foraging", "{id: foraging, params: {size: 5}}")
    _, result = render(w, "foraging", "f.svg", "--stochastic")
    _, data = data_of(w, "foraging", "--stochastic")
    assert data[-1]["returns"] == result["return_mean"]
    assert data[0]["returns"] == {"player_0": 0, "player_1": 0}
    assert len(data) == result["length_mean"] + 1


def test_videos_are_made_by_ffmpeg(w):
    train(w, "climbing", "{id: climbing}")
    eval_ = ("eval", "climbing", "--episodes", 1, "--render")
    (w.path / "bin").mkdir()
    only = {"PATH": str(w.path / "bin")}
    _, err = w.brood(*eval_, "x.mp4", code=2, env=only)
    assert err.startswith("brood eval: x.mp4: there is no ffmpeg"), err
    w.write("bin/ffmpeg", "#!/bin/sh\necho 'no such codec' >&2\nexit 3\n").chmod(0o755)
    _, err = w.brood(*eval_, "x.webm", code=1, env={"PATH": f"{only['PATH']}:{os.defpath}"})
    assert "ffmpeg" in err and "no such codec" in err and len(err.splitlines()) == 1, err
    assert not [*w.path.glob("x.*")]
    if shutil.which("ffmpeg") is None or shutil.which("ffprobe") is None:
        raise harness.Skip("there is no ffmpeg")
    for name, codec in (("a.mp4", "h264"), ("a.webm", "vp9")):
        w.brood(*eval_, name)
        out = subprocess.run(["ffprobe", "-v", "error", "-count_frames", "-show_entries",
                              "stream=codec_name,nb_read_frames", "-of", "csv=p=0", name],
                             cwd=w.path, check=True, capture_output=True, text=True).stdout
        found, frames = out.strip().split(",")
        assert found == codec and int(frames) >= 26, out
        w.brood(*eval_, "again-" + name)
        assert (w.path / name).read_bytes() == (w.path / ("again-" + name)).read_bytes()


def test_of_a_long_episode_the_beginning_is_drawn(w):
    train(w, "climbing", "{id: climbing, max_steps: 2500}")
    path = w.path / "long.jsonl"
    out, err = w.brood("eval", "climbing", "--episodes", 2, "--episode", 1, "--render", path)
    assert out.endswith(f"\n  episode 1 is drawn in {path}\n"), out
    assert f"{path} shows the first 2000 steps of episode 1" in err, err
    assert len(path.read_text().splitlines()) == 1 + 2001


def test_what_cannot_be_drawn_is_refused_at_once(w):
    train(w, "spread", "{id: simple_spread}")
    config = w.write("none.yaml", "run: {name: none}\nenv: {id: none}\nagents: {a: "
                                  "{observation: 3, action: 2, algorithm: critic}}\n")
    p = w.start("run", config, "--name", "none")
    harness.wait_until("a checkpoint", lambda: list((w.runs / "none" / "checkpoints").glob("0")))
    w.brood("stop", "none")
    p.wait(timeout=harness.DEADLINE_S)
    before = sorted(w.path.iterdir())
    for args, says in ((("spread", "--render", "x.png"), "x.png: expected .gif, .mp4, .webm or .svg"),
                       (("spread", "--render", "no/x.gif"), "no: No such file"),
                       (("spread", "--render", "x.gif", "--episodes", "3", "--episode", "3"),
                        "--episode 3 is none of 0 to 2"),
                       (("spread", "--episode", "3"), "--episode is for --render"),
                       (("spread", "--episode", "best"), "--episode is for --render"),
                       (("spread", "--render", "x.gif", "--episode", "good"),
                        "--episode good: expected a number, best or worst"),
                       (("none", "--render", "x.gif"), "none cannot be drawn")):
        out, err = w.brood("eval", *args, code=2)
        assert says in err and len(err.splitlines()) == 1 and not out, (out, err)
    left = [p for p in w.path.iterdir() if p not in before
            and not p.name.startswith("stderr-")]
    assert not left, left


LAMP = '''
import os
import sys
sys.path.insert(0, {examples!r})
import numpy
from hallway import Hallway


class Lamp(Hallway):
    def __init__(self, render_mode=None, **more):
        super().__init__(**more)
        self.render_mode = render_mode

    def render(self):
        picture = numpy.full((40, 600, 3), 7, numpy.uint8)
        picture[:, :300] = 255, min(10 * self.time, 255), 0
        return picture if self.render_mode == "rgb_array" else None


class Dark(Hallway):
    pass


class Breaks(Lamp):
    """Once there is a file for its seeds, its episodes of even ones fail; a seed tells the return of others."""

    def __init__(self, seeds, **more):
        super().__init__(**more)
        self.seeds = seeds

    def reset(self, seed=None, options=None):
        self.seed = seed if os.path.exists(self.seeds) else 1
        if os.path.exists(self.seeds):
            with open(self.seeds, "a") as f:
                print(seed, file=f)
        return super().reset(seed, options)

    def step(self, actions):
        seen, rewards, *more = super().step(actions)
        if self.seed % 2 == 0 and self.seed != 0:   # with which the bridge asks what there is
            raise RuntimeError("a rare state")
        return seen, {{a: float(self.seed % 1000) if self.time == 1 else 0.0 for a in rewards}}, *more
'''


def test_an_episode_that_failed_is_not_picked(w):
    (w.path / "lamp.py").write_text(LAMP.format(examples=str(harness.SOURCE / "tests" / "examples")))
    bridge, seeds = harness.SOURCE / "scripts" / "pettingzoo_bridge.py", w.path / "seeds"
    train(w, "breaks", f"{{command: [/usr/bin/python3, {bridge}, 'lamp.py:Breaks'], params: {{seeds: {seeds}}}, verify: false, "
                       "restart: {max_restarts: 100000, delay: 0s}, on_failure: skip_episode}")
    seeds.touch()
    out, _ = w.brood("eval", "breaks", "--episodes", 8, "--copies", 1, "--json")
    played = [k for k in dict.fromkeys(map(int, seeds.read_text().split())) if k != 0]
    assert len(played) == 8 and json.loads(out)["episodes"] == 2, (played, out)
    best = max((seed % 1000, -k) for k, seed in enumerate(played) if seed % 2)
    assert best[1] == -2   # of two that were played, after two that failed
    out, _ = w.brood("eval", "breaks", "--episodes", 8, "--copies", 2, "--episode", "best", "--render", "x.gif")
    assert f"episode {-best[1]}, the best, is drawn" in out, (out, played)


def test_an_environment_that_draws_itself_is_shown(w):
    need_pil()
    examples = harness.SOURCE / "tests" / "examples"
    (w.path / "lamp.py").write_text(LAMP.format(examples=str(examples)))
    bridge = harness.SOURCE / "scripts" / "pettingzoo_bridge.py"
    for kind in ("Lamp", "Dark"):
        train(w, kind, f"{{command: [/usr/bin/python3, {bridge}, 'lamp.py:{kind}'], "
                       "verify: false}")
    w.brood("eval", "Lamp", "--episodes", 3, "--copies", 2, "--episode", 1, "--render", "x.gif")
    length = json.loads(w.brood("eval", "Lamp", "--episodes", 2, "--json")[0])
    film = Image.open(w.path / "x.gif")
    # One frame per step, made smaller: every other pixel.
    assert film.size == (300, 20) and film.n_frames <= 2 * length["length_mean"], film
    for i in range(film.n_frames):
        film.seek(i)
        frame = np.asarray(film.convert("RGB")).astype(int)
        assert abs(frame[5, 5] - [255, min(10 * (i + 1), 255), 0]).max() <= 8, (i, frame[5, 5])
        assert frame[5, 295].tolist() == [7, 7, 7]
    err = w.brood("eval", "Dark", "--episodes", 1, "--render", "y.gif", code=1)[1]
    assert "it cannot be drawn: it takes no render_mode" in err and err.count("\n") == 1, err
    err = w.brood("eval", "Lamp", "--episodes", 1, "--render", "y.svg", code=2)[1]
    assert "y.svg: expected .gif, .mp4 or .webm: an environment's own pictures are animated" in err, err


def test_without_the_module_that_draws_all_else_works(w):
    train(w, "spread", "{id: simple_spread}")
    alone = w.program_with_agent(harness.AGENT)
    w.brood("eval", "spread", "--episodes", 1, program=alone)
    _, err = w.brood("eval", "spread", "--render", "x.svg", program=alone, code=2)
    assert "pictures cannot be drawn: " in err and "brood-draw.so: " in err, err
    assert len(err.splitlines()) == 1, err


# ---- in a browser ----

def screenshots(w, files):
    """The pixels that a headless browser shows for each of up to four files. It is started
    once, for a page of four windows."""
    browser = shutil.which("chromium")
    if browser is None:
        raise harness.Skip("no chromium")
    home, shot = w.path / "browser", w.path / "shot.png"
    home.mkdir()
    corners = [(x, y) for y in (0, HEIGHT) for x in (0, WIDTH)]
    page = w.write("page.html", "<!doctype html>" + "".join(
        f'<iframe src="file://{file}" width="{WIDTH}" height="{HEIGHT}" '
        f'style="position: absolute; border: 0; left: {x}px; top: {y}px"></iframe>'
        for file, (x, y) in zip(files, corners)))
    p = subprocess.Popen(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--hide-scrollbars", f"--user-data-dir={home}/data",
         f"--window-size={2 * WIDTH},{2 * HEIGHT}", f"--screenshot={shot}", f"file://{page}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "HOME": str(home), "TMPDIR": str(home),
             "XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)})
    try:
        p.wait(timeout=harness.DEADLINE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            harness.signal_group(p.pid, signal.SIGKILL)
        p.wait()
    picture = np.asarray(Image.open(shot).convert("RGB"))
    harness.wait_until("the browser to be gone", lambda: not any(
        str(home) in line for _, _, line in harness.processes().values()))
    shutil.rmtree(home)
    return [picture[y:y + HEIGHT, x:x + WIDTH] for x, y in corners[:len(files)]]


def check_gif(path, shown):
    pictures, _ = frames_of(path)
    height, width = pictures[0].shape[:2]
    shown = shown[:height, :width]
    same = [(shown == p[:shown.shape[0], :shown.shape[1]]).all(axis=2).mean()
            for p in pictures]
    assert max(same) > 0.999, same


def check_shown(head, shown, thing, colour, radius):
    """A thing's pixels end at the right distance from its place on both sides, or on one
    side if another thing covers the other."""
    at = on_page(head, thing["x"], thing["y"])
    x, y = where(coloured(shown, colour, slack=1))
    near = np.hypot(x - at[0], y - at[1]) < 1.5 * radius
    assert near.any(), thing
    for pixels, place in ((x[near], at[0]), (y[near], at[1])):
        off = (pixels.min() + radius - place, pixels.max() + 1 - radius - place)
        assert min(map(abs, off)) <= 1, (thing, at, radius, off)


def check_svg(head, data, shown):
    """Checks the agents at their final places, drawn pale, and the things that never move;
    how many of each."""
    agents = landmarks = 0
    assert (shown[2, 2] == 255).all()
    for thing in data[-1]["things"]:
        if not stands_alone(head, thing, data[-1]["things"], edge=0):
            continue
        if thing["kind"] == "agent":
            colour = rgb(head["agents"][thing["agent"]]["colour"])
            radius = thing["size"] * head["page"]["scale"] - 1.5
            check_shown(head, shown, thing, mix(colour, GROUND, 0.3), radius)
            agents += 1
        elif thing["kind"] == "landmark":
            radius = max(thing["size"] * head["page"]["scale"], 5) * 1.3
            check_shown(head, shown, thing, rgb(FILL["landmark"]), radius - 1)
            landmarks += 1
    return agents, landmarks


def test_a_browser_shows_the_pictures(w):
    need_pil()
    if harness.SANITIZED:
        raise harness.Skip("the files are those of the plain build")
    train(w, "spread", "{id: simple_spread}")
    gif, _ = render(w, "spread", "spread.gif")
    svgs, worlds = [], []
    for k in range(3):
        which = ("--episode", k, "--stochastic")
        path, _ = render(w, "spread", f"spread-{k}.svg", *which, episodes=3)
        svgs.append(path)
        worlds.append(data_of(w, "spread", *which, episodes=3))
    shown = screenshots(w, [gif, *svgs])
    check_gif(gif, shown[0])
    found = [check_svg(*world, picture) for world, picture in zip(worlds, shown[1:])]
    agents, landmarks = map(sum, zip(*found))
    assert agents >= 3 and landmarks >= 3, found


if __name__ == "__main__":
    harness.main()
