package v1

// Condition types of a PlatformPolicy.
const (
	// ConditionReady is True when the policy is in force as written.
	ConditionReady = "Ready"
	// ConditionStalled is True when the spec is invalid and must be changed. It is absent otherwise.
	ConditionStalled = "Stalled"
)

// ReasonInForce (Ready): every rule is checked.
const ReasonInForce = "InForce"
