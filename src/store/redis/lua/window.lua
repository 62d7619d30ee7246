-- core/window.cc, in whole microseconds. The text: birth, an instant in the window, the usage.
local function aligned_or_opened()
  local period, from_first = argument(), text_argument() == '1'
  return function(t, mark, is_open)
    if not from_first then return t - t % period, t - t % period + period end
    if is_open and t < mark + period then return mark, mark + period, mark end
    return t, t + period, t
  end
end

-- A quota: the client knows the calendar, and sends the bounds of the periods around the expected
-- time.
local function listed()
  local ends = {argument(), argument(), argument(), argument()}
  return function(t)
    for i = 1, 3 do
      if t >= ends[i] and t < ends[i + 1] then return ends[i], ends[i + 1] end
    end
    again = true
  end
end

local function in_windows(letter, spans)
  local pattern = '^1' .. letter .. ' (%d+) (%d+) (%d+)$'
  local form = '1' .. letter .. ' %s %.0f %.0f'
  local function usage(text)
    local span = spans()
    local b, mark, used = birth, 0, 0
    if text then b, mark, used = fields(text, pattern) end
    if not b then return end
    local t = math.max(now, mark)
    local first, last, opened = span(t, mark, used > 0)
    if not first then return end
    if mark < first then used = 0 end
    return b, used, mark, opened or t, first, last
  end
  return {
    usage = usage,

    decide = function(text)
      local b, used, _, mark, _, last = usage(text)
      local cost, room = argument(), argument()
      if not b or (not forced and used > room) then return false end
      if cost == 0 then return true end
      return true, string.format(form, b, mark, math.min(used + cost, most)), last
    end,

    refund = function(text)
      local b, used, mark, _, first, last = usage(text)
      local born, taken_at, back = text_argument(), argument(), argument()
      if not b or b ~= born then return end
      back = math.min(back, used)
      if back == 0 or taken_at < first or taken_at >= last then return end
      return string.format(form, b, mark, used - back), last
    end,
  }
end

algorithms.w = in_windows('w', aligned_or_opened)
algorithms.q = in_windows('q', listed)
