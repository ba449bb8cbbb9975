package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/chart"
)

// night is when the first of the tests' backups begins.
var night = time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC)

// job is a backup of a day; how it ended is a condition, or "" while it runs.
func job(name string, day int, how batchv1.JobConditionType, reason string) batchv1.Job {
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
	began := metav1.NewTime(night.AddDate(0, 0, day))
	done := metav1.NewTime(began.Add(time.Hour))
	j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: began, Labels: chart.BackupLabels(q)}}
	if how != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Reason: reason, Message: reason + " of " + name, LastTransitionTime: done}}
	}
	if how == batchv1.JobComplete {
		j.Status.CompletionTime = &done
	}
	return j
}

// The last backup that ended decides, whatever the order in which the jobs are listed; one that runs does not.
func TestJudge(t *testing.T) {
	good, bad := job("good", 0, batchv1.JobComplete, ""), job("bad", 1, batchv1.JobFailed, "DeadlineExceeded")
	better, running := job("better", 2, batchv1.JobComplete, ""), job("running", 3, "", "")
	retried := job("retried", 3, "", "")
	retried.Status.Failed = 1
	mended := job("mended", 3, batchv1.JobComplete, "")
	mended.Status.Failed = 1
	for _, c := range []struct {
		what    string
		jobs    []batchv1.Job
		failing metav1.ConditionStatus
		reason  string
		says    []string
	}{
		{"none", nil, metav1.ConditionUnknown, reasonBackupNone, nil},
		{"the first one runs", []batchv1.Job{running}, metav1.ConditionUnknown, reasonBackupNone, nil},
		{"one succeeded", []batchv1.Job{good}, metav1.ConditionFalse, reasonBackupSucceeded, []string{`"good"`, "2026-11-28T04:00:00Z"}},
		{"the last one failed", []batchv1.Job{bad, good}, metav1.ConditionTrue, "DeadlineExceeded", []string{`"bad"`, "DeadlineExceeded of bad", `"good"`, "kubectl -n shop logs job/bad"}},
		{"all failed", []batchv1.Job{bad}, metav1.ConditionTrue, "DeadlineExceeded", []string{"none has succeeded yet"}},
		{"a later one succeeded", []batchv1.Job{better, bad, good}, metav1.ConditionFalse, reasonBackupSucceeded, []string{`"better"`}},
		{"and another one runs", []batchv1.Job{running, good, bad, better}, metav1.ConditionFalse, reasonBackupSucceeded, []string{`"better"`}},
		{"one is tried again", []batchv1.Job{better, retried}, metav1.ConditionTrue, reasonBackupRetrying, []string{`"retried"`, "tried again", `"better"`}},
		{"one succeeded when it was tried again", []batchv1.Job{mended, bad}, metav1.ConditionFalse, reasonBackupSucceeded, []string{`"mended"`}},
	} {
		b := judge("shop", c.jobs)
		if b.failing != c.failing || b.reason != c.reason {
			t.Errorf("%s: %+v, want %s, %s", c.what, b, c.failing, c.reason)
		}
		for _, part := range c.says {
			if !strings.Contains(b.message, part) {
				t.Errorf("%s: %q, want %q in it", c.what, b.message, part)
			}
		}
	}
}

// jobRefused is an event about a CronJob whose job could not be made on a day, some minutes after the time of tests' backups.
func jobRefused(uid types.UID, day, minutes int) corev1.Event {
	last := metav1.NewTime(night.AddDate(0, 0, day).Add(time.Duration(minutes) * time.Minute))
	return corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("refused%s-%d-%d", uid, day, minutes)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "batch/v1", Kind: "CronJob", Namespace: "shop", Name: "orders-backup", UID: uid},
		Type:           corev1.EventTypeWarning, Reason: eventRefused, Message: fmt.Sprintf("Error creating job: exceeded quota %d", day), LastTimestamp: last,
	}
}

