"""An installed brood, and what scripts/brood and scripts/setup.sh build."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import harness
from test_files import NOBODY


def installed(w):
    """The programs below a DESTDIR, as `meson install` puts them there."""
    if shutil.which("meson") is None:
        raise harness.Skip("no meson")
    p = subprocess.run(["meson", "install", "-C", harness.BUILD, "--no-rebuild", "--destdir",
                        w.path / "root"], capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    found = list((w.path / "root").rglob("bin/brood"))
    assert len(found) == 1, found
    return found[0], found[0].parent.parent


def runs_an_agent_in_python(w, program, name):
    """One that imports the package, of which nothing but the installed brood knows."""
    if any(importlib.util.find_spec(module) is None for module in ("numpy", "msgpack")):
        return
    agent = harness.SOURCE / "tests" / "examples" / "agents" / "numpy_q.py"
    shutil.copy(agent, w.path / "mine.py")
    config = w.write("mine.yaml", "env: {id: simple_spread}\nrun: {env_steps: 200}\n"
                                  "defaults: {algorithm: program, command: [python3, mine.py]}\n")
    w.brood("run", config, "--name", name, program=program)
    w.brood("new", "simple", "--agent", f"{name}.py", "--force", program=program)
    out, _ = w.brood("agent-check", f"{name}.yaml", "--updates", "1", program=program)
    assert "agent_0: no faults" in out, out


def test_what_is_installed_finds_its_parts(w):
    program, prefix = installed(w)
    fact = json.loads(w.brood("version", "--json", program=program)[0])
    agent = pathlib.Path(fact["agent_binary"])
    assert agent.name == "brood-agent" and prefix in agent.parents, fact
    assert not (program.parent / "brood-agent").exists()
    assert fact["build_id"] == json.loads(w.brood("version", "--json")[0])["build_id"]
    config = prefix / "share" / "brood" / "configs" / "simple_spread.yaml"
    for file in config.parent.glob("*.yaml"):   # what it names is there, too
        assert "tests/" not in file.read_text(), file
    assert "3 agents, maddpg" in w.brood("check", config, program=program)[0]
    w.brood("run", w.small(steps=200), "--name", "a", program=program)
    w.brood("eval", "a", "--episodes", 1, "--render", "a.svg", program=program)
    assert (w.path / "a.svg").stat().st_size > 1000
    p = subprocess.run([sys.executable, "-c", "import brood; print(brood.program())"],
                       capture_output=True, text=True, check=False,
                       env={"PYTHONPATH": str(prefix / "share" / "brood")})
    assert "No module named" in p.stderr or p.stdout == f"{program.resolve()}\n", p
    for page in ("man1/brood.1", "man1/brood-run.1", "man5/brood.yaml.5"):
        assert (prefix / "share" / "man" / page).stat().st_size > 0, page
    for file in ("bash-completion/completions/brood", "zsh/site-functions/_brood",
                 "fish/vendor_completions.d/brood.fish"):
        assert "brood" in (prefix / "share" / file).read_text(), file
    if (harness.BUILD / "supervisor" / "web" / "brood-web").exists():
        _, err = w.brood("web", "nothing", program=program, code=3)
        assert "there is no folder nothing" in err, err
        _, err = w.brood("serve", "a", "--socket", program, program=program, code=1)
        assert "is there, and is no socket" in err, err
    # Wherever the prefix is moved to, and with the agent beside it.
    (w.path / "root").rename(w.path / "moved")
    program = w.path / "moved" / program.relative_to(w.path / "root")
    w.brood("run", w.small(steps=200), "--name", "b", program=program)
    runs_an_agent_in_python(w, program, "in_libexec")
    shutil.move(next((w.path / "moved").rglob("brood-agent")), program.parent)
    w.brood("run", w.small(steps=200), "--name", "c", program=program)
    runs_an_agent_in_python(w, program, "beside")
    (program.parent / "brood-agent").unlink()
    _, err = w.brood("run", w.small(steps=200), "--name", "d", program=program, code=2)
    assert "brood-agent is neither in " in err and err.count("\n") == 1, err


PRINTS_ITS_PYTHON = """import sys
import brood
import numpy as np
class Zero(brood.Agent):
    def build(self):
        self.n = self.variable("n", np.zeros(1))
        sys.stderr.write(f"{sys.executable} runs it\\n")
    def act(self, obs, ctx): return np.zeros(len(obs), int)
    def learn(self, batch, ctx): return {}
