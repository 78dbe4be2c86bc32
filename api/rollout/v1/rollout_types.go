package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Policy says how a change is rolled out to several workloads: which of them may go now. The zero value lets all go
// at once, at any time.
type Policy struct {
	// Order names workloads that go first, in this order: "api", or "StatefulSet/api" where two kinds share a name. Each
	// waits until those before it run the change and are available. What is not named goes after all of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=280
	Order []string `json:"order,omitempty"`

	// MaxParallel is how many workloads may be rolling out the change at one time. Left out: all.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxParallel *int32 `json:"maxParallel,omitempty"`

	// Canary lets some workloads try the change before the others. Left out: none.
	// +optional
	Canary *Canary `json:"canary,omitempty"`

	// Window is when workloads may begin to roll. Left out: at any time.
	// +optional
	Window *Window `json:"window,omitempty"`

	// Timeout is how long one workload may take to get further with the change: a Deployment after each pod that came up, a
	// StatefulSet or DaemonSet for each of its pods. After that its rollout has failed, and no further workload begins. Left out: 10m.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Canary says which workloads try a change first, and for how long.
//
// +kubebuilder:validation:XValidation:rule="!has(self.count) || !has(self.percent)",message="count and percent are both given: give one of them"
type Canary struct {
	// Count is how many workloads go first, in the order of the policy and then by name. Left out, and percent too: 1; of an
	// Instrumentation 10 percent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`

	// Percent is how many workloads go first as a share of all of them, rounded up. It stands instead of count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`

	// Soak is how long they must have run the change before the others follow. Left out: 0s; of an Instrumentation 5m.
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`
}

// Window is a maintenance window: it opens on each of its days at start, and closes at end. On days when clocks
// change it opens and closes by the clock of its time zone.
//
// +kubebuilder:validation:XValidation:rule="self.start != self.end",message="start and end are the same time: leave the window out to allow all times"
type Window struct {
	// Days on which it opens: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Left out: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
	Days []Day `json:"days,omitempty"`

	// Start is the time of day at which it opens: "22:00".
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	Start string `json:"start"`

	// End is the time of day at which it closes: "04:00". Where it is earlier than start it is one of the next day.
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	End string `json:"end"`

	// TimeZone is a name of the IANA time zone database: "Europe/Berlin". Left out: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// Day is a day of the week.
type Day string
