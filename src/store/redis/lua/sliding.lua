-- core/sliding_counter.cc, in whole microseconds. The text: birth, the last admission, the two counters.

-- The exact product of a number below 2^32 and one below 2^53, as three digits, the highest first.
local function product(a, b)
  local digit = 1048576
  local low = b % digit
  local middle = math.floor(b / digit) % digit
  local high = math.floor(b / (digit * digit))
  low = a * low
  middle = a * middle + math.floor(low / digit)
  high = a * high + math.floor(middle / digit)
  return high, middle % digit, low % digit
end
local function at_most(a, b, c, d)
  local ah, am, al = product(a, b)
  local ch, cm, cl = product(c, d)
  if ah ~= ch then return ah < ch end
  if am ~= cm then return am < cm end
  return al <= cl
end

local function counters(text, period)
  local b, last, previous, current = birth, 0, 0, 0
  if text then b, last, previous, current = fields(text, '^1v (%d+) (%d+) (%d+) (%d+)$') end
  if not b then return end
  local t = math.max(now, last)
  local first = t - t % period
  if last < first then
    previous = last >= first - period and current or 0
    current = 0
  end
  return b, t, first, previous, current, last
end

algorithms.v = {
  decide = function(text)
    local period, cost, room = argument(), argument(), argument()
    local b, t, first, previous, current = counters(text, period)
    if not b then return false end
    local fits = current <= room and
                 at_most(previous, period - (t - first), room - current, period)
    if not fits and not forced then return false end
    if cost == 0 then return true end
    current = math.min(current + cost, 4294967295)
    return true, string.format('1v %s %.0f %.0f %.0f', b, t, previous, current),
           first + 2 * period
  end,

  refund = function(text)
    local period, born, taken_at, back = argument(), text_argument(), argument(), argument()
    local b, _, first, previous, current, last = counters(text, period)
    if not b or b ~= born then return end
    back = math.min(back, current)
    if back == 0 or taken_at < first or taken_at >= first + period then return end
    return string.format('1v %s %.0f %.0f %.0f', b, last, previous, current - back),
           first + 2 * period
  end,
}
