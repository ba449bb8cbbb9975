'use strict';
// Closes connections of amqplib while messages are under way: while they are delivered, while they
// are still in the library's buffers, and both. A close must be clean: no error of the library,
// none of its socket, which would be EPIPE or ECONNRESET, and the exit code 0.
//
//   node closing.js HOST PORT ROUNDS

const amqplib = require('amqplib');

const [host, port, rounds] = process.argv.slice(2);
const queue = 'amqplib.closing';
const backlog = 2000; // messages that are under way when a connection closes
const body = Buffer.alloc(1024, 'x');

async function connect() {
  const conn = await amqplib.connect({ protocol: 'amqp', hostname: host, port: Number(port), username: 'guest', password: 'guest' });
  const { stream } = conn.connection;
  const faults = [];
  conn.on('error', (err) => faults.push(`library: ${err.message}`));
  // At close-ok the library ends its socket, and what it still has in its buffers comes to a
  // socket that it has ended itself: that it does to itself, and says nothing of it.
  stream.on('error', (err) => err.code === 'ERR_STREAM_WRITE_AFTER_END' || faults.push(`socket: ${err.code}`));
  const gone = new Promise((ended) => stream.on('close', ended)); // no fault can follow
  return { conn, close: async () => {
    let answered = false;
    await Promise.race([conn.close().then(() => { answered = true; }), gone]);
    await gone;
    return answered ? faults : [...faults, 'no close-ok'];
  } };
}

async function fill(ch) {
  for (let i = 0; i < backlog; i++) ch.sendToQueue(queue, body);
  await ch.waitForConfirms();
}

// Ways to be busy when the connection closes; each returns once it is.
const ways = {
  'while unconfirmed messages are buffered': async (conn) => {
    const ch = await conn.createChannel();
    for (let i = 0; i < backlog; i++) ch.sendToQueue(queue, body);
  },
  'while messages are delivered': (conn) => first(conn, { noAck: true }),
  'while messages are delivered and acknowledged': (conn) => first(conn, {}),
  'while messages are delivered and others buffered': async (conn) => {
    await first(conn, {});
    const ch = await conn.createConfirmChannel();
    for (let i = 0; i < backlog; i++) ch.sendToQueue(queue, body);
  },
};

// first consumes until the first message is there; others are behind it.
async function first(conn, options) {
  const ch = await conn.createChannel();
  await new Promise((come) => {
    ch.consume(queue, (m) => {
      if (m && !options.noAck) ch.ack(m);
      come();
    }, options);
  });
}

async function main() {
  const setup = await connect();
  const ch = await setup.conn.createConfirmChannel();
  await ch.assertQueue(queue, { durable: true });
  let failed = 0;
  for (let i = 0; i < Number(rounds); i++) {
    for (const [name, busy] of Object.entries(ways)) {
      await fill(ch);
      const { conn, close } = await connect();
      await busy(conn);
      const faults = await close();
      if (faults.length) {
        failed++;
        console.log(`round ${i}, ${name}: ${faults.join(', ')}`);
      }
      await ch.purgeQueue(queue);
    }
  }
  await ch.deleteQueue(queue);
  failed += (await setup.close()).length;
  console.log(`${Number(rounds) * Object.keys(ways).length} closes, ${failed} with errors`);
  process.exitCode = failed ? 1 : 0;
}

main();
