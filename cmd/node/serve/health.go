package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/cluster"
)

const (
	diskEvery  = 5 * time.Second  // interval of writes to the disk
	diskStalls = 30 * time.Second // a disk that took no write for this long counts as dead
)

// health answers probes about this node alone, never about queues.
type health struct {
	file string // rewritten periodically to see whether the disk works
	stop chan struct{}

	mu      sync.Mutex
	start   cluster.StartProgress // last reported progress, while ready is nil
	waits   error                 // why the start waits; nil: it does not
	ready   func() error          // nil: not started
	warning func() string         // what an operator should check although the node serves
	name    string                // what is wrong with the node's own name; "": nothing
	written time.Time
	fault   error
}

func newHealth(dataDir string) *health {
	return &health{file: filepath.Join(dataDir, "alive"), stop: make(chan struct{}), written: time.Now()}
}

// started ends the phase of starting: from now on readiness is what ready says.
func (h *health) started(ready func() error, warning func() string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready, h.warning = ready, warning
}

// starting records the progress of the start.
func (h *health) starting(p cluster.StartProgress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start = p
}

// cannotStart records why the start waits.
func (h *health) cannotStart(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits = why
}

func (h *health) close() { close(h.stop) }

// watchDisk writes until close. A write that hangs makes the node dead, because the last success
// grows old.
func (h *health) watchDisk() {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		err := writeSynced(h.file)
		h.mu.Lock()
		if h.fault = err; err == nil || answered(err) {
			h.written = time.Now()
		}
		h.mu.Unlock()
		select {
		case <-tick.C:
		case <-h.stop:
			return
		}
	}
}

// answered reports whether a write failed for a reason that a restart would not mend: a full disk
// still answers, and without a file descriptor the disk was not even asked.
func answered(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// writeSynced writes and syncs a small file. Only a sync proves that the disk takes writes.
func writeSynced(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteString(time.Now().UTC().Format(time.RFC3339) + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// live fails when the disk has taken no write for diskStalls. Only that is worth a restart;
// everything else is a matter of readiness.
func (h *health) live() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := time.Since(h.written); age > diskStalls {
		age = age.Round(time.Second)
		if h.fault == nil {
			return fmt.Errorf("data_dir took no write for %v: the last one hangs", age)
		}
		return fmt.Errorf("data_dir took no write for %v: %w", age, h.fault)
	}
	return nil
}

// startup fails until the node has started; its error has the progress of the start.
func (h *health) startup() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ready != nil:
		return nil
	case h.waits != nil:
		return fmt.Errorf("the node waits for room on its disk: %w", h.waits)
	case h.start == (cluster.StartProgress{}):
		return errors.New("the node is starting")
	}
	return fmt.Errorf("the node is starting: %s", h.start)
}

// serving calls ready without mu, because it may take a while.
func (h *health) serving() error {
	if err := h.startup(); err != nil {
		return err
	}
	h.mu.Lock()
	ready := h.ready
	h.mu.Unlock()
	return ready()
}

// handler answers the three probes; the body has the reason and warnings for people.
func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]func() error{
		"/health/startup": h.startup, "/health/live": h.live, "/health/ready": h.serving,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, check(), h.warnings()) })
	}
	return mux
}

// warnings returns what an operator should check although the node serves.
func (h *health) warnings() string {
	h.mu.Lock()
	warning, name := h.warning, h.name
	h.mu.Unlock()
	switch {
	case warning == nil:
		return name
	case name == "":
		return warning()
	}
	return strings.TrimSuffix(name+"; "+warning(), "; ")
}

// named records what is wrong with the node's own name; "": nothing.
func (h *health) named(fault string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.name = fault
}

// answer sends 200 or 503. Warnings are in the body alone: they must not make a supervisor act.
func answer(w http.ResponseWriter, err error, warning string) {
	body := struct {
		Status  string `json:"status"`
		Reason  string `json:"reason,omitempty"`
		Warning string `json:"warning,omitempty"`
	}{Status: "ok", Warning: warning}
	code := http.StatusOK
	if err != nil {
		body.Status, body.Reason, code = "failing", err.Error(), http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the prober is gone
}
