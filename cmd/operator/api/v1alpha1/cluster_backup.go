package v1alpha1

// BackupSpec is when and where the cluster is copied to.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.persistentVolumeClaim)",message="name one place: s3 or persistentVolumeClaim"
type BackupSpec struct {
	// Schedule in the form of cron, such as "0 3 * * *".
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin; empty: that of Kubernetes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Suspended begins no further backups.
	//
	// +optional
	Suspended bool `json:"suspended,omitempty"`
	// S3 is a bucket. How long backups are kept is a rule of the bucket.
	//
	// +optional
	S3 *BackupS3 `json:"s3,omitempty"`
	// PersistentVolumeClaim is a volume for backups, a file for each.
	//
	// +optional
	PersistentVolumeClaim *BackupVolume `json:"persistentVolumeClaim,omitempty"`
	// KeySecret has the key backup.pub, with which backups are encrypted; empty: they are not.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	KeySecret string `json:"keySecret,omitempty"`
	// VHost that is copied; empty: the whole cluster.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	VHost string `json:"vhost,omitempty"`
}

// BackupS3 is a place in S3 or what is compatible with it.
type BackupS3 struct {
	// Bucket that exists.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Bucket string `json:"bucket"`
	// Prefix of the names; each backup adds its own name.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Prefix string `json:"prefix,omitempty"`
	// Endpoint is the URL of the service; empty: Amazon's.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Endpoint string `json:"endpoint,omitempty"`
	// Region of the bucket; empty: it is asked for.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`
	// CredentialsSecret has the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; empty: those of the
	// machine.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
}

// BackupVolume is a volume for backups.
type BackupVolume struct {
	// ClaimName of a PersistentVolumeClaim that exists.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
}
