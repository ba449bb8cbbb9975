package chart

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// backupOf renders the job of a cluster's backups.
func backupOf(t *testing.T, authority bool, b *v1alpha1.BackupSpec, tls *v1alpha1.TLSSpec) *batchv1.CronJob {
	t.Helper()
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop"}}
	q.Spec.Backup, q.Spec.TLS = b, tls
	return Backup(q, render(t, 3, func(s *v1alpha1.QuorateClusterSpec) { *s = q.Spec }), authority)
}

// has reports whether a container has a variable, or a volume mounted.
func has(c *corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name }) ||
		slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
}

// A backup has a name of its own each time, also where a job is made again under its name, a login and, with TLS, the name and the authority of the nodes' certificate.
// One that hangs is ended, because no other one begins before.
func TestBackup(t *testing.T) {
	if backupOf(t, false, nil, nil) != nil {
		t.Error("there are backups that nobody asked for")
	}
	s3 := &v1alpha1.BackupS3{Bucket: "b", Prefix: "orders", CredentialsSecret: "s3", Region: "eu"}
	job := backupOf(t, true, &v1alpha1.BackupSpec{Schedule: "0 3 * * *", KeySecret: "public", S3: s3}, &v1alpha1.TLSSpec{}).Spec
	pod := job.JobTemplate.Spec.Template
	if len(pod.Spec.InitContainers) > 0 || len(pod.Spec.Containers) != 1 {
		t.Fatalf("the pod has %+v", pod.Spec)
	}
	c := &pod.Spec.Containers[0]
	want := "backup create s3://b/orders/shop/orders/$(JOB)-$(JOB_UID) --if-missing --s3-region eu --key-file /run/secrets/quorate-backup/backup.pub " +
		"--tls-server-name orders.shop.svc --tls-ca /run/secrets/quorate-client-tls/ca.crt"
	if args := strings.Join(c.Args, " "); !sameWords(args, want) {
		t.Errorf("the job runs %q, want %q", args, want)
	}
	for _, name := range []string{"QUORATE_ADDRESSES", "QUORATE_USER", "QUORATE_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "client-tls", "public-key"} {
		if !has(c, name) {
			t.Errorf("the job has no %s", name)
		}
	}
	for name, label := range map[string]string{"JOB": "batch.kubernetes.io/job-name", "JOB_UID": "batch.kubernetes.io/controller-uid"} {
		i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
		if i < 0 || c.Env[i].ValueFrom.FieldRef.FieldPath != "metadata.labels['"+label+"']" {
			t.Errorf("%s is not label %s: another job's backup may be taken for this one's", name, label)
		}
	}
	if d := job.JobTemplate.Spec.ActiveDeadlineSeconds; d == nil || *d != backupDeadline || job.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		t.Errorf("the deadline is %v: a backup that hangs keeps all others from beginning", d)
	}
	for what, labels := range map[string]map[string]string{"pod": pod.Labels, "job": job.JobTemplate.Labels} {
		if labels["app.kubernetes.io/component"] != "backup" || labels["app.kubernetes.io/instance"] != "orders" {
			t.Errorf("the %s has labels %v: it is not found, or taken for a node's", what, labels)
		}
	}
}

// sameWords compares two command lines in which flags may stand in any order.
func sameWords(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values(strings.Fields(a))), slices.Sorted(slices.Values(strings.Fields(b))))
}

// Without an authority in the Secret the pod mounts nothing of it, which would keep it from starting, and trusts public ones.
func TestBackupWithPublicAuthority(t *testing.T) {
	b := &v1alpha1.BackupSpec{Schedule: "0 3 * * *", PersistentVolumeClaim: &v1alpha1.BackupVolume{ClaimName: "v"}, DeadlineSeconds: 90}
	job := backupOf(t, false, b, &v1alpha1.TLSSpec{ServerName: "orders.example.org"}).Spec.JobTemplate.Spec
	c := &job.Template.Spec.Containers[0]
	want := "backup create /backups/orders/$(JOB)-$(JOB_UID).tar --if-missing --tls-server-name orders.example.org"
	if args := strings.Join(c.Args, " "); !sameWords(args, want) || has(c, "client-tls") || len(job.Template.Spec.Volumes) != 1 {
		t.Errorf("the job runs %q with volumes %+v, want %q", args, job.Template.Spec.Volumes, want)
	}
	if p := job.PodReplacementPolicy; p == nil || *p != batchv1.Failed {
		t.Errorf("the replacement policy is %v: two pods may write to one place", p)
	}
	if *job.ActiveDeadlineSeconds != 90 {
		t.Errorf("the deadline is %d", *job.ActiveDeadlineSeconds)
	}
}

