-- core/smooth.cc. The text: birth; the time of the next admission and the savings, each as seconds,
-- nanoseconds and parts of a nanosecond.

-- 2 × cold × (2 × saved - cold) / warmup, rounded up, all in parts. Exact beyond 2^53, by long
-- arithmetic.
local function digits_of(high, low, base)
  -- high × base + low, in three digits of 20 bits
  local digit = 1048576
  local b0, b1, b2 = base % digit, math.floor(base / digit) % digit,
                     math.floor(base / (digit * digit))
  local d0 = high * b0 + low % digit
  local d1 = high * b1 + math.floor(low / digit) % digit + math.floor(d0 / digit)
  local d2 = high * b2 + math.floor(low / (digit * digit)) + math.floor(d1 / digit)
  return {d0 % digit, d1 % digit, d2}
end
local function quotient(a, b, divisor, base)
  local digit = 1048576
  local product = {0, 0, 0, 0, 0, 0}
  for i = 1, 3 do
    for j = 1, 3 do product[i + j - 1] = product[i + j - 1] + a[i] * b[j] end
  end
  for i = 1, 5 do
    product[i + 1] = product[i + 1] + math.floor(product[i] / digit)
    product[i] = product[i] % digit
  end
  -- Long division bit by bit: the remainder is two halves of 40 bits, the quotient is a pair.
  local half = digit * digit
  local wh, wl = divisor[3], divisor[2] * digit + divisor[1]
  local rh, rl, qs, qb = 0, 0, 0, 0
  for i = 6, 1, -1 do
    local bit = digit / 2
    if i == 6 then
      while bit * 2 <= product[6] do bit = bit * 2 end
    end
    local left = product[i]
    while bit >= 1 do
      rl, rh = rl * 2, rh * 2
      if left >= bit then
        left = left - bit
        rl = rl + 1
      end
      if rl >= half then rl, rh = rl - half, rh + 1 end
      qs, qb = plus(qs, qb, qs, qb, base)
      if not less(rh, rl, wh, wl) then
        rh, rl = minus(rh, rl, wh, wl, half)
        qs, qb = plus(qs, qb, 0, 1, base)
      end
      bit = bit / 2
    end
  end
  if rh > 0 or rl > 0 then qs, qb = plus(qs, qb, 0, 1, base) end
  return qs, qb
end

algorithms.s = {
  decide = function(text)
    local parts, ps, pb, cs, cb = argument(), argument(), argument(), argument(), argument()
    local fs, fb, warms, hs, hb = argument(), argument(), text_argument(), argument(), argument()
    local base, nb = parts * 1000000000, nanos * parts
    local b, ts, tb, vs, vb = birth, s, nb, fs, fb
    if text then
      local b2, t1, t2, t3, v1, v2, v3 =
        fields(text, '^1s (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
      if not b2 then return false end
      b = b2
      if t1 + t2 + t3 + v1 + v2 + v3 > 0 then
        ts, tb = t1, t2 * parts + math.min(t3, parts - 1)
        vs, vb = smaller(v1, v2 * parts + math.min(v3, parts - 1), fs, fb)
        if less(ts, tb, s, nb) then
          local es, eb = minus(s, nb, ts, tb, base)
          vs, vb = plus(vs, vb, es, eb, base)
          vs, vb = smaller(vs, vb, fs, fb)
          ts, tb = s, nb
        end
      end
    end
    local ls, lb = plus(s, nb, ps, pb, base)
    if not forced and less(ls, lb, ts, tb) then return false end
    if cs == 0 and cb == 0 then return true end
    local ds, db = smaller(cs, cb, vs, vb)
    local os, ob = minus(cs, cb, ds, db, base)
    if warms == '1' then
      local ks, kb = 0, 0
      if less(hs, hb, vs, vb) then
        ks, kb = minus(vs, vb, hs, hb, base)
        ks, kb = smaller(ks, kb, ds, db)
      end
      os, ob = cs, cb
      if ks > 0 or kb > 0 then
        local k2s, k2b = plus(ks, kb, ks, kb, base)
        local v2s, v2b = plus(vs, vb, vs, vb, base)
        v2s, v2b = minus(v2s, v2b, ks, kb, base)
        local qs, qb = quotient(digits_of(k2s, k2b, base), digits_of(v2s, v2b, base),
                                digits_of(fs, fb, base), base)
        os, ob = plus(os, ob, qs, qb, base)
        os, ob = minus(os, ob, k2s, k2b, base)
      end
    end
    ts, tb = plus(ts, tb, os, ob, base)
    ts, tb = smaller(ts, tb, 4611686018, 427387904 * parts)
    vs, vb = minus(vs, vb, ds, db, base)
    local rs, rb = plus(ts, tb, fs, fb, base)
    rs, rb = minus(rs, rb, vs, vb, base)
    return true,
           string.format('1s %s %.0f %.0f %.0f %.0f %.0f %.0f', b, ts, math.floor(tb / parts),
                         tb % parts, vs, math.floor(vb / parts), vb % parts),
           rs * 1000000 + math.ceil(rb / (1000 * parts))
  end,
}
