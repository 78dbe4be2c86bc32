package cache

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
)

// Limits of what a user sets: so many parameters, whose names and values have so many bytes.
const (
	maxParameters      = 100
	maxParametersBytes = 8 << 10
)

// parameter is one that users may set: what it accepts, which is said after "must be", and whether
// a change takes effect with a start of the server only.
type parameter struct {
	accepts  func(value string) bool
	said     string
	restarts bool
}

func number(least, most int64) parameter {
	return parameter{said: fmt.Sprintf("from %d to %d", least, most), accepts: func(value string) bool {
		const digits = 20
		given, err := strconv.ParseInt(value, 10, 64)
		return err == nil && len(value) <= digits && given >= least && given <= most
	}}
}

func matching(said string, pattern *regexp.Regexp) parameter {
	return parameter{said: said, accepts: pattern.MatchString}
}

func (p parameter) atStart() parameter {
	p.restarts = true
	return p
}

var (
	yesOrNo = matching("yes or no", regexp.MustCompile(`^(yes|no)$`))
	count   = number(0, 1<<31-1)
	size    = sizeFrom(0)
	percent = regexp.MustCompile(`^([1-9][0-9]?|100)%$`)
)

// mostSize is the largest size, in bytes: more than any server has.
const mostSize = 1 << 40

// units are those that the server knows, in bytes.
var units = map[string]int64{
	"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000_000, "mb": 1 << 20, "g": 1000_000_000, "gb": 1 << 30,
}

var sizePattern = regexp.MustCompile(`^([0-9]{1,13})([a-z]{0,2})$`)

// sizeFrom is what the server reads as a number of bytes, of at least so many mebibytes.
func sizeFrom(least int64) parameter {
	said := "a size of at most 1024gb, for example 2mb"
	if least > 0 {
		said = fmt.Sprintf("a size from %dmb to 1024gb, for example 2mb", least)
	}
	return parameter{said: said, accepts: func(value string) bool {
		parts := sizePattern.FindStringSubmatch(strings.ToLower(value))
		if parts == nil {
			return false
		}
		given, err := strconv.ParseInt(parts[1], 10, 64)
		unit, isUnit := units[parts[2]]
		return err == nil && isUnit && given <= mostSize/unit && given*unit >= least<<20
	}}
}

// sizeOrPercent is a size, or a part of the memory.
func sizeOrPercent() parameter {
	return parameter{said: "a size of at most 1024gb, for example 100mb, or a percentage from 1% to 100%", accepts: func(value string) bool {
		return size.accepts(value) || percent.MatchString(value)
	}}
}

// The names of the parameter that says for how many milliseconds a script may run before the server
// answers other commands again, with BUSY; 0 is for ever.
const (
	busyReply       = "busy-reply-threshold"
	formerBusyReply = "lua-time-limit"
	// serverBusyReply is the server's default.
	serverBusyReply = 5 * time.Second
)

// busyMargin is by how much the server has to answer before spec.failover.after is over. An
// instance kills a server that has answered nothing, not even BUSY, for all but half a second of
// that time.
const busyMargin = 2 * time.Second

// busyReplyFor is the parameter busyReply beside a spec.failover.after.
func busyReplyFor(after time.Duration) parameter {
	p := number(1, (after - busyMargin).Milliseconds())
	p.said += " milliseconds, at most spec.failover.after less 2s: a server that answers nothing for longer is killed"
	return p
}

// failoverAfter returns spec.failover.after; the longest one if checkFailover refuses it.
func failoverAfter(c *databasev1.Cache) time.Duration {
	after, err := database.ParseAfter(c.Spec.Failover.After)
	if err != nil {
		return database.LongestAfter
	}
	return after
}

