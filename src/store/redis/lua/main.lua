-- The question: each item is looked at, then all are written or none is.
local items, found = {}, {}
local admitted, asked, only_shadows = true, false, true
while at <= #ARGV do
  keys = keys + 1
  local item = {key = KEYS[keys], letter = text_argument(), op = text_argument()}
  local algorithm = algorithms[item.letter]
  items[#items + 1] = item
  if algorithm.record then
    item.passes, item.found, item.write = algorithm.record(item)
    if item.letter == 'h' then
      keys = keys + 1  -- the hash beside it
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
      if (text or '') ~= expected or item.next == expected then item.next = nil end
    elseif item.op == 'refund' then
      item.next, item.rest = algorithm.refund(text)
    elseif item.op ~= 'look' then
      forced = item.op == 'debit'
      item.passes, item.next, item.rest = algorithm.decide(text, item.op)
    end
  end
  if broken then
    return redis.error_reply('WEIRFORMAT ' .. item.key .. ' holds nothing that this version wrote')
  end
  found[#items] = item.found
  if not item.passes and item.op ~= 'shadow' then admitted = false end
end
if again then return {2, s, us, unpack(found, 1, #items)} end

-- A holder that has all it could enter for renews, and nothing else is charged or asked.
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
        redis.call('SET', item.key, item.next, 'PX', until_ms(item.rest))
      end
    end
  end
end
return {admitted and 1 or 0, s, us, unpack(found, 1, #items)}
