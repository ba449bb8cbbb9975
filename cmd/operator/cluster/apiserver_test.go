package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
	"github.com/quorate/quorate/internal/testcluster"
)

// assets names the directory with kube-apiserver and etcd.
const assets = "KUBEBUILDER_ASSETS"

// api starts an API server with the operator's kinds, which ends with the test.
func api(t *testing.T) kube.Client {
	t.Helper()
	dir := os.Getenv(assets)
	if dir == "" {
		t.Skip(assets + " names no directory with kube-apiserver and etcd")
	}
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		t.Skip(err)
	}
	s := runtime.NewScheme()
	if err := kubescheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: dir, CRDDirectoryPaths: []string{"../../../deploy/k8s/operator/crds"}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	t.Cleanup(func() { // also if the start fails half way: its processes would go on
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(config, kube.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// either starts an API server where there is one, or else one in memory, which merges and checks less.
func either(t *testing.T) kube.Client {
	t.Helper()
	if os.Getenv(assets) == "" {
		return inMemory(t)
	}
	return api(t)
}

// machine stands for the kubelets and the StatefulSet controller: it makes claims and pods, whose processes are the nodes
// of a cluster in this process, reached at addresses of their own on the operator's port.
type machine struct {
	t     *testing.T
	kube  kube.Client
	nodes *testcluster.Cluster
	name  types.NamespacedName
	down  map[int]bool // nodes that were killed
	began map[int]bool // nodes that had a pod before

	starts int      // of pods
	tooOld string   // an image whose nodes end with words
	words  string   // of a node that cannot read what is stored
	said   []string // events
}

// address is where a pod is.
func address(node int) string { return fmt.Sprintf("127.0.%d.%d", 20+os.Getpid()%200, node+1) }

// forward gives each node its address.
func (m *machine) forward(n int) {
	for i := range n {
		l, err := new(net.ListenConfig).Listen(m.t.Context(), "tcp", net.JoinHostPort(address(i), "7070"))
		if err != nil {
			m.t.Fatal(err)
		}
		m.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				in, err := l.Accept()
				if err != nil {
					return
				}
				go pipe(in, m.nodes.Addrs()[i])
			}
		}()
	}
}

// pipe copies both ways until one end closes.
func pipe(in net.Conn, to string) {
	defer func() { _ = in.Close() }()
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// work brings pods and claims to what the StatefulSet says. It returns how many there are to be; -1 without a StatefulSet.
func (m *machine) work(ctx context.Context) int {
	m.t.Helper()
	var set appsv1.StatefulSet
	if err := m.kube.Get(ctx, m.name, &set); apierrors.IsNotFound(err) {
		return -1
	} else if err != nil {
		m.t.Fatal(err)
	}
	revision := set.Name + "-" + set.Annotations[chart.AnnotationTemplate][:10]
	var pods corev1.PodList
	m.must(m.kube.List(ctx, &pods, kube.InNamespace(m.name.Namespace)))
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, UpdateRevision: revision, Replicas: *set.Spec.Replicas}
	for i := range pods.Items {
		if c := pods.Items[i].Status.Conditions; len(c) > 0 && c[0].Status == corev1.ConditionTrue {
			set.Status.AvailableReplicas++
		}
	}
	set.Status.ReadyReplicas = set.Status.AvailableReplicas
	m.must(m.kube.Status().Update(ctx, &set))
	for i := range pods.Items {
		if n, _ := ordinal(pods.Items[i].Name, m.name.Name); n >= int(*set.Spec.Replicas) {
			m.nodes.Kill(n)
			m.down[n] = true
			m.must(m.kube.Delete(ctx, &pods.Items[i], kube.GracePeriodSeconds(0)))
		}
	}
	for i := range int(*set.Spec.Replicas) {
		m.start(ctx, &set, i, revision)
		m.probe(ctx, fmt.Sprintf("%s-%d", set.Name, i), i)
	}
	m.allow(ctx)
	return int(*set.Spec.Replicas)
}

// start makes a claim and a ready pod, if they are not there.
func (m *machine) start(ctx context.Context, set *appsv1.StatefulSet, i int, revision string) {
	name := fmt.Sprintf("%s-%d", set.Name, i)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data-" + name, Namespace: set.Namespace, Labels: set.Spec.Template.Labels},
		Spec:       set.Spec.VolumeClaimTemplates[0].Spec,
	}
	err := m.kube.Create(ctx, claim)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		m.t.Fatal(err)
	}
	if m.down[i] && err == nil { // its volume is new
		m.nodes.Lose(i)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: set.Namespace, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: revision}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "node", Image: "x"}}},
	}
	for k, v := range set.Spec.Template.Labels {
		pod.Labels[k] = v
	}
	if err := m.kube.Create(ctx, pod); apierrors.IsAlreadyExists(err) {
		return
	} else if err != nil {
		m.t.Fatal(err)
	}
	m.starts++
	refuses := set.Spec.Template.Spec.Containers[0].Image == m.tooOld
	if m.began[i] { // its former pod has ended
		m.nodes.Kill(i)
		if !refuses {
			m.nodes.Launch(i)
		}
	}
	m.began[i], m.down[i] = true, false
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address(i), PodIPs: []corev1.PodIP{{IP: address(i)}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute))}},
	}
	if refuses {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "node", Image: m.tooOld, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: m.words}},
		}}
	}
	m.must(m.kube.Status().Update(ctx, pod))
}

