package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// TestParametersTable: every line can be parsed, and none is about a refused parameter.
func TestParametersTable(t *testing.T) {
	for line := range strings.Lines(table) {
		if _, _, err := parseParameter(strings.TrimSuffix(line, "\n")); err != nil && !strings.HasPrefix(line, "#") {
			t.Errorf("%q: %v", line, err)
		}
	}
	for name, lines := range parameters() {
		until := 0
		for _, p := range lines {
			if p.since <= until || p.until < p.since || p.until > newest || p.since < oldest || (p.unit != "" && units[p.unit] == 0) ||
				Refused(name) != "" || checkSetting(Setting{Name: name}) != nil {
				t.Errorf("%s: %+v", name, p)
			}
			until = p.until
		}
	}
}

func TestCheckParameter(t *testing.T) {
	for _, test := range []struct {
		major       int
		name, value string
		want        string
	}{
		{0, "work_mem", "64MB", ""},
		{0, "work_mem", "64 MB", ""},
		{0, "work_mem", "65536", ""},
		{0, "work_mem", "1.5GB", ""},
		{0, "work_mem", "64mb", "must be a number with one of the units B, kB, MB, GB, TB"},
		{0, "work_mem", "0100", "must be a number with one of the units"},
		{0, "work_mem", "1kB", "must be from 64kB to 2147483647kB"},
		{0, "shared_buffers", "1TB", ""},
		{0, "shared_buffers", "100kB", "must be from 16 times 8kB to 1073741823 times 8kB"},
		{0, "statement_timeout", "5min", ""},
		{0, "statement_timeout", "5m", "must be a number with one of the units us, ms, s, min, h, d"},
		{0, "random_page_cost", "1.1", ""},
		{0, "random_page_cost", "1.1ms", "must be a number from 0 to 1.79769e+308, without a unit"},
		{0, "log_min_duration_statement", "-1", ""},
		{0, "max_connections", "500", ""},
		{0, "max_connections", "12", "must be from 20 to 262143"},
		{0, "jit", "ON", ""},
		{0, "jit", "maybe", "must be on or off"},
		{0, "wal_level", "logical", ""},
		{0, "wal_level", "minimal", "must be one of replica, logical"},
		{0, "log_statement", "DDL", ""},
		{0, "log_statement", "some", "must be one of none, ddl, mod, all"},
		{0, "wal_compression", "lz4", ""},
		{14, "wal_compression", "lz4", "must be on or off"},
		{0, "timezone", "Europe/Zurich", ""},
		{0, "shared_preload_libraries", "pg_stat_statements, auto_explain", ""},
		{0, "shared_preload_libraries", "", ""},
		{0, "shared_preload_libraries", "/tmp/evil", "must be a list of pg_stat_statements, auto_explain, pg_prewarm"},
		{0, "pg_stat_statements.max", "10000", ""},
		{0, "plperl.on_init", "system()", "must not be set: it names files or programs"},
		{0, "mainstay.generation", "1", "must not be set: failover depends on it"},
		{0, "work_men", "64MB", "is not a parameter of PostgreSQL 12 to 18: the most similar names are work_mem,"},
		{15, "work_men", "64MB", "is not a parameter of PostgreSQL 15: "},
		{16, "summarize_wal", "on", "is not a parameter of PostgreSQL 16: it is one of 17 to 18"},
		{17, "summarize_wal", "on", ""},
		{0, "Work_Mem", "64MB", "is not the name of a parameter"},
		{0, "work_mem", "64MB'\nfsync = off", "must be one line"},
	} {
		err := CheckParameterOf(test.major, test.name, test.value)
		if got := fmt.Sprint(err); err == nil != (test.want == "") || !strings.Contains(got, test.want) && err != nil || len(got) > 300 {
			t.Errorf("%d %s = %q: got %v, want %q", test.major, test.name, test.value, err, test.want)
		}
	}
}

