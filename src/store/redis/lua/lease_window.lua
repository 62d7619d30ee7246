-- A window or a quota with leased permits: a lease counts as used, and ends with the window.
local function account_of(letter, text)
  local b, used, mark, opened, first, last = algorithms[letter].usage(text)
  local count = argument()
  if not b then return end
  local was = used

  return {
    as_of = math.max(now, mark),
    first = first,
    last = last,
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
      return math.max(count - used, 0)
    end,

    text = function()
      if used == was then return text or nil end
      if used > was then mark = opened end
      return string.format('1%s %s %.0f %.0f', letter, b, mark, used), last
    end,
  }
end
