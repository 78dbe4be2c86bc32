package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Policy controls how a change is rolled out to several workloads. The zero value lets all start at
// once, at any time.
type Policy struct {
	// Order names workloads that go first, in this order: "api", or "StatefulSet/api" if two kinds
	// share a name. Each waits until those before it run the change and are available, also for one
	// that is paused, or whose partition or OnDelete strategy keeps its pods. Workloads that are not
	// named follow after all of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=280
	Order []string `json:"order,omitempty"`

	// MaxParallel is how many workloads may be rolling out the change at the same time. Default: all.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxParallel *int32 `json:"maxParallel,omitempty"`

	// Canary lets some workloads run the change before the others, which wait also while one of the
	// canaries is paused, or its partition or OnDelete strategy keeps its pods. Default: none.
	// +optional
	Canary *Canary `json:"canary,omitempty"`

	// Window is when workloads may start to roll out. Default: at any time.
	// +optional
	Window *Window `json:"window,omitempty"`

	// Timeout is how long one workload may take for its next step: a Deployment after each pod that
	// became available, a StatefulSet or DaemonSet for each of its pods. After that its rollout has
	// failed, and no further workload starts. Default: 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+(ns|us|µs|ms|s|m|h))+)$')",message="must be a duration, for example 30s, 5m or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Canary is which workloads run a change first, and for how long.
//
// +kubebuilder:validation:XValidation:rule="!has(self.count) || !has(self.percent)",message="must not set both count and percent"
type Canary struct {
	// Count is how many workloads go first, in the order of the policy and then by name, not counting
	// new ones. Default without percent: 1; in an Instrumentation 10 percent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`

	// Percent is the share of workloads that go first, rounded up. Use either percent or count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`

	// Soak is how long the canaries must have run the change before the others follow. Default: 0s; in
	// an Instrumentation 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+(ns|us|µs|ms|s|m|h))+)$')",message="must be a duration, for example 30s, 5m or 1h30m"
	Soak *metav1.Duration `json:"soak,omitempty"`
}

// Window is a maintenance window: it opens at start on each of its days, and closes at end. When
// clocks change, it follows the wall clock of its time zone.
//
// +kubebuilder:validation:XValidation:rule="self.start != self.end",message="end must differ from start; omit the window to allow all times"
type Window struct {
	// Days on which it opens: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Default: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
	Days []Day `json:"days,omitempty"`

	// Start is the time of day at which it opens: "22:00".
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="must be hours and minutes, from 00:00 to 23:59, for example 21:00"
	Start string `json:"start"`

	// End is the time of day at which it closes: "04:00". If it is earlier than start, it is on the
	// next day.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="must be hours and minutes, from 00:00 to 23:59, for example 21:00"
	End string `json:"end"`

	// TimeZone is a name in the IANA time zone database: "Europe/Berlin". Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// Day is a day of the week.
type Day string
