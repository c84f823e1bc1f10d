"""The Debian package and the container: their files agree with the sources."""
import re

import harness

DEBIAN = harness.SOURCE / "scripts" / "debian"
# What scripts/setup.sh installs for reasons other than to build.
NO_BUILD_DEPENDS = {"gcc", "fonts-dejavu-core"}


def packages_of_setup():
    """What scripts/setup.sh installs; `a|b` is either of two."""
    setup = (harness.SOURCE / "scripts" / "setup.sh").read_text()
    packages = re.search(r"packages=\((.*?)\)", setup, re.DOTALL).group(1)
    return packages.replace("'", "").split()


def test_it_has_the_version_of_meson_build(w):
    project = (harness.SOURCE / "meson.build").read_text()
    version = re.search(r"version: '([\d.]+)'", project).group(1)
    newest = (DEBIAN / "changelog").read_text().splitlines()[0]
    assert newest.startswith(f"brood ({version})"), newest


def test_it_is_built_with_what_setup_installs(w):
    packages = set(" ".join(packages_of_setup()).replace("|", " ").split())
    control = (DEBIAN / "control").read_text()
    depends = re.search(r"Build-Depends:\n(.*?)\n\S", control, re.DOTALL).group(1)
    names = set(re.findall(r"(?:^|\|) ([a-z0-9.+-]+)", depends, re.MULTILINE))
    assert packages - NO_BUILD_DEPENDS - names == set(), packages - names
    assert "fonts-dejavu-core" in control


def test_the_container_is_built_with_what_setup_installs(w):
    words = (harness.SOURCE / "scripts" / "Dockerfile").read_text().split("COPY")[0].split()
    for one in packages_of_setup():
        assert set(one.split("|")) & set(words), one


def test_every_program_that_is_installed_is_built(w):
    rules = (DEBIAN / "rules").read_text()
    built = set(re.findall(r"[\w/]+/(brood[\w.-]*)", rules))
    assert {"brood", "brood-agent", "brood-draw.so", "brood-web", "brood-serve"} <= built, built


def test_the_licence_is_that_of_the_sources(w):
    def words(text):
        return [x for x in text.split() if x != "."]
    licence = words((harness.SOURCE / "LICENSE").read_text().split("\n\n", 2)[2])
    assert " ".join(licence) in " ".join(words((DEBIAN / "copyright").read_text()))


if __name__ == "__main__":
    harness.main()
