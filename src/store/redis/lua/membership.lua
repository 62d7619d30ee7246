-- The heartbeat or leave message of a node. The reply lists the members, and for each generation in
-- use the number of nodes and this node's rank.
--
-- The list is one value: its epoch (its start), the current generation, the start of each
-- generation in use, and the nodes of these generations in the order in which they joined. A
-- generation is in use from the oldest that some node may still act on.
local ID, HEARD, SEEN, JOINED, LEFT, FOUNDER, INFO = 1, 2, 3, 4, 5, 6, 7
local own, leaves, info = ARGV[1], ARGV[2] == 'bye', ARGV[5]
local known_epoch, known = tonumber(ARGV[3]), tonumber(ARGV[4])
local silence, keep = tonumber(ARGV[6]), ARGV[7]

local packed = redis.call('GET', KEYS[1])
local list = packed and cmsgpack.unpack(packed)
-- A node has acknowledged a later generation than the list has: the server lost a part, so start
-- anew.
if list and known_epoch == list.epoch and known > list.generation then list = nil end
if not list then
  if leaves then return {} end
  -- Generation 0 has no members. It stays in use until members of an earlier list have stopped.
  list = {epoch = now, generation = 0, first = 0, began = {now}, nodes = {}}
end
local is_new = now - list.epoch < silence

-- True if a node has not acknowledged a generation for long: replies do not reach it.
local function is_deaf(node)
  local missed = list.began[node[SEEN] - list.first + 2]
  return missed ~= nil and now - missed > 2 * silence
end

local self, gone = nil, {}
for _, node in ipairs(list.nodes) do
  if node[LEFT] == 0 then
    node[HEARD] = math.min(node[HEARD], now)
    if node[ID] == own and not leaves then
      node[HEARD], node[INFO], self = now, info, node
      if known_epoch == list.epoch then node[SEEN] = math.max(node[SEEN], known) end
    elseif node[ID] == own or now - node[HEARD] > silence or is_deaf(node) then
      gone[#gone + 1] = node
    end
  end
end
local comes = not self and not leaves
if comes or #gone > 0 then
  list.generation = list.generation + 1
  list.began[#list.began + 1] = now
  for _, node in ipairs(gone) do node[LEFT] = list.generation end
end
if comes then
  -- Generations that it acknowledged before it joined do not count.
  self = {own, now, list.generation, list.generation, 0, is_new and 1 or 0, info}
  list.nodes[#list.nodes + 1] = self
end

local oldest = list.generation
for _, node in ipairs(list.nodes) do
  if node[LEFT] == 0 then oldest = math.min(oldest, node[SEEN]) end
end
if is_new then oldest = 0 end
while list.first < oldest do
  table.remove(list.began, 1)
  list.first = list.first + 1
end
local nodes = {}
for _, node in ipairs(list.nodes) do
  if node[LEFT] == 0 or node[LEFT] > list.first then nodes[#nodes + 1] = node end
end
list.nodes = nodes
redis.call('SET', KEYS[1], cmsgpack.pack(list), 'PX', keep)
if leaves then return {} end

-- The changes of each generation: of the number of nodes, and of those that joined before this one.
local more, ahead, is_ahead = {}, {}, true
local function add(to, generation, number)
  generation = math.max(generation, list.first)
  to[generation] = (to[generation] or 0) + number
end
for _, node in ipairs(nodes) do
  is_ahead = is_ahead and node ~= self
  for _, to in ipairs(is_ahead and {more, ahead} or {more}) do
    add(to, node[JOINED], 1)
    if node[LEFT] > 0 then add(to, node[LEFT], -1) end
  end
end
local places, count, rank = {}, 0, 0
for generation = list.first, list.generation do
  count = count + (more[generation] or 0)
  rank = rank + (ahead[generation] or 0)
  places[#places + 1] = string.format('%d:%d', count, generation < self[JOINED] and -1 or rank)
end

-- A line for each member, for people; at most 300.
local lines = {}
for _, node in ipairs(nodes) do
  if node[LEFT] == 0 and #lines < 300 then
    local silent = math.floor((now - node[HEARD]) / 1000)
    lines[#lines + 1] = string.format('%s %.0f %d %s', node[ID], silent, node[SEEN], node[INFO])
  end
end
return {list.epoch, list.generation, self[JOINED], self[FOUNDER], table.concat(places, ' '),
        table.concat(lines, '\n')}
