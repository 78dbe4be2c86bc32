package postgres

import "strings"

// Why users may not set a parameter.
const (
	becauseElection   = "failover depends on it, and Mainstay sets it"
	becauseDurability = "durability depends on it"
	becausePlace      = "Mainstay decides where the server has its files and how it is reached"
	becauseTLS        = "Mainstay sets up TLS"
	becauseLog        = "the container's log is read, by Mainstay too"
	becauseLibrary    = "it names files or programs that every session of the server would load or run"
	becauseRecovery   = "Mainstay decides what a server recovers from, and archives"
	becauseDamage     = "it hides or causes data corruption"
	becauseDebug      = "it is for developers of the server"
	becauseAccess     = "it decides who may connect, or as whom"
	becauseSessions   = "the sessions in which Mainstay measures and leads the server need it as it is"
	becauseFile       = "it can't be set in a configuration file"
)

// refused are the parameters that users may not set. A name that ends with * stands for all names
// with that prefix. Parameters that are neither here nor in the table are refused as unknown, so
// that those of a new version can't be set until they have been reviewed.
var refused = []struct{ reason, names string }{
	{becauseElection, "hot_standby* max_standby_archive_delay max_standby_streaming_delay restart_after_crash cluster_name" +
		" allow_alter_system synchronous_standby_names synchronized_standby_slots sync_replication_slots primary_* promote_trigger_file" +
		" max_wal_senders max_replication_slots wal_sender_timeout wal_receiver_* wal_retrieve_retry_interval wal_keep_size" +
		" wal_keep_segments max_slot_wal_keep_size idle_replication_slot_timeout superuser_reserved_connections reserved_connections" +
		" update_process_title track_activities mainstay*"},
	{becauseDurability, "fsync full_page_writes synchronous_commit wal_log_hints wal_sync_method data_sync_retry"},
	{becausePlace, "data_directory* config_file hba_file ident_file external_pid_file include* listen_addresses port unix_socket_*" +
		" bonjour bonjour_name shared_memory_type dynamic_shared_memory_type stats_temp_directory"},
	{becauseTLS, "ssl ssl_*"},
	{becauseLog, "log_destination logging_collector log_directory log_filename log_file_mode log_rotation_* log_truncate_on_rotation" +
		" log_line_prefix log_error_verbosity log_min_messages lc_messages event_source syslog_*"},
	{becauseLibrary, "local_preload_libraries session_preload_libraries dynamic_library_path extension_control_path extension_destdir" +
		" output_plugin_libraries jit_provider oauth_validator_libraries plperl.*"},
	{becauseRecovery, "archive_* restore_command recovery_*"},
	{becauseDamage, "zero_damaged_pages ignore_* allow_system_table_mods allow_in_place_tablespaces session_replication_role"},
	{becauseDebug, "debug_* trace_* backtrace_functions wal_consistency_checking post_auth_delay pre_auth_delay send_abort_for_*" +
		" exit_on_error jit_debugging_support jit_dump_bitcode jit_profiling_support"},
	{becauseAccess, "krb_* gss_* db_user_namespace password_encryption"},
	{becauseSessions, "client_encoding standard_conforming_strings application_name"},
	{becauseFile, "transaction_isolation transaction_read_only transaction_deferrable role session_authorization seed is_superuser"},
}

// Refused returns why users may not set a parameter to any value; "" if they may set it.
func Refused(name string) string {
	for _, group := range refused {
		for pattern := range strings.FieldsSeq(group.names) {
			prefix, isPrefix := strings.CutSuffix(pattern, "*")
			if name == pattern || isPrefix && strings.HasPrefix(name, prefix) {
				return group.reason
			}
		}
	}
	return ""
}

// lists are the accepted values of parameters for which the server accepts others too. The
// libraries are part of the server's own sources; a library that the image lacks would keep the
// server from starting.
var lists = map[string][]string{
	"shared_preload_libraries": {"pg_stat_statements", "auto_explain", "pg_prewarm"},
	"wal_level":                {"replica", "logical"}, // With minimal, no standby can receive.
}

// leasts are the lowest accepted values of parameters for which the server accepts lower ones. The
// server does not start with fewer connections than are reserved for our own sessions.
var leasts = map[string]float64{"max_connections": 20}
