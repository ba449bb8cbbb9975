package k8s

import (
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// each runs the check on the base, on every overlay, and on the chart with each set of values.
func each(t *testing.T, check func(t *testing.T, o *objects)) {
	for _, dir := range kustomizations(t) {
		t.Run(path.Base(dir), func(t *testing.T) { check(t, build(t, dir)) })
	}
	for name, files := range chartValues {
		t.Run(name, func(t *testing.T) { check(t, buildChart(t, "quorate", values(t, files...))) })
	}
}

func node(t *testing.T, o *objects) corev1.Container {
	t.Helper()
	all := o.set.Spec.Template.Spec.Containers
	if len(all) != 1 || all[0].Name != "node" {
		t.Fatalf("containers = %v, want node alone", all)
	}
	return all[0]
}

// Three pods with stable names, started together, each with a volume that outlives it.
func TestStatefulSet(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		s := o.set.Spec
		if s.Replicas == nil || *s.Replicas != 3 {
			t.Errorf("replicas = %v, want 3", s.Replicas)
		}
		if s.PodManagementPolicy != appsv1.ParallelPodManagement {
			t.Errorf("podManagementPolicy = %q, want Parallel", s.PodManagementPolicy)
		}
		if s.MinReadySeconds != 10 {
			t.Errorf("minReadySeconds = %d, want 10: a rollout takes the next pod so long after one is ready", s.MinReadySeconds)
		}
		if h := o.services[s.ServiceName]; h == nil || h.Spec.ClusterIP != corev1.ClusterIPNone {
			t.Errorf("serviceName = %q, want that of the headless service", s.ServiceName)
		}
		keep := s.PersistentVolumeClaimRetentionPolicy
		if keep == nil || keep.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType ||
			keep.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
			t.Errorf("persistentVolumeClaimRetentionPolicy = %v, want Retain twice", keep)
		}
		claims := s.VolumeClaimTemplates
		if len(claims) != 1 || !slices.Equal(claims[0].Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
			t.Fatalf("volumeClaimTemplates = %v, want one, ReadWriteOnce", claims)
		}
		if m := mount(node(t, o), claims[0].Name); m.MountPath != configOf(t, o).DataDir || m.ReadOnly {
			t.Errorf("the claim is mounted at %q, data_dir is %q", m.MountPath, configOf(t, o).DataDir)
		}
		if !selects(t, s.Selector, s.Template.Labels) {
			t.Errorf("selector %v does not select the pods %v", s.Selector, s.Template.Labels)
		}
	})
}

// Pods pass the level "restricted" as the API server checks it; besides they have a read-only root, numbers
// that the image agrees with, and no token of the Kubernetes API.
func TestRestrictedSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	each(t, func(t *testing.T, o *objects) {
		template := o.set.Spec.Template
		spec := template.Spec
		if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &spec)); !result.Allowed {
			t.Errorf("the level restricted forbids it: %s: %s", result.ForbiddenReason(), result.ForbiddenDetail())
		}
		p, c := spec.SecurityContext, node(t, o).SecurityContext
		if p == nil || c == nil {
			t.Fatalf("security contexts = %+v and %+v, want both", p, c)
		}
		for what, ok := range map[string]bool{
			"runAsUser 65532":             is(p.RunAsUser, 65532),
			"runAsGroup 65532":            is(p.RunAsGroup, 65532),
			"fsGroup 65532":               is(p.FSGroup, 65532),
			"not privileged":              isFalse(c.Privileged),
			"readOnlyRootFilesystem":      isTrue(c.ReadOnlyRootFilesystem),
			"no API token in the pod":     isFalse(spec.AutomountServiceAccountToken),
			"no API token by the account": isFalse(o.account.AutomountServiceAccountToken),
			"the account is the pod's":    spec.ServiceAccountName == o.account.Name,
			"no service environment":      isFalse(spec.EnableServiceLinks),
		} {
			if !ok {
				t.Errorf("not so: %s", what)
			}
		}
	})
}

