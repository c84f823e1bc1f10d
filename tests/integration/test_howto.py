"""configs/HOWTO.md: every file and command of it works, in its order, in a folder that has what a
clone has. Runs are a hundredth as long."""
import importlib.util
import re
import shutil
import signal
import subprocess

import harness

PAGE = (harness.SOURCE / "configs" / "HOWTO.md").read_text()
SHORTER = 100
# Seconds between kills; the loop ends with the run.
SLEEP = ("sleep 60", "sleep 0.1")


def shorter(text):
    """Numbers of steps, and of steps between checkpoints and evaluations, divided."""
    def divide(m):
        return f"{m[1]}{max(int(m[2].replace(',', '')) // SHORTER, 1)}"
    return re.sub(r"(env_steps(?:: |=))(\d+)", divide, text)


def blocks():
    """(heading, text of a block) in order."""
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE):
        heading = part.splitlines()[0]
        for block in re.findall(r"^```\w*\n(.*?)^```", part, re.MULTILINE | re.DOTALL):
            yield heading, block


def serve(w, command):
    """The server answers the program of the page, until it is interrupted."""
    p = subprocess.Popen(command.split(), cwd=w.path, stdout=subprocess.PIPE, text=True)
    url, header = p.stdout.readline().strip(), p.stdout.readline()
    token = header.split()[-1]
    program = next(b for _, b in blocks() if b.startswith("# ask.py"))
    program = program.replace("http://127.0.0.1:8080", url)
    asked = subprocess.run(["python3", "-c", program, token], capture_output=True, text=True,
                           check=False)
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait() == 0 and asked.returncode == 0, (p.returncode, asked)
    assert asked.stdout.strip() in "01234", asked


def test_every_answer_works(w):
    if harness.SANITIZED:
        raise harness.Skip("the commands are executed once, by the release build")
    missing = [m for m in ("numpy", "msgpack") if importlib.util.find_spec(m) is None]
    if missing:
        raise harness.Skip(f"Python has no {missing[0]}")
    for folder in ("configs", "scripts", "tests/examples"):
        shutil.copytree(harness.SOURCE / folder, w.path / folder,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for config in (w.path / "configs").glob("*.yaml"):
        config.write_text(shorter(config.read_text()))
    done = 0
    for heading, block in blocks():
        first = block.splitlines()[0]
        if first.startswith("# "):
            w.write(first[2:], shorter(block))
            if first.endswith(".py") and "load_policy" in block:
                p = subprocess.run(["python3", first[2:].split()[0]], cwd=w.path, capture_output=True,
                                   text=True, check=False,
                                   env={"PYTHONPATH": "scripts/python", "PATH": "/usr/bin:/bin"})
                assert p.returncode == 0, (heading, p)
            continue
        for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            command = re.sub(r"(^|\s)brood ", rf"\1{harness.BROOD} ", shorter(command))
            if " serve " in command:
                serve(w, command)
                continue
            p = subprocess.run(["bash", "-c", command.replace(*SLEEP)], cwd=w.path,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            assert p.returncode == harness.code_of(command), \
                (heading, command, p.stdout[-2000:], p.stderr[-2000:])
            done += 1
    assert done >= 28, done
    for file in ("both.svg", "both.html", "episode.gif", "policy.onnx", "policy.npz",
                 "weights.npz", "weights.safetensors"):
        assert (w.path / file).stat().st_size > 1000, file
    assert "class Policy" in (w.path / "policy.py").read_text()
    assert list((w.run_dir("drawn") / "renders").glob("*.gif"))
    assert sum(a["restarts"] for a in w.status("hardy")["agents"]) >= 1


if __name__ == "__main__":
    harness.main()
