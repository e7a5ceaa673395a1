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
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(([^ ]*[,-])?0*([6-9]|[1-9][0-9])[0-9]|[^ ]+ +([^ ]*[,-])?0*(2[4-9]|[3-9][0-9]|[1-9][0-9]{2})|([^ ]+ +){2}([^ ]*[,-])?(0+[^0-9]|0*(3[2-9]|[4-9][0-9]|[1-9][0-9]{2}))|([^ ]+ +){3}([^ ]*[,-])?(0+[^0-9]|0*(1[3-9]|[2-9][0-9]|[1-9][0-9]{2}))|([^ ]+ +){4}([^ ]*[,-])?0*([7-9]|[1-9][0-9]))')",message="schedule has a value that is out of range: minute 0-59, hour 0-23, day of the month 1-31, month 1-12 or JAN-DEC, day of the week 0-6 or SUN-SAT",messageExpression="'schedule \"' + self + '\" has a value that is out of range: minute 0-59, hour 0-23, day of the month 1-31, month 1-12 or JAN-DEC, day of the week 0-6 or SUN-SAT'"
	Schedule string `json:"schedule,omitempty"`

	PodSettings `json:",inline"`
}
