// Package render renders templates that users wrote, and checks what they render by a JSON Schema.
// Both are bounded in time and memory, because users have fewer rights than Mainstay, and the
// webhook that renders keeps other requests waiting. The templates are Go's, with functions as in
// Sprig, none of which reads the time, the environment, files or the network. The package knows no
// kind and does no I/O.
package render
