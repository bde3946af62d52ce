-- KEYS: store. ARGV: the ID wanted or '', the least lsn, an ID for a new store, whether to accept any, the schema.
local st = redis.call('HMGET', KEYS[1], 'id', 'lsn', 'schema')
local accept = ARGV[1] == '' or ARGV[4] == '1'
if not st[1] then
  if not accept then return {'gone'} end
  redis.call('HSET', KEYS[1], 'id', ARGV[3], 'lsn', 0, 'no', 0, 'schema', ARGV[5])
  return {'ok', ARGV[3], '0'}
end
if tonumber(st[3]) > tonumber(ARGV[5]) then return {'newer', st[3]} end
if not accept and st[1] ~= ARGV[1] then return {'other', st[1]} end
if not accept and tonumber(st[2]) < tonumber(ARGV[2]) then return {'back', st[2]} end
return {'ok', st[1], st[2]}
