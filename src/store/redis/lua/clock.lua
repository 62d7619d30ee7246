-- The time: the server's, read once, or the one in `given`, which is honoured only where nothing but
-- tests lives.
-- (To add nothing makes a number of a text for half of what tonumber costs, which reads it twice.)
local s, us, nanos, birth, clock  -- seconds; microseconds and nanoseconds behind them
if given == '' or not given then
  clock = redis.call('TIME')
  s, us = clock[1] + 0, clock[2] + 0
  nanos = us * 1000
else
  for i = 1, #KEYS do
    if string.sub(KEYS[i], 1, 11) ~= 'weir1:test:' then
      return redis.error_reply('WEIRCLOCK a time was given for ' .. KEYS[i] ..
                               ', and only keys under weir1:test: take one')
    end
  end
  s, nanos, birth = string.match(given, '^(%d+) (%d+) (%d+)$')
  s, nanos = tonumber(s), tonumber(nanos)
  us = math.floor(nanos / 1000)
  clock = {string.format('%.0f', s), string.format('%.0f', us)}
end
local testing = birth ~= nil
-- All whole numbers here are below 2^53, so that they are exact.
local now = s * 1000000 + us
