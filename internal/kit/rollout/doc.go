// Package rollout decides which of several units, most often workloads, may start a change now. It
// is the rollout policy that the kinds share. It is pure: the time is an argument.
//
// Time zones are compiled in (time/tzdata, about 450 KB of the program). Which names are valid, and
// when a window opens, must not depend on the image or the machine.
package rollout

import _ "time/tzdata" // see above