// known are the parameters that users may set, by their names in valkey.conf. Those of the server
// that are missing here are ours, or let a client reach what it must not.
var known = map[string]parameter{
	"activerehashing": yesOrNo, "hz": number(1, 500), "databases": number(1, 1024).atStart(),
	"io-threads": number(1, 64).atStart(), "maxclients": number(10, 100_000), "tcp-backlog": number(1, 65535).atStart(),
	"tcp-keepalive": number(0, 86400), "timeout": number(0, 31_536_000),
	"proto-max-bulk-len": sizeFrom(1), "client-query-buffer-limit": sizeFrom(1),
	"maxmemory-samples": number(1, 64), "maxmemory-eviction-tenacity": number(0, 100),
	"maxmemory-clients": sizeOrPercent(),
	"lfu-log-factor":    number(0, 255), "lfu-decay-time": number(0, 65535),
	"lazyfree-lazy-eviction": yesOrNo, "lazyfree-lazy-expire": yesOrNo, "lazyfree-lazy-server-del": yesOrNo,
	"lazyfree-lazy-user-del": yesOrNo, "lazyfree-lazy-user-flush": yesOrNo,
	"slowlog-log-slower-than": number(-1, 1<<53), "slowlog-max-len": number(0, 100_000), "latency-monitor-threshold": count,
	"latency-tracking": yesOrNo, busyReply: busyReplyFor(database.LongestAfter), formerBusyReply: busyReplyFor(database.LongestAfter),
	"notify-keyspace-events":    matching("letters out of KEg$lshzxetdmnA, or empty", regexp.MustCompile(`^[KEg$lshzxetdmnA]{0,20}$`)),
	"hash-max-listpack-entries": count, "hash-max-listpack-value": count, "list-max-listpack-size": number(-5, 1<<16),
	"list-compress-depth": count, "set-max-intset-entries": count, "set-max-listpack-entries": count, "set-max-listpack-value": count,
	"zset-max-listpack-entries": count, "zset-max-listpack-value": count, "hll-sparse-max-bytes": number(0, 16000),
	"stream-node-max-bytes": size, "stream-node-max-entries": count,
}

// ours says, of parameters that users may know, why they can't be set: which field does so, or what
// they would break.
var ours = map[string]string{
	"maxmemory": "it is set by spec.memory and spec.maxMemoryPercent", "maxmemory-policy": "it is set by spec.evictionPolicy",
	"appendonly": "it is set by spec.persistence", "appendfsync": "it is set by spec.persistence", "save": "it is set by spec.persistence",
	"min-replicas-to-write": "it is set by spec.minReplicasToWrite", "port": "it is 6379; see spec.plainPort",
	"requirepass": "it is set by spec.passwordSecret", "bind": "the instances' network depends on it",
	"replicaof": "the instances elect their primary", "slaveof": "the instances elect their primary",
	"cluster-enabled": "a Cache has one primary", "dir": "it is on the volume of the instance", "user": "it is set by spec.passwordSecret",
	"aclfile": "it is set by spec.passwordSecret", "masterauth": "replication depends on it", "primaryauth": "replication depends on it",
	"loadmodule": "it runs code in the server", "rename-command": "dangerous commands are refused by the user's access rules",
	"include": "it can read any file", "daemonize": "the instance manager runs the server",
	"dynamic-hz": "the server no longer has this parameter",
}

// families are beginnings of names of parameters that are ours.
var families = map[string]string{
	"tls-": "the certificates are Mainstay's; see spec.tls", "repl-": "replication depends on it", "replica-": "replication depends on it",
	"slave-": "replication depends on it", "cluster-": "a Cache has one primary", "aof-": "persistence depends on it",
	"rdb": "persistence depends on it", "append": "persistence depends on it",
	"enable-":    "it lets clients run commands that endanger the server",
	"unixsocket": "the instance manager uses it", "min-replicas-": "replication depends on it",
}

