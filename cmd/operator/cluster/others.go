package cluster

import (
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/chart"
)

// given returns the digest of the template that the StatefulSet was given; "" if somebody else has changed its image since, and the
// specification has one to put back.
func (t *pass) given() string {
	if t.objects.Config != nil && imageOfOthers(t.set) {
		return ""
	}
	return t.set.Annotations[chart.AnnotationTemplate]
}

// imageOfOthers reports whether somebody else has set the image of the nodes, such as by kubectl set image or kubectl rollout undo:
// the API server no longer counts that field as the operator's. Nodes must not get such an image, which may be unable
// to read what is finalised. When the operator restores the right one, it owns the field again, even if somebody
// else's webhook changes the value. If the API server has kept no record, nobody has set anything.
func imageOfOthers(set *appsv1.StatefulSet) bool {
	return len(set.ManagedFields) > 0 && !slices.ContainsFunc(set.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == v1alpha1.FieldManager && hasImage(m.FieldsV1)
	})
}

// hasImage reports whether the image of the nodes' container is among some fields of a StatefulSet.
func hasImage(fields *metav1.FieldsV1) bool {
	var f struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers map[string]map[string]json.RawMessage `json:"f:containers"`
				} `json:"f:spec"`
			} `json:"f:template"`
		} `json:"f:spec"`
	}
	if json.Unmarshal(fields.GetRawBytes(), &f) != nil {
		return false
	}
	_, is := f.Spec.Template.Spec.Containers[`k:{"name":"node"}`]["f:image"]
	return is
}
