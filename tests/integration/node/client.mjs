// node-redis against a running daemon: client.mjs PORT. Fails with the difference.

import assert from 'node:assert/strict';
import { createClient } from 'redis';

const client = createClient({ socket: { host: '127.0.0.1', port: Number(process.argv[2]) } });
await client.connect();
assert.equal(await client.ping(), 'PONG');

const taken = await client.sendCommand(['WEIR.TAKE', 'llm', 'node', '400']);
assert.deepEqual(taken.slice(0, 4), [1, 1000, 600, 0]);
assert.equal(taken[6], 'tokens');

// Commands of one turn of the event loop are sent together.
const many = await Promise.all(
  Array.from({ length: 100 }, () => client.sendCommand(['WEIR.TAKE', 'llm', 'node']))
);
assert.deepEqual(many.map((answer) => answer[2]), Array.from({ length: 100 }, (_, i) => 599 - i));

await assert.rejects(client.sendCommand(['WEIR.TAKE', 'nobody', 'node']), /there is no policy/);
assert.deepEqual((await client.sendCommand(['CL.THROTTLE', 'node', '4', '1', '1'])).slice(0, 3), [0, 5, 4]);
await client.quit();
console.log('node-redis is content');
