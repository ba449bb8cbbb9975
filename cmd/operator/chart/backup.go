package chart

import (
	"path"
	"slices"
	"strconv"

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
	// backupDeadline is how long a backup may take, in seconds: the default of spec.backup.deadlineSeconds.
	backupDeadline = 6 * 60 * 60
	// partDone is quoratectl's exit code for a backup that is complete and may lack messages.
	partDone = 3
	// createContainer is the name of the container that copies the cluster.
	createContainer = "backup"
	// Where the pod of a backup has what it needs.
	backupDir    = "/backups"
	keyDir       = "/run/secrets/quorate-backup"
	authorityDir = "/run/secrets/quorate-client-tls"
	s3Dir        = "/run/secrets/quorate-s3"
	backupOwner  = 65532
)

// BackupName returns the name of the CronJob that copies a cluster.
func BackupName(q *v1alpha1.QuorateCluster) string { return q.Name + "-backup" }

// BackupLabels returns the labels of the jobs that copy a cluster, and of their pods.
func BackupLabels(q *v1alpha1.QuorateCluster) map[string]string {
	l := broker.Labels(q)
	l["app.kubernetes.io/component"] = "backup"
	return l
}

// Backup makes the job that copies a cluster regularly; nil if it has none. Each backup has the name of its job, which
// has the time in it, and the job's UID, which no other job has: not one of the same name in another Kubernetes cluster
// that uses the same bucket, nor one that a person makes again under the same name. authority reports that the Secret with the nodes' certificate for clients has the authority to
// trust, too; else it is one that quoratectl trusts by itself.
func Backup(q *v1alpha1.QuorateCluster, set *Objects, authority bool) *batchv1.CronJob {
	b := q.Spec.Backup
	if b == nil {
		return nil
	}
	labels := BackupLabels(q)
	labels[managedBy] = v1alpha1.FieldManager
	kept, tries, deadline, gone := int32(backupsKept), int32(backupTries), b.DeadlineSeconds, batchv1.Failed
	if deadline == 0 { // no API server has put the default in
		deadline = backupDeadline
	}
	job := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: BackupName(q), Namespace: q.Namespace, Labels: labels},
		Spec: batchv1.CronJobSpec{
			Schedule: b.Schedule, Suspend: &b.Suspended, ConcurrencyPolicy: batchv1.ForbidConcurrent,
			SuccessfulJobsHistoryLimit: &kept, FailedJobsHistoryLimit: &kept,
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: batchv1.JobSpec{
					BackoffLimit: &tries, ActiveDeadlineSeconds: &deadline, PodFailurePolicy: partsFail(),
					PodReplacementPolicy: &gone, // two pods would write to one place
					Template:             backupPod(q, set, labels, authority),
				},
			},
		},
	}
	if b.TimeZone != "" {
		job.Spec.TimeZone = &b.TimeZone
	}
	return job
}

// partsFail ends a job whose backup may lack messages as failed: the next try would find that backup, and succeed.
func partsFail() *batchv1.PodFailurePolicy {
	name := createContainer
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: &name, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{partDone},
		},
	}}}
}

// backupPod copies the cluster, and then removes old backups. Each is done by quoratectl out of the nodes' image. A
// pod that replaces another one of its job finds a backup that is complete, and continues behind it.
func backupPod(q *v1alpha1.QuorateCluster, set *Objects, labels map[string]string, authority bool) corev1.PodTemplateSpec {
	node := set.Set.Spec.Template.Spec
	yes, no, owner := true, false, int64(backupOwner)
	p := &jobPod{q: q, image: &node.Containers[0], spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: node.ServiceAccountName, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		ImagePullSecrets: node.ImagePullSecrets, NodeSelector: node.NodeSelector, Tolerations: node.Tolerations,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &owner, RunAsGroup: &owner, FSGroup: &owner,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}}
	all := []corev1.Container{p.create(authority)}
	if q.Spec.Backup.Retention != nil {
		all = append(all, p.prune())
	}
	last := len(all) - 1
	p.spec.InitContainers, p.spec.Containers = all[:last], all[last:]
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: p.spec}
}

// jobPod is the pod of a backup while it is put together.
type jobPod struct {
	q     *v1alpha1.QuorateCluster
	image *corev1.Container // of a node
	spec  corev1.PodSpec
}

// create copies the cluster.
func (p *jobPod) create(authority bool) corev1.Container {
	b := p.q.Spec.Backup
	c := p.container(createContainer, "backup", "create", backupPlace(p.q)+"/$(JOB)-$(JOB_UID)"+backupSuffix(p.q), "--if-missing")
	c.Env = append(loginEnv(p.q), c.Env...)
	if b.KeySecret != "" {
		c.Args = append(c.Args, "--key-file", path.Join(keyDir, "backup.pub"))
		p.mount(&c, "public-key", keyDir, secretSource(b.KeySecret))
	}
	if b.VHost != "" {
		c.Args = append(c.Args, "--vhost", b.VHost)
	}
	if p.q.Spec.TLS == nil {
		return c
	}
	c.Args = append(c.Args, "--tls-server-name", broker.ServerName(p.q))
	if authority {
		p.trust(&c, "--tls-ca", "client-tls", authorityDir, broker.ClientSecret(p.q))
	}
	return c
}

