package injection

// SideCars are the container names that a matcher skips unless it names them.
var SideCars = sideCars
