-- Decides a window: `room` is the maximum usage before a call with this cost.
local next@, span@
if not first@ then
  outcome = '2'
else
  if mark@ < first@ then used@ = 0 end
  if used@ > room@ then
    if outcome == '1' then outcome = '0' end
  elseif cost@ > 0 then
    used@ = used@ + cost@
    if used@ > 9007199254740991 then used@ = 9007199254740991 end
    next@ = '1~ ' .. (life@ or birth or format('%.0f', now)) .. format(' %d %d', t@, used@)
    span@ = testing and '3600000' or format('%d', (last@ - now) / 1000 + 2)
  end
end