// prune removes old backups. It asks no cluster, and has the whole key of encrypted ones, which create does without.
func (p *jobPod) prune() corev1.Container {
	r := p.q.Spec.Backup.Retention
	c := p.container("prune", "backup", "prune", backupPlace(p.q), "--keep", strconv.Itoa(int(r.Keep)))
	if r.KeySecret != "" {
		c.Args = append(c.Args, "--key-file", path.Join(keyDir, "backup.key"))
		p.mount(&c, "key", keyDir, secretSource(r.KeySecret))
	}
	return c
}

// container runs quoratectl with what reaches the place of backups.
func (p *jobPod) container(name string, args ...string) corev1.Container {
	yes, no := true, false
	c := corev1.Container{
		Name: name, Image: p.image.Image, ImagePullPolicy: p.image.ImagePullPolicy, Command: []string{"/quoratectl"}, Args: args,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, Privileged: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if v := p.q.Spec.Backup.PersistentVolumeClaim; v != nil {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.ClaimName}}
		p.volume("backups", source)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "backups", MountPath: backupDir})
	}
	s := p.q.Spec.Backup.S3
	if s == nil {
		return c
	}
	if s.Endpoint != "" {
		c.Args = append(c.Args, "--s3-endpoint", s.Endpoint)
	}
	if s.Region != "" {
		c.Args = append(c.Args, "--s3-region", s.Region)
	}
	if s.CASecret != "" {
		p.trust(&c, "--s3-ca", "s3-ca", s3Dir, s.CASecret)
	}
	if s.CredentialsSecret != "" {
		for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
			c.Env = append(c.Env, corev1.EnvVar{Name: key, ValueFrom: fromSecret(s.CredentialsSecret, key)})
		}
	}
	return c
}

// volume adds a volume to the pod, unless another container has added it.
func (p *jobPod) volume(name string, source corev1.VolumeSource) {
	if !slices.ContainsFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }) {
		p.spec.Volumes = append(p.spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
}

// mount shows a volume to a container alone, to be read.
func (p *jobPod) mount(c *corev1.Container, name, at string, source corev1.VolumeSource) {
	p.volume(name, source)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at, ReadOnly: true})
}

// trust names the authorities in a Secret by a flag. The container sees nothing else of the Secret.
func (p *jobPod) trust(c *corev1.Container, flag, volume, at, secret string) {
	const authorities = corev1.ServiceAccountRootCAKey
	c.Args = append(c.Args, flag, path.Join(at, authorities))
	source := secretSource(secret)
	source.Secret.Items = []corev1.KeyToPath{{Key: authorities, Path: authorities}}
	p.mount(c, volume, at, source)
}

func secretSource(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
}

func fromSecret(secret, key string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key}}
}

// backupPlace is where the backups are. Each QuorateCluster has a place of its own in a bucket and on a volume: two may have
// the same cluster.name in their settings, and their backups would then count as one cluster's when old ones are removed.
// A volume has one namespace.
func backupPlace(q *v1alpha1.QuorateCluster) string {
	if s := q.Spec.Backup.S3; s != nil {
		return "s3://" + path.Join(s.Bucket, s.Prefix, q.Namespace, q.Name)
	}
	return path.Join(backupDir, q.Name)
}

// backupSuffix makes a backup on a volume one file.
func backupSuffix(q *v1alpha1.QuorateCluster) string {
	if q.Spec.Backup.S3 != nil {
		return ""
	}
	return ".tar"
}

// fromLabel reads a label of the pod.
func fromLabel(name string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + name + "']"}}
}

// loginEnv logs quoratectl in as the operator, and has the name and the UID of the job.
func loginEnv(q *v1alpha1.QuorateCluster) []corev1.EnvVar {
	login := broker.AdministratorSecret(q)
	return []corev1.EnvVar{
		{Name: "JOB", ValueFrom: fromLabel(batchv1.JobNameLabel)},
		{Name: "JOB_UID", ValueFrom: fromLabel(batchv1.ControllerUidLabel)},
		{Name: "QUORATE_ADDRESSES", Value: q.Name + "." + q.Namespace + ".svc:7070"},
		{Name: "QUORATE_USER", ValueFrom: fromSecret(login, corev1.BasicAuthUsernameKey)},
		{Name: "QUORATE_PASSWORD", ValueFrom: fromSecret(login, corev1.BasicAuthPasswordKey)},
	}
}