// probe makes a pod ready if its node is.
func (m *machine) probe(ctx context.Context, name string, i int) {
	var pod corev1.Pod
	m.must(m.kube.Get(ctx, types.NamespacedName{Namespace: m.name.Namespace, Name: name}, &pod))
	is := corev1.ConditionFalse
	if len(pod.Status.ContainerStatuses) == 0 && m.nodes.Broker(i).Ready() == nil { // else it has ended
		is = corev1.ConditionTrue
	}
	if c := &pod.Status.Conditions[0]; c.Status != is {
		c.Status = is
		m.must(m.kube.Status().Update(ctx, &pod))
	}
}

// allow lets one pod be evicted while all are ready, as the controller of disruptions does.
func (m *machine) allow(ctx context.Context) {
	var budget policyv1.PodDisruptionBudget
	m.must(m.kube.Get(ctx, m.name, &budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2, ExpectedPods: 3}
	m.must(m.kube.Status().Update(ctx, &budget))
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// operator makes a reconciler of a cluster, and how to let it make a pass.
func (m *machine) operator() func(ctx context.Context) {
	m.t.Helper()
	c, err := chart.Load()
	m.must(err)
	pool := broker.NewPool(m.kube)
	m.t.Cleanup(pool.Close)
	recorder := events.NewFakeRecorder(1000)
	r := &Reconciler{Client: m.kube, Pool: pool, Chart: c, Events: recorder}
	return func(ctx context.Context) {
		m.t.Helper()
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: m.name}); err != nil {
			m.t.Fatal(err)
		}
		for {
			select {
			case e := <-recorder.Events:
				m.t.Log(e)
				m.said = append(m.said, e)
				continue
			default:
			}
			return
		}
	}
}

// The API server refuses what would never work, and what cannot change.
func TestValidation(t *testing.T) {
	c := api(t)
	ctx := t.Context()
	cluster := func(name string, change func(*v1alpha1.QuorateClusterSpec)) *v1alpha1.QuorateCluster {
		q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		if change != nil {
			change(&q.Spec)
		}
		return q
	}
	for name, bad := range map[string]*v1alpha1.QuorateCluster{
		"name with a dot": cluster("a.b", nil),
		"long name":       cluster("a234567890123456789012345678901234567890x", nil),
		"101 nodes":       cluster("a", func(s *v1alpha1.QuorateClusterSpec) { s.Replicas = 101 }),
		"size in words":   cluster("a", func(s *v1alpha1.QuorateClusterSpec) { s.Storage.Size = "large" }),
		"old encrypted backups are to be removed without their key": cluster("a", func(s *v1alpha1.QuorateClusterSpec) {
			s.Backup = &v1alpha1.BackupSpec{Schedule: "0 3 * * *", S3: &v1alpha1.BackupS3{Bucket: "b"}, KeySecret: "k", Retention: &v1alpha1.BackupRetention{Keep: 1}}
		}),
		"schedule of four fields": cluster("a", func(s *v1alpha1.QuorateClusterSpec) {
			s.Backup = &v1alpha1.BackupSpec{Schedule: "0 3 * *", S3: &v1alpha1.BackupS3{Bucket: "b"}}
		}),
		"two entries for a namespace": cluster("a", func(s *v1alpha1.QuorateClusterSpec) {
			s.Topology.AllowedNamespaces = []v1alpha1.NamespaceScope{{Namespace: "team"}, {Namespace: "team", VHosts: []string{"/"}}}
		}),
		"two places": cluster("a", func(s *v1alpha1.QuorateClusterSpec) {
			s.Backup = &v1alpha1.BackupSpec{Schedule: "0 3 * * *", S3: &v1alpha1.BackupS3{Bucket: "b"}, PersistentVolumeClaim: &v1alpha1.BackupVolume{ClaimName: "c"}}
		}),
	} {
		if err := c.Create(ctx, bad); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	q := cluster("orders", nil)
	if err := c.Create(ctx, q); err != nil {
		t.Fatal(err)
	}
	if q.Spec.Replicas != 3 || q.Spec.Storage.Size != "10Gi" || q.Spec.Deletion != v1alpha1.VolumeDeletionRetain || q.Spec.Upgrade.Finalize != v1alpha1.Automatic {
		t.Errorf("the defaults are %+v", q.Spec)
	}
	for name, change := range map[string]func(*v1alpha1.QuorateClusterSpec){
		"other class": func(s *v1alpha1.QuorateClusterSpec) { s.Storage.StorageClassName = "fast" },
		"tls":         func(s *v1alpha1.QuorateClusterSpec) { s.TLS = &v1alpha1.TLSSpec{} },
		"gossip key":  func(s *v1alpha1.QuorateClusterSpec) { s.Secrets.Gossip = "other" },
	} {
		changed := q.DeepCopy()
		change(&changed.Spec)
		if err := c.Update(ctx, changed); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	q.Spec.Storage.Size = "20Gi"
	if err := c.Update(ctx, q); err != nil {
		t.Error(err)
	}
}

// Whoever asks for less than a gigabyte gets it.
func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"10Gi": 10 << 30, "512Mi": 512 << 20} {
		set := &appsv1.StatefulSet{}
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{}}
		set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
		q := resource.MustParse(sizeOf(set))
		if q.Value() != want {
			t.Errorf("%s is %d", text, q.Value())
		}
	}
}
