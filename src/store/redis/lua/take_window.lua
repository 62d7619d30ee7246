-- A window or quota, whose letter is in the place of each ~: what was used, and in which of them the
-- call is.
local text@ = call('GET', KEYS[@])
local life@, mark@, used@ = nil, 0, 0
if text@ then
  life@, mark@, used@ = match(text@, '^1~ (%d+) (%d+) (%d+)$')
  if not life@ then return strange(KEYS[@]) end
  mark@, used@ = mark@ + 0, used@ + 0
end
local t@ = now
if mark@ > now then t@ = mark@ end
local first@, last@
