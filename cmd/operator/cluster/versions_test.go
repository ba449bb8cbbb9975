package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// newest is the version that the nodes of these tests read and finalise.
const newest = uint32(catalog.NewestVersion)

// lastWords are those of a node of an older build on what this one has finalised.
func lastWords() string {
	text := metadata.Unreadable(errors.New("catalog: snapshot: version at byte 0: format version 7, this build reads version 6")).Error()
	return "quorate: " + strings.Replace(text, fmt.Sprintf("version %d of", newest), fmt.Sprintf("version %d of", newest-1), 1)
}

// Of images it is known what they read if they have run, and in place of one that is too old there is another one.
func TestVersions(t *testing.T) {
	v := versions{Finalized: 7}
	v.ran("q:6", 6)
	v.ran("q:7", 7)
	v.ran("q:8", 8)
	v.ran("q:7", 7)
	for image, want := range map[string]struct {
		tooOld  bool
		instead string
	}{"q:6": {true, "q:7"}, "q:7": {false, "q:7"}, "q:8": {false, "q:8"}, "q:nobody-knows": {false, "q:nobody-knows"}} {
		if old, keep := v.tooOld(image), v.instead(image); old != want.tooOld || keep != want.instead {
			t.Errorf("%s is too old: %v, instead of it %s; want %+v", image, old, keep, want)
		}
	}
	v.Images = v.Images[:1]
	if keep := v.instead("q:6"); keep != "q:6" {
		t.Errorf("no other image is known, and there is %q", keep)
	}
	for i := range uint32(2 * keptImages) {
		v.ran(fmt.Sprint("q:", i), i+1)
	}
	if n := len(v.Images); n != keptImages || v.reads("q:6") != 0 || v.reads("q:19") != 20 {
		t.Errorf("of %d images it is kept what they read: %+v", n, v.Images)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for annotation, want := range map[string]int{string(text): keptImages, "": 0, "{": 0, `{"images":7}`: 0} {
		q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationVersions: annotation}}}
		if got := versionsOf(q); len(got.Images) != want {
			t.Errorf("of %q there are %d images, want %d", annotation, len(got.Images), want)
		}
	}
}

// A node says itself what it reads when it ends because that is too old. What it says of other nodes, and of its files, is
// nothing to go by.
func TestEndedReading(t *testing.T) {
	for said, want := range map[string]uint32{
		lastWords(): newest - 1,
		`node "n3" runs a build that reads version 6 of stored state, and version 7 is finalised`: 0,
		"format version 4, this build reads version 3":                                            0,
		"this build reads version 999 of stored state":                                            0,
		"": 0,
	} {
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: said}}
		for _, s := range []corev1.ContainerStatus{{State: ended}, {LastTerminationState: ended}} {
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{s}}}
			if got := endedReading(pod); got != want {
				t.Errorf("%q: %d, want %d", said, got, want)
			}
		}
	}
}

// know keeps what an image reads, as if it had run once.
func (m *machine) know(image string, reads uint32) {
	m.t.Helper()
	var q v1alpha1.QuorateCluster
	m.must(m.kube.Get(m.t.Context(), m.name, &q))
	v := versionsOf(&q)
	v.ran(image, reads)
	text, err := json.Marshal(v)
	m.must(err)
	metav1.SetMetaDataAnnotation(&q.ObjectMeta, annotationVersions, string(text))
	m.must(m.kube.Update(m.t.Context(), &q))
}

// image asks for another tag of the nodes' image.
func (m *machine) image(version string) {
	m.t.Helper()
	m.change(func(s *v1alpha1.QuorateClusterSpec) { s.Image.Version = version })
}

// tooOldEvents counts them.
func (m *machine) tooOldEvents() (n int) {
	for _, e := range m.said {
		if strings.HasPrefix(e, corev1.EventTypeWarning+" "+reasonTooOld+" ") {
			n++
		}
	}
	return n
}

// Under load an image is asked for that cannot read what is finalised. If it ran here before no pod is restarted. If nobody
// knows it the first pod that refuses gets its former image back, and no other one is taken. The condition and an event say
// what is finalised, what the image reads, and which one to set. What was confirmed is there.
func TestTooOld(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	m, pass, cl := found(t, 3)
	confirmed, stop := publish(t, cl)
	defer stop()
	keeps := ""
	m.until(pass, "it is known what the image reads", func(q *v1alpha1.QuorateCluster) error {
		v := versionsOf(q)
		if v.Finalized != newest || len(v.Images) != 1 || v.Images[0].Reads != newest {
			return fmt.Errorf("known is %+v", v)
		}
		keeps = v.Images[0].Image
		return ready(q)
	})
	m.tooOld, m.words = "quorate/quorate:unknown", lastWords()
	m.know("quorate/quorate:known", newest-1)
	for i, x := range []struct {
		version string
		starts  int
	}{{"known", 3}, {"unknown", 5}} {
		m.image(x.version)
		m.until(pass, "the image is refused", func(q *v1alpha1.QuorateCluster) error {
			why := blocked(q, v1alpha1.ConditionUpgradeBlocked)
			for _, want := range []string{
				reasonTooOld + ": ", fmt.Sprintf(`"quorate/quorate:%s" reads version %d`, x.version, newest-1), fmt.Sprintf("version %d is finalised", newest), keeps,
			} {
				if !strings.Contains(why, want) {
					return fmt.Errorf("UpgradeBlocked is %q", why)
				}
			}
			return ready(q)
		})
		if m.starts != x.starts || m.tooOldEvents() != i+1 {
			t.Errorf("%s: pods were started %d times, want %d; events %q", x.version, m.starts, x.starts, m.said)
		}
	}
	m.debug()
	m.until(pass, "another setting goes on, with the image that they have", func(q *v1alpha1.QuorateCluster) error {
		if m.starts != 8 {
			return fmt.Errorf("%d starts", m.starts)
		}
		return ready(q)
	})
	m.image("")
	m.until(pass, "nothing is blocked", func(q *v1alpha1.QuorateCluster) error {
		if why := blocked(q, v1alpha1.ConditionDegraded); why != "" || m.starts != 8 {
			return fmt.Errorf("%d starts, Degraded is %q", m.starts, why)
		}
		return ready(q)
	})
	stop()
	consume(t.Context(), t, cl, confirmed.Load())
}
