package configmonitor

// Kind is the kind's name, by which its demands are known.
const Kind = "ConfigMonitor"

// Controller is the name of the kind's controller; its field manager is mainstay/configmonitor.
const Controller = "configmonitor"
