-- A quota: the client knows the calendar, and sends the bounds of the periods around the expected
-- time.
if t@ >= start@ and t@ < second@ then
  first@, last@ = start@, second@
elseif t@ >= second@ and t@ < third@ then
  first@, last@ = second@, third@
elseif t@ >= third@ and t@ < fourth@ then
  first@, last@ = third@, fourth@
end
