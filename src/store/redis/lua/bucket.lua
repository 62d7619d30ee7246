-- core/bucket.cc. The text: price and parts, birth, refunds so far, theoretical arrival time.
local function read_bucket(text, form)
  if not text then return birth, 0, 0, 0 end
  if string.sub(text, 1, #form) == form then
    local b, refunds, ts, tb = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$', #form + 1)
    if b then return b, tonumber(ts), tonumber(tb), tonumber(refunds) end
  elseif string.find(text, '^1b %d+ %d+ %d+ %d+ %d+ %d+$') then
    again = true
    return
  end
  broken = true
end

local function bucket_text(form, b, ts, tb, refunds, parts)
  return string.format('%s%s %.0f %.0f %.0f', form, b, refunds, ts, tb),
         ts * 1000000 + math.ceil(tb / (1000 * parts))
end

algorithms.b = {
  decide = function(text)
    local form, parts = text_argument(), argument()
    local cs, cb, ms, mb = argument(), argument(), argument(), argument()
    local expected, instead = text_argument(), text_argument()
    if expected ~= '' and text == expected then text = instead end
    local b, ts, tb, refunds = read_bucket(text, form)
    if not b then return false end
    local base, nb = parts * 1000000000, nanos * parts
    if less(ts, tb, s, nb) then ts, tb = s, nb end
    local ls, lb = plus(s, nb, ms, mb, base)
    if not forced and less(ls, lb, ts, tb) then return false end
    if cs == 0 and cb == 0 then return true end
    local rs, rb = plus(ts, tb, cs, cb, base)
    if forced then
      ls, lb = plus(s, nb, 2305843009, 213693952 * parts, base)
      rs, rb = smaller(rs, rb, ls, lb)
      if less(rs, rb, ts, tb) then rs, rb = ts, tb end
    end
    return true, bucket_text(form, b, rs, rb, refunds, parts)
  end,

  refund = function(text)
    local form, parts, born = text_argument(), argument(), text_argument()
    local untouched, replayed, rest = text_argument(), text_argument(), argument()
    local ws, wb, bs, bb = argument(), argument(), argument(), argument()
    local as, ab, fs, fb = argument(), argument(), argument(), argument()
    local b, ts, tb, refunds = read_bucket(text, form)
    if not b or b ~= born then return end
    if text == untouched then return replayed, rest end
    local base, nb = parts * 1000000000, nanos * parts
    if less(ts, tb, s, nb) then ts, tb = s, nb end
    local ds, db = minus(ts, tb, s, nb, base)
    -- What has passed since, up to the last turn that somebody was told to wait for.
    local ps, pb = 0, 0
    if less(as, ab, s, nb) then ps, pb = minus(s, nb, as, ab, base) end
    if less(fs, fb, ds, db) then
      local ls, lb = minus(ds, db, fs, fb, base)
      ps, pb = plus(ps, pb, ls, lb, base)
    end
    local os, ob = minus(ws, wb, ps, pb, base)
    os, ob = smaller(os, ob, ds, db)
    os, ob = smaller(os, ob, bs, bb)
    if os < 0 or (os == 0 and ob == 0) then return end
    ts, tb = minus(ts, tb, os, ob, base)
    return bucket_text(form, b, ts, tb, (refunds + 1) % 16, parts)
  end,
}
