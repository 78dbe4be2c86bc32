package v1

// Condition types of a PlatformPolicy.
const (
	// ConditionReady is True when the policy is in force as written.
	ConditionReady = "Ready"
	// ConditionStalled is True when the spec is invalid and must be changed. It is absent otherwise.
	ConditionStalled = "Stalled"
	// ConditionAuditIncomplete is True when the status does not count all workloads of other owners
	// as they are now. The rules are enforced all the same. It is absent otherwise.
	ConditionAuditIncomplete = "AuditIncomplete"
	// ConditionExemptionsExpiring is True while an exemption ends within 7 days, or has ended. It is
	// absent otherwise.
	ConditionExemptionsExpiring = "ExemptionsExpiring"
)

// Reasons of the conditions.
const (
	// ReasonInForce (Ready): every rule is checked.
	ReasonInForce = "InForce"
	// ReasonAuditFailed (AuditIncomplete): the last audit of the workloads failed. The message says
	// why, and from when the numbers are. It is retried.
	ReasonAuditFailed = "AuditFailed"
	// ReasonExpiringSoon (ExemptionsExpiring): an exemption ends within 7 days, and none has ended.
	ReasonExpiringSoon = "ExpiringSoon"
	// ReasonExpired (ExemptionsExpiring): an exemption has ended. Remove it.
	ReasonExpired = "Expired"
	// ReasonTooManyObjects (AuditIncomplete): more objects without a controller exist than one audit
	// reads. The message has their kinds.
	ReasonTooManyObjects = "TooManyObjects"
)
