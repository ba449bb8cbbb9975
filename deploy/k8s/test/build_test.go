package k8s

import (
	"fmt"
	"path/filepath"
	"testing"

	certificatesv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// objects is what one kustomization, or the chart with one set of values, yields.
type objects struct {
	set      *appsv1.StatefulSet
	services map[string]*corev1.Service
	budget   *policyv1.PodDisruptionBudget
	policy   *networkingv1.NetworkPolicy
	config   *corev1.ConfigMap
	account  *corev1.ServiceAccount
	secrets  map[string]*corev1.Secret
	certs    map[string]*certificatesv1.Certificate
	rules    *monitoringv1.PrometheusRule
	board    *corev1.ConfigMap
	all      map[string]runtime.Object // by kind and name
}

// kustomizations returns the base and every overlay.
func kustomizations(t *testing.T) []string {
	t.Helper()
	overlays, err := filepath.Glob("../overlays/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(overlays) == 0 {
		t.Fatal("no overlay found in ../overlays")
	}
	return append([]string{"../base"}, overlays...)
}

// build runs kustomize and decodes every object strictly.
func build(t *testing.T, dir string) *objects {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("kustomize build %s: %v", dir, err)
	}
	var texts []string
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return decode(t, dir, texts)
}

// decode reads objects, each of one text, and refuses what their types do not know.
func decode(t *testing.T, from string, texts []string) *objects {
	t.Helper()
	decoder := strictDecoder(t)
	o := &objects{
		services: map[string]*corev1.Service{}, secrets: map[string]*corev1.Secret{}, certs: map[string]*certificatesv1.Certificate{}, all: map[string]runtime.Object{},
	}
	for _, text := range texts {
		// The decoder takes JSON or YAML; both refuse what the type does not know.
		object, _, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v in\n%s", from, err, text)
		}
		if err := o.add(object); err != nil {
			t.Fatalf("%s: %v", from, err)
		}
	}
	if o.set == nil || o.budget == nil || o.policy == nil || o.config == nil || o.account == nil {
		t.Fatalf("%s: an object is missing, got %+v", from, o)
	}
	return o
}

func strictDecoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, monitoringv1.AddToScheme, certificatesv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// add files the object; a kind that nobody checks is refused, and so is a namespace:
// the one who applies the manifests chooses it.
func (o *objects) add(object runtime.Object) error {
	about, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	name := about.GetName()
	switch x := object.(type) {
	case *appsv1.StatefulSet:
		o.set = x
	case *corev1.Service:
		o.services[name] = x
	case *policyv1.PodDisruptionBudget:
		o.budget = x
	case *networkingv1.NetworkPolicy:
		o.policy = x
	case *corev1.ConfigMap:
		if x.Data["node.yaml"] != "" {
			o.config = x
		} else {
			o.board = x
		}
	case *corev1.ServiceAccount:
		o.account = x
	case *corev1.Secret:
		o.secrets[name] = x
	case *certificatesv1.Certificate:
		o.certs[name] = x
	case *monitoringv1.PrometheusRule:
		o.rules = x
	case *monitoringv1.PodMonitor, *monitoringv1.ServiceMonitor:
	default:
		return fmt.Errorf("object of type %T: nothing checks it yet, add it to objects", object)
	}
	if namespace := about.GetNamespace(); namespace != "" {
		return fmt.Errorf("%T has namespace %q: manifests have none", object, namespace)
	}
	key := object.GetObjectKind().GroupVersionKind().Kind + "/" + name
	if o.all[key] != nil {
		return fmt.Errorf("%s is there twice", key)
	}
	o.all[key] = object
	return nil
}

// A field that the API does not know is refused: this is what the other tests rest on.
func TestUnknownFieldsFail(t *testing.T) {
	const text = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {publishNotReadyAdresses: true}\n"
	if _, _, err := strictDecoder(t).Decode([]byte(text), nil, nil); err == nil {
		t.Error("a Service with a misspelt field was accepted")
	}
}

// nodeConfig is the node's file as far as the manifests write it.
type nodeConfig struct {
	DataDir string `json:"data_dir"`
	Cluster struct {
		Name          string   `json:"name"`
		Expect        int32    `json:"expect"`
		Join          []string `json:"join"`
		GossipKeyFile string   `json:"gossip_key_file"`
		Reconcile     struct {
			Delay string `json:"delay"`
		} `json:"reconcile"`
	} `json:"cluster"`
	Definitions struct {
		File string `json:"file"`
	} `json:"definitions"`
	Listen   map[string]string `json:"listen"`
	Timeouts struct {
		Drain string `json:"drain"`
	} `json:"timeouts"`
}

func configOf(t *testing.T, o *objects) nodeConfig {
	t.Helper()
	var c nodeConfig
	if err := yaml.UnmarshalStrict([]byte(o.config.Data["node.yaml"]), &c); err != nil {
		t.Fatalf("node.yaml: %v", err)
	}
	return c
}
