package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
)

// backup makes the job that copies the cluster regularly, or removes it.
func (t *pass) backup(ctx context.Context) {
	if t.q.Spec.Backup == nil {
		t.note(kindCronJob, false, t.remove(ctx, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: chart.BackupName(t.q), Namespace: t.q.Namespace}}))
		return
	}
	authority, err := t.hasAuthority(ctx)
	if err != nil {
		t.note(kindCronJob, false, err)
		return
	}
	t.ensure(ctx, kindCronJob, chart.Backup(t.q, t.objects, authority))
}

// hasAuthority reports whether the Secret with the certificate that clients see has the authority to trust. That of a public
// one need not. While there is no Secret the nodes do not start either.
func (t *pass) hasAuthority(ctx context.Context) (bool, error) {
	if t.q.Spec.TLS == nil {
		return false, nil
	}
	var s corev1.Secret
	err := t.Client.Get(ctx, types.NamespacedName{Namespace: t.q.Namespace, Name: broker.ClientSecret(t.q)}, &s)
	return err != nil || len(s.Data[corev1.ServiceAccountRootCAKey]) > 0, kube.IgnoreNotFound(err)
}

// Reasons of ConditionBackupFailing, beside those of Kubernetes for failed jobs.
const (
	reasonBackupSucceeded  = "Succeeded"
	reasonBackupNone       = "NoneYet"
	reasonBackupRetrying   = "Retrying"
	reasonBackupUnreadable = "Unreadable"
	reasonBackupRefused    = "JobRefused"
)

// eventRefused is the reason of Kubernetes' events about a CronJob whose next job it could not make. It tries again, and repeats the
// event, within 17 minutes; the API server keeps events for an hour.
const eventRefused = "FailedCreate"

// backups is what the jobs say about the backups of a cluster.
type backups struct {
	failing metav1.ConditionStatus
	reason  string
	message string
	// last is when the last one that succeeded was complete; nil: none has.
	last *metav1.Time
}

// observeBackups looks at the jobs. Whatever is wrong with them is no ground to leave the cluster alone.
func (t *pass) observeBackups(ctx context.Context) {
	if t.q.Spec.Backup == nil {
		t.backups = nil
		return
	}
	var jobs batchv1.JobList
	if err := t.Client.List(ctx, &jobs, kube.InNamespace(t.q.Namespace), kube.MatchingLabels(chart.BackupLabels(t.q))); err != nil {
		t.backups = &backups{failing: metav1.ConditionUnknown, reason: reasonBackupUnreadable, message: "the jobs of the backups cannot be read: " + err.Error()}
		return
	}
	b := judge(t.q.Namespace, jobs.Items)
	if !t.q.Spec.Backup.Suspended {
		b = b.since(jobs.Items, t.saidOfBackups(ctx))
	}
	t.backups = &b
}

// saidOfBackups returns the events about the CronJob: nothing else says that a job could not be made. Where they cannot be read, as
// with the role of an earlier operator, the jobs alone count.
func (t *pass) saidOfBackups(ctx context.Context) []corev1.Event {
	var c batchv1.CronJob
	if err := t.Client.Get(ctx, types.NamespacedName{Namespace: t.q.Namespace, Name: chart.BackupName(t.q)}, &c); err != nil {
		return nil
	}
	var said corev1.EventList
	if err := t.Client.List(ctx, &said, kube.InNamespace(t.q.Namespace), kube.MatchingFields{fieldInvolved: string(c.UID)}); err != nil {
		return nil
	}
	return said.Items
}

// fieldInvolved is the field of events by which the API server finds those about one object.
const fieldInvolved = "involvedObject.uid"

