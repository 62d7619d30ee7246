-- Keys come in pairs: a sorted set of holders, and the hash beside it. Where an end of the lease is
-- told, only a seat that still ends then is left: its holder may have renewed it since.
local holder, left = ARGV[2], 0
for i = 1, #KEYS, 2 do
  local ends = redis.call('ZSCORE', KEYS[i], holder)
  local told = ARGV[2 + (i + 1) / 2]
  if ends and tonumber(ends) > now and (not told or tonumber(told) == tonumber(ends)) then
    redis.call('ZREM', KEYS[i], holder)
    redis.call('HDEL', KEYS[i + 1], holder)
    left = 1
  end
end
return {left, s, us}
