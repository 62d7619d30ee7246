-- A bucket with leased permits: a lease is a debt that does not drain. Debts are in parts of a
-- nanosecond. Their maximum makes the sum of two exact.
local most_debt = 4503599627370496

local function divided(a, b)
  return (a - a % b) / b
end

local function account_of(_, text)
  local form, since, parts = text_argument(), argument(), argument()
  local price, depth = argument(), argument()
  local expected, instead = text_argument(), text_argument()
  -- Spent permits drain at the present price only from the last price change on.
  local priced = since > 0 and since + 1 or 0
  if expected ~= '' and text == expected then text, since = instead, 0 end
  local b, ts, tb, marks = read_bucket(text, form, since)
  if not b then return end
  local base, sub = parts * 1000000000, nanos * parts
  local since_micro = nanos - us * 1000
  local was = math.max(math.min((ts - s) * base + (tb - sub), most_debt), 0)
  local debt, gives_back = was, false
  local function worth(permits)
    return math.min(permits * price, most_debt)
  end

  return {
    as_of = now,
    first = 0,
    last = most,
    -- `spent` of the outstanding permits were spent `ago` microseconds ago, and have drained since.
    occupy = function(outstanding, spent, ago)
      ago = math.min(ago * 1000, math.max((now - priced) * 1000 + since_micro, 0))
      debt = math.max(debt, worth(outstanding) - ago * parts, worth(outstanding - spent))
    end,
    -- The permits were occupied until `ended`, and have drained since.
    lapse = function(outstanding, ended)
      local ago = math.max((now - math.max(ended, priced)) * 1000 + since_micro, 0)
      debt = math.max(debt, worth(outstanding) - ago * parts)
    end,
    charge = function(permits)
      debt = math.min(debt + worth(permits), most_debt)
    end,
    give_back = function(permits)
      debt = math.max(debt - worth(permits), 0)
      gives_back = gives_back or permits > 0
    end,
    available = function()
      return debt > depth and 0 or divided(depth - debt, price)
    end,

    -- The time in nanoseconds until so many permits are free, if all leases are left to expire.
    -- `loans` are sorted by their end, the latest first.
    retry_after = function(permits, loans)
      local room = depth - worth(permits)
      local wait, outstanding = 0, 0
      for i = 1, #loans do
        outstanding = outstanding + loans[i].outstanding
        local above = worth(outstanding) - room
        if above > 0 then
          local left = (loans[i].ends - now) * 1000 - since_micro
          wait = math.max(wait, left - divided(-above, parts))
        end
      end
      return wait
    end,
    drained_after = function(outstanding)
      return math.ceil(worth(outstanding) / (1000 * parts))
    end,

    text = function()
      if debt ~= was then
        local sum = sub + debt
        tb = sum % base
        ts = s + (sum - tb) / base
        if gives_back then marks = marks - marks % 8 + (marks + 1) % 8 end
      elseif not text then
        return
      end
      return bucket_text(form, b, ts, tb, marks, parts)
    end,
  }
end
