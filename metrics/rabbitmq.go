package metrics

// further returns more names that RabbitMQ has for a figure, besides the one in its row: its dashboards ask for sums of a
// node under names of their own.
func further(name string) []string {
	switch name {
	case "quorate_messages_received_total":
		return []string{"rabbitmq_global_messages_received_confirm_total"}
	case "quorate_queue_delivered_total":
		return []string{"rabbitmq_global_messages_delivered_total"}
	case "quorate_queue_redelivered_total":
		return []string{"rabbitmq_global_messages_redelivered_total"}
	case "quorate_queue_settled_total":
		return []string{"rabbitmq_global_messages_acknowledged_total"}
	case "quorate_queue_empty_gets_total":
		return []string{"rabbitmq_global_messages_get_empty_total"}
	case "quorate_amqp_consumers":
		return []string{"rabbitmq_global_consumers"}
	}
	return nil
}
