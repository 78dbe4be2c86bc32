package server

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Timeouts of the connection between leader and standby. A standby reports every second, so that
// the leader soon knows which members receive.
const (
	streamTimeout = "5s"
	retryEvery    = "200ms"
)

// How much of the log is kept for a standby that was away: a tenth of the volume, within these
// limits in MB. max_wal_size, which limits what is written between two checkpoints, has the same
// value.
const (
	keepShare = 10
	leastWAL  = 64
	mostWAL   = 1024
)

// walKeepMB returns how many MB of the log are kept for standbys that were away.
func (e *Engine) walKeepMB() int {
	if e.KeepWAL > 0 {
		return e.KeepWAL
	}
	return keptOf(volumeSize(e.Data), volumeSize(filepath.Join(e.Data, "pg_wal")), isLink(filepath.Join(e.Data, "pg_wal")))
}

// isLink reports whether the path of the log is a symbolic link, so that the log is on a volume of
// its own.
func isLink(path string) bool {
	_, err := os.Readlink(path)
	return err == nil
}

// keptOf returns how many MB of the log are kept. volume and log are the sizes in MB of the volume
// of the data and of that of the log; 0 is unknown. If the log has a volume of its own, isApart,
// its share of that is twice as large.
func keptOf(volume, log int, isApart bool) int {
	if isApart {
		volume = 2 * log
	}
	if volume <= 0 {
		return mostWAL
	}
	return min(max(volume/keepShare, leastWAL), mostWAL)
}

// volumeSize returns the size of the file system of a directory in MB; 0 if that can't be found
// out.
func volumeSize(directory string) int {
	var stat unix.Statfs_t
	if err := unix.Statfs(directory, &stat); err != nil {
		return 0
	}
	return int(stat.Blocks * uint64(stat.Bsize) >> 20) //nolint:gosec // no volume has so many megabytes, and no block a negative size
}

// isTight reports whether less than a tenth of the file system of a directory is available to us;
// false if that can't be found out.
func isTight(directory string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(directory, &stat) == nil && stat.Bavail < stat.Blocks/10
}

// checkRoom returns an error if the file system of the directory has less than needed bytes
// available to us. If that can't be found out, it returns nil, and the copy is tried.
func checkRoom(directory string, needed int64) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(directory, &stat); err != nil {
		return nil //nolint:nilerr // The copy itself says what is wrong with the volume.
	}
	free := int64(stat.Bavail) * stat.Bsize //nolint:gosec // No volume has so many bytes.
	if needed <= free {
		return nil
	}
	return fmt.Errorf("the data have %d MiB, and the volume has %d MiB free: grow the volume; or, if another instance has all the data, "+
		"delete the volume and the Pod, so that it begins with an empty one", needed>>20, free>>20)
}

// configuration is everything that determines what commits wait for, from where the server
// receives, and which clients may connect.
type configuration struct {
	// source is the leader from which a standby receives; nil means none.
	source *engine.Upstream
	rule   election.Rule
	// leads is true once the server was promoted, or was started as the leader.
	leads bool
	// clients is false while only our own sessions may connect.
	clients bool
	// needs are the lowest values of parameters with which a standby can replay: see
	// [postgres.Control.Needs].
	needs map[string]uint32
	// generation counts the changes of the configuration. It is part of the configuration, so that
	// a session can show which one the server has.
	generation int
}

// synchronous returns the value of synchronous_standby_names. While the server does not lead, it is
// never empty, even under a rule that waits for no other member: see the package's comment.
func (c configuration) synchronous() (string, error) {
	if c.rule.WaitsForNobody() && !c.leads {
		return postgres.WaitsForNobody(), nil
	}
	return postgres.Synchronous(c.rule)
}

