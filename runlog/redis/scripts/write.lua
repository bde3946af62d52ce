-- KEYS: store, runs, ending, queued; then of each write: run, log, gone.
-- ARGV: store ID, lsn, how many takeovers there may be; then the writes, each with the number of its arguments, a letter and the rest.
-- It returns 'ok', the lsn, and a verdict for each write.
--
-- What the server keeps of a script are its commands, between MULTI and EXEC. Of a transaction whose end was
-- torn off, a server may do the rest at the restart after the next, before what was written since. So each
-- command sets what it writes, and adds nothing: what is done late is written over.
local why, lsn = reset(ARGV[1], ARGV[2])
if why then return why end
local at, key = 4, 5

local function take()
  at = at + 1
  return ARGV[at - 1]
end

local function number() return tonumber(take()) end

-- The first change of a script: if the server takes no writes, it is this that fails.
local changed = false
local function change()
  if changed then return nil end
  local n = string.format('%.0f', tonumber(lsn) + 1)
  local r = redis.pcall('HSET', KEYS[1], 'lsn', n)
  if type(r) == 'table' then return r.err end
  lsn, changed = n, true
end

-- What a hold has come to: nil if it is what the caller thinks.
local function hold(m, gone, born, token, epoch)
  if not m or m.born ~= born then
    if redis.call('GET', gone) == born then return {'fenced'} end
    return {'lost', 'the run'}
  end
  if m.token == token then return nil end
  if m.epoch > epoch or (m.epoch == epoch and m.token == NOBODY) then return {'fenced'} end
  return {'lost', 'the hold'}
end

local function field(seq) return string.format('%.0f', seq) end

local function landed(log, seq, frame) return redis.call('HGET', log, field(seq)) == frame end

local function load(run)
  local s = redis.call('GET', run)
  return s and decode(s)
end

local function held(m) return m.token ~= NOBODY and m.till > now end

