package config

import (
	"slices"
	"testing"
	"time"
)

// What a running node can take it takes; the rest is reported. Every setting has a field.
func TestTake(t *testing.T) {
	load := func(environ ...string) *Config {
		c, err := Load("", append(environ, "QUORATE_CLUSTER__ADMISSION=open", "QUORATE_NODE_ID=n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := load()
	for _, k := range Keys() {
		if !c.fields()[k.Name].IsValid() {
			t.Errorf("%s has no field", k.Name)
		}
	}
	for _, name := range Live() {
		if _, err := find(name, "Live"); err != nil {
			t.Error(err)
		}
	}
	if applied, restart := c.Apply(load()); applied != nil || restart != nil {
		t.Errorf("the same: %q, %q", applied, restart)
	}
	next := load("QUORATE_TIMEOUTS__DRAIN=5s", "QUORATE_LOG__LEVEL=warn", "QUORATE_CLUSTER__JOIN=a:1", "QUORATE_CLUSTER__RECONCILE__DELAY=1m", "QUORATE_TLS__CLIENT__LOGIN_FROM=")
	applied, restart := c.Apply(next)
	if !slices.Equal(applied, []string{"log.level", "timeouts.drain"}) || !slices.Equal(restart, []string{"cluster.join", "cluster.reconcile.delay"}) {
		t.Errorf("%q, %q", applied, restart)
	}
	if c.Timeouts.Drain != 5*time.Second || c.Log.Level != "warn" || len(c.Cluster.Join) != 0 || c.Cluster.Reconcile.Delay == time.Minute {
		t.Errorf("%+v", c)
	}
	if applied, restart = c.Apply(next); applied != nil || len(restart) != 2 {
		t.Errorf("again: %q, %q", applied, restart)
	}
}
