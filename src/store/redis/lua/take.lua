-- The take script, for most calls: buckets whose debts are exact in one number, aligned windows and
-- quotas, without shadow limits. The first argument has the numbers of all limits as doubles; in
-- tests a time follows. The reply is one text: the outcome and the time, then a line with the value
-- found for each limit.
--
-- Strings, tables and arguments are expensive here. So all numbers come in one binary argument, the
-- reply is not an array, and there are no tables: the code for a limit is a template that is
-- instantiated for each limit, with its number for each @. %d is faster than %.0f, and as exact. A
-- 32-bit server would write a negative number, which the client rejects.
local call, format, match = redis.call, string.format, string.match
local outcome = '1'
local function strange(key)
  return redis.error_reply('WEIRFORMAT ' .. key .. ' holds nothing that this version wrote')
end
