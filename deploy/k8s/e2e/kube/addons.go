//go:build linux

package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// clusterDomain is what services' names end in.
const clusterDomain = "cluster.local"

// startScheduler starts the scheduler.
func (k *Cluster) startScheduler() error {
	kubeconfig, err := k.certificates.kubeconfig("scheduler", k.server, "system:kube-scheduler")
	if err != nil {
		return err
	}
	_, err = k.start("kube-scheduler", "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--leader-elect=false", "--bind-address="+controlPlaneAddress.String(), "--cert-dir="+filepath.Join(k.config.Dir, "scheduler"))
	return err
}

// startProxy leads services' addresses to pods. Nodes share the namespace's network, so one is enough for all.
func (k *Cluster) startProxy() error {
	kubeconfig, err := k.certificates.kubeconfig("proxy", k.server, "system:kube-proxy")
	if err != nil {
		return err
	}
	at := controlPlaneAddress.String()
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
		"clientConnection": map[string]any{"kubeconfig": kubeconfig}, "hostnameOverride": "node-0", "clusterCIDR": podRange,
		"bindAddress": at, "healthzBindAddress": at + ":10256", "metricsBindAddress": at + ":10249",
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0},
	})
	path := filepath.Join(k.config.Dir, "proxy.yaml")
	if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		return err
	}
	_, err = k.start("kube-proxy", "--config="+path)
	return err
}

// startDNS answers for services' and pods' names, and keeps answers as long as most clusters do.
func (k *Cluster) startDNS() error {
	kubeconfig, err := k.certificates.kubeconfig("coredns", k.server, "coredns")
	if err != nil {
		return err
	}
	path := filepath.Join(k.config.Dir, "Corefile")
	text := fmt.Sprintf(`.:53 {
    bind %s
    errors
    kubernetes %s in-addr.arpa {
        kubeconfig %s
        ttl 30
    }
    cache 30
}
`, controlPlaneAddress, clusterDomain, kubeconfig)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	_, err = k.start("coredns", "-conf", path)
	return err
}
