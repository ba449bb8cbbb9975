package target

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metricTimeout bounds a scrape: a node that is hit may not answer.
const metricTimeout = 2 * time.Second

// Metric returns the value of a node's metric; if it has labels, they are in the name as the node writes them. A node that
// does not answer within 2 s is an error.
func Metric(ctx context.Context, c Cluster, node, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, metricTimeout)
	defer cancel()
	for _, n := range c.Nodes() {
		if n.ID != node || n.HTTP == "" {
			continue
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/metrics", nil)
		if err != nil {
			return 0, fmt.Errorf("target: %w", err)
		}
		r.Header.Set("Accept-Encoding", "identity") // the node shares its processors with what is measured
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, fmt.Errorf("target: metrics of node %s: %w", node, err)
		}
		defer response.Body.Close() //nolint:errcheck // only read
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
				return strconv.ParseFloat(value, 64)
			}
		}
		return 0, fmt.Errorf("target: node %s has no metric %s", node, name)
	}
	return 0, fmt.Errorf("target: the metrics of node %q cannot be reached", node)
}
