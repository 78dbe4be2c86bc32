package postgresql

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/test/schema"
)

// mistake is an edit of the smallest PostgreSQL, one line of its spec, and the error that a user
// gets.
type mistake struct{ Edit, Field, Says string }

const (
	wantVersion  = `must be one of "12", "13", "14", "15", "16", "17" and "18", for example "17"`
	wantImage    = "must be an image reference: [registry[:port]/]path[:tag][@digest], the path in lower case, for example registry.example.com/postgresql:17.11"
	wantReplicas = "must be from 1 to 5"
	wantName     = "must be letters, digits, _ and -, beginning with a letter or _; at most 63 characters"
	wantStorage  = "must be a quantity of at least 512Mi, for example 10Gi"
	wantLog      = "must be a quantity of at least 512Mi, for example 5Gi"
	wantAfter    = "must be from 5s to 5m, in whole seconds, for example 11s"
	wantClock    = "must be hours and minutes, from 00:00 to 23:59, for example 21:00"
	wantSchedule = "must be five fields with a space between them"
	wantKept     = "must be from 1d to 3650d, or from 1w to 521w, for example 30d"
	wantLabel    = "must not set app, app.kubernetes.io/* except version"
	ofMainstay   = "must not be set: failover depends on it, and Mainstay sets it"
)

