package k8s

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

// Secrets are made once: an upgrade keeps what is there.
func TestSecretsAreMadeOnce(t *testing.T) {
	first := buildChart(t, "quorate", nil)
	key, err := base64.StdEncoding.DecodeString(string(first.secrets["quorate-gossip"].Data["gossip-key"]))
	if err != nil || len(key) != 32 {
		t.Errorf("the key has %d bytes, %v", len(key), err)
	}
	password := string(first.secrets["quorate-default-user"].Data["password"])
	if len(password) < 24 || url.UserPassword("u", password).String() != "u:"+password {
		t.Errorf("%q is short, or has to be escaped in a URI", password)
	}
	rendered, err := upgrade(t, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := decode(t, "upgrade", rendered)
	for name, secret := range first.secrets {
		for field, value := range secret.Data {
			if got := again.secrets[name].Data[field]; string(got) != string(value) {
				t.Errorf("%s of %s was %q, is %q", field, name, value, got)
			}
		}
		if secret.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the release, its volumes stay", name)
		}
	}
	if other := buildChart(t, "quorate", nil); string(other.secrets["quorate-default-user"].Data["password"]) == password {
		t.Error("two clusters have the same password")
	}
}

// upgrade renders the chart where the secrets are there already.
func upgrade(t *testing.T, there *objects, values chartutil.Values) (texts []string, err error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var secrets []runtime.Object
	for _, s := range there.secrets {
		kept := s.DeepCopy()
		kept.Namespace, kept.TypeMeta = "quorate", metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		secrets = append(secrets, kept)
	}
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	options := chartutil.ReleaseOptions{Name: "quorate", Namespace: "quorate", IsUpgrade: true, Revision: 2}
	all, err := chartutil.ToRenderValues(chart, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.RenderWithClientProvider(chart, all, cluster{fake.NewSimpleDynamicClient(scheme, secrets...)})
	if err != nil {
		return nil, err
	}
	for _, text := range files {
		texts = append(texts, documents(text)...)
	}
	return texts, nil
}

// A value that a named secret would make ineffective is refused, and so is another key than the nodes have.
func TestIneffectiveValues(t *testing.T) {
	for part, value := range map[string]any{
		"gossip key": base64.StdEncoding.EncodeToString(make([]byte, 32)), "defaultUser password": "secret", "definitions document": map[string]any{"users": []any{}},
	} {
		table, name, _ := strings.Cut(part, " ")
		own := map[string]any{"existingSecret": "mine", name: value}
		_, err := renderChart("quorate", chartutil.Values{table: own})
		if want := table + "." + name + " is set beside " + table + ".existingSecret"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", part, err, want)
		}
		delete(own, "existingSecret")
		if _, err := renderChart("quorate", chartutil.Values{table: own}); err != nil {
			t.Errorf("%s alone: %v", part, err)
		}
	}
	first := buildChart(t, "quorate", nil)
	same := chartutil.Values{"gossip": map[string]any{"key": string(first.secrets["quorate-gossip"].Data["gossip-key"])}}
	if _, err := upgrade(t, first, same); err != nil {
		t.Errorf("the key that is there: %v", err)
	}
	other := chartutil.Values{"gossip": map[string]any{"key": base64.StdEncoding.EncodeToString(make([]byte, 32))}}
	if _, err := upgrade(t, first, other); err == nil || !strings.Contains(err.Error(), "gossip.key is another key") {
		t.Errorf("another key: %v", err)
	}
}

// cluster answers the chart's lookups.
type cluster struct{ dynamic.Interface }

func (c cluster) GetClientFor(_, _ string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.Resource(corev1.SchemeGroupVersion.WithResource("secrets")), true, nil
}

// Secrets of the user's own are taken in their place.
func TestOwnSecrets(t *testing.T) {
	o := buildChart(t, "quorate", chartutil.Values{
		"gossip": map[string]any{"existingSecret": "own-gossip"}, "defaultUser": map[string]any{"existingSecret": "own-user"},
		"definitions": map[string]any{"existingSecret": "own-definitions"},
	})
	if len(o.secrets) != 0 {
		t.Errorf("the chart makes %v", o.secrets)
	}
	if from := env(node(t, o), "QUORATE_AUTH__DEFAULT_PASSWORD").ValueFrom; from == nil || from.SecretKeyRef.Name != "own-user" {
		t.Errorf("the password is from %v", from)
	}
	there := map[string]bool{}
	for _, v := range o.set.Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			there[v.Secret.SecretName] = true
		}
	}
	if !there["own-gossip"] || !there["own-definitions"] {
		t.Errorf("secrets %v are mounted", there)
	}
}

// A document of definitions is where the node reads it at its start.
func TestDefinitions(t *testing.T) {
	o := buildChart(t, "quorate", values(t, chartValues["chart-everything"]...))
	c := node(t, o)
	if want := mount(c, "definitions").MountPath + "/definitions.json"; configOf(t, o).Definitions.File != want {
		t.Errorf("definitions.file is %q, want %q", configOf(t, o).Definitions.File, want)
	}
	var document struct {
		Vhosts []struct{ Name string }
	}
	if err := json.Unmarshal(o.secrets["quorate-definitions"].Data["definitions.json"], &document); err != nil || document.Vhosts[0].Name != "orders" {
		t.Errorf("the document is %+v, %v", document, err)
	}
	if file := configOf(t, buildChart(t, "quorate", nil)).Definitions.File; file != "" {
		t.Errorf("without definitions definitions.file is %q", file)
	}
}
