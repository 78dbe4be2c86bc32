package v1

// Condition types of a PlatformPolicy.
const (
	// ConditionReady is True when the policy is in force as it is written.
	ConditionReady = "Ready"
	// ConditionStalled is True when the spec can't be carried out: change it. Absent otherwise.
	ConditionStalled = "Stalled"
)

// ReasonInForce (Ready): every rule is checked.
const ReasonInForce = "InForce"
