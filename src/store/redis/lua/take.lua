-- A take of buckets whose debts are exact in one number, of windows and of quotas, none of them a
-- shadow: what most calls are. The argument has the numbers of all of them as doubles; tests give a
-- time behind it. The reply is one text: what came of it and the time, then a line of what was found
-- for each.
--
-- What is dear here are strings, tables and arguments. So all numbers come in one argument and need
-- not be read from digits, the reply is no list, and nothing is kept in tables: the texts for one
-- limit are written out for each, with its number in the place of each @.
-- (%d is faster than %.0f and as exact; a 32-bit server would write a minus, which is an error to
-- whoever reads it.)
local call, format, match = redis.call, string.format, string.match
local outcome = '1'
local function strange(key)
  return redis.error_reply('WEIRFORMAT ' .. key .. ' holds nothing that this version wrote')
end