// fixed returns the settings on which the safety of the data depends and which never change while
// the server runs. They are set on the command line, which overrides every file and ALTER SYSTEM.
func (e *Engine) fixed(major int) []postgres.Setting {
	settings := []postgres.Setting{
		{Name: "config_file", Value: e.runFile("postgresql.conf")},
		{Name: "hba_file", Value: e.runFile("pg_hba.conf")},
		{Name: "ident_file", Value: e.runFile("pg_ident.conf")},
		{Name: "unix_socket_directories", Value: e.Run}, {Name: "unix_socket_permissions", Value: "0700"},
		{Name: "listen_addresses", Value: e.Listen}, {Name: "port", Value: strconv.Itoa(e.Port)},
		{Name: "fsync", Value: "on"}, {Name: "full_page_writes", Value: "on"}, {Name: "wal_log_hints", Value: "on"},
		{Name: "hot_standby", Value: "on"}, {Name: "recovery_target_timeline", Value: "latest"},
		{Name: "recovery_min_apply_delay", Value: "0"}, {Name: "restart_after_crash", Value: "off"},
		{Name: "logging_collector", Value: "off"}, {Name: "log_destination", Value: "stderr"},
		{Name: "update_process_title", Value: "on"}, {Name: "cluster_name", Value: ""},
		{Name: "superuser_reserved_connections", Value: strconv.Itoa(postgres.ReservedConnections)},
	}
	if major < 16 {
		settings = append(settings, postgres.Setting{Name: "promote_trigger_file", Value: ""})
	}
	if major >= 17 {
		settings = append(settings, postgres.Setting{Name: "allow_alter_system", Value: "off"})
	}
	return settings
}

// text returns the content of postgresql.conf: the user's settings, and then ours, which override
// them.
func (e *Engine) text(major int, c configuration) (string, error) {
	names, err := c.synchronous()
	if err != nil {
		return "", err
	}
	source, err := e.connection(c.source)
	if err != nil {
		return "", err
	}
	slot := ""
	if c.source != nil {
		if slot, err = postgres.SlotName(e.Me()); err != nil {
			return "", err
		}
	}
	keep := []postgres.Setting{
		{Name: "wal_keep_size", Value: strconv.Itoa(e.walKeepMB()) + "MB"},
		// A clone has a slot too, and needs the log for as long as it takes: see keepSlots.
		{Name: "max_slot_wal_keep_size", Value: "-1"},
	}
	if major < 13 {
		keep = []postgres.Setting{{Name: "wal_keep_segments", Value: strconv.Itoa(e.walKeepMB() / 16)}}
	}
	ours := []postgres.Setting{
		{Name: "ssl", Value: "on"}, {Name: "ssl_cert_file", Value: filepath.Join(e.Certificates, "tls.crt")},
		{Name: "ssl_key_file", Value: filepath.Join(e.Certificates, "tls.key")},
		{Name: "ssl_ca_file", Value: filepath.Join(e.Certificates, "ca.crt")}, {Name: "ssl_min_protocol_version", Value: "TLSv1.2"},
		{Name: "synchronous_commit", Value: "on"}, {Name: "synchronous_standby_names", Value: names},
		{Name: "primary_conninfo", Value: source}, {Name: "primary_slot_name", Value: slot}, {Name: "restore_command", Value: ""},
		{Name: "max_wal_senders", Value: "20"}, {Name: "max_replication_slots", Value: "20"},
		{Name: "wal_sender_timeout", Value: streamTimeout}, {Name: "wal_receiver_timeout", Value: streamTimeout},
		{Name: "wal_receiver_status_interval", Value: "1s"}, {Name: "wal_retrieve_retry_interval", Value: retryEvery},
		{Name: "lc_messages", Value: "C"}, {Name: "password_encryption", Value: "scram-sha-256"},
		{Name: "hot_standby_feedback", Value: "off"}, {Name: "max_standby_streaming_delay", Value: patience(c.source)},
		{Name: "max_standby_archive_delay", Value: patience(c.source)}, {Name: "archive_mode", Value: "off"},
		{Name: "mainstay.generation", Value: strconv.Itoa(c.generation)},
	}
	return postgres.Configuration(slices.Concat(e.settable(major, c), ours, keep))
}

// settable returns the settings that a user may change: our defaults, then the user's, then those
// that a standby needs. With a logical slot, the server does not start with another wal_level,
// whatever the user has set since.
func (e *Engine) settable(major int, c configuration) []postgres.Setting {
	settings := append([]postgres.Setting{
		{Name: "max_connections", Value: "100"}, {Name: "shared_buffers", Value: "128MB"}, {Name: "timezone", Value: "UTC"},
		{Name: "log_timezone", Value: "UTC"}, {Name: "jit", Value: "off"}, {Name: "wal_level", Value: "replica"},
		{Name: "tcp_keepalives_idle", Value: "10"},
		{Name: "max_wal_size", Value: strconv.Itoa(e.walKeepMB()) + "MB"}, {Name: "min_wal_size", Value: strconv.Itoa(leastWAL) + "MB"},
	}, e.parameters(major)...)
	if hasLogicalSlot(e.Data) {
		settings = append(settings, postgres.Setting{Name: "wal_level", Value: "logical"})
	}
	return append(settings, postgres.Raise(settings, c.needs)...)
}

