'use strict';
// Tries again what failed, after a pause, and gives up after three tries: a rejected message
// goes to a queue where it waits, and comes back when it expires there.
//
//   node retry.js work
//   node retry.js add "call a service that is down"

const amqplib = require('amqplib');

const jobs = 'example.javascript.jobs';
const pausing = 'example.javascript.jobs.pausing';
const tries = 3;

function rejections(message) {
  const deaths = message.properties.headers['x-death'] || [];
  const death = deaths.find((d) => d.queue === jobs && d.reason === 'rejected');
  return death ? Number(death.count) : 0;
}

async function main([what, ...words]) {
  const connection = await amqplib.connect(process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/');
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(jobs, { deadLetterExchange: '', deadLetterRoutingKey: pausing });
  await channel.assertQueue(pausing, { deadLetterExchange: '', deadLetterRoutingKey: jobs, messageTtl: 200 });
  if (what === 'add') {
    channel.sendToQueue(jobs, Buffer.from(words.join(' ')), { persistent: true });
    await channel.waitForConfirms();
    await connection.close();
    return;
  }
  await channel.consume(jobs, (message) => {
    const job = message.content.toString();
    const n = rejections(message) + 1;
    console.log(`try ${n} of ${job}`);
    if (n < tries) return channel.reject(message, false); // to the pause
    console.log('gave up', job);
    channel.ack(message);
  });
  console.log('ready');
}

main(process.argv.slice(2));
