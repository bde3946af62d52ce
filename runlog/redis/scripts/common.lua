-- What a run's key holds: numbers of fixed width first, so that an append changes 32
-- bytes in place. Numbers are doubles, which Lua has and which are exact up to 2^53.
-- meta.go reads the same.
local FORMAT = '<BBddddddddddc16c16Bc0Bc0'
local VERSION = 2 -- version 1 has no summary
local UNTIL, VER = 2, 10 -- offsets
local NOBODY = string.rep('\0', 16)

local function decode(s)
  local m = {}
  local rest
  m.version, m.cancel, m.till, m.ver, m.head, m.snapshot, m.bytes, m.updated, m.epoch, m.takeovers,
    m.no, m.created, m.born, m.token, m.status, m.owner, rest = struct.unpack(FORMAT, s)
  if m.version > VERSION then error({err = 'it was written by a newer superstep'}) end
  m.summary = ''
  if m.version >= 2 then m.summary, rest = struct.unpack('<Hc0', s, rest) end
  m.tail = string.sub(s, rest)
  return m
end

local function encode(m)
  return struct.pack(FORMAT, VERSION, m.cancel, m.till, m.ver, m.head, m.snapshot, m.bytes, m.updated, m.epoch,
    m.takeovers, m.no, m.created, m.born, m.token, #m.status, m.status, #m.owner, m.owner)
    .. struct.pack('<Hc0', #m.summary, m.summary) .. m.tail
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] -- microseconds

-- The store must be the one the caller knows, and no earlier state of it.
local function reset(id, lsn)
  local st = redis.call('HMGET', KEYS[1], 'id', 'lsn')
  if not st[1] then return {'gone'} end
  if st[1] ~= id then return {'other', st[1]} end
  if tonumber(st[2]) < tonumber(lsn) then return {'back', st[2]} end
  return nil, st[2]
end

-- Why a run's key is not there: there is no such run, its time was over, or somebody else removed it.
local function missing(id)
  if not redis.call('ZSCORE', KEYS[2], id) then return 'none' end
  local at = redis.call('ZSCORE', KEYS[3], id)
  if at and tonumber(at) * 1000 <= now + 1000000 then return 'expired' end
  return 'lost'
end
