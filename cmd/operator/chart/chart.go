// Package chart makes the objects of a cluster out of the Helm chart, which is the one source of them:
// a cluster of the operator has what a release of the chart has, and what is fixed in one is fixed in
// the other.
package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/deploy/helm"
)

const (
	// notes is the chart's text for people.
	notes = "NOTES.txt"
	// managedBy is the label by which tools know who manages an object.
	managedBy = "app.kubernetes.io/managed-by"
	// AnnotationTemplate is on a StatefulSet: a digest of its template of pods, as the operator wants it.
	AnnotationTemplate = v1alpha1.Prefix + "template"
	// configVolume is the name of the volume with the nodes' file.
	configVolume = "config"
	// digestLength is how many characters of a digest are part of a name.
	digestLength = 10
)

// Objects are what a cluster consists of. All have its namespace.
type Objects struct {
	// Set has the wanted template of pods, and updates pods when they are deleted: the operator decides when to
	// delete them. Its replicas are those of Render.
	Set *appsv1.StatefulSet
	// Config has the nodes' file. Its name has a digest of the content, so that a pod sees the settings
	// that belong to its template until it is replaced.
	Config *corev1.ConfigMap
	// Others are services, policies, monitors, certificates and the like.
	Others []*unstructured.Unstructured
}

// Chart is the chart, read once. Its methods may be called concurrently.
type Chart struct{ chart *chart.Chart }

// Load reads the chart that is built into the program.
func Load() (*Chart, error) {
	files, err := helm.Chart()
	if err != nil {
		return nil, err
	}
	var all []*loader.BufferedFile
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		all = append(all, &loader.BufferedFile{Name: name, Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := loader.LoadFiles(all)
	if err != nil {
		return nil, fmt.Errorf("chart: read the chart: %w", err)
	}
	return &Chart{c}, nil
}

// Version returns the tag of the image that a cluster has unless it names another.
func (c *Chart) Version() string { return c.chart.AppVersion() }

// Render makes the objects of a cluster with so many nodes. operator is the namespace of the operator,
// which must be able to reach the nodes; empty: any. A fault of the specification that the API server
// could not see, such as a setting of a wrong type, is an error.
func (c *Chart) Render(q *v1alpha1.QuorateCluster, replicas int32, operator string) (*Objects, error) {
	wanted, err := values(q, replicas, operator)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: q.Name, Namespace: q.Namespace, IsUpgrade: true, Revision: 1}
	all, err := chartutil.ToRenderValues(c.chart, wanted, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("chart: cluster %q: %w", q.Name, err)
	}
	rendered, err := engine.Engine{Strict: true}.Render(c.chart, all)
	if err != nil {
		return nil, fmt.Errorf("chart: cluster %q: %w", q.Name, err)
	}
	return decode(q, rendered)
}

// decode parts the rendered files into objects.
func decode(q *v1alpha1.QuorateCluster, rendered map[string]string) (*Objects, error) {
	out := &Objects{}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if base := path.Base(name); base == notes || strings.HasPrefix(base, "_") {
			continue
		}
		for _, text := range strings.Split("\n"+rendered[name], "\n---\n") {
			if !strings.Contains(text, "apiVersion:") {
				continue
			}
			var u unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
				return nil, fmt.Errorf("chart: cluster %q: %s: %w", q.Name, name, err)
			}
			if err := out.add(q, &u); err != nil {
				return nil, err
			}
		}
	}
	if out.Set == nil || out.Config == nil {
		return nil, fmt.Errorf("chart: cluster %q: the chart makes no StatefulSet or no ConfigMap of the nodes' file", q.Name)
	}
	return out, out.finish()
}

// add files an object under what it is.
func (o *Objects) add(q *v1alpha1.QuorateCluster, u *unstructured.Unstructured) error {
	u.SetNamespace(q.Namespace)
	labels := u.GetLabels()
	labels[managedBy] = v1alpha1.FieldManager
	u.SetLabels(labels)
	switch kind := u.GetKind(); {
	case kind == "StatefulSet":
		o.Set = &appsv1.StatefulSet{}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o.Set)
	case kind == "ConfigMap" && u.GetName() == q.Name+"-config":
		o.Config = &corev1.ConfigMap{}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o.Config)
	}
	o.Others = append(o.Others, u)
	return nil
}

// finish gives the ConfigMap a name of its own for each content, and marks the template.
func (o *Objects) finish() error {
	template := &o.Set.Spec.Template
	o.Config.Name += "-" + digest([]byte(template.Annotations["checksum/config"]))[:digestLength]
	for i := range template.Spec.Volumes {
		if v := &template.Spec.Volumes[i]; v.Name == configVolume && v.ConfigMap != nil {
			v.ConfigMap.Name = o.Config.Name
		}
	}
	o.Set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	text, err := json.Marshal(template)
	if err != nil {
		return err
	}
	if o.Set.Annotations == nil {
		o.Set.Annotations = map[string]string{}
	}
	o.Set.Annotations[AnnotationTemplate] = digest(text)
	return nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
