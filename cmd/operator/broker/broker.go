// Package broker connects the operator to the nodes of QuorateClusters, with its own credentials.
// All controllers that ask a broker take their clients from one Pool, so that there is one set of
// connections for each cluster, however many objects describe what is in it.
package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/scope"
)

const (
	// clientPort is where nodes answer gRPC.
	clientPort = "7070"
	// clientName is how nodes list the operator's connections.
	clientName = "quorate-operator"
	// callTimeout bounds a call to a broker whose context has no deadline.
	callTimeout = 15 * time.Second
	// retiredFor is how long connections to former addresses stay open for the calls that are under way.
	retiredFor = callTimeout + 5*time.Second
)

// NotReadyError reports that a broker cannot be asked yet, or that the object may not ask it. Most
// causes pass by themselves: try again later.
type NotReadyError struct {
	// Reason in CamelCase, for a condition.
	Reason string
	// Message is a sentence with the remedy, for a condition.
	Message string
}

// Error returns the message.
func (e *NotReadyError) Error() string { return "broker: " + e.Message }

// Pool has a client for each cluster. Its methods may be called concurrently.
type Pool struct {
	read kube.Reader

	mu      sync.Mutex // owns what follows
	open    map[types.NamespacedName]*connection
	retired map[*client.Client]*time.Timer
	closed  bool
}

// connection is a client and what it was made of.
type connection struct {
	client *client.Client
	made   string // fingerprint of addresses and credentials
}

// NewPool makes a pool that finds clusters, their pods and Secrets through read.
func NewPool(read kube.Reader) *Pool {
	return &Pool{read: read, open: map[types.NamespacedName]*connection{}, retired: map[*client.Client]*time.Timer{}}
}

// For returns a client of the cluster whose queues an object in a namespace asks to rebalance. It fails with a
// *NotReadyError if the cluster is not there, cannot be asked yet, or does not allow that to the namespace.
// The client belongs to the pool: callers do not close it, and ask for it anew each time, because the
// nodes' addresses change.
func (p *Pool) For(ctx context.Context, namespace string, ref v1alpha1.ClusterReference) (*client.Client, error) {
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if name.Namespace == "" {
		name.Namespace = namespace
	}
	var c v1alpha1.QuorateCluster
	if err := p.cluster(ctx, name, &c); err != nil {
		return nil, err
	}
	if refused := scope.Check(&c, namespace, scope.Demand{Rebalance: true}); len(refused) > 0 {
		return nil, &NotReadyError{refused[0].Reason, scope.Text(refused)}
	}
	return p.Of(ctx, &c)
}

// cluster reads a cluster.
func (p *Pool) cluster(ctx context.Context, name types.NamespacedName, into *v1alpha1.QuorateCluster) error {
	err := p.read.Get(ctx, name, into)
	if apierrors.IsNotFound(err) {
		return &NotReadyError{"ClusterNotFound", fmt.Sprintf("there is no QuorateCluster %q: create it, or correct spec.cluster", name)}
	}
	return err
}

// Of returns a client of a cluster; see For.
func (p *Pool) Of(ctx context.Context, c *v1alpha1.QuorateCluster) (*client.Client, error) {
	cfg, made, err := p.config(ctx, c, "")
	if err != nil {
		return nil, err
	}
	return p.connect(kube.ObjectKeyFromObject(c), cfg, made)
}

// Beside returns a new client that asks every node but one, for what a node cannot do to itself. The
// caller closes it.
func (p *Pool) Beside(ctx context.Context, c *v1alpha1.QuorateCluster, node string) (*client.Client, error) {
	cfg, _, err := p.config(ctx, c, node)
	if err != nil {
		return nil, err
	}
	return client.New(cfg)
}

// connect returns the open client if it was made of the same, else a new one in its place.
func (p *Pool) connect(name types.NamespacedName, cfg client.Config, made string) (*client.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, &NotReadyError{"Stopping", "the operator is stopping"}
	}
	now := p.open[name]
	if now != nil && now.made == made {
		return now.client, nil
	}
	fresh, err := client.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("broker: cluster %q: %w", name, err)
	}
	p.open[name] = &connection{fresh, made}
	if now != nil {
		p.retire(now.client)
	}
	return fresh, nil
}

// retire closes a client later, because others may be using it. mu is held.
func (p *Pool) retire(c *client.Client) {
	p.retired[c] = time.AfterFunc(retiredFor, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.retired, c)
		c.Close()
	})
}

// Forget closes the connections to a cluster that is gone.
func (p *Pool) Forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.open[name]; now != nil {
		delete(p.open, name)
		now.client.Close()
	}
}

// Close closes all connections. The pool returns no further clients.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.open {
		c.client.Close()
	}
	for c, timer := range p.retired {
		timer.Stop()
		c.Close()
	}
	p.open, p.retired = nil, nil
}

