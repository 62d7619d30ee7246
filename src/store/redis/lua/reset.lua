redis.call('DEL', unpack(KEYS))
return {1, s, us}
