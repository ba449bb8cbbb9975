"""Asks a question over one queue and gets the answer over another.

    python3 rpc.py serve
    python3 rpc.py ask 12
"""

import os
import sys
import uuid

import pika

QUEUE = "example.python.squares"


def serve(channel):
    def question(ch, method, properties, body):
        answer = str(int(body) ** 2)
        ch.basic_publish("", properties.reply_to, answer.encode(), pika.BasicProperties(correlation_id=properties.correlation_id))
        ch.basic_ack(method.delivery_tag)

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(QUEUE, question)
    print("ready", flush=True)
    channel.start_consuming()


def ask(channel, number):
    mine = channel.queue_declare("", exclusive=True).method.queue
    wanted = str(uuid.uuid4())
    channel.basic_publish("", QUEUE, number.encode(), pika.BasicProperties(reply_to=mine, correlation_id=wanted))
    for _method, properties, body in channel.consume(mine, auto_ack=True):
        if properties.correlation_id == wanted:
            print(number, "squared is", body.decode())
            break
    channel.cancel()


def main():
    url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(QUEUE)
    if sys.argv[1:2] == ["serve"]:
        serve(channel)
    elif sys.argv[1:2] == ["ask"] and len(sys.argv) == 3:
        ask(channel, sys.argv[2])
        connection.close()
    else:
        sys.exit("usage: rpc.py serve | ask NUMBER")


if __name__ == "__main__":
    main()