// A job that Kubernetes could not make fails the backups until one is made, whatever recorder has noted the event. Other events
// say nothing about that.
func TestRefusedJob(t *testing.T) {
	good, bad, running := job("good", 0, batchv1.JobComplete, ""), job("bad", 1, batchv1.JobFailed, "DeadlineExceeded"), job("running", 1, "", "")
	other := jobRefused("u", 1, 0)
	other.Reason = "SuccessfulCreate"
	fresh, series := jobRefused("u", 1, 0), jobRefused("u", 1, 0)
	fresh.EventTime, fresh.LastTimestamp = metav1.NewMicroTime(fresh.LastTimestamp.Add(time.Millisecond)), metav1.Time{}
	series.EventTime, series.LastTimestamp = metav1.NewMicroTime(night), metav1.Time{}
	series.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(night.AddDate(0, 0, 1))}
	for _, c := range []struct {
		what    string
		jobs    []batchv1.Job
		said    []corev1.Event
		failing metav1.ConditionStatus
		reason  string
		says    []string
	}{
		{"nothing is said", []batchv1.Job{good}, nil, metav1.ConditionFalse, reasonBackupSucceeded, nil},
		{"a job was made", []batchv1.Job{good}, []corev1.Event{other}, metav1.ConditionFalse, reasonBackupSucceeded, nil},
		{"the first one is refused", nil, []corev1.Event{jobRefused("u", 0, 0)}, metav1.ConditionTrue, reasonBackupRefused, []string{"exceeded quota 0", "no backup has ended yet"}},
		{
			"one is refused",
			[]batchv1.Job{good},
			[]corev1.Event{other, jobRefused("u", 1, 17), jobRefused("u", 0, 0)},
			metav1.ConditionTrue, reasonBackupRefused,
			[]string{"at 2026-11-29T03:17:00Z", "exceeded quota 1", `backup "good" was complete`},
		},
		{"one that has failed comes before", []batchv1.Job{good, bad}, []corev1.Event{jobRefused("u", 2, 0)}, metav1.ConditionTrue, reasonBackupRefused, []string{"exceeded quota 2", `"bad"`}},
		{"it was made in the same second", []batchv1.Job{good, running}, []corev1.Event{fresh}, metav1.ConditionFalse, reasonBackupSucceeded, nil},
		{"it was made later", []batchv1.Job{good, running}, []corev1.Event{jobRefused("u", 0, 30)}, metav1.ConditionFalse, reasonBackupSucceeded, nil},
		{"of the newer kind", []batchv1.Job{good}, []corev1.Event{fresh}, metav1.ConditionTrue, reasonBackupRefused, []string{"at 2026-11-29T03:00:00Z"}},
		{"of the newer kind, and repeated", []batchv1.Job{good}, []corev1.Event{series}, metav1.ConditionTrue, reasonBackupRefused, []string{"at 2026-11-29T03:00:00Z"}},
	} {
		b := judge("shop", c.jobs).since(c.jobs, c.said)
		if b.failing != c.failing || b.reason != c.reason {
			t.Errorf("%s: %+v, want %s, %s", c.what, b, c.failing, c.reason)
		}
		for _, part := range c.says {
			if !strings.Contains(b.message, part) {
				t.Errorf("%s: %q, want %q in it", c.what, b.message, part)
			}
		}
	}
}

// The status follows the jobs: the last backup that succeeded, and a failure, which needs a person, as does a job that cannot be
// made. Without backups in the specification the condition and the time of the last one go.
func TestBackupCondition(t *testing.T) {
	o := newOrders(t)
	name := types.NamespacedName{Namespace: "shop", Name: "orders"}
	set := func(b *v1alpha1.BackupSpec) {
		t.Helper()
		var q v1alpha1.QuorateCluster
		o.get("orders", &q)
		q.Spec.Backup = b
		if err := o.kube.Update(t.Context(), &q); err != nil {
			t.Fatal(err)
		}
	}
	see := func(what string, want metav1.ConditionStatus, reason string) (q v1alpha1.QuorateCluster) {
		t.Helper()
		o.pass()
		if err := o.kube.Get(t.Context(), name, &q); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionBackupFailing)
		if c == nil {
			c = &metav1.Condition{}
		}
		if c.Status != want || c.Reason != reason {
			t.Errorf("%s: %+v, want %s, %s", what, c, want, reason)
		}
		return q
	}
	see("no backups", "", "")
	volume := v1alpha1.BackupSpec{Schedule: "0 3 * * *", PersistentVolumeClaim: &v1alpha1.BackupVolume{ClaimName: "v"}}
	set(&volume)
	see("none yet", metav1.ConditionUnknown, reasonBackupNone)
	if !o.get("orders-backup", &batchv1.CronJob{}) {
		t.Error("there is no CronJob")
	}
	good, bad, other := job("good", 0, batchv1.JobComplete, ""), job("bad", 1, batchv1.JobFailed, "BackoffLimitExceeded"), job("other", 2, batchv1.JobFailed, "x")
	other.Labels["app.kubernetes.io/instance"] = "another"
	for _, j := range []batchv1.Job{good, other} {
		if err := o.kube.Create(t.Context(), &j); err != nil {
			t.Fatal(err)
		}
	}
	if q := see("one succeeded", metav1.ConditionFalse, reasonBackupSucceeded); q.Status.LastBackup == nil || !q.Status.LastBackup.Equal(good.Status.CompletionTime) {
		t.Errorf("the last backup was at %v", q.Status.LastBackup)
	}
	say := func(e corev1.Event) {
		t.Helper()
		if err := o.kube.Create(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
	}
	say(jobRefused("-of-a-former-one", 1, 0))
	see("a job of a former CronJob was refused", metav1.ConditionFalse, reasonBackupSucceeded)
	say(jobRefused("", 1, 0)) // the API server in memory gives no UIDs
	if q := see("the next one cannot be begun", metav1.ConditionTrue, reasonBackupRefused); !meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionDegraded) {
		t.Error("no backup is begun, and nobody is needed")
	}
	suspended := volume.DeepCopy()
	suspended.Suspended = true
	set(suspended)
	see("none is to be begun", metav1.ConditionFalse, reasonBackupSucceeded)
	set(&volume)
	if err := o.kube.Create(t.Context(), &bad); err != nil {
		t.Fatal(err)
	}
	q := see("the next one failed", metav1.ConditionTrue, "BackoffLimitExceeded")
	if d := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionDegraded); d == nil || d.Status != metav1.ConditionTrue || d.Reason != v1alpha1.ConditionBackupFailing {
		t.Errorf("a backup fails, and nobody is needed: %+v", d)
	}
	if q.Status.LastBackup == nil || !q.Status.LastBackup.Equal(good.Status.CompletionTime) {
		t.Errorf("the last backup was at %v", q.Status.LastBackup)
	}
	set(nil)
	if q := see("no backups any more", "", ""); q.Status.LastBackup != nil {
		t.Errorf("there are no backups, and the last one was at %v", q.Status.LastBackup)
	}
	if o.get("orders-backup", &batchv1.CronJob{}) {
		t.Error("the CronJob stays")
	}
}
