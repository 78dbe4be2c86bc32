// Package rollout decides which of several units (workloads, most often) may begin to take a change now: the shared
// rollout policy of the kinds. It is pure: the time is an argument.
//
// Time zones are compiled in (time/tzdata, about 450 KB of the program): which names are accepted, and when a window opens, must
// not depend on the image or the machine.
package rollout

import _ "time/tzdata" // see above