// patience returns how long the replay waits for queries that it conflicts with. Without a source
// it does not wait, because the final position depends on the replay.
func patience(source *engine.Upstream) string {
	if source == nil {
		return "0"
	}
	return "30s"
}

// quote quotes a text as a string literal of SQL.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// connection returns the primary_conninfo for a source; "" for none.
func (e *Engine) connection(from *engine.Upstream) (string, error) {
	if from == nil {
		return "", nil
	}
	name, err := postgres.ApplicationName(e.Me())
	if err != nil {
		return "", err
	}
	settings := []postgres.Setting{{Name: "host", Value: certified(*from)}}
	if certified(*from) != from.Host {
		settings = append(settings, postgres.Setting{Name: "hostaddr", Value: from.Host})
	}
	keys := e.keys(from.Term)
	return postgres.Connection(append(settings, []postgres.Setting{
		{Name: "port", Value: strconv.Itoa(e.Port)},
		{Name: "user", Value: postgres.ReplicationRole}, {Name: "application_name", Value: name},
		{Name: "sslmode", Value: "verify-full"}, {Name: "sslrootcert", Value: filepath.Join(keys, "ca.crt")},
		{Name: "sslcert", Value: filepath.Join(keys, "tls.crt")}, {Name: "sslkey", Value: filepath.Join(keys, "tls.key")},
		{Name: "connect_timeout", Value: "2"}, {Name: "tcp_user_timeout", Value: "5000"},
		{Name: "keepalives_idle", Value: "2"}, {Name: "keepalives_interval", Value: "1"}, {Name: "keepalives_count", Value: "3"},
	}...))
}

// certified returns the name that the leader's certificate must have: the DNS name by which the
// leader is reached, or, if it is reached by an IP address, which may later be another pod's, the
// name of its pod.
func certified(from engine.Upstream) string {
	if _, err := netip.ParseAddr(from.Host); err == nil {
		return from.Leader.Name
	}
	return from.Host
}

func (e *Engine) runFile(name string) string { return filepath.Join(e.Run, name) }

// keys returns the directory of the key with which the server receives in a term.
func (e *Engine) keys(term uint64) string {
	return filepath.Join(e.Run, "upstream", strconv.FormatUint(term, 10))
}

// writeKeys copies our certificate and key to the directory from which the server takes them in a
// term.
func (e *Engine) writeKeys(term uint64) error {
	directory := e.keys(term)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("making the directory for the stream's key: %w", err)
	}
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		content, err := os.ReadFile(filepath.Join(e.Certificates, name))
		if err != nil {
			return fmt.Errorf("reading the instance's certificate: %w", err)
		}
		if err := writeFile(filepath.Join(directory, name), content); err != nil {
			return err
		}
	}
	return nil
}

// removeKeys removes the keys of all terms.
func (e *Engine) removeKeys() error {
	if err := os.RemoveAll(e.runFile("upstream")); err != nil {
		return fmt.Errorf("removing the stream's key: %w", err)
	}
	return nil
}

// configure writes the configuration files. It empties the file that ALTER SYSTEM writes, which
// servers before version 17 allow, so that such changes do not last.
func (e *Engine) configure(major int, c configuration) error {
	text, err := e.text(major, c)
	if err != nil {
		return fmt.Errorf("configuring the server: %w", err)
	}
	automatic := filepath.Join(e.Data, "postgresql.auto.conf")
	if content, err := os.ReadFile(automatic); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading what ALTER SYSTEM wrote: %w", err)
	} else if len(content) > 0 {
		if err := writeFile(automatic, nil); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"postgresql.conf": text, "pg_hba.conf": postgres.Access(c.clients, c.leads, e.access()), "pg_ident.conf": postgres.Identities(),
	} {
		if err := writeFile(e.runFile(name), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}
