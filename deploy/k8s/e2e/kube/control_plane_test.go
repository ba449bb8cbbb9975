package kube

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bin is where `make kube` puts the programs.
const bin = "../../../../bin"

// A control plane serves on loopback with TLS, enforces RBAC, and runs controllers.
func TestControlPlane(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	programs, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	p, err := StartControlPlane(ctx, ControlPlaneConfig{Bin: programs, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	t.Logf("FIGURE a control plane serves: %v", time.Since(begin).Round(10*time.Millisecond))

	user, err := p.UserConfig("somebody")
	if err != nil {
		t.Fatal(err)
	}
	as := func(args ...string) (string, error) {
		return run(ctx, filepath.Join(programs, "kubectl"), append([]string{"--kubeconfig", user}, args...)...)
	}
	if out, err := as("get", "configmaps"); err == nil || !strings.Contains(out, `User "somebody" cannot list resource "configmaps"`) {
		t.Errorf("a user without rights lists configmaps: %v, %s", err, out)
	}
	for _, args := range [][]string{
		{"create", "role", "reader", "--verb=list", "--resource=configmaps"},
		{"create", "rolebinding", "reader", "--role=reader", "--user=somebody"},
		{"create", "deployment", "d", "--image=i:1", "--replicas=2"},
	} {
		if _, err := p.Kubectl(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := await(ctx, "rights", nil, func(context.Context) error { _, err := as("get", "configmaps"); return err }); err != nil {
		t.Error(err)
	}
	if out, err := p.Kubectl(ctx, "wait", "--for=create", "--timeout=1m", "pod", "-l", "app=d"); err != nil {
		t.Errorf("no controller makes a deployment's pods: %v, %s", err, out)
	}
}

// A control plane that cannot start says why and leaves nothing behind.
func TestControlPlaneFails(t *testing.T) {
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "etcd"), []byte("#!/bin/sh\necho the disk is full\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := StartControlPlane(t.Context(), ControlPlaneConfig{Bin: programs, Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "etcd has ended (exit status 3)") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("the error is %v", err)
	}
	if _, err := StartControlPlane(t.Context(), ControlPlaneConfig{Bin: t.TempDir(), Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "make kube") {
		t.Errorf("without programs the error is %v", err)
	}
}
