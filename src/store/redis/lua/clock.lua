-- The time: the server's, read once, or that of a test in `given`, which is accepted only for keys
-- of tests. Adding 0 converts a text to a number at half the cost of tonumber, which parses it
-- twice.
local s, us, nanos, birth, clock  -- seconds; microseconds and nanoseconds of the second
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
-- All integers are below 2^53, so they are exact as doubles.
local now = s * 1000000 + us
