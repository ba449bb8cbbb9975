"""Carries out the commands of conformance scenarios with pika, over its blocking connection."""

import collections
import datetime
import decimal
import json
import os
import re
import select
import sys
import time

import pika
from pika import exceptions

PATIENCE = int(os.environ.get("PATIENCE", "90"))  # seconds that something which must come may take

VERBS = """connect disconnect channel channel.close closed state sleep queue.declare queue.delete
queue.purge queue.bind queue.unbind exchange.declare exchange.delete exchange.bind exchange.unbind
publish returned flood get consume cancel cancelled deliveries collect ack nack reject recover recover-same qos qos-bytes
confirm tx.select tx.commit tx.rollback flow waiting""".split()


class Channel:
    """A channel with what came for it."""

    def __init__(self, conn):
        self.conn = conn
        self.ch = conn.channel()
        self.returns = []
        self.cancelled = []
        self.deliveries = collections.defaultdict(collections.deque)
        self.ch.add_on_return_callback(lambda ch, method, props, body: self.returns.append(returned(method, props, body)))
        self.ch.add_on_cancel_callback(lambda frame: self.cancelled.append(frame.method.consumer_tag))

    def until(self, condition, what):
        """Serves the connection until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(what)
            self.conn.process_data_events(time_limit=1)


def plain(v):
    """What JSON has of a value of AMQP."""
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list):
        return [plain(x) for x in v]
    if isinstance(v, datetime.datetime):
        return int(v.replace(tzinfo=datetime.timezone.utc).timestamp())
    if isinstance(v, decimal.Decimal):
        return float(v)
    if isinstance(v, bytes):
        return v.decode()
    return v


def message(method, props, body):
    names = ("content_type content_encoding delivery_mode priority correlation_id reply_to expiration "
             "message_id timestamp type user_id app_id").split()
    return {
        "tag": getattr(method, "delivery_tag", 0) or 0, "body": body.decode(), "redelivered": bool(getattr(method, "redelivered", False)),
        "exchange": method.exchange, "key": method.routing_key, "headers": plain(props.headers or {}),
        "props": {n: getattr(props, n) for n in names if getattr(props, n) is not None},
    }


def returned(method, props, body):
    return dict(message(method, props, body), code=method.reply_code, text=method.reply_text)


class Program:
    def __init__(self):
        self.conns, self.channels, self.faults = {}, {}, {}

    def clear(self):
        for c in self.conns.values():
            if c.is_open:
                c.close()
        self.conns, self.channels, self.faults = {}, {}, {}

    def serve(self):
        """Lets connections send heartbeats while there is no command."""
        for name, c in self.conns.items():
            if c.is_open:
                try:
                    c.process_data_events(time_limit=0)
                except exceptions.AMQPError as e:
                    self.faults[name] = e

    def run(self, c):
        do, conn, ch = c["do"], c.get("conn"), (c.get("conn"), c.get("ch"))
        if do == "reset":
            return self.clear() or {}
        if do == "connect":
            user = c.get("user", "guest")
            more = {k: c[k] for k in ("heartbeat", "frame_max") if k in c}
            self.conns[conn] = pika.BlockingConnection(pika.ConnectionParameters(
                c["host"], int(c["port"]), c.get("vhost", "/"),
                pika.PlainCredentials(user, c.get("password", "guest")), blocked_connection_timeout=PATIENCE, **more))
            return {}
        if do == "sleep":
            self.conns[conn].sleep(c["n"] / 1000)
            return {}
        if do == "channel":
            self.channels[ch] = Channel(self.conns[conn])
            return {}
        if do == "disconnect":
            return self.conns[conn].close() or {}
        if do == "state":
            self.serve()
            return {"state": "open" if self.conns[conn].is_open else "closed"}
        if do == "closed":
            return self.closed(c)
        return self.channel(do, self.channels[ch], c)

    def closed(self, c):
        """Waits for a close by the server, which is told as a fault."""
        conn = self.conns[c["conn"]]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if c["conn"] in self.faults:
                raise self.faults[c["conn"]]
            if c.get("of") == "connection":
                conn.process_data_events(time_limit=1)
                continue
            ch = self.channels[(c["conn"], c["ch"])].ch
            conn.process_data_events(time_limit=1)
            if not ch.is_open:
                raise ch._closing_reason  # pylint: disable=protected-access
        raise TimeoutError("no close")

    def channel(self, do, x, c):
        ch, args = x.ch, c.get("args")
        q, name, flag = c.get("q", ""), c.get("x", ""), lambda n: bool(c.get(n, False))
        if do == "channel.close":
            ch.close()
        elif do == "queue.declare":
            ok = ch.queue_declare(q, passive=flag("passive"), durable=flag("durable"), exclusive=flag("exclusive"),
                                  auto_delete=flag("auto_delete"), arguments=args).method
            return {"queue": ok.queue, "messages": ok.message_count, "consumers": ok.consumer_count}
        elif do == "queue.delete":
            return {"messages": ch.queue_delete(q, flag("if_unused"), flag("if_empty")).method.message_count}
        elif do == "queue.purge":
            return {"messages": ch.queue_purge(q).method.message_count}
        elif do == "queue.bind":
            ch.queue_bind(q, name, c.get("key", ""), args)
        elif do == "queue.unbind":
            ch.queue_unbind(q, name, c.get("key", ""), args)
        elif do == "exchange.declare":
            ch.exchange_declare(name, c.get("type", "direct"), flag("passive"), flag("durable"), flag("auto_delete"), flag("internal"), args)
        elif do == "exchange.delete":
            ch.exchange_delete(name, flag("if_unused"))
        elif do == "exchange.bind":
            ch.exchange_bind(c["to"], name, c.get("key", ""), args)
        elif do == "exchange.unbind":
            ch.exchange_unbind(c["to"], name, c.get("key", ""), args)
        elif do == "confirm":
            ch.confirm_delivery()
            x.confirms = True
        elif do.startswith("tx."):
            getattr(ch, do.replace(".", "_"))()
        elif do in ("qos", "qos-bytes"):
            ch.basic_qos(c.get("prefetch_size", 0), c.get("count", 0), flag("global"))
        elif do in ("publish", "flood", "returned"):
            return self.publish(do, x, c)
        else:
            return self.consuming(do, x, c)
        return {}

    def publish(self, do, x, c):
        if do == "returned":
            n = c.get("n", 1)
            x.until(lambda: len(x.returns) >= n, "returns")
            some, x.returns = x.returns[:n], x.returns[n:]
            return {"returned": some}
        if do == "flood":
            for i in range(c["n"]):
                x.ch.basic_publish(c.get("x", ""), c.get("key", ""), str(i).encode())
            return {"acked": c["n"]}
        props = pika.BasicProperties(headers=c.get("headers"), **c.get("props", {}))
        try:
            x.ch.basic_publish(c.get("x", ""), c.get("key", ""), c.get("body", "").encode(), props, bool(c.get("mandatory")))
        except exceptions.NackError:
            return {"confirm": "nack"}
        except exceptions.UnroutableError as e:
            return {"confirm": "ack", "returned": [returned(m.method, m.properties, m.body) for m in e.messages]}
        return {"confirm": "ack"} if getattr(x, "confirms", False) else {}

    def consuming(self, do, x, c):
        ch, tag, delivery = x.ch, c.get("tag", ""), c.get("delivery", 0)
        multiple, requeue = bool(c.get("multiple")), bool(c.get("requeue"))
        if do == "get":
            method, props, body = ch.basic_get(c["q"], bool(c.get("no_ack")))
            return {"empty": True} if method is None else {"got": [message(method, props, body)]}
        if do == "consume":
            put = lambda _, method, props, body: x.deliveries[method.consumer_tag].append((method, props, body))
            x.deliveries[tag] = collections.deque()
            return {"tag": ch.basic_consume(c["q"], put, bool(c.get("no_ack")), bool(c.get("exclusive")), tag or None, c.get("args"))}
        if do in ("deliveries", "collect", "waiting") and tag not in x.deliveries:
            raise LookupError("no consumer " + tag)
        if do == "cancel":
            ch.basic_cancel(tag)
        elif do == "flow":
            ch.flow(bool(c.get("active")))
        elif do == "waiting":
            return {"messages": len(x.deliveries[tag])}
        elif do == "cancelled":
            x.until(lambda: x.cancelled, "cancel")
            return {"tag": x.cancelled.pop(0)}
        elif do == "ack":
            ch.basic_ack(delivery, multiple)
        elif do == "nack":
            ch.basic_nack(delivery, multiple, requeue)
        elif do == "reject":
            ch.basic_reject(delivery, requeue)
        elif do in ("recover", "recover-same"):
            ch.basic_recover(do == "recover")
        else:
            got = []
            for _ in range(c["n"]):
                x.until(lambda: x.deliveries[tag], "%d of %d messages" % (len(got), c["n"]))
                method, props, body = x.deliveries[tag].popleft()
                got.append(message(method, props, body))
                if do == "collect":
                    ch.basic_ack(method.delivery_tag)
            return {"got": got}
        return {}


def fault(scope, e):
    return {"fault": {"scope": scope, "code": e.reply_code, "text": e.reply_text}}


def answer(program, c):
    try:
        return program.run(c)
    except exceptions.AMQPError as e:
        if isinstance(e, exceptions.ConnectionClosed):
            return fault("connection", e)
        if isinstance(e, exceptions.ChannelClosed):
            return fault("channel", e)
        # Before it is open, a close of the connection is told as the text of another error.
        told = re.search(r"ConnectionClosedByBroker: \((\d+)\) '(.*)'\"", str(e.args))
        if told:
            return {"fault": {"scope": "connection", "code": int(told[1]), "text": told[2]}}
        return {"broken": repr(e)}
    except Exception as e:  # pylint: disable=broad-except
        return {"broken": repr(e)}


def main():
    program = Program()
    print(json.dumps({"client": "pika " + pika.__version__, "verbs": VERBS}), flush=True)
    pending = b""
    while True:
        while b"\n" not in pending:
            while not select.select([0], [], [], 0.2)[0]:
                program.serve()
            some = os.read(0, 1 << 20)
            if not some:
                return
            pending += some
        line, _, pending = pending.partition(b"\n")
        print(json.dumps(answer(program, json.loads(line))), flush=True)


if __name__ == "__main__":
    sys.exit(main())
