package chart

import (
	"path"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
)

const (
	// backupsKept is how many finished jobs of backups are kept, of those that succeeded and of those that failed.
	backupsKept = 3
	// backupTries is how often a backup that failed is tried again.
	backupTries = 2
	// Where the pod of a backup has what it needs.
	backupDir   = "/backups"
	keyDir      = "/run/secrets/quorate-backup"
	authority   = "/run/secrets/quorate-client-tls"
	backupOwner = 65532
)

// backup makes the job that copies the cluster regularly; nil if it has none. Each backup has the name of its job, which
// has the time in it.
func backup(q *v1alpha1.QuorateCluster, set *Objects) *batchv1.CronJob {
	b := q.Spec.Backup
	if b == nil {
		return nil
	}
	labels := broker.Labels(q)
	labels["app.kubernetes.io/component"] = "backup"
	labels[managedBy] = v1alpha1.FieldManager
	kept, tries := int32(backupsKept), int32(backupTries)
	job := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: q.Name + "-backup", Namespace: q.Namespace, Labels: labels},
		Spec: batchv1.CronJobSpec{
			Schedule: b.Schedule, Suspend: &b.Suspended, ConcurrencyPolicy: batchv1.ForbidConcurrent,
			SuccessfulJobsHistoryLimit: &kept, FailedJobsHistoryLimit: &kept,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{BackoffLimit: &tries, Template: backupPod(q, set, labels)}},
		},
	}
	if b.TimeZone != "" {
		job.Spec.TimeZone = &b.TimeZone
	}
	return job
}

// backupPod runs quoratectl out of the nodes' image.
func backupPod(q *v1alpha1.QuorateCluster, set *Objects, labels map[string]string) corev1.PodTemplateSpec {
	node := set.Set.Spec.Template.Spec
	yes, no, owner := true, false, int64(backupOwner)
	c := corev1.Container{
		Name: "backup", Image: node.Containers[0].Image, ImagePullPolicy: node.Containers[0].ImagePullPolicy,
		Command: []string{"/quoratectl"}, Env: backupEnv(q),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, Privileged: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: node.ServiceAccountName, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		ImagePullSecrets: node.ImagePullSecrets, NodeSelector: node.NodeSelector, Tolerations: node.Tolerations,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &owner, RunAsGroup: &owner, FSGroup: &owner,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	mount := func(name, at string, source corev1.VolumeSource, readOnly bool) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at, ReadOnly: readOnly})
	}
	b := q.Spec.Backup
	c.Args = []string{"backup", "create", backupPlace(q)}
	if v := b.PersistentVolumeClaim; v != nil {
		mount("backups", backupDir, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.ClaimName}}, false)
	}
	if s := b.S3; s != nil && s.Endpoint != "" {
		c.Args = append(c.Args, "--s3-endpoint", s.Endpoint)
	}
	if s := b.S3; s != nil && s.Region != "" {
		c.Args = append(c.Args, "--s3-region", s.Region)
	}
	if b.KeySecret != "" {
		c.Args = append(c.Args, "--key-file", path.Join(keyDir, "backup.pub"))
		mount("key", keyDir, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: b.KeySecret}}, true)
	}
	if b.VHost != "" {
		c.Args = append(c.Args, "--vhost", b.VHost)
	}
	if q.Spec.TLS != nil {
		c.Args = append(c.Args, "--tls-ca", path.Join(authority, corev1.ServiceAccountRootCAKey))
		mount("client-tls", authority, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: broker.ClientSecret(q), Items: []corev1.KeyToPath{{Key: corev1.ServiceAccountRootCAKey, Path: corev1.ServiceAccountRootCAKey}},
		}}, true)
	}
	spec.Containers = []corev1.Container{c}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
}

// backupPlace names the backup after its job, by the variable of backupEnv. Clusters of other namespaces may have the
// same name, and so may their jobs: what they keep in the same bucket is apart. A claim has one namespace.
func backupPlace(q *v1alpha1.QuorateCluster) string {
	if s := q.Spec.Backup.S3; s != nil {
		return "s3://" + path.Join(s.Bucket, s.Prefix, q.Namespace, "$(JOB)")
	}
	return path.Join(backupDir, "$(JOB).tar")
}

// backupEnv logs quoratectl in as the operator, and has the name of the job.
func backupEnv(q *v1alpha1.QuorateCluster) []corev1.EnvVar {
	from := func(secret, key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key}}
	}
	login := broker.AdministratorSecret(q)
	env := []corev1.EnvVar{
		{Name: "JOB", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['batch.kubernetes.io/job-name']"}}},
		{Name: "QUORATE_ADDRESSES", Value: q.Name + "." + q.Namespace + ".svc:7070"},
		{Name: "QUORATE_USER", ValueFrom: from(login, corev1.BasicAuthUsernameKey)},
		{Name: "QUORATE_PASSWORD", ValueFrom: from(login, corev1.BasicAuthPasswordKey)},
	}
	if s := q.Spec.Backup.S3; s != nil && s.CredentialsSecret != "" {
		for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
			env = append(env, corev1.EnvVar{Name: key, ValueFrom: from(s.CredentialsSecret, key)})
		}
	}
	return env
}
