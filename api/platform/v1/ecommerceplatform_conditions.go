package v1

// The conditions of an EcommercePlatform are those of its AppStack: Ready is True when every part
// exists as the spec says, and is ready. Progressing is True while parts are made, changed or
// deleted. Degraded is True while something is wrong with one. Stalled is True while someone has to
// act, and absent otherwise. The reasons are those of the AppStack, too.
const (
	// ConditionBackupHealthy is False while the environment of the platform has backups and none are
	// made. It is absent where the environment has none. Ready does not depend on it.
	ConditionBackupHealthy = "BackupHealthy"
	// ReasonBackupUnavailable (BackupHealthy): this Mainstay makes no backups.
	ReasonBackupUnavailable = "BackupUnavailable"
	// ReasonStackNotReported (Ready): the AppStack's status does not describe its present spec yet.
	ReasonStackNotReported = "StackNotReported"
)
