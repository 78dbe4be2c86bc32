package valkey

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Setting is a line of the server's configuration.
type Setting struct{ Name, Value string }

// Limits of a parameter: of its name and its value, in bytes.
const (
	maxName  = 64
	maxValue = 1 << 10
)

var parameterName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// rule refuses parameters: that of a name, or all whose names begin with it if it ends with a dash.
type rule struct{ name, reason string }

// ours are the parameters that the instance sets itself, whoever wants another value.
var ours = []rule{
	{"port", "the ports are Mainstay's: spec.plainPort has one without TLS"}, {"tls-", "certificates and TLS are Mainstay's"},
	{"bind", "the addresses are Mainstay's"}, {"bind-source-addr", "the addresses are Mainstay's"},
	{"unixsocket", "the socket is Mainstay's"}, {"unixsocketperm", "the socket is Mainstay's"},
	{"unixsocketgroup", "the socket is Mainstay's"},
	{"protected-mode", "clients always need a password"}, {"requirepass", "spec.passwordSecret has the password"},
	{"user", "the users are Mainstay's"}, {"aclfile", "the users are Mainstay's"}, {"acl-pubsub-default", "the users are Mainstay's"},
	{"rename-command", "dangerous commands are refused by the user's access rules"},
	{"enable-", "dangerous commands stay off"}, {"loadmodule", "modules are not supported"}, {"module-", "modules are not supported"},
	{"include", "the configuration has one file"}, {"dir", "the place of the data is Mainstay's"},
	{"dbfilename", "the place of the data is Mainstay's"}, {"appenddirname", "the place of the data is Mainstay's"},
	{"appendfilename", "the place of the data is Mainstay's"}, {"aof-use-rdb-preamble", "the form of the data is Mainstay's"},
	{"rdb-del-sync-files", "the form of the data is Mainstay's"}, {"rdb-version-check", "the form of the data is Mainstay's"},
	{"daemonize", "the process is Mainstay's"}, {"supervised", "the process is Mainstay's"}, {"pidfile", "the process is Mainstay's"},
	{"logfile", "the log is that of the container"}, {"syslog-", "the log is that of the container"},
	{"always-show-logo", "the log is that of the container"}, {"set-proc-title", "the process is Mainstay's"},
	{"proc-title-template", "the process is Mainstay's"}, {"cluster-", "a Cache is no cluster with shards"},
	{"replicaof", "replication is Mainstay's"}, {"slaveof", "replication is Mainstay's"}, {"primaryauth", "replication is Mainstay's"},
	{"masterauth", "replication is Mainstay's"}, {"primaryuser", "replication is Mainstay's"}, {"masteruser", "replication is Mainstay's"},
	{"replica-read-only", "replication is Mainstay's"}, {"slave-read-only", "replication is Mainstay's"},
	{"replica-serve-stale-data", "replication is Mainstay's"}, {"slave-serve-stale-data", "replication is Mainstay's"},
	{"replica-announce-", "replication is Mainstay's"}, {"slave-announce-", "replication is Mainstay's"},
	{"replica-announced", "replication is Mainstay's"}, {"replica-priority", "the election chooses the primary"},
	{"slave-priority", "the election chooses the primary"}, {"repl-diskless-", "replication is Mainstay's"},
	{"repl-backlog-ttl", "replication is Mainstay's"}, {"repl-timeout", "replication is Mainstay's"},
	{"repl-ping-", "replication is Mainstay's"}, {"dual-channel-replication-enabled", "replication is Mainstay's"},
	{"repl-mptcp", "replication is Mainstay's"}, {"rdma-", "the addresses are Mainstay's"}, {"oom-score-adj", "the process is Mainstay's"},
	{"oom-score-adj-values", "the process is Mainstay's"}, {"availability-zone", "the place of a pod is Kubernetes'"},
	{"stop-writes-on-bgsave-error", "a snapshot that fails is said in the status"},
	{"shutdown-", "the process is Mainstay's"}, {"watchdog-period", "the process is Mainstay's"},
}

func (r rule) refuses(name string) bool {
	return r.name == name || strings.HasSuffix(r.name, "-") && strings.HasPrefix(name, r.name)
}

// CheckParameter returns an error if a server must not get the parameter from the settings of an
// instance. Whether it knows the parameter, only the server can say.
func CheckParameter(name, value string) error {
	switch {
	case len(name) > maxName || !parameterName.MatchString(name):
		return fmt.Errorf("%.70q is not a parameter's name: must have at most %d lowercase letters, digits and dashes", name, maxName)
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

// Memory for replication, in bytes: what a server keeps of its writes for replicas that were away
// counts as memory of the keys, and what it keeps for one that is slow, or is being copied to,
// comes on top of that. Both follow from the memory of the keys, so that neither takes all that is
// left of the container's.
const (
	backlogShare, leastBacklog = 32, 1 << 20
	waitingShare, leastWaiting = 8, 4 << 20
)

// Reserved is how many connections a server takes beyond maxclients of the settings: those of the
// instance's program, and of the members that receive. So the number in the settings is that of
// clients.
const Reserved = 32

// withReserved returns maxclients as the server gets it.
func withReserved(value string) string {
	if clients, err := strconv.Atoi(value); err == nil {
		return strconv.Itoa(clients + Reserved)
	}
	return value
}

// defaultClients is the server's maxclients.
const defaultClients = "10000"

// derived returns the parameters that follow from the others: maxclients always, the rest if they
// say how much memory there is.
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

// Accepted returns the parameters that a server may get, with those that follow from them, in
// order, and why others are left out.
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

// quote returns a value as a configuration file has it (sdssplitargs of the server).
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
