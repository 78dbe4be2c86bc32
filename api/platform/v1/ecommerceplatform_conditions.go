package v1

// The conditions of an EcommercePlatform are those of its AppStack: Ready is True when every part
// exists as the spec says, and is ready. Progressing is True while parts are made, changed or
// deleted. Degraded is True while something is wrong with one. Stalled is True while someone has to
// act, and absent otherwise. The reasons are those of the AppStack, too.
const (
	// ReasonStackNotReported (Ready): the AppStack's status does not describe its present spec yet.
	ReasonStackNotReported = "StackNotReported"
)
