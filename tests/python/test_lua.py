"""The agent in Lua under a stand-in for the supervisor: it learns, also after kills."""
import shutil

from agents import EXAMPLES, harness, learns, needs_numpy, play, team

try:
    from brood import testing
except ImportError:
    pass

LUA = next((name for name in ("lua5.4", "lua5.3") if shutil.which(name)), None)
SETTINGS = {"epsilon": [1.0, 0.1, 10000], "rate": 0.02}


def needs_lua(test):
    def wrapped(w):
        if LUA is None or not any(harness.pathlib.Path("/usr/share/lua").glob("*/MessagePack.lua")):
            raise harness.Skip("there is no Lua with MessagePack (lua5.4, lua-messagepack)")
        test(w)
    return needs_numpy(wrapped)


@needs_lua
def test_it_learns(w):
    first, last = learns(EXAMPLES / "linear_q.lua", 200, 64, LUA, settings=SETTINGS)
    assert first < 0.5 and last > 0.8, (first, last)


@needs_lua
def test_it_gives_the_same_bytes_after_kills(w):
    players = team()
    log = testing.Experience(players)
    log.fill(500, 1)
    file, config = EXAMPLES / "linear_q.lua", testing.configuration(players, settings=SETTINGS)
    calm = play(file, players, log, python=LUA, config=config)
    assert calm == play(file, players, log, kills=(0, 3, 7), python=LUA, config=config)
    assert len({str(a) for a in calm[0]}) == len(calm[0])


if __name__ == "__main__":
    harness.main()
