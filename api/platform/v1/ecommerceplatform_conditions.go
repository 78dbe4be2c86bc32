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
	// ConditionMonitoringHealthy is True while what monitors the platform is there: its alerts, its
	// dashboard, and the APIs with which its parts are scraped. It is absent with monitoring.enabled
	// false. Ready does not depend on it.
	ConditionMonitoringHealthy = "MonitoringHealthy"
	// ReasonMonitored (MonitoringHealthy): everything is there.
	ReasonMonitored = "Monitored"
	// ReasonMonitoringAPIMissing (MonitoringHealthy): the cluster lacks kinds of the Prometheus
	// Operator. Without PrometheusRule there are no alerts.
	ReasonMonitoringAPIMissing = "MonitoringAPIMissing"
	// ReasonMonitoringWaits (MonitoringHealthy): the alerts and the dashboard are created once all
	// parts have been ready.
	ReasonMonitoringWaits = "MonitoringWaits"
	// ReasonStackNotReported (Ready): the AppStack's status does not describe its present spec yet.
	ReasonStackNotReported = "StackNotReported"
)
