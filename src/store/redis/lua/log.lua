-- core/sliding_log.cc, in whole microseconds. A list: "1l birth total", then "instant permits" for each
-- admission, oldest first. The total is the sum of all entries.
local function entry_of(text)
  local t, permits = string.match(text, '^(%d+) (%d+)$')
  if not t then broken = true end
  return tonumber(t) or 0, tonumber(permits) or 0
end

-- Calls `look(index, instant, permits)` for the entries from `first` on, until it returns true.
local function each_entry(key, first, look)
  while not broken do
    local some = redis.call('LRANGE', key, first, first + 63)
    for i = 1, #some do
      local t, permits = entry_of(some[i])
      if broken or look(first + i - 1, t, permits) then return end
    end
    if #some < 64 then return end
    first = first + 64
  end
end

local function read_log(key, period)
  local log = {birth = birth, total = 0, used = 0, size = 0, newest = 0, permits = 0, gone = 0,
               old = 0, rest = 0}
  local header = redis.call('LINDEX', key, 0)
  log.t = now
  if not header then return log end
  local b, total = string.match(header, '^1l (%d+) (%d+)$')
  if not b then
    broken = true
    return log
  end
  log.birth, log.total = b, tonumber(total)
  log.size = redis.call('LLEN', key) - 1
  log.newest, log.permits = entry_of(redis.call('LINDEX', key, -1))
  log.t = math.max(now, log.newest)
  log.rest = log.newest + period
  if log.permits == 0 then
    log.rest = log.size > 1 and entry_of(redis.call('LINDEX', key, -2)) + period or 0
  end
  each_entry(key, 1, function(_, t, permits)
    if log.t < t + period then return true end
    log.old = log.old + 1
    log.gone = log.gone + permits
  end)
  log.used = log.total - log.gone
  return log
end

local function charge_log(key, log, period, cost, places)
  local header = string.format('1l %s %.0f', log.birth, log.total - log.gone + cost)
  if log.size == 0 then
    redis.call('RPUSH', key, header, string.format('%.0f %.0f', log.t, cost))
  else
    if log.old > 0 then redis.call('LTRIM', key, log.old, -1) end
    redis.call('LSET', key, 0, header)
    local size = log.size - log.old
    if size > 0 and log.permits == 0 then
      redis.call('RPOP', key)
      size = size - 1
    end
    local newest, permits = 0, 0
    if size > 0 then newest, permits = entry_of(redis.call('LINDEX', key, -1)) end
    if size > 0 and (newest == log.t or size >= places) then
      redis.call('LSET', key, -1, string.format('%.0f %.0f', log.t, permits + cost))
    else
      redis.call('RPUSH', key, string.format('%.0f %.0f', log.t, cost))
    end
  end
  redis.call('PEXPIRE', key, until_ms(log.t + period))
end

-- The entry of the receipt: its index and its permits.
local function find_entry(key, log, period, taken_at)
  local place, had
  each_entry(key, log.old + 1, function(i, t, permits)
    if t == taken_at then place, had = i, permits end
    return t >= taken_at
  end)
  return place, had
end

local function give_back(key, log, place, taken_at, left, back)
  redis.call('LSET', key, 0, string.format('1l %s %.0f', log.birth, log.total - back))
  if left == 0 and place < log.size then
    redis.call('LSET', key, place, '-')
    redis.call('LREM', key, 1, '-')
  else
    redis.call('LSET', key, place, string.format('%.0f %.0f', taken_at, left))
  end
end

local function log_facts(log, freed, given)
  return string.format('%s %.0f %.0f %.0f %.0f %.0f', log.birth, log.used, freed, log.rest,
                       log.newest, given)
end

algorithms.l = {
  record = function(item)
    local key = item.key
    local period, cost, room, places = argument(), argument(), argument(), argument()
    local log = read_log(key, period)
    local used = log.used
    if item.op == 'refund' then
      local born, taken_at, back = text_argument(), argument(), argument()
      if broken or log.birth ~= born then return true, log_facts(log, 0, 0) end
      local place, had = find_entry(key, log, period, taken_at)
      back = math.min(back, had or 0)
      if back == 0 then return true, log_facts(log, 0, 0) end
      log.used = used - back
      -- If this empties the newest entry, the log is at rest when the one before it expires.
      if had == back and log.rest == taken_at + period then
        log.rest = place > 1 and entry_of(redis.call('LINDEX', key, place - 1)) + period or 0
      end
      return true, log_facts(log, 0, back), function()
        give_back(key, log, place, taken_at, had - back, back)
      end
    end
    local fits = used <= room
    local freed = 0
    if not fits and room >= 0 then
      local excess = used - room
      each_entry(key, log.old + 1, function(_, t, permits)
        freed = t + period
        excess = excess - permits
        return excess <= 0
      end)
    end
    local charges = cost > 0 and item.op ~= 'look'
    return fits or item.op == 'debit' or item.op == 'look', log_facts(log, freed, 0), charges and function()
      charge_log(key, log, period, cost, places)
    end
  end,
}
