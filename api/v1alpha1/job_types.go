package v1alpha1

// JobComponent is a program that runs to completion.
type JobComponent struct {
	ContainerSpec `json:",inline"`

	// backoffLimit is the number of retries before the job fails. Default 2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// activeDeadlineSeconds is the maximum duration of the job in seconds,
	// including retries. Default 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	ActiveDeadlineSeconds *int32 `json:"activeDeadlineSeconds,omitempty"`

	// schedule is a cron expression that makes the job a CronJob, for example "0 3
	// * * *" for every day at 03:00. Other components do not wait for a scheduled
	// job.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|([-0-9*?,/]+ +){3}[-0-9A-Za-z*?,/]+ +[-0-9A-Za-z*?,/]+)$')",message="schedule must be a cron expression with five fields, for example '0 3 * * *' for every day at 03:00, or one of @hourly, @daily, @weekly, @monthly and @yearly"
	Schedule string `json:"schedule,omitempty"`

	PodSettings `json:",inline"`
}
