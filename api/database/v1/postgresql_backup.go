package v1

// Backup is when the database is backed up, and for how long backups are kept.
type Backup struct {
	// Enabled wants backups. This Mainstay makes none yet: the condition BackupHealthy says so.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Schedule is when, in UTC, as a CronJob's: minute, hour, day of the month, month and day of the
	// week, or @hourly, @daily, @weekly, @monthly or @yearly. Default: 0 2 * * *, each night at two.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[-0-9A-Za-z*/,?]+( [-0-9A-Za-z*/,?]+){4})$')",message="must be five fields with a space between them, minute, hour, day of the month, month and day of the week, for example 0 2 * * *, or @hourly, @daily, @weekly, @monthly or @yearly"
	Schedule string `json:"schedule,omitempty"`
	// Retention is for how long a backup is kept, in days or weeks, up to ten years, for example 30d
	// or 8w; default 30d.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2}|36[0-4][0-9]|3650)d$|^([1-9][0-9]?|[1-4][0-9]{2}|5[01][0-9]|52[01])w$')",message="must be from 1d to 3650d, or from 1w to 521w, for example 30d"
	Retention string `json:"retention,omitempty"`
}