// Nodes find one another before they are ready; clients reach ready ones only.
func TestServices(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		headless, join, clients := o.services["quorate-headless"], o.services["quorate-join"], o.services["quorate"]
		if headless == nil || join == nil || clients == nil || len(o.services) != 3 {
			t.Fatalf("services = %v, want quorate-headless, quorate-join and quorate", o.services)
		}
		if headless.Spec.ClusterIP != corev1.ClusterIPNone || !headless.Spec.PublishNotReadyAddresses {
			t.Error("quorate-headless must be headless and publish addresses that are not ready")
		}
		if join.Spec.ClusterIP != "" || !join.Spec.PublishNotReadyAddresses {
			t.Error("quorate-join must have an address, which DNS gives whatever becomes of pods, and lead to pods that are not ready")
		}
		if clients.Spec.ClusterIP != "" || clients.Spec.PublishNotReadyAddresses {
			t.Error("quorate must have an address and publish ready pods only")
		}
		wantPorts(t, o, headless, "7070/TCP", "5672/TCP", "15672/TCP", "7073/TCP", "7071/TCP", "7072/TCP", "7072/UDP")
		wantPorts(t, o, join, "7072/TCP")
		wantPorts(t, o, clients, "7070/TCP", "5672/TCP", "15672/TCP")
		plain := env(node(t, o), "QUORATE_TLS__CLIENT__CERT").Name == ""
		for _, s := range o.services {
			if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(o.set.Spec.Template.Labels)) || len(s.Spec.Selector) == 0 {
				t.Errorf("service %s with %v does not select the pods", s.Name, s.Spec.Selector)
			}
			for _, p := range s.Spec.Ports {
				h2c := p.AppProtocol != nil && *p.AppProtocol == "kubernetes.io/h2c"
				if h2c != (plain && p.Name == "grpc") {
					t.Errorf("service %s, port %s: appProtocol %v, TLS %v", s.Name, p.Name, p.AppProtocol, !plain)
				}
			}
		}
	})
}

// wantPorts checks the ports and that each leads to a named port of the container.
func wantPorts(t *testing.T, o *objects, s *corev1.Service, want ...string) {
	t.Helper()
	var got []string
	for _, p := range s.Spec.Ports {
		protocol := protocolOf(p.Protocol)
		got = append(got, fmt.Sprintf("%d/%s", p.Port, protocol))
		leads := slices.ContainsFunc(node(t, o).Ports, func(c corev1.ContainerPort) bool {
			return c.Name == p.TargetPort.StrVal && c.ContainerPort == p.Port && protocolOf(c.Protocol) == protocol
		})
		if !leads {
			t.Errorf("service %s: port %s leads to %q, which the container has not", s.Name, p.Name, p.TargetPort.StrVal)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("service %s: ports = %v, want %v", s.Name, got, want)
	}
}

// One node at a time is evicted; one that is not ready never blocks a drain.
func TestDisruptionBudget(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		b := o.budget.Spec
		if b.MaxUnavailable == nil || b.MaxUnavailable.IntValue() != 1 || b.MinAvailable != nil {
			t.Errorf("maxUnavailable = %v, want 1", b.MaxUnavailable)
		}
		if b.UnhealthyPodEvictionPolicy == nil || *b.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
			t.Errorf("unhealthyPodEvictionPolicy = %v, want AlwaysAllow", b.UnhealthyPodEvictionPolicy)
		}
		if !selects(t, b.Selector, o.set.Spec.Template.Labels) {
			t.Errorf("selector %v does not select the pods", b.Selector)
		}
	})
}

