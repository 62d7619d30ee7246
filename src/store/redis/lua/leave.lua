-- Keys come in pairs: a sorted set of holders, and its hash of permits. If the caller names the end
-- of the lease, the holder leaves only if its lease still ends then: it may have been renewed
-- since.
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
