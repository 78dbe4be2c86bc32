package valkey

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Configuration is what differs between the configuration files of servers.
type Configuration struct {
	// Data is the directory of the data, and Socket the path of our socket.
	Data, Socket string
	// Listen is the address on which clients connect, "" for all. Port is the port with TLS, and
	// PlainPort the one without; 0 means none.
	Listen          string
	Port, PlainPort int
	// Certificates is the directory of tls.crt, tls.key and ca.crt.
	Certificates string
	// Relay is the port on loopback from which a standby receives, and Token is its password there.
	Relay int
	Token string
	// Administrator, Replication and Monitor are the hashes (see Hash) of the passwords of Mainstay's
	// own users.
	Administrator, Replication, Monitor string
	// Appends is true if the server is to load its data from an append-only file.
	Appends bool
	// Parameters are the user's and derived parameters, as Accepted returns them.
	Parameters []Setting
}

// The names of Mainstay's own users.
const (
	Administrator = "mainstay"
	Replicator    = "mainstay-replication"
	Monitor       = "mainstay-monitor"
)

// The files of the data.
const (
	// Dump is the snapshot, which a clone consists of. Appended is the directory of the append-only
	// file, and Manifest is the file there without which it is not valid.
	Dump     = "dump.rdb"
	Appended = "appendonlydir"
	Manifest = "appendonly.aof.manifest"
)

// settings returns all lines but those of users and of the user's parameters.
func (c Configuration) settings() []Setting {
	number := strconv.Itoa
	list := []Setting{
		{"daemonize", "no"}, {"supervised", "no"}, {"pidfile", ""}, {"logfile", ""}, {"always-show-logo", "no"},
		{"dir", c.Data}, {"dbfilename", Dump}, {"appenddirname", Appended}, {"appendfilename", strings.TrimSuffix(Manifest, ".manifest")},
		{"unixsocket", c.Socket}, {"unixsocketperm", "700"}, {"protected-mode", "no"},
		{"port", number(c.PlainPort)}, {"tls-port", number(c.Port)}, {"tls-auth-clients", "no"},
		{"tls-cert-file", c.Certificates + "/tls.crt"}, {"tls-key-file", c.Certificates + "/tls.key"},
		{"tls-ca-cert-file", c.Certificates + "/ca.crt"},
		{"primaryuser", Replicator}, {"primaryauth", c.Token},
		// The source of a standby is always our relay on this machine, which has none at first.
		{"replica-read-only", "yes"}, {"replica-serve-stale-data", "yes"}, {"tls-replication", "no"},
		{"repl-diskless-sync", "yes"}, {"repl-diskless-sync-delay", "0"}, {"repl-diskless-load", "disabled"},
		{"repl-backlog-ttl", "0"}, {"repl-timeout", "60"},
		// A snapshot that fails is reported, and the append-only file has the data. If the volume is
		// full, writes stop only when the append-only file can't be written.
		{"stop-writes-on-bgsave-error", "no"},
		{"enable-debug-command", "no"}, {"enable-module-command", "no"}, {"enable-protected-configs", "no"},
	}
	if c.Listen != "" {
		list = append(list, Setting{"bind", c.Listen})
	}
	return list
}

// deferred are parameters whose configured value is not written: the state of the data decides when
// they take effect, such as Configuration.Appends.
var deferred = []string{"appendonly"}

// Text returns the content of the configuration file. parameters are the names of c.Parameters by
// the numbers of their lines, of which the first is 1.
func (c Configuration) Text() (text string, parameters map[int]string) {
	var lines []string
	add := func(name, value string) { lines = append(lines, name+" "+quote(value)) }
	for _, setting := range c.settings() {
		add(setting.Name, setting.Value)
	}
	lines = append(lines, fmt.Sprintf("replicaof 127.0.0.1 %d", c.Relay),
		"user default off nopass resetkeys resetchannels -@all",
		"user "+Administrator+" on #"+c.Administrator+" ~* &* +@all",
		"user "+Replicator+" on #"+c.Replication+" resetkeys resetchannels -@all +psync +replconf +ping",
		"user "+Monitor+" on #"+c.Monitor+" resetkeys resetchannels -@all +ping +info",
	)
	parameters = map[int]string{}
	for _, setting := range c.Parameters {
		if slices.Contains(deferred, setting.Name) {
			continue
		}
		add(setting.Name, setting.Value)
		parameters[len(lines)] = setting.Name
	}
	appends := "no"
	if c.Appends {
		appends = "yes"
	}
	add("appendonly", appends)
	return strings.Join(lines, "\n") + "\n", parameters
}
