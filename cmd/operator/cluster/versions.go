package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/chart"
)

const (
	// annotationVersions is on a QuorateCluster, with what is known about versions of stored state. An image does not
	// show what its build reads before it runs, so the reports of images that ran are kept for a way back to them.
	annotationVersions = v1alpha1.Prefix + "versions"
	// keptImages is for how many images it is kept what they read.
	keptImages = 10
	// reasonTooOld is the reason of ConditionUpgradeBlocked for an image whose build cannot read what is finalised.
	reasonTooOld = "TooOld"
)

// versions are the versions of stored state of a cluster, as far as they are known.
type versions struct {
	// Finalized is what was finalised when the broker last answered.
	Finalized uint32 `json:"finalized,omitempty"`
	// Images that ran, the latest at the end.
	Images []imageVersion `json:"images,omitempty"`
}

// imageVersion is the newest version that the build in an image reads.
type imageVersion struct {
	Image string `json:"image"`
	Reads uint32 `json:"reads"`
}

// versionsOf returns what is kept on an object. What somebody has made unreadable is learned anew.
func versionsOf(q *v1alpha1.QuorateCluster) versions {
	var v versions
	if json.Unmarshal([]byte(q.Annotations[annotationVersions]), &v) != nil {
		return versions{}
	}
	return v
}

// ran records what the image that ran last reads.
func (v *versions) ran(image string, reads uint32) {
	v.Images = slices.DeleteFunc(v.Images, func(i imageVersion) bool { return i.Image == image })
	v.Images = append(v.Images, imageVersion{image, reads})
	v.Images = v.Images[max(0, len(v.Images)-keptImages):]
}

// reads returns what an image reads; 0: it is not known.
func (v *versions) reads(image string) uint32 {
	for _, i := range v.Images {
		if i.Image == image {
			return i.Reads
		}
	}
	return 0
}

// tooOld reports whether an image is known not to read what is finalised.
func (v *versions) tooOld(image string) bool {
	reads := v.reads(image)
	return reads > 0 && reads < v.Finalized
}

// instead returns an image in place of one that is too old: the one that the nodes are to have until now, or else the latest
// that reads what is finalised. If none is known, it remains the present one: nothing changes then.
func (v *versions) instead(now string) string {
	if !v.tooOld(now) {
		return now
	}
	for _, i := range slices.Backward(v.Images) {
		if i.Reads >= v.Finalized {
			return i.Image
		}
	}
	return now
}

// imageOf returns the image of a StatefulSet's nodes, which has a tag.
func imageOf(set *appsv1.StatefulSet) string { return set.Spec.Template.Spec.Containers[0].Image }

// render makes the objects of the specification, and says if the image in it is too old: the nodes keep what they have then.
func (t *pass) render() (o *chart.Objects, tooOld string, err error) {
	o, err = t.Chart.Render(t.q, t.drawn, t.Namespace)
	if err != nil || !t.versions.tooOld(imageOf(o.Set)) {
		return o, "", err
	}
	asked, keep := imageOf(o.Set), imageOf(o.Set)
	if t.set != nil {
		keep = imageOf(t.set)
	}
	keep = t.versions.instead(keep)
	tooOld = fmt.Sprintf("image %q reads version %d of stored state, and version %d is finalised: its nodes would not start, so no pod gets it; "+
		"set spec.image to one that reads version %d", asked, t.versions.reads(asked), t.versions.Finalized, t.versions.Finalized)
	if keep != asked {
		tooOld += fmt.Sprintf(", such as %q, which the nodes keep", keep)
	}
	tooOld += "; there is no way back but a backup made before, in a new cluster: see docs/upgrade.md"
	kept := t.q.DeepCopy()
	if tag := strings.LastIndex(keep, ":"); tag >= 0 { // the chart gives each image one
		kept.Spec.Image.Repository, kept.Spec.Image.Version = keep[:tag], keep[tag+1:]
	}
	o, err = t.Chart.Render(kept, t.drawn, t.Namespace)
	return o, tooOld, err
}

// learn keeps what is seen of versions, and has this pass go by it too.
func (t *pass) learn(ctx context.Context) error {
	t.look()
	text, err := json.Marshal(t.versions)
	if before := t.q.Annotations[annotationVersions]; err != nil || string(text) == before || string(text) == "{}" && before == "" {
		return err
	}
	if t.objects.Config != nil { // the specification makes objects
		if t.objects, t.seen.TooOld, err = t.render(); err != nil {
			return err
		}
		t.seen.Template = t.objects.Set.Annotations[chart.AnnotationTemplate]
	}
	if handsOff(t.q) != "" {
		return nil
	}
	before := t.q.DeepCopy()
	metav1.SetMetaDataAnnotation(&t.q.ObjectMeta, annotationVersions, string(text))
	return t.Client.Patch(ctx, t.q, kube.MergeFrom(before))
}

// look notes what is finalised, and what the image of the StatefulSet reads: nodes that serve say so, and one that is too old
// has said so when it ended. What was finalised in a former cluster means nothing to a new one of its name.
func (t *pass) look() {
	var serving, ended uint32
	if t.broker != nil {
		t.versions.Finalized = max(t.broker.status.FinalizedVersion, 1)
		for _, n := range t.broker.status.Nodes {
			if i, is := ordinal(n.ID, t.q.Name); is && t.seen.Pods[i].Ready && t.seen.Pods[i].Current {
				serving = max(serving, n.ReadsVersion)
			}
		}
	} else if t.fresh() {
		t.versions.Finalized = 0
	}
	for _, p := range t.seen.Pods {
		if p.Current {
			ended = max(ended, p.TooOld)
		}
	}
	if serving == 0 {
		serving = ended
	}
	if serving > 0 && t.seen.Set.Settled { // else pods that count as current may be those of the former image
		t.versions.ran(imageOf(t.set), serving)
	}
}

// saysReads are the words with which a node of any build ends that cannot read what is stored, see package cluster/metadata.
var saysReads = regexp.MustCompile(`this build reads version ([0-9]+) of stored state`)

// endedReading returns the version that a pod's node reads, as it reported when it ended because that is too old; 0:
// it did not.
func endedReading(pod *corev1.Pod) uint32 {
	for _, c := range pod.Status.ContainerStatuses {
		for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if ended == nil {
				continue
			}
			if said := saysReads.FindStringSubmatch(ended.Message); said != nil {
				n, err := strconv.ParseUint(said[1], 10, 8)
				if err == nil {
					return uint32(n)
				}
			}
		}
	}
	return 0
}
