'use strict';
// Carries out the commands of conformance scenarios with @cloudamqp/amqp-client.

const { AMQPClient } = require('@cloudamqp/amqp-client');
const { version } = require('./package-lock.json').packages['node_modules/@cloudamqp/amqp-client'];
const { Closed, plain, serve, until } = require('./program.js');

const verbs = `connect disconnect channel channel.close closed state sleep queue.declare queue.delete
  queue.purge queue.bind queue.unbind exchange.declare exchange.delete exchange.bind exchange.unbind
  publish publish-immediate returned flood get consume cancel cancelled deliveries collect ack nack reject
  recover recover-same qos qos-bytes confirm tx.select tx.commit tx.rollback
  flow waiting update-secret`.split(/\s+/);

const properties = {
  content_type: 'contentType', content_encoding: 'contentEncoding', delivery_mode: 'deliveryMode', priority: 'priority',
  correlation_id: 'correlationId', reply_to: 'replyTo', expiration: 'expiration', message_id: 'messageId',
  timestamp: 'timestamp', type: 'type', user_id: 'userId', app_id: 'appId',
};

let conns = {};
let channels = {};

// closed makes a close of the library's error, whose text has the server's; undefined if it tells of none.
function closed(text) {
  const told = /^(channel|connection)(?: \d+)? closed: (.*) \((\d+)\)$/s.exec(text);
  return told ? new Closed(told[1], Number(told[3]), told[2]) : undefined;
}

async function connect(c) {
  const who = `${encodeURIComponent(c.user || 'guest')}:${encodeURIComponent(c.password || 'guest')}`;
  const url = new URL(`amqp://${who}@${c.host}:${c.port}/${encodeURIComponent(c.vhost || '/')}`);
  if (c.heartbeat) url.searchParams.set('heartbeat', c.heartbeat);
  if (c.frame_max) url.searchParams.set('frameMax', c.frame_max);
  const conn = new AMQPClient(url.href);
  conn.onerror = (err) => { conn.fault ||= closed(err.message); };
  await conn.connect();
  conns[c.conn] = conn;
}

async function open(c) {
  const ch = await conns[c.conn].channel();
  Object.assign(ch, { returns: [], cancelled: [], buffers: {} });
  ch.onerror = (text) => { ch.fault ||= closed(text); };
  ch.onReturn = (m) => ch.returns.push({ ...message(m), code: m.replyCode, text: m.replyText });
  channels[c.conn + '/' + c.ch] = ch;
}

function message(m) {
  const props = {};
  for (const [name, own] of Object.entries(properties)) {
    if (m.properties[own] !== undefined) props[name] = plain(m.properties[own]);
  }
  return {
    tag: m.deliveryTag, body: m.bodyToString(), redelivered: m.redelivered, exchange: m.exchange, key: m.routingKey,
    headers: plain(m.properties.headers || {}), props,
  };
}

async function run(c) {
  if (c.do === 'reset') {
    for (const conn of Object.values(conns)) await conn.close().catch(() => {});
    conns = {};
    channels = {};
    return {};
  }
  const conn = conns[c.conn];
  if (!conn && !['connect', 'sleep'].includes(c.do)) throw new Error(`no connection ${c.conn}`);
  const ch = channels[c.conn + '/' + c.ch];
  try {
    switch (c.do) {
      case 'connect': return await connect(c);
      case 'sleep': return await new Promise((done) => setTimeout(() => done({}), c.n));
      case 'disconnect': return void await conn.close();
      case 'channel': return void await open(c);
      case 'update-secret':
        await conn.updateSecret(c.secret, 'why not');
        if (conn.fault) throw new Error('closed'); // which the library does not tell
        return {};
      case 'state': return { state: conn.closed ? 'closed' : 'open' };
      case 'closed':
        await until(() => (c.of === 'connection' ? conn : ch).fault, 'close');
        throw new Error('closed');
    }
    return await (/^(channel|queue|exchange)\./.test(c.do) ? topology(ch, c) : content(ch, c));
  } catch (err) {
    // The library tells the reason of a close once; who comes later learns that there was one.
    throw closed(err.message) || conn?.fault || ch?.fault || err;
  }
}

async function topology(ch, c) {
  const args = c.args || {};
  switch (c.do) {
    case 'channel.close': return void await ch.close();
    case 'queue.declare': {
      const ok = await ch.queueDeclare(c.q || '', {
        passive: !!c.passive, durable: !!c.durable, exclusive: !!c.exclusive, autoDelete: !!c.auto_delete,
      }, args);
      return { queue: ok.name, messages: ok.messageCount, consumers: ok.consumerCount };
    }
    case 'queue.delete':
      return { messages: (await ch.queueDelete(c.q || '', { ifUnused: !!c.if_unused, ifEmpty: !!c.if_empty })).messageCount };
    case 'queue.purge': return { messages: (await ch.queuePurge(c.q || '')).messageCount };
    case 'queue.bind': return void await ch.queueBind(c.q || '', c.x, c.key || '', args);
    case 'queue.unbind': return void await ch.queueUnbind(c.q || '', c.x, c.key || '', args);
    case 'exchange.declare':
      return void await ch.exchangeDeclare(c.x, c.type || 'direct', {
        passive: !!c.passive, durable: !!c.durable, internal: !!c.internal, autoDelete: !!c.auto_delete,
      }, args);
    case 'exchange.delete': return void await ch.exchangeDelete(c.x, { ifUnused: !!c.if_unused });
    case 'exchange.bind': return void await ch.exchangeBind(c.to, c.x, c.key || '', args);
    case 'exchange.unbind': return void await ch.exchangeUnbind(c.to, c.x, c.key || '', args);
  }
  throw new Error(`unknown command ${c.do}`);
}

