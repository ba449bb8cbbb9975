"""Does something later: a message waits in a queue that nobody consumes, expires there, and
goes by its dead-letter exchange to the queue where it is due. Nothing here is durable, as in
many older programs.

    python3 delay.py wait
    python3 delay.py later "tea is ready"
"""

import os
import sys

import pika

EXCHANGE, DUE, WAITING = "example.python.clock", "example.python.due", "example.python.waiting"


def declare(channel):
    channel.exchange_declare(EXCHANGE, exchange_type="direct", durable=False)
    channel.queue_declare(DUE, durable=False)
    channel.queue_bind(DUE, EXCHANGE, "due")
    channel.queue_declare(WAITING, durable=False, arguments={
        "x-message-ttl": 500,  # milliseconds
        "x-dead-letter-exchange": EXCHANGE,
        "x-dead-letter-routing-key": "due",
    })


def wait(channel):
    def message(ch, method, properties, body):
        print("due:", body.decode(), "after it", properties.headers["x-first-death-reason"], flush=True)
        ch.basic_ack(method.delivery_tag)

    channel.basic_consume(DUE, message)
    print("ready", flush=True)
    channel.start_consuming()


def main():
    url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    declare(channel)
    if sys.argv[1:2] == ["wait"]:
        wait(channel)
    elif sys.argv[1:2] == ["later"]:
        text = " ".join(sys.argv[2:])
        channel.basic_publish("", WAITING, text.encode())
        print("later:", text)
        connection.close()
    else:
        sys.exit("usage: delay.py wait | later TEXT")


if __name__ == "__main__":
    main()