// Probes ask the node's own pages, and a drain fits into the time to terminate.
func TestProbesAndDrain(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		c := node(t, o)
		for page, probe := range map[string]*corev1.Probe{
			"/health/startup": c.StartupProbe, "/health/live": c.LivenessProbe, "/health/ready": c.ReadinessProbe,
		} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != page || probe.HTTPGet.Port.StrVal != "http" {
				t.Errorf("probe %s = %+v, want an HTTP GET of it on port http", page, probe)
			}
		}
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Exec == nil {
			t.Fatalf("lifecycle = %+v, want a preStop command", c.Lifecycle)
		}
		command := c.Lifecycle.PreStop.Exec.Command
		// With the node's own settings, or it would not know how the node listens.
		want := slices.Concat([]string{"/quorate", "drain"}, c.Args[1:], []string{"--timeout"})
		if len(command) != len(want)+1 || !slices.Equal(command[:len(want)], want) {
			t.Fatalf("preStop = %v, want %v T", command, want)
		}
		drain, err := time.ParseDuration(command[len(want)])
		if err != nil {
			t.Fatal(err)
		}
		// The node drains what is left once more, for timeouts.drain, and ends by itself after StopLimit (docs/limits.md).
		grace := time.Duration(*o.set.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
		again := time.Minute
		if own := configOf(t, o).Timeouts.Drain; own != "" {
			if again, err = time.ParseDuration(own); err != nil {
				t.Fatal(err)
			}
		}
		if grace < drain+again+30*time.Second || grace > 5*time.Minute {
			t.Errorf("terminationGracePeriodSeconds = %v for drains of %v and %v: want 30 s more, and 5 min at most", grace, drain, again)
		}
	})
}

// Members sit on different machines; what is for trying out only prefers it.
func TestSpread(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		spec := o.set.Spec.Template.Spec
		if len(spec.TopologySpreadConstraints) == 0 {
			t.Error("no topologySpreadConstraints")
		}
		if spec.Affinity == nil || spec.Affinity.PodAntiAffinity == nil {
			t.Fatal("no podAntiAffinity")
		}
		required := spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		preferred := spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if strings.HasSuffix(t.Name(), "dev") {
			if len(required) != 0 || len(preferred) != 1 {
				t.Errorf("anti-affinity: %d required, %d preferred, want 0 and 1", len(required), len(preferred))
			}
		} else if len(required) != 1 || required[0].TopologyKey != corev1.LabelHostname {
			t.Errorf("anti-affinity = %+v, want one required by host name", required)
		}
	})
}

// The node's file, its environment and the pod agree with one another.
func TestConfig(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		spec, c, config := o.set.Spec.Template.Spec, node(t, o), configOf(t, o)
		if config.Cluster.Expect != *o.set.Spec.Replicas {
			t.Errorf("cluster.expect = %d, replicas = %d", config.Cluster.Expect, *o.set.Spec.Replicas)
		}
		if want := []string{"quorate-headless:7072", "quorate-join:7072"}; !slices.Equal(config.Cluster.Join, want) {
			t.Errorf("cluster.join = %v, want %v", config.Cluster.Join, want)
		}
		for key, port := range map[string]string{"client": "grpc", "peer": "peer", "gossip": "gossip-tcp", "http": "http", "management": "management"} {
			i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port })
			if i < 0 || config.Listen[key] != fmt.Sprintf("0.0.0.0:%d", c.Ports[i].ContainerPort) {
				t.Errorf("listen.%s = %q does not match the container's port %s", key, config.Listen[key], port)
			}
		}
		if want := []string{"node", "--config", mount(c, "config").MountPath + "/node.yaml"}; !slices.Equal(c.Args, want) {
			t.Errorf("args = %v, want %v", c.Args, want)
		}
		id := env(c, "QUORATE_NODE_ID")
		if id.ValueFrom == nil || id.ValueFrom.FieldRef == nil || id.ValueFrom.FieldRef.FieldPath != "metadata.name" {
			t.Errorf("QUORATE_NODE_ID = %+v, want the pod's name", id)
		}
		if host := env(c, "QUORATE_ADVERTISE__HOST"); host.Value != "$(QUORATE_NODE_ID)."+o.set.Spec.ServiceName {
			t.Errorf("QUORATE_ADVERTISE__HOST = %q, want the pod's name in the headless service", host.Value)
		}
		gossip := env(c, "QUORATE_ADVERTISE__GOSSIP")
		if gossip.ValueFrom == nil || gossip.ValueFrom.FieldRef == nil || gossip.ValueFrom.FieldRef.FieldPath != "status.podIP" {
			t.Errorf("QUORATE_ADVERTISE__GOSSIP = %+v, want the pod's address: its name may lead to the former one for a while", gossip)
		}
		order := func(name string) int {
			return slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
		}
		if order("QUORATE_NODE_ID") > order("QUORATE_ADVERTISE__HOST") {
			t.Error("QUORATE_NODE_ID must stand before the variable that refers to it")
		}
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "config" })
		if i < 0 || spec.Volumes[i].ConfigMap == nil || spec.Volumes[i].ConfigMap.Name != o.config.Name {
			t.Errorf("volume config does not hold the ConfigMap %s", o.config.Name)
		}
	})
}

