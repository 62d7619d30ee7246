// The same as drive.py for a sample in JavaScript: drive.mjs SAMPLE POLICY KEY TASKS CALLS.

const [, , name, policy, key, tasks, calls] = process.argv;
const { take } = await import(`./${name}.mjs`);
let admitted = 0;
let longest = 0;

async function ask() {
  for (let i = 0; i < Number(calls); ++i) {
    const start = performance.now();
    const decision = await take(policy, key);
    longest = Math.max(longest, (performance.now() - start) / 1000);
    if (decision.allowed) ++admitted;
  }
}

await Promise.all(Array.from({ length: Number(tasks) }, ask));
console.log(JSON.stringify({ admitted, longest }));
process.exit(0);
