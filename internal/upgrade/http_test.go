package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos"
)

// askTimeout is how long a node may take to answer what it asks all nodes for.
const askTimeout = 20 * time.Second

// lists are paths of a node's HTTP API that say something about the whole cluster, or this node, without a choice. Checks
// of health are left out: what they find is not what is tried.
func lists(ctx context.Context, n *chaos.Node) ([]string, error) {
	_, body, err := ask(ctx, n, "/openapi.json")
	if err != nil {
		return nil, err
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Required bool }
		}
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, fmt.Errorf("/openapi.json: %w", err)
	}
	var out []string
	for path, methods := range document.Paths {
		get, is := methods["get"]
		needs := strings.HasPrefix(path, "/api/health/")
		for _, p := range get.Parameters {
			needs = needs || p.Required
		}
		if is && !needs {
			out = append(out, path)
		}
	}
	if len(out) < 20 {
		return nil, fmt.Errorf("/openapi.json has the lists %q, which are too few", out)
	}
	return out, nil
}

// ask asks a node's HTTP API as somebody who may do everything. Of a stream it returns the beginning alone.
func ask(ctx context.Context, n *chaos.Node, path string) (silent string, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Management+path, nil)
	if err != nil {
		return "", nil, err
	}
	r.SetBasicAuth("guest", "guest")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", nil, fmt.Errorf("%s asked for %s: %w", n.ID, path, err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read from
	if answer.Header.Get("Content-Type") != "text/event-stream" {
		if body, err = io.ReadAll(answer.Body); err != nil {
			return "", nil, fmt.Errorf("%s asked for %s: %w", n.ID, path, err)
		}
	}
	if answer.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("%s answers %s with %s: %s", n.ID, path, answer.Status, body)
	}
	return answer.Header.Get("Quorate-Silent"), body, nil
}

// listed fails if a node with the new build does not answer something that it may have to ask older nodes for. What these
// do not know how to report they are silent about, but no node with the new build is.
func (r *roll) listed(ctx context.Context, n *chaos.Node, newer []*chaos.Node) error {
	paths, err := lists(ctx, n)
	if err != nil {
		return err
	}
	for {
		var left []string
		var errs []error
		for _, path := range paths {
			silent, _, err := ask(ctx, n, path)
			if i := slices.IndexFunc(newer, func(n *chaos.Node) bool { return slices.Contains(strings.Split(silent, ","), n.ID) }); i >= 0 {
				err = fmt.Errorf("%s says for %s that %s does not answer", n.ID, path, newer[i].ID)
			}
			if err != nil {
				left, errs = append(left, path), append(errs, err)
			}
		}
		if paths = left; len(left) == 0 {
			return nil
		}
		if err := sleep(ctx, errors.Join(errs...)); err != nil {
			return err
		}
	}
}
