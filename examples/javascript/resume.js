'use strict';
// Publishes with confirms and consumes, and goes on by another node when the one in use is lost.
//
//   npm install
//   export QUORATE=127.0.0.1:7070,127.0.0.1:7170,127.0.0.1:7270
//   node resume.js publish numbers 10000
//   node resume.js consume numbers 10000

const crypto = require('node:crypto');
const path = require('node:path');
const { setTimeout: pause } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const { Admin, Broker } = grpc.loadPackageDefinition(loader.loadSync(
  ['broker/v1/broker.proto', 'broker/v1/admin.proto'],
  { includeDirs: [path.join(__dirname, '../../proto')], keepCase: true, longs: Number, enums: String, oneofs: true },
)).quorate.broker.v1;

const nodes = (process.env.QUORATE || '127.0.0.1:7070').split(',');
const window = 200; // messages that are published and not confirmed yet, or delivered and not settled
const pauseMs = 200; // between two tries
const options = { // a node that hangs is given up after 15 s; the broker takes pings from 5 s on
  'grpc.keepalive_time_ms': 10000,
  'grpc.keepalive_timeout_ms': 5000,
  'grpc.max_receive_message_length': -1,
};
// Errors that another try cannot mend; all others pass.
const final = ['INVALID_ARGUMENT', 'NOT_FOUND', 'FAILED_PRECONDITION', 'PERMISSION_DENIED', 'UNAUTHENTICATED', 'UNIMPLEMENTED']
  .map((name) => grpc.status[name]);

function login() {
  const metadata = new grpc.Metadata();
  metadata.set('authorization', 'Basic ' + Buffer.from('guest:guest').toString('base64'));
  return metadata;
}

// onAnyNode calls use with a client to one node after the other, until it returns.
async function onAnyNode(Service, use) {
  for (let i = 0; ; i = (i + 1) % nodes.length) {
    const client = new Service(nodes[i], grpc.credentials.createInsecure(), options);
    let connected = false;
    try {
      await new Promise((done, fail) => client.waitForReady(Date.now() + 5000, (err) => (err ? fail(err) : done())));
      connected = true;
      console.log('connected', nodes[i]);
      return await use(client);
    } catch (err) {
      if (err.code === undefined && connected || final.includes(err.code)) throw err;
      if (connected) console.log('lost', nodes[i]);
    } finally {
      client.close();
    }
    await pause(pauseMs);
  }
}

// Publisher numbers its messages and keeps each until its result is there. Under the same name and
// number a message is stored once, however often and by whichever node it is sent.
class Publisher {
  constructor(queue, count) {
    Object.assign(this, { queue, count, producer: crypto.randomBytes(16), sequence: 0 });
    this.unanswered = new Map(); // by sequence, in their order
  }

  async publish(client) {
    const stream = client.publish(login());
    stream.write({ producer: this.producer });
    if (this.unanswered.size) console.log('sent again', this.unanswered.size);
    for (const request of this.unanswered.values()) stream.write(request);
    this.fill(stream);
    for await (const response of stream) {
      this.answer(response);
      this.fill(stream);
      if (!this.unanswered.size) stream.end(); // the broker ends the stream, too
    }
    if (this.unanswered.size) throw Object.assign(new Error('the stream ended'), { code: grpc.status.UNAVAILABLE });
  }

  // fill sends new messages as far as the window allows.
  fill(stream) {
    while (this.sequence < this.count && this.unanswered.size < window) {
      const sequence = ++this.sequence;
      const request = { sequence, message: {
        routing_key: this.queue, // by the default exchange
        body: Buffer.from(String(sequence)),
        properties: { message_id: `${this.producer.toString('hex')}-${sequence}` },
      } };
      this.unanswered.set(sequence, request);
      stream.write(request);
    }
  }

  answer({ sequence, result }) {
    if (!this.unanswered.delete(sequence)) return; // the answer to an earlier try has come as well
    if (result.result !== 'RESULT_CONFIRMED') throw new Error(`message ${sequence} is not confirmed: ${JSON.stringify(result)}`);
    const confirmed = this.sequence - this.unanswered.size;
    if (confirmed % 100 === 0) console.log('confirmed', confirmed);
  }
}

// Consumer acknowledges what it has handled. What it had not, or whose acknowledgement was lost,
// comes again: it knows such messages by their message_id.
class Consumer {
  constructor(queue, count) {
    Object.assign(this, { queue, count, handled: new Set() });
  }

  async consume(client) {
    const stream = client.consume(login());
    let settled = false;
    stream.write({ open: { queue: this.queue, prefetch: window } });
    for await (const response of stream) {
      if (response.deliveries) {
        const { deliveries } = response.deliveries;
        deliveries.forEach((d) => this.handle(d));
        const ids = deliveries.map((d) => d.delivery_id);
        stream.write({ settlement: { delivery_ids: ids, outcome: 'OUTCOME_ACK', request: ids.at(-1) } });
      } else if (response.settled && this.handled.size >= this.count) {
        settled = true; // the acknowledgements are stored
        stream.end(); // the broker ends the stream, too
      } else if (response.cancelled) {
        throw new Error(`cancelled: ${response.cancelled.cause}`);
      }
    }
    if (!settled) throw Object.assign(new Error('the stream ended'), { code: grpc.status.UNAVAILABLE });
  }

  handle({ properties, redelivered }) {
    const id = properties.message_id;
    if (this.handled.has(id)) {
      if (!redelivered) throw new Error(`${id} was stored twice`);
      return;
    }
    this.handled.add(id);
    if (this.handled.size % 100 === 0) console.log('consumed', this.handled.size);
  }
}

async function main([what, queue, count]) {
  const work = { publish: () => new Publisher(queue, Number(count)), consume: () => new Consumer(queue, Number(count)) }[what];
  if (!work || !queue || !(Number(count) > 0)) throw new Error('usage: resume.js publish | consume QUEUE COUNT');
  await onAnyNode(Admin, (client) => new Promise((done, fail) => {
    client.declareQueue({ name: queue }, login(), { deadline: Date.now() + 30000 }, (err) => (err ? fail(err) : done()));
  }));
  const job = work();
  await onAnyNode(Broker, (client) => job[what](client));
  console.log('done');
}

main(process.argv.slice(2)).catch((err) => {
  console.error(err.details || err.message);
  process.exit(1);
});
