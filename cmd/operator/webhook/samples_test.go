package webhook

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// decoder returns the operator's kinds, and what decodes their objects strictly.
func decoder(t *testing.T) (*runtime.Scheme, *json.Serializer) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	return scheme, strict
}

// Each sample is decoded strictly, so that no field has a typing error, and passes the checks of its kind: against the
// cluster of its file, if it has one.
func TestSamples(t *testing.T) {
	scheme, strict := decoder(t)
	files, err := filepath.Glob("../../../deploy/k8s/operator/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	kinds := map[string]int{}
	for _, file := range files {
		objects := readSamples(t, strict, file)
		var clusters []kube.Object
		for _, o := range objects {
			kinds[o.GetObjectKind().GroupVersionKind().Kind]++
			if c, is := o.(*v1alpha1.QuorateCluster); is {
				clusters = append(clusters, c)
			}
		}
		there := fake.NewClientBuilder().WithScheme(scheme).WithObjects(clusters...).Build()
		for _, o := range objects {
			if err := checkSample(t, there, o); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	for _, kind := range []string{"QuorateQueue", "QuorateExchange", "QuorateBinding", "QuoratePolicy", "QuorateUser", "QuoratePermission", "QuorateRebalance"} {
		if kinds[kind] == 0 {
			t.Errorf("no sample of kind %s", kind)
		}
	}
}

// readSamples decodes the objects of a file.
func readSamples(t *testing.T, strict *json.Serializer, file string) []runtime.Object {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Object
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	for buffer := make([]byte, 64<<10); ; {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := strict.Decode(buffer[:n], nil, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		out = append(out, o)
	}
}

// The objects of teams in a shared cluster are refused if the cluster of their file does not allow them.
func TestSharedSample(t *testing.T) {
	scheme, strict := decoder(t)
	checked := 0
	objects := readSamples(t, strict, "../../../deploy/k8s/operator/samples/shared.yaml")
	for _, o := range objects {
		c, is := o.(*v1alpha1.QuorateCluster)
		if !is {
			continue
		}
		c.Spec.Topology.AllowedNamespaces = nil
		there := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c).Build()
		for _, o := range objects {
			if _, is := o.(*v1alpha1.QuorateCluster); is {
				continue
			}
			checked++
			if err := checkSample(t, there, o); !apierrors.IsInvalid(err) {
				t.Errorf("%T is not checked against the file's cluster: %v", o, err)
			}
		}
	}
	if checked == 0 {
		t.Error("the sample has no cluster with objects of others")
	}
}

// checkSample has the webhook of the kind check an object; kinds without one have nothing but their schema.
func checkSample(t *testing.T, there kube.Reader, o runtime.Object) error {
	t.Helper()
	var err error
	var warnings []string
	switch o := o.(type) {
	case *v1alpha1.QuorateQueue:
		warnings, err = queues(there).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuorateExchange:
		warnings, err = exchanges(there).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuorateBinding:
		warnings, err = bindings(there).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuoratePolicy:
		warnings, err = policies(there).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuorateUser:
		warnings, err = users(there).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuoratePermission:
		warnings, err = permissions(there).ValidateCreate(t.Context(), o)
	}
	if len(warnings) > 0 {
		t.Errorf("%T: %q", o, warnings)
	}
	return err
}

// The configuration of the webhook asks for each kind at the path where it is served, and holds nobody up.
func TestConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/k8s/operator/webhook/webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c admissionregistrationv1.ValidatingWebhookConfiguration
	if err := sigsyaml.UnmarshalStrict(text, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Webhooks) != 6 {
		t.Errorf("%d webhooks", len(c.Webhooks))
	}
	for _, w := range c.Webhooks {
		resource := w.Rules[0].Resources[0]
		singular := strings.TrimSuffix(resource, "s")
		if resource == "quoratepolicies" {
			singular = "quoratepolicy"
		}
		if path := *w.ClientConfig.Service.Path; path != "/validate-quorate-github-io-v1alpha1-"+singular {
			t.Errorf("%s is at %s", resource, path)
		}
		if *w.FailurePolicy != admissionregistrationv1.Ignore || *w.TimeoutSeconds > 10 {
			t.Errorf("%s: failurePolicy %s, %d s", w.Name, *w.FailurePolicy, *w.TimeoutSeconds)
		}
	}
}
