module github.com/quorate/quorate/conformance

go 1.26.0

require (
	github.com/quorate/quorate v0.0.0
	github.com/rabbitmq/amqp091-go v1.16.0
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/quorate/quorate => ../
