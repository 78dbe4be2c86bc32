package configmonitor

// Kind is the name of the kind, which is part of its demands' origin.
const Kind = "ConfigMonitor"

// Controller is the name of the kind's controller; its field manager is mainstay/configmonitor.
const Controller = "configmonitor"
