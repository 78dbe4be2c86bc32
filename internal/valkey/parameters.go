package valkey

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Setting is one parameter in the server's configuration.
type Setting struct{ Name, Value string }

// Limits of the name and the value of a parameter, in bytes.
const (
	maxName  = 64
	maxValue = 1 << 10
)

var parameterName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// rule refuses the parameter with a name, or, if the name ends with a dash, all parameters whose
// names begin with it.
type rule struct{ name, reason string }

// ours are the parameters that users may not set, because the instance sets them itself or they
// must keep their defaults.
var ours = []rule{
	{"port", "Mainstay sets the ports: spec.plainPort adds one without TLS"}, {"tls-", "Mainstay manages certificates and TLS"},
	{"bind", "Mainstay sets the addresses"}, {"bind-source-addr", "Mainstay sets the addresses"},
	{"unixsocket", "Mainstay sets the socket"}, {"unixsocketperm", "Mainstay sets the socket"},
	{"unixsocketgroup", "Mainstay sets the socket"},
	{"protected-mode", "clients always need a password"}, {"requirepass", "spec.passwordSecret has the password"},
	{"user", "Mainstay manages the users"}, {"aclfile", "Mainstay manages the users"}, {"acl-pubsub-default", "Mainstay manages the users"},
	{"rename-command", "dangerous commands are refused by the user's access rules"},
	{"enable-", "dangerous commands stay off"}, {"loadmodule", "modules are not supported"}, {"module-", "modules are not supported"},
	{"include", "the configuration has one file"}, {"dir", "Mainstay decides where the data are"},
	{"dbfilename", "Mainstay decides where the data are"}, {"appenddirname", "Mainstay decides where the data are"},
	{"appendfilename", "Mainstay decides where the data are"}, {"aof-use-rdb-preamble", "Mainstay decides the format of the data"},
	{"rdb-del-sync-files", "Mainstay decides the format of the data"}, {"rdb-version-check", "Mainstay decides the format of the data"},
	{"daemonize", "Mainstay manages the process"}, {"supervised", "Mainstay manages the process"}, {"pidfile", "Mainstay manages the process"},
	{"logfile", "the server writes to the container's log"}, {"syslog-", "the server writes to the container's log"},
	{"always-show-logo", "the server writes to the container's log"}, {"set-proc-title", "Mainstay manages the process"},
	{"proc-title-template", "Mainstay manages the process"}, {"cluster-", "a Cache is not a cluster with shards"},
	{"replicaof", "Mainstay manages replication"}, {"slaveof", "Mainstay manages replication"},
	{"primaryauth", "Mainstay manages replication"},
	{"masterauth", "Mainstay manages replication"}, {"primaryuser", "Mainstay manages replication"},
	{"masteruser", "Mainstay manages replication"},
	{"replica-read-only", "Mainstay manages replication"}, {"slave-read-only", "Mainstay manages replication"},
	{"replica-serve-stale-data", "Mainstay manages replication"}, {"slave-serve-stale-data", "Mainstay manages replication"},
	{"replica-announce-", "Mainstay manages replication"}, {"slave-announce-", "Mainstay manages replication"},
	{"replica-announced", "Mainstay manages replication"}, {"replica-priority", "the election chooses the primary"},
	{"slave-priority", "the election chooses the primary"}, {"repl-diskless-", "Mainstay manages replication"},
	{"repl-backlog-ttl", "Mainstay manages replication"}, {"repl-timeout", "Mainstay manages replication"},
	{"repl-ping-", "Mainstay manages replication"}, {"dual-channel-replication-enabled", "Mainstay manages replication"},
	{"repl-mptcp", "Mainstay manages replication"}, {"rdma-", "Mainstay sets the addresses"},
	{"oom-score-adj", "Mainstay manages the process"},
	{"oom-score-adj-values", "Mainstay manages the process"}, {"availability-zone", "Kubernetes decides where a pod runs"},
	{"stop-writes-on-bgsave-error", "a failed snapshot is reported in the status"},
	{"shutdown-", "Mainstay manages the process"}, {"watchdog-period", "Mainstay manages the process"},
}

func (r rule) refuses(name string) bool {
	return r.name == name || strings.HasSuffix(r.name, "-") && strings.HasPrefix(name, r.name)
}

// CheckParameter returns an error if users may not set the parameter to the value. It does not
// check whether the server knows the parameter and accepts the value.
func CheckParameter(name, value string) error {
	switch {
	case len(name) > maxName || !parameterName.MatchString(name):
		return fmt.Errorf("%.70q is not the name of a parameter: must have at most %d lowercase letters, digits and dashes", name, maxName)
	case len(value) > maxValue:
		return fmt.Errorf("%s: Too long: may not be more than %d bytes", name, maxValue)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Errorf("%s: Invalid value: %.80q: must have characters of ASCII only, and no line break", name, value)
	}
	for _, rule := range ours {
		if rule.refuses(name) {
			return fmt.Errorf("%s: Forbidden: %s", name, rule.reason)
		}
	}
	return nil
}

// Memory for replication. The backlog, which keeps writes for replicas that were away, is
// 1/backlogShare of maxmemory, and at least leastBacklog bytes. It counts as memory for keys. The
// buffer for a replica that is slow or is being cloned is 1/waitingShare of maxmemory, and at least
// leastWaiting bytes. It is used in addition to the memory for keys. So neither can use up the
// container's memory.
const (
	backlogShare, leastBacklog = 32, 1 << 20
	waitingShare, leastWaiting = 8, 4 << 20
)

// Reserved is how many connections a server accepts in addition to the maxclients of the settings:
// for those of the instance manager and of members that receive. So all of maxclients is for the
// user's clients.
const Reserved = 32

// withReserved returns the maxclients of the server, with Reserved added to that of the settings.
func withReserved(value string) string {
	if clients, err := strconv.Atoi(value); err == nil {
		return strconv.Itoa(clients + Reserved)
	}
	return value
}

// defaultClients is the server's default of maxclients.
const defaultClients = "10000"

// derived returns the parameters that follow from others: maxclients always, and the limits of
// memory for replication if maxmemory is set.
func derived(parameters map[string]string) []Setting {
	memory, err := strconv.ParseInt(parameters["maxmemory"], 10, 64)
	clients := Setting{"maxclients", withReserved(defaultClients)}
	if err != nil || memory <= 0 {
		return []Setting{clients}
	}
	waiting := max(memory/waitingShare, leastWaiting)
	return []Setting{
		clients,
		{"client-output-buffer-limit", fmt.Sprintf("replica %d %d 60", waiting, waiting)},
		{"repl-backlog-size", strconv.FormatInt(max(memory/backlogShare, leastBacklog), 10)},
	}
}

// Accepted returns the user's parameters that are accepted, and those that follow from them unless
// the user has set them, both in the order of names. refused says why others are left out.
func Accepted(parameters map[string]string) (accepted []Setting, refused []error) {
	for _, setting := range derived(parameters) {
		if _, isSet := parameters[setting.Name]; !isSet {
			accepted = append(accepted, setting)
		}
	}
	for name, value := range parameters {
		if err := CheckParameter(name, value); err != nil {
			refused = append(refused, err)
			continue
		}
		if name == "maxclients" {
			value = withReserved(value)
		}
		accepted = append(accepted, Setting{name, value})
	}
	slices.SortFunc(accepted, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(refused, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return accepted, refused
}

// quote quotes a value for the configuration file (sdssplitargs of the server).
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
