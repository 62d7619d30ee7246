-- Shared by all algorithms: reading arguments, results, and arithmetic on pairs of numbers.
birth = birth or string.format('%.0f', now)
local holder = ARGV[2]
local at = 3
local keys = 0  -- number of keys read so far
local again, broken = false, nil
local forced = false  -- charge without a decision
local algorithms = {}
local most = 9007199254740991

local function text_argument()
  at = at + 1
  return ARGV[at - 1]
end
local function argument()
  at = at + 1
  return tonumber(ARGV[at - 1])
end

-- A pair: whole seconds, and parts of a second, of which `base` make one.
local function plus(as, ab, bs, bb, base)
  local cs, cb = as + bs, ab + bb
  if cb >= base then return cs + 1, cb - base end
  return cs, cb
end
local function minus(as, ab, bs, bb, base)
  local cs, cb = as - bs, ab - bb
  if cb < 0 then return cs - 1, cb + base end
  return cs, cb
end
local function less(as, ab, bs, bb)
  return as < bs or (as == bs and ab < bb)
end
local function smaller(as, ab, bs, bb)
  if less(bs, bb, as, ab) then return bs, bb end
  return as, ab
end

-- The fields of a text after its first word; nil if the text has another form.
local function fields(text, pattern)
  local a, b, c, d, e, f, g = string.match(text, pattern)
  if not a then broken = true end
  return a, tonumber(b), tonumber(c), tonumber(d), tonumber(e), tonumber(f), tonumber(g)
end

-- The TTL in milliseconds of a key that is at rest at `rest`, times `times`; at most 73 years.
local function until_ms(rest, times)
  if testing then return '3600000' end
  local ms = math.max(math.ceil((rest - now) / 1000), 0) * (times or 1)
  return string.format('%.0f', math.min(ms, 2305843009213) + 1)
end
