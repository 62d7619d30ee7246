-- The caller knows the calendar: it names the ends of the periods around the time it expects.
if t@ >= start@ and t@ < second@ then
  first@, last@ = start@, second@
elseif t@ >= second@ and t@ < third@ then
  first@, last@ = second@, third@
elseif t@ >= third@ and t@ < fourth@ then
  first@, last@ = third@, fourth@
end
