-- core/redis_cell.cc. The text: birth, theoretical arrival time in seconds and nanoseconds.
algorithms.c = {
  decide = function(text, item)
    local cs, cb, ms, mb, ls, lb =
      argument(), argument(), argument(), argument(), argument(), argument()
    local b, ts, tb = birth, 0, 0
    if text then b, ts, tb = fields(text, '^1c (%d+) (%d+) (%d+)$') end
    if not b then return false end
    local base, nb = 1000000000, nanos
    if less(ts, tb, s, nb) then ts, tb = s, nb end
    ms, mb = plus(s, nb, ms, mb, base)
    ls, lb = plus(s, nb, ls, lb, base)
    if not forced and less(ts, tb, ls, lb) then
      -- A refund of more than the debt is an error that clears the debt, as in redis-cell. That
      -- holds for a single limit; with several limits nothing is written.
      if item.op == 'take' and #KEYS == 1 then
        local rest = s * 1000000 + math.ceil(nb / 1000)
        redis.call('SET', KEYS[1], string.format('1c %s %.0f %.0f', b, s, nb), 'PX', until_ms(rest))
      end
      return false
    end
    if not forced and less(ms, mb, ts, tb) then return false end
    if cs == 0 and cb == 0 then return true end
    ts, tb = plus(ts, tb, cs, cb, base)
    if forced then ts, tb = smaller(ts, tb, 4611686018, 427387904) end
    return true, string.format('1c %s %.0f %.0f', b, ts, tb), ts * 1000000 + math.ceil(tb / 1000)
  end,
}