// refused says why a parameter can't be set; "" if it can.
func refused(name string) string {
	if _, may := known[name]; may {
		return ""
	}
	if reason, is := ours[name]; is {
		return reason
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		if strings.HasPrefix(name, family) {
			return families[family]
		}
	}
	return "it is not one of the parameters that can be set: see docs/spec/cache.md"
}

// checkParameter returns what is wrong with a parameter beside this spec.failover.after.
func checkParameter(name, value string, after time.Duration) error {
	if reason := refused(name); reason != "" {
		return errors.New("must not be set: " + reason)
	}
	accepted := known[name]
	if name == busyReply || name == formerBusyReply {
		accepted = busyReplyFor(after)
	}
	if !accepted.accepts(value) {
		return errors.New("must be " + accepted.said)
	}
	return nil
}

// checkParameters returns what is wrong with spec.parameters: at most one problem for each, and one
// if there are too many to look at.
func checkParameters(c *databasev1.Cache, at *field.Path) field.ErrorList {
	all, bytes := c.Spec.Parameters, 0
	for name, value := range all {
		bytes += len(name) + len(value)
	}
	switch {
	case len(all) > maxParameters:
		return field.ErrorList{field.TooMany(at, len(all), maxParameters)}
	case bytes > maxParametersBytes:
		return field.ErrorList{field.TooLong(at, "", maxParametersBytes)}
	}
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := checkParameter(name, string(all[name]), failoverAfter(c)); err != nil {
			problems = append(problems, field.Invalid(at.Key(database.Shown(name)), database.Shown(string(all[name])), err.Error()))
		}
	}
	return problems
}

// parameters are those of the server: what follows from the spec, from the memory that each server
// has (see memory), and the user's. busyReply is always one of them: the server keeps the value of
// a parameter that is left out, which may be too long for another spec.failover.after.
func parameters(c *databasev1.Cache, memory int64) map[string]string {
	spec := &c.Spec
	const whole = 100
	all := map[string]string{
		"maxmemory":             strconv.FormatInt(memory*int64(spec.MaxMemoryPercent)/whole, 10),
		"maxmemory-policy":      string(spec.EvictionPolicy),
		"min-replicas-to-write": strconv.Itoa(int(spec.MinReplicasToWrite)),
		"appendonly":            "no", "save": "",
		busyReply: strconv.FormatInt(min(serverBusyReply, failoverAfter(c)-busyMargin).Milliseconds(), 10),
	}
	if spec.Persistence != nil {
		all["appendonly"], all["appendfsync"], all["save"] = "yes", "everysec", "3600 1 300 100 60 10000"
	}
	for name, value := range spec.Parameters {
		all[name] = string(value)
	}
	if value, isSet := all[formerBusyReply]; isSet {
		delete(all, formerBusyReply)
		all[busyReply] = value
	}
	return all
}

// memory is what the server of each instance may take, in bytes: spec.memory, or less while a pod
// still has the limit of an earlier spec. All instances have the same keys, so with more they would
// be killed for it together, and without persistence everything would be lost.
func memory(c *databasev1.Cache, pods []corev1.Pod) int64 {
	least := c.Spec.Memory.Value()
	for i := range pods {
		for j := range pods[i].Spec.Containers {
			container := &pods[i].Spec.Containers[j]
			limit, isLimited := container.Resources.Limits[corev1.ResourceMemory]
			if container.Name == ContainerName && isLimited {
				least = min(least, limit.Value()-programMemory.Value())
			}
		}
	}
	return max(least, leastMemory.Value())
}

// restartingParameters returns a hash of the parameters that take effect with a start of the server
// only; "" if there are none. It is part of the pods' template, so that a change replaces the pods.
func restartingParameters(c *databasev1.Cache) string {
	return database.ParametersHash(func(yield func(name, value string) bool) {
		for _, name := range slices.Sorted(maps.Keys(c.Spec.Parameters)) {
			if known[name].restarts && !yield(name, string(c.Spec.Parameters[name])) {
				return
			}
		}
	})
}
