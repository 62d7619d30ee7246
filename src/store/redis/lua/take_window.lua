-- An aligned window or a quota, with its letter for each ~: reads the usage, and finds the call's
-- window.
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
