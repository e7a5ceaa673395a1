package v1alpha1

// JobComponent is a program that runs to its end.
type JobComponent struct {
	ContainerSpec `json:",inline"`

	// backoffLimit is how often a failed run is tried again. Default 2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// activeDeadlineSeconds is how long it may take, all tries together. Default
	// 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	ActiveDeadlineSeconds *int32 `json:"activeDeadlineSeconds,omitempty"`

	// schedule makes it a CronJob, for example "0 3 * * *" for every night at
	// three. Nobody waits for such a job.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|([-0-9*?,/]+ +){3}[-0-9A-Za-z*?,/]+ +[-0-9A-Za-z*?,/]+)$')",message="a schedule has five fields, for example '0 3 * * *' for every night at three, or is one of @hourly, @daily, @weekly, @monthly and @yearly"
	Schedule string `json:"schedule,omitempty"`

	PodSettings `json:",inline"`
}
