'use strict';
// What the programs of the clients for Node.js have in common: a command comes as a line of
// JSON, its answer goes as one, one after the other.

const readline = require('node:readline');

const patience = 1000 * Number(process.env.PATIENCE || 90); // milliseconds that something which must come may take

// Closed is the close of a channel or connection by the server.
class Closed extends Error {
  constructor(scope, code, text) {
    super(text);
    this.fault = { scope, code, text };
  }
}

// until waits for a condition; what is awaited comes as an event, so that asking costs nothing.
async function until(condition, what) {
  const end = Date.now() + patience;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

async function serve(hello, run) {
  const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');
  say(hello);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      say((await run(JSON.parse(line))) || {});
    } catch (err) {
      say(err.fault ? { fault: err.fault } : { broken: String(err.message || err) });
    }
  }
  process.exit(0);
}

// plain makes what JSON has of a value of AMQP.
function plain(v) {
  if (Buffer.isBuffer(v)) return v.toString();
  if (v instanceof Date) return Math.floor(v.getTime() / 1000);
  if (Array.isArray(v)) return v.map(plain);
  if (v && typeof v === 'object') {
    if (v['!'] === 'timestamp') return Number(v.value);
    return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, plain(x)]));
  }
  return v;
}

module.exports = { Closed, plain, serve, until };
