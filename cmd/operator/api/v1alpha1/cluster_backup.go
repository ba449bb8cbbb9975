package v1alpha1

// BackupSpec is when and where the cluster is copied to.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.persistentVolumeClaim)",message="name one place: s3 or persistentVolumeClaim"
// +kubebuilder:validation:XValidation:rule="!has(self.retention) || !has(self.keySecret) || self.keySecret == \"\" || has(self.retention.keySecret) && self.retention.keySecret != \"\"",message="retention.keySecret is missing: before old backups that are encrypted are removed, the newest is read with its key"
type BackupSpec struct {
	// Schedule in the form of cron, such as "0 3 * * *": minute, hour, day of the month, month, day of the
	// week. Or @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every [0-9hms.]+|[A-Za-z0-9*/?,-]+( +[A-Za-z0-9*/?,-]+){4})$`
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin; empty: that of Kubernetes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+/-]*$`
	TimeZone string `json:"timeZone,omitempty"`
	// Suspended begins no further backups.
	//
	// +optional
	Suspended bool `json:"suspended,omitempty"`
	// DeadlineSeconds is how long a backup may take, with its repeats and the removal of old ones. One that
	// takes longer is ended and counts as failed, so that the next one can begin.
	//
	// +optional
	// +kubebuilder:default=21600
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	DeadlineSeconds int64 `json:"deadlineSeconds,omitempty"`
	// Retention removes old backups after each new one; without it they stay, unless the bucket has a rule.
	//
	// +optional
	Retention *BackupRetention `json:"retention,omitempty"`
	// S3 is a bucket.
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

// BackupRetention says which backups stay.
type BackupRetention struct {
	// Keep is how many of the newest complete backups of this cluster stay. Before others are removed the
	// newest is read and verified.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Keep int32 `json:"keep"`
	// KeySecret has the key backup.key, the whole key of encrypted backups; empty: they are not encrypted.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	KeySecret string `json:"keySecret,omitempty"`
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
	// CASecret has the key ca.crt, the authorities of the service's certificate; empty: public ones.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CASecret string `json:"caSecret,omitempty"`
}

// BackupVolume is a volume for backups.
type BackupVolume struct {
	// ClaimName of a PersistentVolumeClaim that exists.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
}