brood.main(Zero)
"""


def test_a_wheel_brings_the_programs_beside_python(w):
    if harness.SANITIZED:
        raise harness.Skip("the wheel is the same in both builds")
    if any(importlib.util.find_spec(m) is None
           for m in ("pip", "setuptools", "wheel", "ensurepip", "numpy", "msgpack")):
        raise harness.Skip("Python makes no wheels or environments, or lacks NumPy or msgpack")
    program, prefix = installed(w)
    source = harness.SOURCE / "scripts" / "python"
    p = subprocess.run([sys.executable, harness.SOURCE / "scripts" / "pack_wheel.py", source,
                        prefix, w.path], capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    wheel, = w.path.glob("brood-*.whl")
    version = json.loads(w.brood("version", "--json")[0])["version"]
    assert wheel.name.startswith(f"brood-{version}-py3-none-manylinux"), wheel
    with zipfile.ZipFile(wheel) as f:
        names = {n for n in f.namelist() if n.startswith("brood/")}
    assert names == {f"brood/{f.name}" for f in (source / "brood").iterdir()
                     if f.suffix in (".py", ".typed")}
    own = w.path / "own"
    for command in ([sys.executable, "-m", "venv", "--system-site-packages", own],
                    [own / "bin" / "pip", "install", "--no-index", "--no-deps", wheel]):
        p = subprocess.run(command, capture_output=True, text=True, check=False)
        assert p.returncode == 0, p.stdout + p.stderr
    shutil.rmtree(w.path / "root")
    program = own / "bin" / "brood"
    config = own / "share" / "brood" / "configs" / "simple_spread.yaml"
    w.brood("run", config, "--name", "a", "--set", "run.env_steps=200", program=program)
    w.brood("eval", "a", "--episodes", 1, "--render", "a.svg", program=program)
    # Nobody has activated the environment.
    w.write("mine.py", PRINTS_ITS_PYTHON)
    config = w.write("mine.yaml", "env: {id: simple_spread}\nrun: {env_steps: 200}\n"
                                  "defaults: {algorithm: program, command: [python3, mine.py]}\n")
    w.brood("run", config, "--name", "b", program=program)
    said = (w.runs / "b" / "logs" / "agent_0.log").read_text()
    assert f"{own}/bin/python3 runs it\n" in said, said


def test_a_second_user_executes_what_the_first_has_built(w):
    if os.geteuid() != 0:
        raise harness.Skip("only root can be a second user")
    w.path.chmod(0o755)
    checkout = w.path / "checkout"
    shutil.copytree(harness.SOURCE / "scripts", checkout / "scripts")
    for folder in ("agent", "common", "supervisor"):
        (checkout / folder).mkdir()
    program = checkout / "scripts" / "brood"

    def second(*args, code):
        p = subprocess.run([program, *args], user=NOBODY, group=NOBODY, extra_groups=[],
                           cwd=w.path, capture_output=True, text=True, check=False)
        assert p.returncode == code, p
        return p.stdout, p.stderr
    said = (f"brood: {checkout} belongs to root and is not built: root runs scripts/brood "
            "there, or you clone it\n")
    assert second("version", code=1) == ("", said)
    (checkout / "build").mkdir()
    (checkout / "build" / ".lock").touch(0o600)
    assert second("version", code=1) == ("", said)
    for path in (harness.BROOD, harness.AGENT):
        to = checkout / "build" / path.parent.name / path.name
        to.parent.mkdir()
        shutil.copy(path, to)
    out, err = second("version", "--json", code=0)
    assert json.loads(out)["binary"].startswith(str(checkout)) and err == "", (out, err)
    source = checkout / "agent" / "new.c"
    source.touch()
    os.utime(source, (2**31, 2**31))
    out, err = second("version", "--json", code=0)
    assert out and err == (f"brood: {checkout}/build belongs to root and is older than the "
                           "sources\n"), err


# A project with the build folders and targets of brood: its program prints its PATH.
TINY = {
    "meson.build": """project('tiny', 'c')
