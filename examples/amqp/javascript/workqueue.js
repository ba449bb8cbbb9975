'use strict';
// Shares out tasks among workers: each goes to one of them, and to the next if that one dies.
//
//   node workqueue.js work        # in as many terminals as you like
//   node workqueue.js add "resize picture 7"

const amqplib = require('amqplib');

const queue = 'example.javascript.tasks';

async function main([what, ...words]) {
  const connection = await amqplib.connect(process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/');
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(queue, { durable: true });
  if (what === 'add') {
    channel.sendToQueue(queue, Buffer.from(words.join(' ')), { persistent: true });
    await channel.waitForConfirms();
    console.log('added', words.join(' '));
    await connection.close();
    return;
  }
  await channel.prefetch(1); // one task at a time
  await channel.consume(queue, (task) => {
    console.log('did', task.content.toString());
    channel.ack(task); // only now is it gone
  });
  console.log('ready');
}

main(process.argv.slice(2));
