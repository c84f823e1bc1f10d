-- Independent Q-learning with a linear function of the observation, in Lua 5.3 or newer: an agent on
-- the protocol alone (agent/PROGRAMS.md), with lua-messagepack.
--
--     defaults:
--       algorithm: program
--       command: [lua5.4, tests/examples/agents/linear_q.lua]
--       settings: {epsilon: 1 to 0.05 over 60000, rate: 0.05}
package.path = package.path .. ";/usr/share/lua/5.3/?.lua" -- where Debian has MessagePack
local mp = require "MessagePack"
mp.set_string "string"

-- Values that Lua alone does not tell apart: `bin` is bytes, `map` keeps the order of its keys, which
-- differs from process to process in a table.
local Bin, Map = {}, {}
local function bin(s) return setmetatable({s}, Bin) end
local function map(...) return setmetatable({...}, Map) end
local function tensor(kind, dims, data) return {kind, dims, bin(data)} end
local plain = mp.packers["table"]
mp.packers["table"] = function(buffer, t)
  local kind = getmetatable(t)
  if kind == Bin then
    mp.packers["binary"](buffer, t[1])
  elseif kind == Map then
    assert(#t < 32, "a map of at most 15 keys")
    buffer[#buffer + 1] = string.char(0x80 + #t // 2)
    for _, x in ipairs(t) do mp.packers[type(x)](buffer, x) end
  else
    plain(buffer, t)
  end
end

-- ---- descriptors ----

local function open(fd, mode)
  local f = assert(io.open("/proc/self/fd/" .. fd, mode))
  f:setvbuf("no")
  return f
end
local first, requests, answers = open(8, "rb"), open(3, "rb"), open(4, "wb")

local function receive() -- a frame: its length, then msgpack; the first ones are in descriptor 8
  local from = first
  local head = first and first:read(4)
  if not head then
    first, from = nil, requests
    head = requests:read(4)
  end
  if not head then return nil end
  return mp.unpack(from:read((string.unpack("<I4", head))))
end

local function send(number, failure, result)
  local body = "\x94\x01" .. mp.pack(number) .. mp.pack(failure) .. mp.pack(result)
  answers:write(string.pack("<I4", #body), body)
end

-- Raised where a request or the configuration cannot be served: code as in common/err/err.h.
local function refuse(code, message) error({code = code, message = message}, 0) end

-- ---- the agent ----

local me, conf, block, log -- set by `configure`, never changed by what follows
local RATE = 0             -- places in the block: the live setting, then the weights
local WEIGHTS = 64

local function size() -- of the block, a multiple of 64
  return WEIGHTS + -(-4 * me.action.width * (me.obs + 1) // 64) * 64
end

local function read_floats(f, at, n)
  f:seek("set", at)
  return {string.unpack("<" .. ("f"):rep(n), f:read(4 * n))}
end

local function weights() -- [action][observation + 1], from the block at each request
  local w, width = {}, me.obs + 1
  for u = 1, me.action.width do w[u] = read_floats(block, WEIGHTS + 4 * width * (u - 1), width) end
  return w
end

local function q_of(w, u, obs, at) -- obs[at ...]; the last weight is that of a constant
  local sum = w[u][me.obs + 1]
  for i = 1, me.obs do sum = sum + w[u][i] * obs[at + i - 1] end
  return sum
end

local function best(w, obs, at, free) -- of these actions; without a list, of all
  local found, value = nil, -math.huge
  for i = 1, free and #free or me.action.width do
    local u = free and free[i] or i
    local q = q_of(w, u, obs, at)
    if not found or q > value then found, value = u, q end
  end
  return found, value
end

local function scheduled(x, step) -- a number, or {from, to, over}
  if type(x) == "number" then return x end
  return step >= x[3] and x[2] or x[1] + (x[2] - x[1]) * (step / x[3])
end

local key
local function uniform(counter, index) -- in [0, 1): of the key and these two numbers alone
  local z = key + counter * 0x9E3779B97F4A7C15 + index * 0x632BE59BD9B4E019
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return ((z ~ (z >> 31)) >> 11) * 2.0 ^ -53
end

local function open_log() -- the columns by name, and the bytes of a row
  local f = open(6, "rb")
  local head = f:read(32)
  local magic, version, n, row = string.unpack("<I8I4I4I8", head)
  if magic ~= 0x31676F6C64726F62 or version ~= 1 then refuse(-5005, "no experience log") end
  local found = {file = f, row = row}
  for _ = 1, n do
    local name, _, elements, at = string.unpack("<c112I4I4I8", f:read(128))
    found[name:match("^[^\0]*")] = {n = elements, at = (1 << 20) + at}
  end
  return found
end

local function column(name, row)
  local c = log[me.name .. "/" .. name]
  return read_floats(log.file, c.at + row * log.row, c.n)
end

local function identity() -- on what the bits depend besides
  local source = assert(io.open(arg[0], "rb")):read("a")
  local sum = 0
  for i = 1, #source do sum = (sum * 31 + source:byte(i)) % 0xFFFFFFFB end
  return {("linear_q.lua %d %08x"):format(#source, sum), _VERSION}
end

local handle = {}

function handle.describe()
  local function setting(name, kind, doc, default, ...)
    return map("key", name, "type", kind, "doc", doc, "default", default, "min", 0.0, "max", 1.0, ...)
  end
  return map("protocol", 1, "algorithms", {map(
    "name", "LinearQ", "summary", "Linear Q-learning, in Lua", "use", "", "source", "linear_q.lua",
    "stages", "learn(all, writes)", "rows", "transitions", "defaults", map(), "is", {},
    "identity", identity(),
    "settings", {setting("epsilon", "schedule", "share of random actions", "1 to 0.05 over 60000"),
                 setting("rate", "real", "how fast it learns", "0.05", "change", "setting")})})
end

function handle.configure(body)
  for i, p in ipairs(body.agents) do
    if p.name == body.name then me, p.index = p, i - 1 end
  end
  if me.action.kind ~= "discrete" or #me.action.heads ~= 1 then
    refuse(-5012, "linear_q.lua chooses one of several actions: an environment with others")
  end
  if (me.stack or 1) > 1 then
    refuse(-5012, "linear_q.lua sees one observation at a time: env.stack")
  end
  local began_with = body.program and body.program.identity or {}
  for _, line in ipairs(#began_with > 0 and identity() or {}) do
    local is_there = false
    for _, other in ipairs(began_with) do is_there = is_there or other == line end
    if not is_there then refuse(-5002, "the run began with another program: this is " .. line) end
  end
  conf, block = body.config, open(5, "r+b")
  key = body.seed * 0x2545F4914F6CDD1D
  for i = 1, #me.name do key = (key ~ me.name:byte(i)) * 0x100000001B3 end
  local n = me.action.width * (me.obs + 1)
  if not body.restored then
    block:write(string.pack("<f", conf.settings.rate), ("\0"):rep(WEIGHTS - 4 + 4 * n))
  end
  return map(
    "variables", {{me.name .. "/w", 1, {me.action.width, me.obs + 1}, WEIGHTS, "variables"},
                  {me.name .. "/rate", 1, {}, RATE, "hyperparameters"}},
    "block_bytes", size(), "carry", 0, "columns", {}, "portable", true,
    "stages", {map("name", "learn", "runner", "learners", "reads", {}, "writes", true)},
    "reads", {me.name .. "/obs", me.name .. "/action", me.name .. "/reward", me.name .. "/next_obs",
              me.name .. "/terminated"})
end

local function one_hot(chosen)
  local hot = {}
  for u = 1, me.action.width do hot[u] = u == chosen and 1 or 0 end
  return string.pack("<" .. ("f"):rep(#hot), table.unpack(hot))
end

function handle.act(body)
  local n, width, w, out = body.obs[2][1], me.action.width, weights(), {}
  local obs = {string.unpack("<" .. ("f"):rep(n * me.obs), body.obs[3])}
  local epsilon = body.mode == 0 and scheduled(conf.settings.epsilon, body.step) or 0
  for e = 0, n - 1 do
    local free = {} -- what may be chosen; where the mask has nothing, everything
    for u = 1, width do
      if not body.allowed or body.allowed:byte(e * width + u) ~= 0 then free[#free + 1] = u end
    end
    if #free == 0 then for u = 1, width do free[u] = u end end
    local chosen = best(w, obs, e * me.obs + 1, free)
    if uniform(body.step + e, 0) < epsilon then
      chosen = free[1 + math.floor(uniform(body.step + e, 1) * #free)]
    end
    out[e + 1] = one_hot(chosen)
  end
  return map("actions", tensor(1, {n, width}, table.concat(out)))
end

function handle.learn(body)
  log = log or open_log()
  local w, groups, count = weights(), body.rows[2][1], body.rows[2][2]
  local mine = groups > 1 and me.index * count or 0 -- a group of rows for each agent: its own
  local rate, loss = read_floats(block, RATE, 1)[1], 0.0
  for b = mine, mine + count - 1 do
    local row = string.unpack("<I8", body.rows[3], 8 * b + 1)
    local obs, action = column("obs", row), column("action", row)
    local _, after = best(w, column("next_obs", row), 1)
    local chosen = 1
    for u = 2, me.action.width do if action[u] > action[chosen] then chosen = u end end
    local goal = column("reward", row)[1] + conf.discount * after * (1 - column("terminated", row)[1])
    local err = math.max(-1, math.min(1, goal - q_of(w, chosen, obs, 1)))
    for i = 1, me.obs do w[chosen][i] = w[chosen][i] + rate * err * obs[i] end
    w[chosen][me.obs + 1] = w[chosen][me.obs + 1] + rate * err
    loss = loss + err * err / count
  end
  block:seek("set", WEIGHTS)
  for u = 1, me.action.width do
    block:write(string.pack("<" .. ("f"):rep(me.obs + 1), table.unpack(w[u], 1, me.obs + 1)))
  end
  return map("outputs", map(), "scalars", map("critic_loss", loss))
end

function handle.set(body)
  for name, value in pairs(body.changes) do
    if name ~= "settings.rate" then refuse(-5008, name .. " cannot change while it runs") end
    block:seek("set", RATE)
    block:write((string.pack("<f", value)))
  end
  return map()
end

function handle.snapshot()
  block:seek("set", 0)
  return map("block", bin(block:read(size())))
end

function handle.restore(body)
  if body.values and next(body.values) then refuse(-5014, "single variables are not restored") end
  if body.block then
    block:seek("set", 0)
    block:write(body.block)
  end
  return map()
end

for _, method in ipairs {"ping", "metagraph", "shutdown"} do -- it has no graph
  handle[method] = function() return map() end
end

for message in receive do
  local kind, number, method, body = table.unpack(message)
  if kind == 0 then
    local answer = handle[method] or function() refuse(-5008, "there is no method " .. method) end
    local ok, result = xpcall(answer, function(e)
      return type(e) == "table" and e or {code = -5018, message = tostring(e)}
    end, body)
    if ok then
      send(number, nil, result)
    else
      io.stderr:write(result.message, "\n") -- the agent's log
      send(number, map("code", result.code, "message", result.message), nil)
    end
    if method == "shutdown" then break end
  end
end
