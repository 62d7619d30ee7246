-- A sliding counter with leased permits: a lease counts as used in the current window, and ends
-- with it.
local function account_of(_, text)
  local period, count = argument(), argument()
  local b, t, first, previous, used, last = counters(text, period)
  if not b then return end
  local was = used
  -- The weight of the previous window, rounded up: an estimate in doubles, then corrected exactly.
  local covered = period - (t - first)
  local weighed = math.max(math.floor(previous * (covered / period)) - 1, 0)
  while not at_most(previous, covered, weighed, period) do weighed = weighed + 1 end
  local usable = math.max(count - weighed, 0)

  return {
    as_of = t,
    first = first,
    last = first + period,
    occupy = function(outstanding)
      used = math.max(used, outstanding)
    end,
    charge = function(permits)
      used = math.min(used + permits, most)
    end,
    give_back = function(permits)
      used = math.max(used - permits, 0)
    end,
    available = function()
      return math.max(usable - used, 0)
    end,

    text = function()
      if used == was then return text or nil end
      if used > was then last = t end
      return string.format('1v %s %.0f %.0f %.0f', b, last, previous, math.min(used, 4294967295)),
             first + 2 * period
    end,
  }
end
