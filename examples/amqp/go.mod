module github.com/quorate/quorate/examples/amqp

go 1.26.0

require github.com/rabbitmq/amqp091-go v1.16.0
