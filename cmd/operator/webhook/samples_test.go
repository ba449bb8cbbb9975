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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// Each sample is decoded strictly, so that no field has a typing error, and passes the checks of its kind.
func TestSamples(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	files, err := filepath.Glob("../../../deploy/k8s/operator/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	kinds := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
		for buffer := make([]byte, 64<<10); ; {
			n, err := documents.Read(buffer)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			o, kind, err := strict.Decode(buffer[:n], nil, nil)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			kinds[kind.Kind]++
			if err := checkSample(t, o); err != nil {
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

// checkSample has the webhook of the kind check an object; kinds without one have nothing but their schema.
func checkSample(t *testing.T, o runtime.Object) error {
	var err error
	var warnings []string
	switch o := o.(type) {
	case *v1alpha1.QuorateQueue:
		warnings, err = queues(shared(t)).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuorateExchange:
		warnings, err = exchanges(shared(t)).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuorateBinding:
		warnings, err = bindings(shared(t)).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuoratePolicy:
		warnings, err = policies(shared(t)).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuorateUser:
		warnings, err = users(shared(t)).ValidateCreate(t.Context(), o)
	case *v1alpha1.QuoratePermission:
		warnings, err = permissions(shared(t)).ValidateCreate(t.Context(), o)
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
