'use strict';
// Publishes to everybody who listens: each listener has a queue of its own that ends with its
// connection.
//
//   node publishsubscribe.js listen
//   node publishsubscribe.js publish "door opened"

const amqplib = require('amqplib');

const exchange = 'example.javascript.news';

async function main([what, ...words]) {
  const connection = await amqplib.connect(process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/');
  const channel = await connection.createChannel();
  await channel.assertExchange(exchange, 'fanout', { durable: false });
  if (what === 'publish') {
    channel.publish(exchange, '', Buffer.from(words.join(' ')));
    console.log('published', words.join(' '));
    await channel.close(); // what was published is sent before
    await connection.close();
    return;
  }
  const { queue } = await channel.assertQueue('', { exclusive: true });
  await channel.bindQueue(queue, exchange, '');
  await channel.consume(queue, (news) => console.log('heard', news.content.toString()), { noAck: true });
  console.log('ready');
}

main(process.argv.slice(2));
