import { createClient, ErrorReply } from 'redis';

const DEADLINE = 100;                                // milliseconds: for each answer
const VALUES = ['allowed', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'wait_ms', 'limited_by', 'degraded'];

export const weir = createClient({
  socket: { port: 7379, connectTimeout: DEADLINE },
  disableOfflineQueue: true,                         // without a connection calls fail at once
  commandsQueueMaxLength: 100_000,                   // unanswered calls, should weir hang
});
weir.on('error', () => {});                          // it connects again by itself

function within(deadline, promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('too late')), deadline); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

await within(10 * DEADLINE, weir.connect()).catch(() => {});  // starts without weir, too

export async function take(policy, key, permits = 1) {
  try {
    const answer = await within(DEADLINE, weir.sendCommand(['WEIR.TAKE', policy, key, String(permits)]));
    if (!Array.isArray(answer)) return answer;       // RESP3 has names, RESP2 has not
    return Object.fromEntries(VALUES.map((name, i) => [name, answer[i]]));
  } catch (error) {
    if (error instanceof ErrorReply) throw error;    // a mistake
    return { allowed: 1, retry_after_ms: 0 };        // weir does not answer: fail open
  }
}