// TestRefusedParameters: users can't set parameters on which the safety of the data depends, or
// that name files outside of the server's directories.
func TestRefusedParameters(t *testing.T) {
	for name := range strings.FieldsSeq(`data_directory hba_file ident_file external_pid_file config_file include include_dir include_if_exists
		listen_addresses port unix_socket_directories unix_socket_permissions unix_socket_group ssl ssl_ca_file ssl_passphrase_command
		archive_mode archive_command archive_library archive_cleanup_command restore_command recovery_target recovery_end_command
		recovery_min_apply_delay primary_conninfo primary_slot_name promote_trigger_file synchronous_commit synchronous_standby_names
		log_destination logging_collector log_directory log_filename log_line_prefix lc_messages cluster_name restart_after_crash fsync
		full_page_writes wal_log_hints hot_standby hot_standby_feedback max_wal_senders max_replication_slots event_source
		allow_alter_system allow_in_place_tablespaces zero_damaged_pages ignore_checksum_failure ignore_system_indexes
		ignore_invalid_pages data_sync_retry debug_io_direct debug_discard_caches local_preload_libraries session_preload_libraries
		dynamic_library_path jit_provider krb_server_keyfile wal_keep_size max_slot_wal_keep_size password_encryption
		idle_replication_slot_timeout superuser_reserved_connections transaction_read_only`) {
		if err := CheckParameter(name, "on"); err == nil || !strings.Contains(err.Error(), "must not be set: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCheckParameters(t *testing.T) {
	many, long := map[string]string{}, map[string]string{}
	for number := range 201 {
		many[fmt.Sprintf("a.b%d", number)] = "1"
	}
	for number := range 10 {
		long[fmt.Sprintf("a.b%d", number)] = strings.Repeat("x", 1<<10)
	}
	for want, set := range map[string]map[string]string{
		"":                                      {"work_mem": "64MB", "jit": "on"},
		"Too many: 201: must have at most 200":  many,
		"may not be more than 8192 bytes":       long,
		`[fsync]: Invalid value: "off": must`:   {"work_mem": "64MB", "fsync": "off"},
		`[jit]: Invalid value: "x": must be on`: {"work_mem": "x", "jit": "x"},
	} {
		err := CheckParameters(0, set)
		if err == nil != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || len(err.Error()) > 500) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNeedsRestart(t *testing.T) {
	for _, test := range []struct {
		major int
		name  string
		want  bool
	}{
		{17, "shared_buffers", true},
		{17, "work_mem", false},
		{17, "autovacuum_max_workers", true},
		{18, "autovacuum_max_workers", false},
		{0, "autovacuum_max_workers", true},
		{17, "pg_stat_statements.max", true},
		{0, "pg_prewarm.autoprewarm", true},
		{17, "pg_stat_statements.track", false},
		{17, "pg_prewarm.autoprewarm_interval", false},
	} {
		if got := NeedsRestart(test.major, test.name); got != test.want {
			t.Errorf("%d %s: got %t", test.major, test.name, got)
		}
	}
}

// FuzzParameter: any parameter is checked in bounded time, the error has a bounded length, and an
// accepted parameter is one line of the configuration that changes nothing else.
func FuzzParameter(f *testing.F) {
	fuzz.AddBombs(f, 17, "work_mem", "64MB")
	f.Add(0, "shared_preload_libraries", "pg_stat_statements,,")
	f.Add(12, "random_page_cost", "1e400")
	f.Fuzz(func(t *testing.T, major int, name, value string) {
		defer fuzz.Budget(t, name, value)()
		if err := CheckParameterOf(major, name, value); err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("%q = %q: %d bytes are said about it", name, value, len(err.Error()))
			}
			return
		}
		text, err := Configuration([]Setting{{name, value}})
		if err != nil || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, name+" = '") || Refused(name) != "" {
			t.Errorf("%q = %q became %q, %v", name, value, text, err)
		}
	})
}