async function content(ch, c) {
  switch (c.do) {
    case 'publish': case 'publish-immediate': return publish(ch, c);
    case 'flood': return flood(ch, c);
    case 'returned':
      await until(() => ch.returns.length >= (c.n || 1), 'returns');
      return { returned: ch.returns.splice(0, c.n || 1) };
    case 'get': {
      const m = await ch.basicGet(c.q || '', { noAck: !!c.no_ack });
      return m ? { got: [message(m)] } : { empty: true };
    }
    case 'consume': return consume(ch, c);
    case 'cancel': return void await ch.basicCancel(c.tag);
    case 'cancelled':
      await until(() => ch.cancelled.length > 0, 'cancel');
      return { tag: ch.cancelled.shift() };
    case 'deliveries': case 'collect': return deliveries(ch, c);
    case 'ack': return void await ch.basicAck(c.delivery, !!c.multiple);
    case 'nack': return void await ch.basicNack(c.delivery, !!c.requeue, !!c.multiple);
    case 'reject': return void await ch.basicReject(c.delivery, !!c.requeue);
    case 'recover': case 'recover-same': return void await ch.basicRecover(c.do === 'recover');
    case 'qos': case 'qos-bytes': return void await ch.basicQos(c.count || 0, c.prefetch_size || 0, !!c.global);
    case 'confirm': return void await ch.confirmSelect();
    case 'flow': return void await ch.basicFlow(!!c.active);
    case 'waiting': return { messages: consumed(ch, c).length };
    case 'tx.select': return void await ch.txSelect();
    case 'tx.commit': return void await ch.txCommit();
    case 'tx.rollback': return void await ch.txRollback();
  }
  throw new Error(`unknown command ${c.do}`);
}

async function consume(ch, c) {
  const buffer = (ch.buffers[c.tag] = []);
  const consumer = await ch.basicConsume(c.q || '', {
    tag: c.tag, noAck: !!c.no_ack, exclusive: !!c.exclusive, args: c.args || {},
  }, (m) => { buffer.push(m); });
  consumer.wait().catch((err) => { if (/cancelled by the server/.test(err.message)) ch.cancelled.push(consumer.tag); });
  return { tag: consumer.tag };
}

async function publish(ch, c) {
  const options = { headers: c.headers };
  for (const [name, v] of Object.entries(c.props || {})) options[properties[name]] = name === 'timestamp' ? new Date(v * 1000) : v;
  const confirms = ch.confirmId > 0;
  let confirm = 'ack';
  try {
    await ch.basicPublish(c.x || '', c.key || '', c.body || '', options, !!c.mandatory, c.do === 'publish-immediate');
  } catch (err) {
    if (err.message !== 'Message rejected') throw err;
    confirm = 'nack';
  }
  if (!confirms) return {};
  return ch.returns.length ? { confirm, returned: ch.returns.splice(0) } : { confirm };
}

// flood publishes n messages with up to 100 unconfirmed ones, and waits for all confirms.
async function flood(ch, c) {
  let acked = 0;
  let decided = 0;
  let fault;
  for (let i = 0; i < c.n && !fault; i++) {
    ch.basicPublish(c.x || '', c.key || '', String(i)).then(() => acked++, (err) => {
      if (err.message !== 'Message rejected') fault = err;
    }).finally(() => decided++);
    if (i - decided >= 100) await until(() => fault || i - decided < 100, 'confirms');
  }
  await until(() => fault || decided === c.n, 'confirms');
  if (fault) throw fault;
  return { acked };
}

// consumed are the messages that wait for a command.
function consumed(ch, c) {
  if (!ch.buffers[c.tag]) throw new Error(`no consumer ${c.tag}`);
  return ch.buffers[c.tag];
}

async function deliveries(ch, c) {
  const buffer = consumed(ch, c);
  const got = [];
  while (got.length < c.n) {
    await until(() => buffer.length > 0 || ch.closed, `${got.length} of ${c.n} messages`);
    if (!buffer.length) throw new Error('closed');
    const m = buffer.shift();
    got.push(message(m));
    if (c.do === 'collect') await m.ack();
  }
  return { got };
}

serve({ client: `@cloudamqp/amqp-client ${version}`, verbs }, run);
