package chart

import (
	"encoding/json"
	"fmt"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
)

// peerSlots is for how many nodes each pod mounts the certificates: a change of their number would
// change the template, and so restart every pod, whenever a node is added or removed.
const peerSlots = 9

// GossipSecret returns the name of the Secret with the key by which the nodes of a cluster know each
// other.
func GossipSecret(q *v1alpha1.QuorateCluster) string {
	if named := q.Spec.Secrets.Gossip; named != "" {
		return named
	}
	return q.Name + "-gossip"
}

// tree is a part of the chart's values.
type tree = map[string]any

// values translates the specification of a cluster into the chart's values. What the specification leaves empty is
// left to the chart's defaults.
func values(q *v1alpha1.QuorateCluster, replicas int32, operator string) (chartutil.Values, error) {
	s := &q.Spec
	config, err := config(q)
	if err != nil {
		return nil, err
	}
	v := tree{
		"fullnameOverride": q.Name, "replicas": replicas, "config": config,
		"image":       tree{"repository": s.Image.Repository, "tag": s.Image.Version, "pullPolicy": s.Image.PullPolicy, "pullSecrets": s.Image.PullSecrets},
		"gossip":      tree{"existingSecret": GossipSecret(q)},
		"defaultUser": tree{"existingSecret": broker.AdministratorSecret(q)},
		"definitions": tree{"existingSecret": s.Secrets.Definitions},
		// The operator alone decides about claims: what Kubernetes did would know nothing of what is on them.
		"storage":           tree{"size": s.Storage.Size, "storageClassName": s.Storage.StorageClassName},
		"drainSeconds":      s.DrainSeconds,
		"tls":               tlsValues(s.TLS, replicas),
		"antiAffinity":      s.Pod.AntiAffinity,
		"zoneSpread":        s.Pod.ZoneSpread,
		"nodeSelector":      s.Pod.NodeSelector,
		"tolerations":       s.Pod.Tolerations,
		"priorityClassName": s.Pod.PriorityClassName,
		"podLabels":         s.Pod.Labels,
		"podAnnotations":    s.Pod.Annotations,
		"extraEnv":          s.Pod.Env,
		"service":           tree{"type": s.Service.Type, "annotations": s.Service.Annotations},
		"networkPolicy":     networkValues(q, operator),
		"monitoring": tree{
			"namespace": s.Monitoring.Namespace, "monitor": s.Monitoring.Monitor, "interval": s.Monitoring.Interval,
			"labels": s.Monitoring.Labels, "rules": s.Monitoring.Rules, "dashboard": s.Monitoring.Dashboard,
		},
	}
	if s.Resources.Requests != nil || s.Resources.Limits != nil {
		v["resources"] = s.Resources
	}
	return plain(v)
}

// config returns the nodes' settings: those of the specification over those that other fields ask for.
func config(q *v1alpha1.QuorateCluster) (tree, error) {
	out := tree{}
	if c := q.Spec.Config; c != nil && len(c.Raw) > 0 {
		if err := json.Unmarshal(c.Raw, &out); err != nil {
			return nil, fmt.Errorf("chart: spec.config of cluster %q: %w: give settings by name", q.Name, err)
		}
	}
	if q.Spec.Upgrade.Finalize != v1alpha1.Manual {
		return out, nil
	}
	of, _ := out["cluster"].(tree)
	if of == nil {
		of = tree{}
	}
	if _, set := of["finalize"]; !set {
		of["finalize"] = "manual"
	}
	out["cluster"] = of
	return out, nil
}

// tlsValues reserves places for certificates, so that adding a node does not restart the others.
func tlsValues(s *v1alpha1.TLSSpec, replicas int32) tree {
	if s == nil {
		return tree{"enabled": false}
	}
	v := tree{"enabled": true, "peerSlots": max(peerSlots, replicas)}
	if m := s.CertManager; m != nil {
		v["certManager"] = tree{
			"enabled": true, "peerIssuer": m.PeerIssuer, "clientIssuer": m.ClientIssuer, "dnsNames": m.DNSNames,
			"duration": m.Duration, "renewBefore": m.RenewBefore,
		}
	}
	return v
}

// networkValues lets the operator and backups in where only some clients may.
func networkValues(q *v1alpha1.QuorateCluster, operator string) tree {
	var clients []any
	for _, c := range q.Spec.NetworkPolicy.Clients {
		clients = append(clients, c)
	}
	if len(clients) > 0 {
		selector := tree{}
		if operator != "" {
			selector = tree{"matchLabels": tree{"kubernetes.io/metadata.name": operator}}
		}
		clients = append(clients, tree{"podSelector": tree{"matchLabels": BackupLabels(q)}}, tree{
			"namespaceSelector": selector, "podSelector": tree{"matchLabels": tree{"app.kubernetes.io/name": v1alpha1.FieldManager}},
		})
	}
	return tree{"enabled": !q.Spec.NetworkPolicy.Disabled, "clients": clients}
}

// plain turns values into what a file of values could have, without what is empty: there the chart's
// own values apply.
func plain(v tree) (chartutil.Values, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := tree{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	prune(out)
	return out, nil
}

// prune removes what is empty, but not within the nodes' settings, labels and the like, where an empty value means
// something.
func prune(v tree) {
	for name, x := range v {
		switch x := x.(type) {
		case nil:
			delete(v, name)
		case string:
			if x == "" {
				delete(v, name)
			}
		case float64:
			if x == 0 {
				delete(v, name)
			}
		case tree:
			switch name {
			case "image", "gossip", "defaultUser", "definitions", "storage", "tls", "certManager", "service", "networkPolicy", "monitoring":
				prune(x)
			}
		}
	}
}