local function append(run, log, gone)
  local id, born, token, epoch, ver, head, unsure = take(), take(), take(), number(), number(), number(), take() == '1'
  local snapshot, status, summary, ended, ttl, n = number(), take(), take(), take() == '1', number(), number()
  local first = at
  at = at + n
  local m = load(run)
  local bad = hold(m, gone, born, token, epoch)
  if bad then
    if unsure and m and n > 0 and m.born == born and landed(log, head + n, ARGV[first + n - 1]) then return {'ok'} end
    return bad
  end
  if m.ver > ver then
    if unsure and (n == 0 or landed(log, head + n, ARGV[first + n - 1])) then return {'ok'} end
    return {'odd'}
  end
  if m.ver < ver or m.head ~= head then return {'lost', string.format('record %.0f', math.min(m.head, head) + 1)} end
  local full = change()
  if full then return {'full', full} end
  local put = {}
  for i = 1, n do
    local frame = ARGV[first + i - 1]
    m.bytes = m.bytes + #frame
    put[#put + 1] = field(head + i)
    put[#put + 1] = frame
    if #put == 2000 or i == n then
      local r = redis.pcall('HSET', log, unpack(put))
      if type(r) == 'table' then return {'damaged', r.err} end
      put = {}
    end
  end
  m.ver, m.head = ver + 1, head + n
  if snapshot > 0 then m.snapshot = snapshot end
  if summary == '' and (status == '' or status == m.status) then
    redis.call('SETRANGE', run, VER, struct.pack('<dddd', m.ver, m.head, m.snapshot, m.bytes))
    return {'ok'}
  end
  if summary ~= '' then m.summary = summary end
  if status ~= '' and status ~= m.status then
    if status == 'queued' then redis.call('ZADD', KEYS[4], m.no, id) end
    if m.status == 'queued' then redis.call('ZREM', KEYS[4], id) end
    m.status, m.updated = status, now
  end
  if ended then m.cancel = 0 end
  redis.call('SET', run, encode(m), 'KEEPTTL')
  if ended and ttl > 0 then
    local till = string.format('%.0f', math.floor(now / 1000) + ttl)
    redis.call('PEXPIREAT', run, till)
    redis.call('PEXPIREAT', log, till)
    redis.call('ZADD', KEYS[3], till, id)
  end
  return {'ok'}
end

local function result(m, s, log) return {'ok', s, redis.call('HGET', log, field(m.head)) or ''} end

local function acquire(run, log)
  local id, token, owner, lease, create = take(), take(), take(), number(), take() == '1'
  local born, tail, status, anyway = take(), take(), take(), take() == '1'
  local s = redis.call('GET', run)
  local m = s and decode(s)
  if m and m.token == token then return result(m, s, log) end
  if m and create then return {'exists'} end
  if not m then
    local what = missing(id)
    if what == 'lost' or not create then return {what} end
    local full = change()
    if full then return {'full', full} end
    m = {cancel = 0, ver = 0, head = 0, snapshot = 0, bytes = 0, epoch = 0, takeovers = 0, born = born, status = status,
      no = redis.call('HGET', KEYS[1], 'no') + 1, created = now, tail = tail, summary = ''}
    redis.call('HSET', KEYS[1], 'no', m.no)
    redis.call('UNLINK', log)
    redis.call('ZREM', KEYS[3], id)
    redis.call('ZADD', KEYS[2], m.no, id)
  elseif held(m) then
    return {'busy', m.owner, m.till}
  elseif anyway then
    m.takeovers = 0
  elseif m.status == 'running' and m.token ~= NOBODY then
    if m.takeovers >= tonumber(ARGV[3]) then return {'quarantined', m.takeovers} end
    m.takeovers = m.takeovers + 1
  end
  local full = change()
  if full then return {'full', full} end
  m.epoch, m.token, m.owner, m.updated, m.till = m.epoch + 1, token, owner, now, now + lease
  s = encode(m)
  redis.call('SET', run, s, 'KEEPTTL')
  return result(m, s, log)
end

local function renew(run, log, gone)
  local _, born, token, epoch, lease = take(), take(), take(), number(), number()
  local m = load(run)
  local bad = hold(m, gone, born, token, epoch)
  if bad then return bad end
  local r = redis.pcall('SETRANGE', run, UNTIL, struct.pack('<d', now + lease))
  if type(r) == 'table' then return {'full', r.err} end
  return {'ok', m.cancel}
end

local function release(run)
  local _, born, token = take(), take(), take()
  local m = load(run)
  if not m or m.born ~= born or m.token ~= token then return {'ok'} end
  local full = change()
  if full then return {'full', full} end
  m.token, m.owner, m.till, m.takeovers = NOBODY, '', 0, 0
  redis.call('SET', run, encode(m), 'KEEPTTL')
  if m.status == 'queued' then redis.pcall('PUBLISH', KEYS[4], '') end
  return {'ok'}
end

local function cancel(run)
  local id = take()
  local m = load(run)
  if not m then return {missing(id)} end
  if m.status == 'completed' or m.status == 'partial' or m.status == 'cancelled' or m.cancel == 1 then return {'ok'} end
  local full = change()
  if full then return {'full', full} end
  m.cancel = 1
  redis.call('SET', run, encode(m), 'KEEPTTL')
  return {'ok'}
end

-- A run whose keys somebody else removed can be deleted too, which ends the complaints about it.
local function delete(run, log, gone)
  local id, born, keep = take(), take(), take()
  local m = load(run)
  if not m then
    local what = missing(id)
    if what == 'none' then return {what} end
  elseif m.born ~= born then
    return {'none'}
  elseif held(m) then
    return {'busy', m.owner, m.till}
  end
  local full = change()
  if full then return {'full', full} end
  if m and m.token ~= NOBODY then redis.call('SET', gone, m.born, 'PX', keep) end
  redis.call('UNLINK', run, log)
  redis.call('ZREM', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
  redis.call('ZREM', KEYS[4], id)
  return {'ok'}
end

-- Each write is preceded by the number of its arguments, and fails alone: what it reads, it reads
-- before it changes anything.
local writes = {a = append, q = acquire, r = renew, f = release, c = cancel, d = delete}
local verdicts = {}
while at <= #ARGV do
  local n = number()
  local behind = at + n
  local fine, verdict = pcall(writes[take()], KEYS[key], KEYS[key + 1], KEYS[key + 2])
  if not fine then
    if type(verdict) == 'table' then verdict = verdict.err end
    verdict = {'damaged', verdict}
  end
  verdicts[#verdicts + 1] = verdict
  at, key = behind, key + 3
end
return {'ok', lsn, verdicts}