// Old backups are removed once the new one is there, by a container that has no login, and alone the whole key.
func TestRetention(t *testing.T) {
	s3 := &v1alpha1.BackupS3{Bucket: "b", Endpoint: "https://s3.example.org", CredentialsSecret: "s3", CASecret: "s3-authority"}
	pod := backupOf(t, false, &v1alpha1.BackupSpec{
		Schedule: "0 3 * * *", KeySecret: "public", S3: s3, Retention: &v1alpha1.BackupRetention{Keep: 14, KeySecret: "whole"},
	}, nil).Spec.JobTemplate.Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 || pod.InitContainers[0].Args[1] != "create" {
		t.Fatalf("the pod has %+v", pod)
	}
	c := &pod.Containers[0]
	want := "backup prune s3://b/shop/orders --keep 14 --s3-endpoint https://s3.example.org --s3-ca /run/secrets/quorate-s3/ca.crt --key-file /run/secrets/quorate-backup/backup.key"
	if args := strings.Join(c.Args, " "); !sameWords(args, want) {
		t.Errorf("the job runs %q, want %q", args, want)
	}
	for _, c := range []*corev1.Container{c, &pod.InitContainers[0]} {
		if !has(c, "s3-ca") || !slices.Contains(c.Args, "--s3-ca") {
			t.Errorf("container %s does not trust the authority of the service: %q", c.Name, c.Args)
		}
	}
	if has(c, "QUORATE_PASSWORD") || !has(c, "AWS_ACCESS_KEY_ID") || !has(c, "key") || has(&pod.InitContainers[0], "key") {
		t.Errorf("containers %+v, %+v", pod.InitContainers[0], c)
	}
	for _, v := range pod.Volumes {
		of := map[string]string{"key": "whole", "public-key": "public", "s3-ca": "s3-authority"}[v.Name]
		if v.Secret.SecretName != of || v.Name == "s3-ca" && !slices.Equal(v.Secret.Items, []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}) {
			t.Errorf("volume %+v", v)
		}
	}
	both := backupOf(t, false, &v1alpha1.BackupSpec{
		Schedule: "0 3 * * *", PersistentVolumeClaim: &v1alpha1.BackupVolume{ClaimName: "v"}, Retention: &v1alpha1.BackupRetention{Keep: 1},
	}, nil).Spec.JobTemplate.Spec.Template.Spec
	if len(both.Volumes) != 1 || !has(&both.InitContainers[0], "backups") || !has(&both.Containers[0], "backups") {
		t.Errorf("volumes %+v", both.Volumes)
	}
}

// A backup that may lack messages fails its job at once, with and without retention: the next try would find it complete.
func TestBackupThatMayLackMessages(t *testing.T) {
	for _, retention := range []*v1alpha1.BackupRetention{nil, {Keep: 1}} {
		job := backupOf(t, false, &v1alpha1.BackupSpec{
			Schedule: "0 3 * * *", PersistentVolumeClaim: &v1alpha1.BackupVolume{ClaimName: "v"}, Retention: retention,
		}, nil).Spec.JobTemplate.Spec
		p := job.PodFailurePolicy
		if p == nil || len(p.Rules) != 1 || p.Rules[0].Action != batchv1.PodFailurePolicyActionFailJob || p.Rules[0].OnExitCodes == nil {
			t.Fatalf("the policy is %+v", p)
		}
		on, pod := p.Rules[0].OnExitCodes, job.Template.Spec
		create := slices.Concat(pod.InitContainers, pod.Containers)[0]
		if on.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn || !slices.Equal(on.Values, []int32{3}) || *on.ContainerName != create.Name || create.Args[1] != "create" {
			t.Errorf("the job fails on %+v", on)
		}
		if pod.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("with restartPolicy %s Kubernetes refuses the policy", pod.RestartPolicy)
		}
	}
}
