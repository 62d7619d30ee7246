// @grpc/grpc-js against a running daemon: client.mjs PORT PROTO_FOLDER. Fails with the difference.

import assert from 'node:assert/strict';
import { promisify } from 'node:util';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const [port, folder] = process.argv.slice(2);
const load = (file) =>
  grpc.loadPackageDefinition(loader.loadSync(file, { includeDirs: [folder], longs: Number, enums: String }));
const { RateLimitService } = load('envoy/service/ratelimit/v3/rls.proto').envoy.service.ratelimit.v3;
const { Health } = load('grpc/health/v1/health.proto').grpc.health.v1;
const address = `127.0.0.1:${port}`;
const service = new RateLimitService(address, grpc.credentials.createInsecure());
const health = new Health(address, grpc.credentials.createInsecure());
const ask = promisify(service.shouldRateLimit.bind(service));
const request = (key, value) => ({ domain: 'test', descriptors: [{ entries: [{ key, value }] }] });

const one = await ask(request('daily', 'node'));
assert.equal(one.overallCode, 'OK');
assert.equal(one.statuses[0].limitRemaining, 19);
assert.equal(one.statuses[0].currentLimit.unit, 'DAY');

// Calls of one turn of the event loop are sent together.
const many = await Promise.all(Array.from({ length: 200 }, () => ask(request('plenty', 'node'))));
const remaining = many.map((answer) => answer.statuses[0].limitRemaining).sort((a, b) => a - b);
assert.deepEqual(remaining, Array.from({ length: 200 }, (_, i) => 999_800 + i));

const codes = [];
for (let i = 0; i < 22; ++i) codes.push((await ask(request('daily', 'node again'))).overallCode);
assert.deepEqual(codes, [...Array(20).fill('OK'), 'OVER_LIMIT', 'OVER_LIMIT']);

await assert.rejects(ask({ domain: '', descriptors: [] }), { code: grpc.status.UNKNOWN, details: /domain/ });
await assert.rejects(
  promisify(service.makeUnaryRequest.bind(service))('/no.such.Service/Nothing', (m) => m, (m) => m, Buffer.from('')),
  { code: grpc.status.UNIMPLEMENTED });

const check = promisify(health.check.bind(health));
assert.equal((await check({ service: 'ratelimit' })).status, 'SERVING');
const watching = health.watch({ service: '' });
const [first] = await new Promise((told) => watching.once('data', (answer) => told([answer])));
assert.equal(first.status, 'SERVING');
watching.on('error', (error) => assert.equal(error.code, grpc.status.CANCELLED));
watching.cancel();

service.close();
health.close();
console.log('grpc-js is content');
