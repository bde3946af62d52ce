-- KEYS: store, runs, ending, a run or nothing. ARGV: store ID, lsn, prefix of run keys, the highest number, how many, an ID or ''.
-- It returns 'ok', the time, the lsn, the number to go on below, and IDs with what their keys hold.
local why, lsn = reset(ARGV[1], ARGV[2])
if why then return why end
local ids
if ARGV[6] ~= '' then
  ids = {ARGV[6], '0'}
else
  ids = redis.call('ZREVRANGEBYSCORE', KEYS[2], ARGV[4], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[5])
end
local keys = {}
for i = 1, #ids, 2 do keys[#keys + 1] = ARGV[3] .. ids[i] end
if #keys == 0 then return {'ok', now, lsn, ''} end
local metas = redis.call('MGET', unpack(keys))
local found = {'ok', now, lsn, ids[#ids]}
for i = 1, #keys do
  local id = ids[2 * i - 1]
  if metas[i] then
    found[#found + 1] = id
    found[#found + 1] = metas[i]
  else
    local what = missing(id)
    if what == 'expired' then
      redis.pcall('ZREM', KEYS[2], id)
      redis.pcall('ZREM', KEYS[3], id)
    elseif what == 'lost' then
      found[#found + 1] = id
      found[#found + 1] = ''
    end
  end
end
return found
