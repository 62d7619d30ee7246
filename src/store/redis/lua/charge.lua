  if next@ then call('PSETEX', KEYS[@], span@, next@) end
