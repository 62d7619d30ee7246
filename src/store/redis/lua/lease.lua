-- store/lease/ledger.cc. The first key is the limit's, as in all scripts. The second is a hash of
-- leases by the name of their holder: the number of its last request, the permits newly leased and
-- kept by that, the permits outstanding, and the end of the lease.
local key, hash = KEYS[1], KEYS[2]
local letter, number = text_argument(), text_argument()
local held, returned, overspent = argument(), argument(), argument()
local least, wanted, term, spent_ago = argument(), argument(), argument(), argument()
local times = letter == 'b' and argument() or 1  -- as in main.lua
local function refuse(name)
  return redis.error_reply('WEIRFORMAT ' .. name .. ' holds nothing that this version wrote')
end

local text = redis.call('GET', key)
local account = account_of(letter, text)
if broken then return refuse(key) end
if again then return {2, s, us, text} end

-- ---- The leases

local loans, ended, own, is_over = {}, {}, nil, false
local known = redis.call('HGETALL', hash)
for i = 1, #known, 2 do
  local pattern = '^1 (%d+) (%d+) (%d+) (%d+) (%d+)$'
  local asked, lent, kept, outstanding, ends = string.match(known[i + 1], pattern)
  if not asked then return refuse(hash) end
  local loan = {
    borrower = known[i],
    number = asked,
    lent = tonumber(lent),
    kept = tonumber(kept),
    outstanding = tonumber(outstanding),
    ends = tonumber(ends),
  }
  if loan.ends > account.as_of then
    loans[#loans + 1] = loan
    if loan.borrower == holder then own = loan end
  else
    ended[#ended + 1] = loan
    if loan.borrower == holder then
      is_over = loan.ends <= account.first
      -- None of its permits was spent after the last spending.
      loan.ends = math.min(loan.ends, now + 1 - spent_ago)
    end
  end
end

local function by_end(a, b)
  return a.ends > b.ends
end
local function outstanding_of(some, outstanding, each)
  for i = 1, #some do
    outstanding = math.min(outstanding + some[i].outstanding, most)
    if each then each(outstanding, some[i].ends) end
  end
  return outstanding
end

-- Permits of an expired lease count as spent at its end.
local outstanding = outstanding_of(loans, 0)
table.sort(ended, by_end)
outstanding_of(ended, outstanding, account.lapse)

local function answer(loan, kept_text)
  table.sort(loans, by_end)
  local retry = 0
  if loan.lent == 0 and wanted > 0 and account.retry_after then
    retry = account.retry_after(least, loans)
  end
  return {1, s, us, kept_text or false, loan.lent, loan.kept, loan.ends,
          outstanding_of(loans, 0), retry}
end

-- ---- The request

if own and own.number == number then
  account.occupy(outstanding, 0, 0)
  return answer(own, (account.text()))
end

local is_known = own ~= nil
if not own then
  own = {borrower = holder, outstanding = 0, ends = 0}
  loans[#loans + 1] = own
end
local keeps = math.min(held, own.outstanding)
local back = math.min(returned, own.outstanding - keeps)
account.occupy(outstanding, own.outstanding - keeps - back, spent_ago)
account.give_back(back)
account.charge(overspent)
local anew = is_over and 0 or math.min(held - keeps, account.available())
account.charge(anew)

local available = account.available()
own.number = number
own.kept = keeps + anew
own.lent = available < least and 0 or math.min(wanted, available)
own.outstanding = own.kept + own.lent
-- Never before the end of an earlier response: this response may be lost.
own.ends = math.min(math.max(now + term, own.ends), account.last)
account.charge(own.lent)

-- ---- Writing

for i = 1, #ended do redis.call('HDEL', hash, ended[i].borrower) end
if is_known or own.outstanding > 0 or overspent > 0 then
  redis.call('HSET', hash, holder, string.format('1 %s %.0f %.0f %.0f %.0f', number, own.lent,
                                                 own.kept, own.outstanding, own.ends))
  -- The hash is kept until the lease that ends last has drained.
  local latest = 0
  for i = 1, #loans do latest = math.max(latest, loans[i].ends) end
  if account.drained_after then
    latest = latest + account.drained_after(outstanding_of(loans, 0)) * times
  end
  redis.call('PEXPIRE', hash, until_ms(latest))
end
local written, rest = account.text()
if written and written ~= text then redis.call('SET', key, written, 'PX', until_ms(rest, times)) end
return answer(own, written)