// since returns what the backups are by the events about their CronJob, too: if Kubernetes could not make a job, and has made none
// since, no backup of that time will fail or succeed. It only computes.
func (b backups) since(jobs []batchv1.Job, said []corev1.Event) backups {
	var when time.Time
	why := ""
	for i := range said {
		if e := &said[i]; e.Reason == eventRefused && !saidAt(e).Before(when) {
			when, why = saidAt(e), e.Message
		}
	}
	made := slices.ContainsFunc(jobs, func(j batchv1.Job) bool { return !j.CreationTimestamp.Time.Before(when) })
	if why == "" || made {
		return b
	}
	b.failing, b.reason = metav1.ConditionTrue, reasonBackupRefused
	b.message = fmt.Sprintf("no backup was begun at %s, Kubernetes could not make its job and tries again: %s; before that: %s", when.UTC().Format(time.RFC3339), why, b.message)
	return b
}

// saidAt returns when an event came last, in whole seconds as the times of jobs are. Recorders of the older and the newer kind of
// events note that in different fields.
func saidAt(e *corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	if e.EventTime.After(last) {
		last = e.EventTime.Time
	}
	if s := e.Series; s != nil && s.LastObservedTime.After(last) {
		last = s.LastObservedTime.Time
	}
	return last.Truncate(time.Second)
}

// judge finds the last job that succeeded, and reports whether a later one has failed. It only computes.
func judge(namespace string, jobs []batchv1.Job) backups {
	var good, bad *batchv1.Job
	for i := range jobs {
		j := &jobs[i]
		if ended(j, batchv1.JobComplete) != nil {
			good = newer(good, j)
		}
		if ended(j, batchv1.JobFailed) != nil || j.Status.Failed > 0 && ended(j, batchv1.JobComplete) == nil {
			bad = newer(bad, j)
		}
	}
	out := backups{failing: metav1.ConditionUnknown, reason: reasonBackupNone, message: "no backup has ended yet"}
	last := "none has succeeded yet"
	if good != nil {
		out = backups{failing: metav1.ConditionFalse, reason: reasonBackupSucceeded, last: completed(good)}
		out.message = fmt.Sprintf("backup %q was complete at %s", good.Name, at(out.last))
		last = fmt.Sprintf("the last one that succeeded, %q, was complete at %s", good.Name, at(out.last))
	}
	if bad == nil || newer(good, bad) == good {
		return out
	}
	out.failing, out.reason = metav1.ConditionTrue, reasonBackupRetrying
	what := "has failed once or more and is tried again"
	if c := ended(bad, batchv1.JobFailed); c != nil {
		out.reason, what = cmp.Or(c.Reason, "Failed"), "failed: "+cmp.Or(c.Message, c.Reason, "Kubernetes does not say why")
	}
	out.message = fmt.Sprintf("backup %q %s; %s. To see why: kubectl -n %s logs job/%s --all-containers", bad.Name, what, last, namespace, bad.Name)
	return out
}

// ended returns the condition of a job if it is true.
func ended(j *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// newer returns the one of two jobs that was begun later; nil is no job.
func newer(a, b *batchv1.Job) *batchv1.Job {
	if a == nil || b != nil && a.CreationTimestamp.Before(&b.CreationTimestamp) {
		return b
	}
	return a
}

// completed returns when a job that succeeded had ended.
func completed(j *batchv1.Job) *metav1.Time {
	if t := j.Status.CompletionTime; t != nil {
		return t
	}
	return &ended(j, batchv1.JobComplete).LastTransitionTime
}

func at(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }

// reportBackups puts what is known of the backups into the status. That one fails needs a person.
func (t *pass) reportBackups(now map[string]Block) {
	b := t.backups
	if b == nil {
		if t.q.Spec.Backup == nil {
			meta.RemoveStatusCondition(&t.q.Status.Conditions, v1alpha1.ConditionBackupFailing)
			t.q.Status.LastBackup = nil
		}
		return
	}
	t.condition(v1alpha1.ConditionBackupFailing, b.failing, b.reason, b.message)
	if b.last != nil {
		t.q.Status.LastBackup = b.last
	}
	if b.failing == metav1.ConditionTrue {
		now[v1alpha1.ConditionBackupFailing] = Block{v1alpha1.ConditionBackupFailing, b.reason, b.message}
	}
}
