// Package webapp makes every decision about the kind WebApp. It is pure: no client, clock,
// randomness or globals. Package webappcontroller reads and writes for it.
package webapp
