-- core/nginx.cc. The text: birth, a millisecond, the level at that time.
algorithms.n = {
  decide = function(text)
    local rate_high, rate_low, cost, room = argument(), argument(), argument(), argument()
    local b, then_ms, level = birth, 0, 0
    if text then b, then_ms, level = fields(text, '^1n (%d+) (%d+) (%d+)$') end
    if not b then return false end
    local now_ms = math.floor(now / 1000)
    local passed = now_ms - then_ms
    if passed < -60000 then passed = 1 elseif passed < 0 then passed = 0 end
    -- The rate is split in thousands and the rest: a product that is not exact is far above any
    -- level.
    local drained = rate_high * passed + math.floor(rate_low * passed / 1000)
    local owed = math.max(level - drained, 0)
    if not forced and owed > room then return false end
    if cost == 0 then return true end
    if level == 0 or passed ~= 0 then then_ms = math.max(now_ms, 1) end
    owed = math.min(owed + cost, most)
    local rest = (then_ms + math.ceil(owed * 1000 / (rate_high * 1000 + rate_low))) * 1000 + 1000
    return true, string.format('1n %s %.0f %.0f', b, then_ms, owed), rest
  end,
}