// config returns how to reach the cluster's nodes, but one, and a fingerprint of that.
func (p *Pool) config(ctx context.Context, c *v1alpha1.QuorateCluster, without string) (client.Config, string, error) {
	addresses, err := p.addresses(ctx, c, without)
	if err != nil {
		return client.Config{}, "", err
	}
	login, err := p.secret(ctx, c.Namespace, AdministratorSecret(c), corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
	if err != nil {
		return client.Config{}, "", err
	}
	cfg := client.Config{
		Addresses: addresses, FixedAddresses: true, Name: clientName, CallTimeout: callTimeout,
		Username: string(login.Data[corev1.BasicAuthUsernameKey]), Password: string(login.Data[corev1.BasicAuthPasswordKey]),
	}
	made := append(slices.Clone(addresses), string(login.UID), login.ResourceVersion)
	if c.Spec.TLS != nil {
		ca, err := p.secret(ctx, c.Namespace, ClientSecret(c), corev1.TLSCertKey)
		if err != nil {
			return client.Config{}, "", err
		}
		if cfg.Credentials, err = transport(c, ca); err != nil {
			return client.Config{}, "", err
		}
		made = append(made, string(ca.UID), ca.ResourceVersion, c.Spec.TLS.ServerName)
	}
	return cfg, strings.Join(made, " "), nil
}

// AdministratorSecret returns the name of the Secret with the operator's credentials for a cluster.
func AdministratorSecret(c *v1alpha1.QuorateCluster) string {
	if named := c.Spec.Secrets.Administrator; named != "" {
		return named
	}
	return c.Name + "-operator"
}

// ClientSecret returns the name of the Secret with the certificate that a cluster shows its clients.
func ClientSecret(c *v1alpha1.QuorateCluster) string { return c.Name + "-client-tls" }

// ServerName returns the name that the certificate of a cluster with TLS has for its clients.
func ServerName(c *v1alpha1.QuorateCluster) string {
	if named := c.Spec.TLS.ServerName; named != "" {
		return named
	}
	return c.Name + "." + c.Namespace + ".svc"
}

// Labels returns the labels of a cluster's pods.
func Labels(c *v1alpha1.QuorateCluster) map[string]string {
	return map[string]string{
		"app.kubernetes.io/component": "node", "app.kubernetes.io/instance": c.Name, "app.kubernetes.io/name": "quorate",
	}
}

// addresses returns the addresses of the cluster's nodes but one: of those that are ready, or of all if
// none is. They are IP addresses, which Kubernetes knows before any DNS server does.
func (p *Pool) addresses(ctx context.Context, c *v1alpha1.QuorateCluster, without string) ([]string, error) {
	var pods corev1.PodList
	if err := p.read.List(ctx, &pods, kube.InNamespace(c.Namespace), kube.MatchingLabels(Labels(c))); err != nil {
		return nil, err
	}
	var ready, all []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP == "" || pod.Name == without || pod.DeletionTimestamp != nil {
			continue
		}
		address := net.JoinHostPort(pod.Status.PodIP, clientPort)
		all = append(all, address)
		if isReady(pod) {
			ready = append(ready, address)
		}
	}
	if len(ready) > 0 {
		all = ready
	}
	if len(all) == 0 {
		return nil, &NotReadyError{"NoNodes", fmt.Sprintf("no pod of QuorateCluster %q runs yet", kube.ObjectKeyFromObject(c))}
	}
	slices.Sort(all)
	return all, nil
}

// isReady reports whether a pod serves clients.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// secret reads a Secret that must have the keys.
func (p *Pool) secret(ctx context.Context, namespace, name string, keys ...string) (*corev1.Secret, error) {
	var s corev1.Secret
	err := p.read.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &s)
	if apierrors.IsNotFound(err) {
		return nil, &NotReadyError{"SecretNotFound", fmt.Sprintf("there is no Secret %q in namespace %q: create it with the keys %q", name, namespace, keys)}
	}
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if len(s.Data[key]) == 0 {
			return nil, &NotReadyError{"SecretIncomplete", fmt.Sprintf("Secret %q in namespace %q has no key %q: add it", name, namespace, key)}
		}
	}
	return &s, nil
}

// transport verifies the nodes' certificate by the authority beside it; without one by those that the
// system trusts.
func transport(c *v1alpha1.QuorateCluster, s *corev1.Secret) (credentials.TransportCredentials, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: ServerName(c)}
	if ca := s.Data[corev1.ServiceAccountRootCAKey]; len(ca) > 0 {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(ca) {
			return nil, &NotReadyError{"SecretIncomplete", fmt.Sprintf("ca.crt of Secret %q in namespace %q has no certificate in PEM form: correct it", s.Name, s.Namespace)}
		}
	}
	return credentials.NewTLS(cfg), nil
}