subdir('supervisor')
alias_target('programs', program)
""",
    "supervisor/meson.build": "program = executable('brood', 'brood.c')\n",
    "supervisor/brood.c": """#include <stdio.h>
#include <stdlib.h>
int main(void) { return puts(getenv("PATH")) < 0; }
""",
}
# What a virtual environment, pyenv or conda may have of what builds brood.
SHADOWED = ("cc", "gcc", "meson", "ninja", "pkg-config", "protoc-c", "python3")


def tiny(w):
    root = w.path / "tiny"
    shutil.copytree(harness.SOURCE / "scripts", root / "scripts")
    for folder in ("agent", "common", "supervisor"):
        (root / folder).mkdir()
    for name, text in TINY.items():
        (root / name).write_text(text)
    return root


def build_all(root):
    """Like scripts/test: what it prints."""
    p = subprocess.run(["bash", "-c", 'set -euo pipefail; root=$1; . "$root/scripts/setup.sh"\n'
                        'build "$root/build" release', "bash", root], capture_output=True,
                       text=True, check=False)
    assert p.returncode == 0, p
    return p.stderr


def meson_version(root):
    facts = json.loads((root / "build" / "meson-info" / "meson-info.json").read_text())
    return facts["meson_version"]["full"]


def test_other_programs_first_on_the_path_do_not_build_brood(w):
    root = tiny(w)
    other = w.path / "other"
    other.mkdir()
    for name in SHADOWED:
        (other / name).write_text(f"#!/bin/sh\necho {name} of another Python >&2\nexit 127\n")
        (other / name).chmod(0o755)
    path = f"{other}:{os.environ['PATH']}"
    env = {k: v for k, v in os.environ.items() if k != "CC"} | {"PATH": path}
    p = subprocess.run([root / "scripts" / "brood"], env=env, cwd=w.path, capture_output=True,
                       text=True, check=False)
    assert (p.returncode, p.stdout) == (0, path + "\n"), p
    assert p.stderr == "brood: configuring build\nbrood: building build\n", p


def test_a_folder_of_another_release_of_meson_is_configured_again(w):
    root = tiny(w)
    assert "configuring" in build_all(root)
    version = meson_version(root)
    assert build_all(root) == ""
    facts = root / "build" / "meson-info" / "meson-info.json"
    facts.write_text(facts.read_text().replace(f'"{version}"', '"0.1.0"'))
    assert meson_version(root) == "0.1.0"
    assert "brood: configuring build\n" in build_all(root)
    assert meson_version(root) == version
    assert build_all(root) == ""


def test_the_sanitizers_of_a_clang_are_installed(w):
    def package(compiler):
        p = subprocess.run(["bash", "-c", 'set -euo pipefail; . "$1"; print_sanitizers', "bash",
                            harness.SOURCE / "scripts" / "setup.sh"], check=False,
                           capture_output=True, text=True,
                           env=os.environ | {"CC": f"env {compiler}"})
        assert p.returncode == 0, p
        return p.stdout

    compiler = w.path / "cc"
    compiler.write_text("#!/bin/sh\necho 'Debian clang version 14.0.6'\n")
    compiler.chmod(0o755)
    assert package(compiler) == "libclang-rt-14-dev|\n"
    compiler.write_text("#!/bin/sh\necho 'cc (Debian 12.2.0-14) 12.2.0'\n")
    assert package(compiler) == package(w.path / "nothing") == ""


def test_it_is_configured_with_a_compiler_that_names_no_multiarch_folder(w):
    """As clang 19 is."""
    if harness.SANITIZED:
        raise harness.Skip("it is configured once, by the release build")
    compiler = w.path / "cc"
    compiler.write_text("#!/bin/sh\ncase $* in *-print-multiarch*) exit 1 ;; esac\n"
                        'exec gcc "$@"\n')
    compiler.chmod(0o755)
    p = subprocess.run(["meson", "setup", w.path / "build", harness.SOURCE],
                       env=os.environ | {"CC": str(compiler)}, capture_output=True, text=True,
                       check=False)
    assert p.returncode == 0, p.stdout + p.stderr


if __name__ == "__main__":
    harness.main()
