'use strict';
// Carries out the commands of conformance scenarios with amqplib, over its promises.

const amqplib = require('amqplib');
const { version } = require('./package-lock.json').packages['node_modules/amqplib'];
const { Closed, plain, serve, until } = require('./program.js');

const verbs = `connect disconnect channel channel.close closed state sleep queue.declare queue.delete
  queue.purge queue.bind queue.unbind exchange.declare exchange.delete exchange.bind exchange.unbind
  publish returned flood get consume cancel cancelled deliveries collect ack nack reject recover qos
  confirm update-secret`.split(/\s+/);

const properties = {
  content_type: 'contentType', content_encoding: 'contentEncoding', delivery_mode: 'deliveryMode', priority: 'priority',
  correlation_id: 'correlationId', reply_to: 'replyTo', expiration: 'expiration', message_id: 'messageId',
  timestamp: 'timestamp', type: 'type', user_id: 'userId', app_id: 'appId',
};

let conns = {};
let channels = {};

// closed makes a close of the library's error, whose text quotes the server's.
function closed(scope, err) {
  const text = /with message "(.*)"$/s.exec(err.message);
  return new Closed(scope, err.code || Number(/(\d{3}) \(/.exec(err.message)?.[1] || 0), text ? text[1] : err.message);
}

async function connect(c) {
  const user = c.user || 'guest';
  let conn;
  try {
    conn = await amqplib.connect({
      protocol: 'amqp', hostname: c.host, port: Number(c.port), username: user, password: c.password || 'guest',
      vhost: c.vhost || '/', heartbeat: c.heartbeat, frameMax: c.frame_max,
    });
  } catch (err) {
    if (/\d{3} \(/.test(err.message)) throw closed('connection', err);
    throw err;
  }
  conns[c.conn] = conn;
  conn.on('error', (err) => { conn.fault = err; });
  conn.on('close', (err) => { conn.gone = true; conn.fault ||= err; });
}

async function open(c, confirms) {
  const conn = conns[c.conn];
  const ch = confirms ? await conn.createConfirmChannel() : await conn.createChannel();
  Object.assign(ch, { conn, confirms, returns: [], cancelled: [], buffers: {} });
  ch.on('error', (err) => { ch.fault = err; });
  ch.on('close', () => { ch.gone = true; });
  ch.on('return', (m) => ch.returns.push({ ...message(m), code: m.fields.replyCode, text: m.fields.replyText }));
  channels[c.conn + '/' + c.ch] = ch;
}

function message(m) {
  const props = {};
  for (const [name, own] of Object.entries(properties)) {
    if (m.properties[own] !== undefined) props[name] = m.properties[own];
  }
  return {
    tag: m.fields.deliveryTag || 0, body: m.content.toString(), redelivered: !!m.fields.redelivered, exchange: m.fields.exchange,
    key: m.fields.routingKey, headers: plain(m.properties.headers || {}), props,
  };
}

async function run(c) {
  if (c.do === 'reset') {
    for (const conn of Object.values(conns)) await conn.close().catch(() => {});
    conns = {};
    channels = {};
    return {};
  }
  if (c.do === 'connect') return connect(c);
  if (c.do === 'sleep') return new Promise((done) => setTimeout(() => done({}), c.n));
  const conn = conns[c.conn];
  const ch = channels[c.conn + '/' + c.ch];
  try {
    switch (c.do) {
      case 'disconnect': return void await conn.close();
      case 'channel': return void await open(c, false);
      case 'update-secret': {
        // The library leaves who waits without an answer when the connection ends.
        let told = false;
        conn.updateSecret(Buffer.from(c.secret), 'why not').finally(() => { told = true; }).catch(() => {});
        await until(() => told || conn.gone, 'answer');
        if (conn.gone) throw new Error('closed');
        return {};
      }
      case 'confirm':
        // The library has a channel of its own kind for confirms.
        await ch.close();
        return void await open(c, true);
      case 'state': return { state: conn.gone ? 'closed' : 'open' };
      case 'closed':
        await until(() => (c.of === 'connection' ? conn.gone : ch.gone), 'close');
        throw new Error('closed');
    }
    return await (c.do.includes('.') ? topology(ch, c) : content(ch, c));
  } catch (err) {
    // The reason of a close comes as an event, maybe after the call has failed.
    const told = /^(Channel ended|Channel closed|channel closed|closed$|Unexpected close|Connection clos)/i.test(err.message);
    if (told) await until(() => conn.gone || (ch && ch.gone), err.message);
    if (conn && conn.gone && conn.fault) throw closed('connection', conn.fault);
    if (err.code) throw closed('channel', err);
    if (ch && ch.gone && ch.fault) throw closed('channel', ch.fault);
    throw err;
  }
}

async function topology(ch, c) {
  const args = c.args || {};
  switch (c.do) {
    case 'channel.close': return void await ch.close();
    case 'queue.declare': {
      const ok = c.passive ? await ch.checkQueue(c.q) : await ch.assertQueue(c.q || '', {
        durable: !!c.durable, exclusive: !!c.exclusive, autoDelete: !!c.auto_delete, arguments: args,
      });
      return { queue: ok.queue, messages: ok.messageCount, consumers: ok.consumerCount };
    }
    case 'queue.delete':
      return { messages: (await ch.deleteQueue(c.q, { ifUnused: !!c.if_unused, ifEmpty: !!c.if_empty })).messageCount };
    case 'queue.purge': return { messages: (await ch.purgeQueue(c.q)).messageCount };
    case 'queue.bind': return void await ch.bindQueue(c.q, c.x, c.key || '', args);
    case 'queue.unbind': return void await ch.unbindQueue(c.q, c.x, c.key || '', args);
    case 'exchange.declare':
      if (c.passive) return void await ch.checkExchange(c.x);
      return void await ch.assertExchange(c.x, c.type || 'direct', {
        durable: !!c.durable, internal: !!c.internal, autoDelete: !!c.auto_delete, arguments: args,
      });
    case 'exchange.delete': return void await ch.deleteExchange(c.x, { ifUnused: !!c.if_unused });
    case 'exchange.bind': return void await ch.bindExchange(c.to, c.x, c.key || '', args);
    case 'exchange.unbind': return void await ch.unbindExchange(c.to, c.x, c.key || '', args);
  }
  throw new Error(`unknown command ${c.do}`);
}

async function content(ch, c) {
  const of = { fields: { deliveryTag: c.delivery } };
  switch (c.do) {
    case 'publish': return publish(ch, c);
    case 'flood': return flood(ch, c);
    case 'returned':
      await until(() => ch.returns.length >= (c.n || 1), 'returns');
      return { returned: ch.returns.splice(0, c.n || 1) };
    case 'get': {
      const m = await ch.get(c.q, { noAck: !!c.no_ack });
      return m ? { got: [message(m)] } : { empty: true };
    }
    case 'consume': {
      const buffer = (ch.buffers[c.tag] = []);
      const ok = await ch.consume(c.q, (m) => (m ? buffer.push(m) : ch.cancelled.push(c.tag)), {
        consumerTag: c.tag, noAck: !!c.no_ack, exclusive: !!c.exclusive, arguments: c.args,
      });
      return { tag: ok.consumerTag };
    }
    case 'cancel': return void await ch.cancel(c.tag);
    case 'cancelled':
      await until(() => ch.cancelled.length > 0, 'cancel');
      return { tag: ch.cancelled.shift() };
    case 'deliveries': case 'collect': return deliveries(ch, c);
    case 'ack': return void (c.multiple ? ch.ack(of, true) : ch.ack(of));
    case 'nack': return void ch.nack(of, !!c.multiple, !!c.requeue);
    case 'reject': return void ch.reject(of, !!c.requeue);
    case 'recover': return void await ch.recover();
    case 'qos': return void await ch.prefetch(c.count, !!c.global);
  }
  throw new Error(`unknown command ${c.do}`);
}

async function publish(ch, c) {
  const options = { headers: c.headers, mandatory: !!c.mandatory };
  for (const [name, v] of Object.entries(c.props || {})) options[properties[name]] = v;
  const body = Buffer.from(c.body || '');
  if (!ch.confirms) return void ch.publish(c.x || '', c.key || '', body, options);
  const acked = await new Promise((done) => {
    ch.publish(c.x || '', c.key || '', body, options, (err) => done(!err));
    ch.once('close', () => done(false));
  });
  if (ch.fault || ch.gone) throw new Error('closed');
  const answer = { confirm: acked ? 'ack' : 'nack' };
  if (ch.returns.length) answer.returned = ch.returns.splice(0);
  return answer;
}

// flood publishes n messages with up to 100 unconfirmed ones, and waits for all confirms.
async function flood(ch, c) {
  let acked = 0;
  let decided = 0;
  for (let i = 0; i < c.n; i++) {
    ch.publish(c.x || '', c.key || '', Buffer.from(String(i)), {}, (err) => { decided++; if (!err) acked++; });
    if (i - decided >= 100) await until(() => i - decided < 100, 'confirms');
  }
  await until(() => decided === c.n, 'confirms');
  return { acked };
}

async function deliveries(ch, c) {
  const buffer = ch.buffers[c.tag];
  const got = [];
  while (got.length < c.n) {
    await until(() => buffer.length > 0 || ch.gone, `${got.length} of ${c.n} messages`);
    if (!buffer.length) throw new Error('closed');
    const m = buffer.shift();
    got.push(message(m));
    if (c.do === 'collect') ch.ack(m);
  }
  return { got };
}

serve({ client: `amqplib ${version}`, verbs }, run);