// mistakes are the edits of a new PostgreSQL.
var mistakes = []mistake{
	// The version.
	{`version: "11"`, "spec.version", `Invalid value: "11": ` + wantVersion},
	{`version: "19"`, "spec.version", `Invalid value: "19": ` + wantVersion},
	{`version: ""`, "spec.version", `Invalid value: "": ` + wantVersion},
	{`version: "1"`, "spec.version", `Invalid value: "1": ` + wantVersion},
	{`version: "17.2"`, "spec.version", `Invalid value: "17.2": ` + wantVersion},
	{`version: latest`, "spec.version", `Invalid value: "latest": ` + wantVersion},
	{`version: "` + strings.Repeat("1", 33) + `"`, "spec.version", "Too long: may not be more than 32 bytes"},
	{`version: 17`, "spec.version", `spec.version in body must be of type string: "integer"`},
	{`version: null`, "spec.version", `must be of type string: "null"`},
	// The image.
	{`image: A B`, "spec.image", `Invalid value: "A B": ` + wantImage},
	{`image: https://r.io/pg:17`, "spec.image", `Invalid value: "https://r.io/pg:17": ` + wantImage},
	{`image: r.io/PG:17`, "spec.image", `Invalid value: "r.io/PG:17": ` + wantImage},
	{`image: "r.io/pg:17@sha256:12"`, "spec.image", `Invalid value: "r.io/pg:17@sha256:12": ` + wantImage},
	{`image: under_score.io/pg:17`, "spec.image", `Invalid value: "under_score.io/pg:17": must be an image reference, ` +
		`[registry[:port]/]path[:tag][@digest], with the path in lower case: the host of a registry must not have an underscore`},
	{`image: ` + strings.Repeat("a", 513), "spec.image", "Too long: may not be more than 512 bytes"},
	// Pull Secrets.
	{`imagePullSecrets: [pull]`, "spec.imagePullSecrets[0]", `must be of type object: "string"`},
	{`imagePullSecrets: [{name: a}, {name: a}]`, "spec.imagePullSecrets[1]", `Duplicate value: {"name":"a"}`},
	{`imagePullSecrets: [` + strings.Repeat("{name: a},", 17) + `]`, "spec.imagePullSecrets", "Too many: 17: must have at most 16 items"},
	// Instances.
	{`replicas: 0`, "spec.replicas", `Invalid value: 0: ` + wantReplicas},
	{`replicas: 6`, "spec.replicas", `Invalid value: 6: ` + wantReplicas},
	{`replicas: -1`, "spec.replicas", `Invalid value: -1: ` + wantReplicas},
	{`replicas: 1.5`, "spec.replicas", `spec.replicas in body must be of type int32`},
	{`replicas: three`, "spec.replicas", `Invalid value: "string": spec.replicas in body must be of type integer: "string"`},
	{`replicas: 99999999999`, "spec.replicas", `Invalid value: 99999999999: `},
	// Growth.
	{`autoGrow: {}`, "spec.autoGrow.limit", `Required value`},
	{`autoGrow: {limit: 512Mi}`, "spec.autoGrow.limit", `Invalid value: "512Mi": must be from spec.storage, 1Gi, to 1Pi`},
	{`autoGrow: {limit: 100Mi}`, "spec.autoGrow.limit", `Invalid value: "100Mi": must be a quantity of at least 512Mi`},
	{`autoGrow: {limit: 2000000Gi}`, "spec.autoGrow.limit", `must be from spec.storage, 1Gi, to 1Pi`},
	{`autoGrow: {limit: 20Gi, from: 49}`, "spec.autoGrow.from", `Invalid value: 49: must be from 50 to 95`},
	{`autoGrow: {limit: 20Gi, by: 101}`, "spec.autoGrow.by", `Invalid value: 101: must be from 5 to 100`},
	// Pooler.
	{`pooler: {instances: 0}`, "spec.pooler.instances", `Invalid value: 0: must be from 1 to 10`},
	{`pooler: {instances: 11}`, "spec.pooler.instances", `Invalid value: 11: must be from 1 to 10`},
	{`pooler: {mode: Statement}`, "spec.pooler.mode", `Unsupported value: "Statement": supported values: "Transaction", "Session"`},
	{`pooler: {poolSize: 0}`, "spec.pooler.poolSize", `Invalid value: 0: must be from 1 to 1000`},
	{`pooler: {poolSize: 60}`, "spec.pooler.poolSize", `Invalid value: 60: must be at most 43: 2 instances of the pooler share max_connections`},
	{`pooler: {maxClients: 20001}`, "spec.pooler.maxClients", `Invalid value: 20001: must be from 1 to 20000`},
	{`pooler: {ignoreStartupParameters: ["a b"]}`, "spec.pooler.ignoreStartupParameters[0]", `Invalid value: "a b": must be the name of a parameter, for example search_path`},
	{`pooler: {ignoreStartupParameters: ["a\nadmin_users = app"]}`, "spec.pooler.ignoreStartupParameters[0]", `must be the name of a parameter`},
	{`pooler: {ignoreStartupParameters: [options]}`, "spec.pooler.ignoreStartupParameters[0]", `Invalid value: "options": must be a parameter that PgBouncer would refuse, for example search_path: this one must not be ignored`},
	{`pooler: {ignoreStartupParameters: [jit, TimeZone]}`, "spec.pooler.ignoreStartupParameters[1]", `Invalid value: "TimeZone": must be a parameter that PgBouncer would refuse`},
	{`pooler: {ignoreStartupParameters: [_pq_.x]}`, "spec.pooler.ignoreStartupParameters[0]", `must be the name of a parameter`},
	{`pooler: {ignoreStartupParameters: [jit, jit]}`, "spec.pooler.ignoreStartupParameters[1]", `Duplicate value: "jit"`},
	{`pooler: {ignoreStartupParameters: [` + strings.Repeat("a", 64) + `]}`, "spec.pooler.ignoreStartupParameters[0]", "Too long: may not be more than 63 bytes"},
	{`pooler: {ignoreStartupParameters: [` + strings.Repeat("a,", 21) + `]}`, "spec.pooler.ignoreStartupParameters", "Too many: 21: must have at most 20 items"},
	{`pooler: {image: "a b"}`, "spec.pooler.image", `Invalid value: "a b": must be an image reference`},
	{`pooler: {resources: {limits: {memory: -1Mi}}}`, "spec.pooler.resources.limits.memory", ``},
	{`pooler: yes please`, "spec.pooler", `must be of type object`},
	// Databases and users.
	{`users: [{name: 'a"b'}]`, "spec.users[0].name", `Invalid value: "a\"b": ` + wantName},
	{`users: [{name: "a\nb"}]`, "spec.users[0].name", `Invalid value: "a\nb": ` + wantName},
	{`users: [{name: ` + strings.Repeat("a", 64) + `}]`, "spec.users[0].name", "Too long: may not be more than 63 bytes"},
	{`users: [{name: postgres}]`, "spec.users[0].name", `Invalid value: "postgres": is the server's or Mainstay's own: choose another name`},
	{`users: [{name: a}, {name: a}]`, "spec.users[1]", `Duplicate value: {"name":"a"}`},
	{`users: [{name: a, roles: [b]}, {name: b, roles: [c]}, {name: c, roles: [app, a]}]`, "spec.users[2].roles[1]", `Invalid value: "a": is a member of c itself`},
	{`users: [{name: a, roles: [nobody]}]`, "spec.users[0].roles[0]", `Invalid value: "nobody": must be app, one of spec.users, or one of`},
	{`users: [{name: a, connectionLimit: -1}]`, "spec.users[0].connectionLimit", "should be greater than or equal to 0"},
	{`users: [{name: a_b}]`, "spec.users[0].secretName", "Required value: the default, db-a_b, is not a valid name of a Secret"},
	{`databases: [{name: template1}]`, "spec.databases[0].name", `Invalid value: "template1": is the server's or Mainstay's own: choose another name`},
	{`databases: [{name: a, owner: b}]`, "spec.databases[0].owner", `Invalid value: "b": must be app or one of spec.users`},
	{`databases: [{name: app, reclaim: Delete}]`, "spec.databases[0].reclaim", `the database app always exists: it can't be dropped`},
	{`databases: [{name: a, extensions: ["x;y"]}]`, "spec.databases[0].extensions[0]", `Invalid value: "x;y": must be the name of an extension`},
	{`databases: [{name: a, reclaim: Drop}]`, "spec.databases[0].reclaim", `Unsupported value: "Drop"`},
	// Storage.
	{`storage: 10 GB`, "spec.storage", `Invalid value: "10 GB": ` + wantStorage},
	{`storage: large`, "spec.storage", `Invalid value: "large": ` + wantStorage},
	{`storage: ""`, "spec.storage", `Invalid value: "": ` + wantStorage},
	{`storage: 511Mi`, "spec.storage", `Invalid value: "511Mi": ` + wantStorage},
	{`storage: -1Gi`, "spec.storage", `Invalid value: "-1Gi": ` + wantStorage},
	{`storage: 1000m`, "spec.storage", `Invalid value: "1000m": ` + wantStorage},
	{`storage: 2Pi`, "spec.storage", `Invalid value: "2Pi": must be from 512Mi to 1Pi, for example 10Gi`},
	{`storage: 1e999`, "spec.storage", `Invalid value: "1e999"`},
	{`storage: "` + strings.Repeat("9", 41) + `"`, "spec.storage", "spec.storage in body should match"},
	{`storage: null`, "spec.storage", `must be of type integer,string: "null"`},
	{`storageClassName: ` + strings.Repeat("a", 254), "spec.storageClassName", "Too long: may not be more than 253 bytes"},
	{`storageClassName: Fast SSD`, "spec.storageClassName", `Invalid value: "Fast SSD": must be the name of a StorageClass`},
	{`walStorage: {size: 1Mi}`, "spec.walStorage.size", `Invalid value: "1Mi": ` + wantLog},
	{`walStorage: {size: big}`, "spec.walStorage.size", `Invalid value: "big": ` + wantLog},
	{`walStorage: {size: 2Pi}`, "spec.walStorage.size", `Invalid value: "2Pi": must be from 512Mi to 1Pi, for example 5Gi`},
	{`walStorage: {storageClassName: fast}`, "spec.walStorage.size", "Required value"},
	{`walStorage: {size: 5Gi, storageClassName: Fast SSD}`, "spec.walStorage.storageClassName",
		`Invalid value: "Fast SSD": must be the name of a StorageClass`},
	// Resources.
	{`resources: {limits: {memory: 64Mi}}`, "spec.resources.limits.memory", `Invalid value: "64Mi": must be at least 192Mi: the server needs it to start`},
	{`resources: {limits: {memory: much}}`, "spec.resources.limits.memory", `Invalid value: "much"`},
	{`resources: {limits: {cpu: -1}}`, "spec.resources.limits.cpu", `Invalid value: "-1": must be 0 or more`},
	{`resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}`, "spec.resources.requests.memory",
		`Invalid value: "2Gi": must be at most the limit, 1Gi`},
	{`resources: {requests: {cpu: 2}, limits: {cpu: 500m}}`, "spec.resources.requests.cpu", `Invalid value: "2": must be at most the limit, 500m`},
	// Parameters that are ours, dangerous, unknown, or have a bad value.
	{`parameters: {primary_conninfo: host=x}`, "spec.parameters[primary_conninfo]", `Invalid value: "host=x": ` + ofMainstay},
	{`parameters: {synchronous_standby_names: "*"}`, "spec.parameters[synchronous_standby_names]", `Invalid value: "*": ` + ofMainstay},
	{`parameters: {fsync: "off"}`, "spec.parameters[fsync]", `Invalid value: "off": must not be set: durability depends on it`},
	{`parameters: {synchronous_commit: "off"}`, "spec.parameters[synchronous_commit]", `must not be set: durability depends on it`},
	{`parameters: {port: "5433"}`, "spec.parameters[port]", `Invalid value: "5433": must not be set: Mainstay decides where the server has its files`},
	{`parameters: {ssl: "off"}`, "spec.parameters[ssl]", `Invalid value: "off": must not be set: Mainstay sets up TLS`},
	{`parameters: {log_directory: /tmp}`, "spec.parameters[log_directory]", `Invalid value: "/tmp": must not be set: the container's log is read`},
	{`parameters: {archive_command: rm -rf /}`, "spec.parameters[archive_command]", `Invalid value: "rm -rf /": must not be set: Mainstay decides what a server recovers from`},
	{`parameters: {session_preload_libraries: evil}`, "spec.parameters[session_preload_libraries]", `must not be set: it names files or programs`},
	{`parameters: {shared_preload_libraries: evil}`, "spec.parameters[shared_preload_libraries]",
		`Invalid value: "evil": must be a list of pg_stat_statements, auto_explain, pg_prewarm`},
	{`parameters: {zero_damaged_pages: "on"}`, "spec.parameters[zero_damaged_pages]", `must not be set: it hides or causes data corruption`},
	{`parameters: {debug_assertions: "on"}`, "spec.parameters[debug_assertions]", `must not be set: it is for developers of the server`},
	{`parameters: {password_encryption: md5}`, "spec.parameters[password_encryption]", `Invalid value: "md5": must not be set: it decides who may connect`},
	{`parameters: {application_name: x}`, "spec.parameters[application_name]", `must not be set: the sessions in which Mainstay measures`},
	{`parameters: {role: postgres}`, "spec.parameters[role]", `must not be set: it can't be set in a configuration file`},
	{`parameters: {workmem: 1MB}`, "spec.parameters[workmem]", `Invalid value: "1MB": is not a parameter of PostgreSQL 17: the most similar names are work_mem`},
	{`parameters: {Work_Mem: 1MB}`, "spec.parameters[Work_Mem]", `Invalid value: "1MB": `},
	{`parameters: {"work mem": 1MB}`, "spec.parameters[work mem]", `Invalid value: "1MB": `},
	{`parameters: {work_mem: 1 Mb}`, "spec.parameters[work_mem]", `Invalid value: "1 Mb": must be a number with one of the units B, kB, MB, GB, TB`},
	{`parameters: {work_mem: 1kB}`, "spec.parameters[work_mem]", `Invalid value: "1kB": must be from 64kB to 2147483647kB`},
	{`parameters: {work_mem: "1\n2"}`, "spec.parameters[work_mem]", `Invalid value: "1\n2": `},
	{`parameters: {max_connections: many}`, "spec.parameters[max_connections]", `Invalid value: "many": must be a number from 1 to 262143, without a unit`},
	{`parameters: {max_connections: "5"}`, "spec.parameters[max_connections]", `Invalid value: "5": must be from 20 to 262143`},
	{`parameters: {autovacuum: maybe}`, "spec.parameters[autovacuum]", `Invalid value: "maybe": must be on or off`},
	{`parameters: {wal_level: minimal}`, "spec.parameters[wal_level]", `Invalid value: "minimal": must be one of replica, logical`},
	{`parameters: {work_mem: 8}`, "spec.parameters.work_mem", `must be of type string: "integer"`},
	{`parameters: {work_mem: "` + strings.Repeat("1", 1025) + `"}`, "spec.parameters.work_mem", "Too long: may not be more than 1024 bytes"},
	{`parameters: {` + numbered(201) + `}`, "spec.parameters", "Too many: 201: must have at most 200 items"},
	{`parameters: {` + sized(9, 1000) + `}`, "spec.parameters", "Too long: may not be more than 8192 bytes"},
	// Durability and failover.
	{`durability: Quorum`, "spec.durability", `Unsupported value: "Quorum": supported values: "Required", "Preferred", "Asynchronous"`},
	{`durability: required`, "spec.durability", `Unsupported value: "required": supported values: "Required", "Preferred", "Asynchronous"`},
	{`failover: {after: 4s}`, "spec.failover.after", `Invalid value: "4s": ` + wantAfter},
	{`failover: {after: 5m1s}`, "spec.failover.after", `Invalid value: "5m1s": ` + wantAfter},
	{`failover: {after: soon}`, "spec.failover.after", `Invalid value: "soon": ` + wantAfter},
	{`failover: {after: "11"}`, "spec.failover.after", `Invalid value: "11": ` + wantAfter},
	{`failover: {after: 10.5s}`, "spec.failover.after", `Invalid value: "10.5s": ` + wantAfter},
	{`failover: {after: 11}`, "spec.failover.after", `must be of type string: "integer"`},
	{`failover: {after: ` + strings.Repeat("1", 17) + `s}`, "spec.failover.after", "Too long: may not be more than 16 bytes"},
	{`failover: {acceptLoss: -1}`, "spec.failover.acceptLoss", "Invalid value: -1: spec.failover.acceptLoss in body should be greater than or equal to 0"},
	{`failover: {acceptLoss: "yes"}`, "spec.failover.acceptLoss", `must be of type integer: "string"`},
	// Backups.
	{`backup: {schedule: nightly}`, "spec.backup.schedule", `Invalid value: "nightly": ` + wantSchedule},
	{`backup: {schedule: "@every 1h"}`, "spec.backup.schedule", `Invalid value: "@every 1h": ` + wantSchedule},
	{`backup: {schedule: 0 2 * *}`, "spec.backup.schedule", `Invalid value: "0 2 * *": ` + wantSchedule},
	{`backup: {schedule: 61 2 * * *}`, "spec.backup.schedule", `Invalid value: "61 2 * * *": end of range (61) above maximum (59): 61: must be a schedule as in a CronJob`},
	{`backup: {schedule: 0 0 30 2 *}`, "spec.backup.schedule", `Invalid value: "0 0 30 2 *": never occurs: must be a schedule as in a CronJob`},
	{`backup: {schedule: TZ=UTC 0 2 * *}`, "spec.backup.schedule", `Invalid value: "TZ=UTC 0 2 * *": ` + wantSchedule},
	{`backup: {retention: "30"}`, "spec.backup.retention", `Invalid value: "30": ` + wantKept},
	{`backup: {retention: 3651d}`, "spec.backup.retention", `Invalid value: "3651d": ` + wantKept},
	{`backup: {retention: 0d}`, "spec.backup.retention", `Invalid value: "0d": ` + wantKept},
	{`backup: {retention: 30 days}`, "spec.backup.retention", "Too long: may not be more than 5 bytes"},
	{`backup: {enabled: "yes"}`, "spec.backup.enabled", `must be of type boolean: "string"`},
	// Placement and pods.
	{`topologySpread: Always`, "spec.topologySpread", `Unsupported value: "Always": supported values: "Preferred", "Required", "Disabled"`},
	{`nodeSelector: {disk: 1}`, "spec.nodeSelector.disk", `must be of type string: "integer"`},
	{`nodeSelector: {"my disk": ssd}`, "spec.nodeSelector[my disk]", `Invalid value: "my disk": must be a label key`},
	{`nodeSelector: {disk: my ssd}`, "spec.nodeSelector[disk]", `Invalid value: "my ssd": must be a label value`},
	{`tolerations: [{key: a, operator: Is}]`, "spec.tolerations[0].operator", `Unsupported value: "Is": supported values: "Equal", "Exists"`},
	{`tolerations: [{operator: Exists, value: x}]`, "spec.tolerations[0].value", `Invalid value: "x": must be empty with the operator Exists`},
	{`tolerations: [{key: a, effect: Never}]`, "spec.tolerations[0].effect",
		`Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
	{`tolerations: [` + strings.Repeat("{key: a},", 65) + `]`, "spec.tolerations", "Too many: 65: must have at most 64 items"},
	{`priorityClassName: ` + strings.Repeat("a", 254), "spec.priorityClassName", "Too long: may not be more than 253 bytes"},
	{`priorityClassName: Very High`, "spec.priorityClassName", `Invalid value: "Very High": must be the name of a PriorityClass`},
	{`labels: {app: x}`, "spec.labels", wantLabel},
	{`labels: {pod-template-hash: x}`, "spec.labels", wantLabel},
	{`labels: {team: my team}`, "spec.labels[team]", `Invalid value: "my team": must be a label value`},
	{`labels: {"my team": x}`, "spec.labels", `label keys must be [domain/]name`},
	{`annotations: {mainstay.dev/adopt: x}`, "spec.annotations", "annotation keys must be [domain/]name"},
	{`runAsUser: 0`, "spec.runAsUser", "Invalid value: 0: spec.runAsUser in body should be greater than or equal to 1"},
	{`runAsUser: 4294967295`, "spec.runAsUser", "Invalid value: 4294967295: spec.runAsUser in body should be less than or equal to 4294967294"},
	{`runAsUser: postgres`, "spec.runAsUser", `must be of type integer: "string"`},
	{`deletionPolicy: Keep`, "spec.deletionPolicy", `Unsupported value: "Keep": supported values: "Retain", "Delete"`},
	// When something happens.
	{`rollout: {window: {start: "25:00", end: "04:00"}}`, "spec.rollout.window.start", `Invalid value: "25:00": ` + wantClock},
	{`rollout: {window: {start: "22:00", end: 4am}}`, "spec.rollout.window.end", `Invalid value: "4am": ` + wantClock},
	{`rollout: {window: {start: "22:00", end: "22:00"}}`, "spec.rollout.window", "end must differ from start; omit the window to allow all times"},
	{`rollout: {window: {start: "22:00"}}`, "spec.rollout.window.end", "Required value"},
	{`rollout: {window: {start: "22:00", end: "04:00", days: [Monday]}}`, "spec.rollout.window.days[0]", `Unsupported value: "Monday": supported values: "Mon"`},
	{`rollout: {window: {start: "22:00", end: "04:00", timeZone: Berlin}}`, "spec.rollout.window.timeZone", `Invalid value: "Berlin": `},
	{`initSQL: [{}]`, "spec.initSQL[0]", "must have exactly one of sql, configMapKeyRef or secretKeyRef"},
	{`initSQL: [{sql: SELECT 1, secretKeyRef: {name: a, key: b}}]`, "spec.initSQL[0]", "must have exactly one of sql, configMapKeyRef or secretKeyRef"},
	{`initSQL: [{configMapKeyRef: {name: a, key: "b c"}}]`, "spec.initSQL[0].configMapKeyRef.key", `Invalid value: "b c": must be a key of a ConfigMap`},
	{`initSQL: [{secretKeyRef: {name: A, key: b}}]`, "spec.initSQL[0].secretKeyRef.name", `Invalid value: "A": must be the name of a Secret`},
	{`initSQL: [{sql: " "}]`, "spec.initSQL[0].sql", `Invalid value: " ": must have a statement`},
	{`initSQL: [{sql: "SELECT '\0'"}]`, "spec.initSQL[0].sql", `must be UTF-8 without NUL`},
	{`initSQL: [{sql: ` + strings.Repeat("a", 65537) + `}]`, "spec.initSQL[0].sql", "Too long: may not be more than 65536 bytes"},
	{`initSQL: [{sql: ` + strings.Repeat("a", 40000) + `}, {sql: ` + strings.Repeat("a", 40000) + `}]`, "spec.initSQL", "Too long: may not be more than 65536 bytes"},
	{`initSQL: [` + strings.Repeat("{sql: SELECT 1},", 17) + `]`, "spec.initSQL", "Too many: 17: must have at most 16 items"},
	{`pgHBA: ["host all all all scram-sha-256"]`, "spec.pgHBA[0]", `must begin with hostssl: connections have TLS`},
	{`pgHBA: ["hostssl all all all reject", "hostssl all all all trust"]`, "spec.pgHBA[1]",
		`Invalid value: "hostssl all all all trust": the method must be scram-sha-256, cert or reject`},
	{`pgHBA: ["hostssl a b all ` + strings.Repeat("c", 500) + `"]`, "spec.pgHBA[0]", "Too long: may not be more than 512 bytes"},
	{`pgHBA: [` + strings.Repeat(`"hostssl all all all reject",`, 33) + `]`, "spec.pgHBA", "Too many: 33: must have at most 32 items"},
	{`pgHBA: [1]`, "spec.pgHBA[0]", `must be of type string: "integer"`},
	{`users: [{name: b, rotateEvery: 59m}]`, "spec.users[0].rotateEvery", `Invalid value: "59m": must be from 1h to 17520h, for example 720h`},
	{`users: [{name: b, rotateEvery: monthly}]`, "spec.users[0].rotateEvery", `Invalid value: "monthly": must be from 1h to 17520h, for example 720h`},
	{`users: [{name: b, rotateEvery: 30d}]`, "spec.users[0].rotateEvery", `Invalid value: "30d": must be from 1h to 17520h, for example 720h`},
	{`users: [{name: b, rotateEvery: 24h, overlap: 24h}]`, "spec.users[0].rotateEvery", `Invalid value: "24h": must be longer than overlap, which is 24h`},
	{`users: [{name: b, rotateEvery: 1h}]`, "spec.users[0].rotateEvery", `Invalid value: "1h": must be longer than overlap, which is 1h`},
	{`users: [{name: b, overlap: 59s}]`, "spec.users[0].overlap", `Invalid value: "59s": must be from 1m to 720h, for example 1h`},
	{`users: [{name: b, overlap: 721h}]`, "spec.users[0].overlap", `Invalid value: "721h": must be from 1m to 720h, for example 1h`},
	{`users: [{name: b, overlap: ` + strings.Repeat("1", 17) + `s}]`, "spec.users[0].overlap", "Too long: may not be more than 16 bytes"},
	{`users: [{name: b, rotatedAt: now}]`, "spec.users[0].rotatedAt", `Invalid value: "now": spec.users[0].rotatedAt in body must be of type date-time: "now"`},
	{`users: [{name: b, passwordSecret: {name: s, key: k}, rotateEvery: 24h}]`, "spec.users[0].rotateEvery", "Mainstay does not make the password of passwordSecret"},
	{`users: [{name: b, passwordSecret: {name: s, key: k}, rotatedAt: "2026-01-31T12:00:00Z"}]`, "spec.users[0].rotatedAt",
		"Mainstay does not make the password of passwordSecret"},
	{`restartedAt: now`, "spec.restartedAt", `Invalid value: "now": spec.restartedAt in body must be of type date-time: "now"`},
	{`switchoverAt: 2026-01-31`, "spec.switchoverAt", `Invalid value: "2026-01-31": spec.switchoverAt in body must be of type date-time: "2026-01-31"`},
	{`preferredPrimary: db-1`, "spec.preferredPrimary", `Unsupported value: "db-1": supported values: "db-0"`},
	{`preferredPrimary: ` + strings.Repeat("a", 64), "spec.preferredPrimary", "Too long: may not be more than 63 bytes"},
	{`paused: "no"`, "spec.paused", `must be of type boolean: "string"`},
	{`hibernated: "no"`, "spec.hibernated", `must be of type boolean: "string"`},
}

// changes are the edits of a PostgreSQL that exists, after those before the arrow.
var changes = []mistake{
	{`version: "17" -> version: "18"`, "spec.version", "spec.version can't change: another major version needs a dump and a restore into a new PostgreSQL"},
	{`storage: 2Gi -> storage: 1Gi`, "spec.storage", "spec.storage can't shrink: volumes only grow"},
	{`storageClassName: slow -> storageClassName: fast`, "spec.storageClassName", "spec.storageClassName can't change: the volumes exist"},
	{`replicas: 1 -> storageClassName: fast`, "spec.storageClassName", "spec.storageClassName can't change: the volumes exist"},
	{`runAsUser: 1000 -> runAsUser: 70`, "spec.runAsUser", "spec.runAsUser can't change: the data belong to that user"},
	{`replicas: 1 -> runAsUser: 70`, "spec.runAsUser", "spec.runAsUser can't change: the data belong to that user"},
	{`replicas: 1 -> walStorage: {size: 5Gi}`, "spec.walStorage", "spec.walStorage can't be added or removed"},
	{`walStorage: {size: 5Gi} -> replicas: 1`, "spec.walStorage", "spec.walStorage can't be added or removed"},
	{`walStorage: {size: 5Gi} -> walStorage: {size: 4Gi}`, "spec.walStorage.size", "spec.walStorage.size can't shrink: volumes only grow"},
	{`walStorage: {size: 5Gi} -> walStorage: {size: 5Gi, storageClassName: fast}`, "spec.walStorage.storageClassName",
		"spec.walStorage.storageClassName can't change: the volumes exist"},
}

// names are those that no PostgreSQL can have.
var names = []string{strings.Repeat("a", 51), "1db", "my_db", "Shop", "db-", "shop.db"}

// TestMistakes: what users get wrong is refused with the field, what was given and what is
// accepted. Here are the mistakes that can be seen in the PostgreSQL alone, as the API server and
// the webhook answer them. The others of a user's are in test/integration: a term of acceptLoss
// that is another's, a storage class without expansion, a volume of another PostgreSQL, a foreign
// object, a quota.
func TestMistakes(t *testing.T) {
	checks := newChecker(t)
	for _, one := range mistakes {
		checks.Check(schema.Mistake(one), nil, manifest(t, "db", one.Edit))
	}
	for _, one := range changes {
		before, after, _ := strings.Cut(one.Edit, " -> ")
		old := manifest(t, "db", before)
		if refused := checks.Refuse(nil, old); len(refused) > 0 {
			t.Errorf("%s: %v", before, refused)
		}
		checks.Check(schema.Mistake(one), old, manifest(t, "db", after))
	}
	for _, name := range names {
		checks.Check(schema.Mistake{Edit: name, Field: "metadata",
			Says: "metadata.name " + name + " must be a DNS label of at most 50 characters"}, nil, manifest(t, name, "replicas: 1"))
	}
}

// newChecker validates as the API server and the webhook do.
func newChecker(t *testing.T) *schema.Checker {
	t.Helper()
	return schema.New(t, "PostgreSQL", func(text []byte) (field.ErrorList, error) {
		db := &databasev1.PostgreSQL{}
		if err := yaml.UnmarshalStrict(text, db); err != nil {
			return nil, err
		}
		Default(db)
		return Validate(db), nil
	})
}

// manifest returns a PostgreSQL as a user writes it: the smallest one, with a line of its spec.
func manifest(t *testing.T, name, line string) map[string]any {
	t.Helper()
	return schema.Manifest(t, "PostgreSQL", name, line, `version: "17"`, "storage: 1Gi")
}

// numbered returns so many parameters, and sized as many with values of so many bytes.
func numbered(count int) string { return sized(count, 1) }

func sized(count, bytes int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf(`"a.b%d": "%s"`, i, strings.Repeat("1", bytes)))
	}
	return strings.Join(all, ", ")
}