// The dev overlay brings a key; the base and others may leave it to the operator.
func TestGossipKey(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		spec, config := o.set.Spec.Template.Spec, configOf(t, o)
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "quorate-gossip" })
		if i < 0 || len(spec.Volumes[i].Secret.Items) != 1 {
			t.Fatalf("volumes = %+v, want one of the secret quorate-gossip", spec.Volumes)
		}
		volume := spec.Volumes[i]
		if mode := volume.Secret.DefaultMode; mode == nil || *mode != 0o440 {
			t.Errorf("mode of the key = %v, want 0440", mode)
		}
		item := volume.Secret.Items[0]
		if file := path.Join(mount(node(t, o), volume.Name).MountPath, item.Path); file != config.Cluster.GossipKeyFile {
			t.Errorf("the key is mounted as %s, cluster.gossip_key_file is %s", file, config.Cluster.GossipKeyFile)
		}
		secret := o.secrets["quorate-gossip"]
		if strings.HasSuffix(t.Name(), "/base") && secret != nil {
			t.Error("the base must not bring a key")
		}
		if strings.HasSuffix(t.Name(), "/dev") && secret == nil {
			t.Error("the dev overlay must bring a key")
		}
		if secret == nil {
			return
		}
		if key, err := base64.StdEncoding.DecodeString(string(secret.Data[item.Key])); err != nil || len(key) != 32 {
			t.Errorf("gossip-key has %d bytes (%v), want base64 of 32", len(key), err)
		}
	})
}

// A node has a memory limit, and takes its own from it: GOMEMLIMIT would have to be changed with it.
func TestMemory(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		c := node(t, o)
		if e := env(c, "GOMEMLIMIT"); e.Name != "" || c.Resources.Limits.Memory().Value() < 192<<20 {
			t.Errorf("GOMEMLIMIT = %q, limit %v: want none, and 192 MiB at least", e.Value, c.Resources.Limits.Memory())
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
			t.Error("no requests for CPU and memory")
		}
	})
}

func mount(c corev1.Container, volume string) corev1.VolumeMount {
	for _, m := range c.VolumeMounts {
		if m.Name == volume {
			return m
		}
	}
	return corev1.VolumeMount{}
}

func env(c corev1.Container, name string) corev1.EnvVar {
	for _, e := range c.Env {
		if e.Name == name {
			return e
		}
	}
	return corev1.EnvVar{}
}

func selects(t *testing.T, s *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return !selector.Empty() && selector.Matches(labels.Set(set))
}

func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

func isTrue(b *bool) bool          { return b != nil && *b }
func isFalse(b *bool) bool         { return b != nil && !*b }
func is(n *int64, want int64) bool { return n != nil && *n == want }
