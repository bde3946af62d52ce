-- KEYS: store. ARGV: store ID, lsn, what server this is.
-- Whoever comes first to a server that was started anew, or that took over, notes how far the
-- store had come there. Those who knew more by then have lost something, whatever was written since.
local st = redis.call('HMGET', KEYS[1], 'id', 'lsn', 'server', 'from')
if not st[1] then return {'gone'} end
if st[1] ~= ARGV[1] then return {'other', st[1]} end
local from = st[4]
if st[3] ~= ARGV[3] then
  from = st[2]
  redis.call('HSET', KEYS[1], 'from', from)
  redis.call('HSET', KEYS[1], 'server', ARGV[3]) -- two, for a transaction: it ends one that a crash left open
end
if tonumber(from) < tonumber(ARGV[2]) then return {'back', from} end
return {'ok'}
