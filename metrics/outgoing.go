package metrics

// outgoingRows are those of large answers.
func outgoingRows() []row[*Outgoing] {
	return []row[*Outgoing]{
		{
			"quorate_outgoing_limit_bytes", "", "limits.outgoing_bytes in force.", gauge, nil, false,
			func(x *Outgoing) float64 { return float64(x.Limit) },
		},
		{
			"quorate_outgoing_bytes", "", "Bytes of large answers over gRPC that are being made, for which the largest size is reserved, or that clients have not read.",
			gauge, nil, false,
			func(x *Outgoing) float64 { return float64(x.Bytes) },
		},
		{
			"quorate_outgoing_waiting", "", "Calls over gRPC that wait for room for their answer.", gauge, nil, false,
			func(x *Outgoing) float64 { return float64(x.Waiting) },
		},
		{
			"quorate_outgoing_waits_total", "", "Times that a call over gRPC had to wait for room for its answer.", counter, nil, false,
			func(x *Outgoing) float64 { return float64(x.Waits) },
		},
		{
			"quorate_outgoing_refused_total", "", "Calls over gRPC that were refused because there was no room for their answer.", counter, nil, false,
			func(x *Outgoing) float64 { return float64(x.Refused) },
		},
	}
}
