//go:build linux

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/deploy/k8s/e2e/kube"
	"github.com/quorate/quorate/internal/upgrade"
)

// Two names of the last build before the newest version: one that the cluster has run, and one that it has not.
const (
	oldTag     = "old"
	unknownTag = "unknown"
)

// Under load the operator takes a cluster of an older build to this one, back, and forward again. Once the version is finalised,
// no pod is restarted with the older build: the operator knows what its image reads. Of an image that it does not know the
// first pod refuses, and comes back with the image that the others have. Nothing confirmed is lost.
func TestOperatorRollback(t *testing.T) {
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	before := upgrade.Last()
	program := before.Build(t, top) // not in the namespaces, which have no network
	kube.Inside(t, func(t *testing.T) { rollBack(t, program, before.Reads) })
}

func rollBack(t *testing.T, program string, reads uint32) {
	ctx, cancel := context.WithTimeout(t.Context(), operatorLimit)
	defer cancel()
	o := &operated{deployment: prepare(ctx, t)}
	for _, tag := range []string{oldTag, unknownTag} {
		image := nodeImage(programs(t))
		image.Files["/quorate"] = program
		if err := o.cluster.Images.Put(imageOf(tag), image); err != nil {
			t.Fatal(err)
		}
	}
	o.install()
	o.create(strings.Replace(wanted, "version: dev", "version: "+oldTag, 1))
	c := o.dial(o.serviceAddress() + ":7070")
	defer c.Close()
	o.finalised(c, reads)
	l := newLoad(ctx, t, c)
	o.change(l, "upgrade, to be finalised by hand", `{"spec":{"image":{"version":"dev"},"upgrade":{"finalize":"Manual"}}}`, func() { o.run("dev", c, reads) })
	o.change(l, "rollback", ofImage(oldTag), func() { o.run(oldTag, c, reads) })
	o.change(l, "upgrade again", ofImage("dev"), func() { o.run("dev", c, reads) })
	newest := o.finalise(c)
	if newest <= reads {
		t.Fatalf("version %d is finalised, and the older build reads %d", newest, reads)
	}
	o.refuse(l, oldTag, reads, newest, 0)
	o.poll("an event says so", func() error {
		said := o.kubectl("get", "events", "--field-selector", "type=Warning,reason=TooOld", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(said, imageOf(oldTag)) {
			return fmt.Errorf("the events are %q", said)
		}
		return nil
	})
	o.refuse(l, unknownTag, reads, newest, 1)
	pods := o.pods()
	o.change(l, "the image that the nodes have is asked for", ofImage("dev"), func() { o.replaced(pods, 0) })
	o.run("dev", c, newest)
	l.finish()
}

func imageOf(tag string) string { return "quorate/quorate:" + tag }

// ofImage is the change of a cluster's specification to an image.
func ofImage(tag string) string { return fmt.Sprintf(`{"spec":{"image":{"version":%q}}}`, tag) }

// run makes sure that all nodes have an image, and that a version is finalised.
func (o *operated) run(tag string, c *client.Client, version uint32) {
	o.t.Helper()
	o.haveImage(tag)
	if st, err := c.ClusterStatus(o.ctx); err != nil || st.FinalizedVersion != version {
		o.t.Errorf("version %d is finalised, want %d: %v", st.FinalizedVersion, version, err)
	}
}

// finalised waits until a new cluster has finalised a version by itself.
func (o *operated) finalised(c *client.Client, version uint32) {
	o.t.Helper()
	o.poll(fmt.Sprintf("version %d is finalised", version), func() error {
		st, err := c.ClusterStatus(o.ctx)
		if err == nil && st.FinalizedVersion != version {
			err = fmt.Errorf("version %d is", st.FinalizedVersion)
		}
		return err
	})
}

// finalise completes the upgrade as soon as nothing holds it back, and returns the version.
func (o *operated) finalise(c *client.Client) (version uint32) {
	o.t.Helper()
	o.poll("the newest version is finalised", func() error {
		v, err := c.FinalizeVersion(o.ctx, client.FinalizeVersionRequest{})
		version = v.Finalized
		return err
	})
	return version
}

// refuse asks for an image that is too old: the operator says why the nodes do not get it, and all serve with the one that they
// have, so many of them in another pod.
func (o *operated) refuse(l *load, tag string, reads, finalised uint32, another int) {
	o.t.Helper()
	before, begin := o.pods(), time.Now()
	pause := l.during(func() {
		o.patch(ofImage(tag))
		o.says(`{.status.conditions[?(@.type=="UpgradeBlocked")].reason}: {.status.conditions[?(@.type=="UpgradeBlocked")].message}`,
			" Progressing=False@", " UpgradeBlocked=True@", " Ready=True@", "TooOld: ", fmt.Sprintf("%q reads version %d", imageOf(tag), reads),
			fmt.Sprintf("version %d is finalised", finalised), fmt.Sprintf("such as %q", imageOf("dev")))
		o.replaced(before, another)
	})
	o.done(fmt.Sprintf("image %s is refused, longest time without a confirm %v", tag, pause.Round(time.Millisecond)), begin)
	o.run("dev", l.client, finalised)
}
