-- A bucket. CommandArguments: the parts in a nanosecond; in parts, the debt that the call adds and the
-- maximum debt before it; the time of the last price change; the price as in the text. GET reports
-- a key of another type as an error. MGET would treat it as missing, and costs as much.
local text@ = call('GET', KEYS[@])
local next@, span@
do
  local base, sub = parts@ * 1000000000, nanos * parts@
  local life, debt = nil, 0  -- birth and marks
  if text@ then
    local rate, ts, tb, written
    rate, life, ts, tb, written = match(text@, '^1b (%d+ %d+ %d+) (%d+ %d+) (%d+) (%d+) (%d+)$')
    if not rate then return strange(KEYS[@]) end
    if rate == rate@ and written + 0 >= since@ then
      debt = (ts - s) * base + (tb - sub)
      if debt < 0 then debt = 0 end
    else
      outcome = '2'
    end
  end
  if debt > most@ then
    if outcome == '1' then outcome = '0' end
  elseif cost@ > 0 then
    debt = debt + cost@
    sub = sub + debt
    local rest = sub % base
    life = life or (birth or format('%.0f', now)) .. ' 0'
    next@ = '1b ' .. rate@ .. ' ' .. life .. ' ' .. format('%d %d %d', s + (sub - rest) / base, rest, now)
    span@ = testing and '3600000' or format('%d', debt / (1000000 * parts@) + 2)
  end
end
