-- core/holders.cc, in whole microseconds. A sorted set of holders, with the end of their lease as
-- score; and a hash of those that do not have exactly one permit.
local function read_holders(key, permits_key)
  local others = redis.call('HGETALL', permits_key)
  local seats = {permits = {}, several = #others > 0}
  seats.own = tonumber(redis.call('ZSCORE', key, holder) or 0)
  seats.held = redis.call('ZCOUNT', key, string.format('(%.0f', now), '+inf')
  for i = 1, #others, 2 do
    local ends, permits = redis.call('ZSCORE', key, others[i]), tonumber(others[i + 1])
    if not permits then
      broken = true
      return seats
    end
    seats.permits[others[i]] = permits
    if ends and tonumber(ends) > now then seats.held = seats.held + permits - 1 end
  end
  local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  seats.rest = tonumber(last[2] or 0)
  return seats
end

local function freed_at(key, seats, excess)
  local freed, first = 0, 0
  while excess > 0 do
    local some = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', now), '+inf',
                            'WITHSCORES', 'LIMIT', first, 64)
    for i = 1, #some, 2 do
      if excess > 0 then
        freed = tonumber(some[i + 1])
        excess = excess - (seats.permits[some[i]] or 1)
      end
    end
    if #some < 128 then break end
    first = first + 64
  end
  return freed
end

local function enter(key, permits_key, seats, lease, cost, holds)
  local expired = string.format('%.0f', now)
  if seats.several then
    local gone = redis.call('ZRANGEBYSCORE', key, '-inf', expired)
    for i = 1, #gone do redis.call('HDEL', permits_key, gone[i]) end
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', expired)
  local ends = holds and math.max(now + lease, seats.own) or now + lease
  redis.call('ZADD', key, string.format('%.0f', ends), holder)
  if not holds and cost ~= 1 then
    redis.call('HSET', permits_key, holder, string.format('%.0f', cost))
  end
  local ms = until_ms(math.max(ends, seats.rest))
  redis.call('PEXPIRE', key, ms)
  redis.call('PEXPIRE', permits_key, ms)
end

algorithms.h = {
  record = function(item)
    local key, permits_key = item.key, KEYS[keys + 1]
    local lease, cost, room = argument(), argument(), argument()
    local seats = read_holders(key, permits_key)
    local holds = seats.own > now
    item.holds = holds
    local passes = holds or seats.held <= room
    local freed = 0
    if not passes and room >= 0 then freed = freed_at(key, seats, seats.held - room) end
    local facts = string.format('%.0f %.0f %.0f %.0f %.0f', holds and seats.own or 0,
                                holds and (seats.permits[holder] or 1) or 0, seats.held, freed,
                                seats.rest)
    local enters = item.op ~= 'look' and (holds or cost > 0)
    if item.op == 'look' then passes = true end
    return passes, facts, enters and function()
      enter(key, permits_key, seats, lease, cost, holds)
    end
  end,
}
