package serve

import (
	"strings"
	"testing"
)

// A collector turns tracing on, other variables turn it off again, and a fault names its variable.
func TestTracingWanted(t *testing.T) {
	for env, want := range map[string]string{
		"": "off",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317":                                                           "on",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4317":                                                    "on",
		"OTEL_SDK_DISABLED=false OTEL_EXPORTER_OTLP_ENDPOINT=c":                                               "on",
		"OTEL_SDK_DISABLED=true OTEL_EXPORTER_OTLP_ENDPOINT=c":                                                "off",
		"OTEL_SDK_DISABLED=maybe OTEL_EXPORTER_OTLP_ENDPOINT=c":                                               `OTEL_SDK_DISABLED = "maybe": want`,
		"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_ENDPOINT=c":                                             "on",
		"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=c":                                             "off",
		"OTEL_TRACES_EXPORTER=zipkin OTEL_EXPORTER_OTLP_ENDPOINT=c":                                           `OTEL_TRACES_EXPORTER = "zipkin": want`,
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=c":                             `OTEL_EXPORTER_OTLP_PROTOCOL = "http/protobuf": only grpc`,
		"OTEL_EXPORTER_OTLP_PROTOCOL=x OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc OTEL_EXPORTER_OTLP_ENDPOINT=c": "on",
	} {
		on, err := tracingWanted(func(name string) string {
			for _, v := range strings.Fields(env) {
				if value, is := strings.CutPrefix(v, name+"="); is {
					return value
				}
			}
			return ""
		})
		got := map[bool]string{false: "off", true: "on"}[on]
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", env, got, want)
		}
	}
}

func TestQueueSpans(t *testing.T) {
	for text, want := range map[string]int{"": 0, "1": 1, "4096": 4096, "0": -1, "-1": -1, "many": -1} {
		n, err := queueSpans(text)
		if err != nil {
			n = -1
			if !strings.Contains(err.Error(), "OTEL_BSP_MAX_QUEUE_SIZE") {
				t.Error(err)
			}
		}
		if n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	}
}
