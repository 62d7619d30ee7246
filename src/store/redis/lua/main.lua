-- A refund that may be repeated has a key of its own, with the number of the last refund with the
-- same receipt, the permits it asked for, and whether it was an exact undo. The client sends the
-- number that it knows. If the numbers differ, the reply is "again", so that the client learns of
-- that refund first.
local refunds = {refund = true, untouched = true, exchange = true}
local function read_last_refund(item)
  item.keep = argument()
  if item.keep == 0 then return end
  local known, unknown_until
  known, item.back, unknown_until = argument(), text_argument(), argument()
  keys = keys + 1
  item.refund_key = KEYS[keys]
  item.number = known + 1
  local last = redis.call('GET', item.refund_key)
  local number = last and tonumber(string.match(last, '^1r (%d+) %d+ [01]$'))
  if last and not number then broken = item.refund_key end
  local is_forgotten = not last and unknown_until > 0 and unknown_until <= now
  if (number or 0) ~= known or is_forgotten then item.lost = last or '1r' end
end
local function write_last_refund(item)
  if not item.refund_key then return end
  local text = string.format('1r %.0f %s %d', item.number, item.back, item.exact and 1 or 0)
  redis.call('SET', item.refund_key, text, 'PX', until_ms(item.keep))
end

-- The request: decides each item, then writes all of them or none.
local items, found = {}, {}
local admitted, asked, only_shadows = true, false, true
while at <= #ARGV do
  keys = keys + 1
  local item = {key = KEYS[keys], letter = text_argument()}
  -- The price of a bucket may rise by a known factor: then its key is kept that much longer.
  if item.letter == 'b' then item.times = argument() end
  item.op = text_argument()
  local algorithm = algorithms[item.letter]
  items[#items + 1] = item
  if refunds[item.op] then read_last_refund(item) end
  if algorithm.record then
    item.passes, item.found, item.write = algorithm.record(item)
    if item.letter == 'h' then
      keys = keys + 1  -- the hash of permits
      asked = asked or item.op ~= 'look'
      if item.op == 'take' then only_shadows = false end
    end
  else
    local text = redis.call('GET', item.key)
    item.found = text
    item.passes = true
    if item.op == 'untouched' or item.op == 'exchange' then
      local expected = text_argument()
      item.next, item.rest = text_argument(), argument()
      if (text or '') ~= expected and item.op == 'exchange' then again = true end
      if (text or '') ~= expected then item.next = nil end
      item.exact = item.op == 'untouched'
    elseif item.op == 'refund' then
      item.next, item.rest, item.exact = algorithm.refund(text)
    elseif item.op ~= 'look' then
      forced = item.op == 'debit'
      item.passes, item.next, item.rest = algorithm.decide(text, item)
    end
    if refunds[item.op] and item.next == (text or '') then item.next = nil end
  end
  if broken then
    local key = broken == true and item.key or broken
    return redis.error_reply('WEIRFORMAT ' .. key .. ' holds nothing that this version wrote')
  end
  if item.lost then again = true end
  found[#items] = item.lost or item.found
  if not item.passes and item.op ~= 'shadow' then admitted = false end
end
if again then return {2, s, us, unpack(found, 1, #items)} end

-- A holder that already holds permits of all concurrency limits renews; nothing else is decided or
-- charged.
local renewal = asked
for i = 1, #items do
  local item = items[i]
  if item.letter == 'h' and (item.op ~= 'shadow' or only_shadows) and not item.holds then
    renewal = false
  end
end
if renewal then admitted = true end
if admitted then
  for i = 1, #items do
    local item = items[i]
    if item.passes and (not renewal or item.letter == 'h') then
      if item.write then
        item.write()
      elseif item.next then
        redis.call('SET', item.key, item.next, 'PX', until_ms(item.rest, item.times))
        item.carried = nil
      end
      if item.write or item.next then write_last_refund(item) end
    end
  end
end
for i = 1, #items do
  local item = items[i]
  if item.carried then
    redis.call('SET', item.key, item.carried, 'PX', until_ms(item.carried_rest, item.times))
  end
end
return {admitted and 1 or 0, s, us, unpack(found, 1, #items)}
