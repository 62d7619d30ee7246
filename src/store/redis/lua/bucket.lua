-- core/bucket.cc. The text: price (nanoseconds, parts of one, parts in one), birth, marks (refunds
-- so far, modulo 8; plus 8 if callers may have been told to wait), theoretical arrival time
-- (seconds, parts), time of writing. A text with another price, or from before the last price
-- change, has to be converted by the client.
local function read_bucket(text, form, since)
  if not text then return birth, 0, 0, 0 end
  if string.sub(text, 1, #form) == form then
    local b, marks, ts, tb, written = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)$', #form + 1)
    if b and tonumber(written) < since then
      again = true
      return
    end
    if b then return b, tonumber(ts), tonumber(tb), tonumber(marks), written end
  elseif string.find(text, '^1b %d+ %d+ %d+ %d+ %d+ %d+ %d+ %d+$') then
    again = true
    return
  end
  broken = true
end

local function bucket_rest(ts, tb, parts)
  return ts * 1000000 + math.ceil(tb / (1000 * parts))
end
local function bucket_text(form, b, ts, tb, marks, parts)
  return string.format('%s%s %.0f %.0f %.0f %.0f', form, b, marks, ts, tb, now),
         bucket_rest(ts, tb, parts)
end

algorithms.b = {
  decide = function(text, item)
    local form, since, parts = text_argument(), argument(), argument()
    local cs, cb, ms, mb = argument(), argument(), argument(), argument()
    local expected, instead, waits = text_argument(), text_argument(), argument()
    local is_carried = expected ~= '' and text == expected
    if is_carried then text, since = instead, 0 end
    local b, ts, tb, marks = read_bucket(text, form, since)
    if not b then return false end
    -- The converted text is written in any case, so that the next call need not convert it again.
    if is_carried then item.carried, item.carried_rest = instead, bucket_rest(ts, tb, parts) end
    if waits == 1 and marks < 8 then marks = marks + 8 end
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
    return true, bucket_text(form, b, rs, rb, marks, parts)
  end,

  refund = function(text)
    local form, since, parts, born = text_argument(), argument(), argument(), text_argument()
    local untouched, replayed, rest = text_argument(), text_argument(), argument()
    local ws, wb, bs, bb = argument(), argument(), argument(), argument()
    local as, ab, fs, fb, queues = argument(), argument(), argument(), argument(), argument()
    local b, ts, tb, marks, written = read_bucket(text, form, since)
    if not b or b ~= born then return end
    -- Both texts end before the time of writing, which is not a part of the state and is kept.
    if written and untouched ~= '' and string.sub(text, 1, #untouched) == untouched then
      return replayed .. written, rest, true
    end
    local base, nb = parts * 1000000000, nanos * parts
    if less(ts, tb, s, nb) then ts, tb = s, nb end
    local ds, db = minus(ts, tb, s, nb, base)
    -- The time that has passed since, and the waiting time that callers were told.
    local ps, pb = 0, 0
    if less(as, ab, s, nb) then ps, pb = minus(s, nb, as, ab, base) end
    if (queues == 1 or marks >= 8) and less(fs, fb, ds, db) then
      local ls, lb = minus(ds, db, fs, fb, base)
      ps, pb = plus(ps, pb, ls, lb, base)
    end
    local os, ob = minus(ws, wb, ps, pb, base)
    os, ob = smaller(os, ob, ds, db)
    os, ob = smaller(os, ob, bs, bb)
    if os < 0 or (os == 0 and ob == 0) then return end
    ts, tb = minus(ts, tb, os, ob, base)
    return bucket_text(form, b, ts, tb, marks - marks % 8 + (marks + 1) % 8, parts)
  end,
}
