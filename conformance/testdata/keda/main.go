// Command quorate runs KEDA's scaler for RabbitMQ on queues. It reads triggers as JSON, one after another, and writes
// the scaler's answer to each. It is built inside KEDA's module.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

// answer is what a scaler says.
type answer struct {
	Value  float64 `json:"value"`
	Active bool    `json:"active"`
	Error  string  `json:"error"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var trigger map[string]string
		err := in.Decode(&trigger)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = out.Encode(ask(trigger))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// ask makes a scaler of a trigger, as KEDA does for an object of a user, and asks it once.
func ask(trigger map[string]string) (a answer) {
	ctx := context.Background()
	s, err := scalers.NewRabbitMQScaler(&scalersconfig.ScalerConfig{
		ScalableObjectName: "scaled", ScalableObjectNamespace: "test", ScalableObjectType: "ScaledObject",
		GlobalHTTPTimeout: 30 * time.Second, TriggerMetadata: trigger, AuthParams: map[string]string{}, ResolvedEnv: map[string]string{},
	})
	if err != nil {
		return answer{Error: err.Error()}
	}
	name := s.GetMetricSpecForScaling(ctx)[0].External.Metric.Name
	metrics, active, err := s.GetMetricsAndActivity(ctx, name)
	if err = errors.Join(err, s.Close(ctx)); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Value: metrics[0].Value.AsApproximateFloat64(), Active: active}
}
