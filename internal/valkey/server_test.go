package valkey

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// leaders and replicas are answers of Valkey 8.1.1 to INFO replication.
const (
	leaders = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n" +
		"slave0:ip=db-1/a2b3c4d5e6,port=5432,state=online,offset=1400,lag=0,type=replica\r\n" +
		"slave1:ip=127.0.0.1,port=5432,state=wait_bgsave,offset=0,lag=0,type=replica\r\n" +
		"replicas_waiting_psync:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" +
		"master_replid2:0000000000000000000000000000000000000000\r\nmaster_repl_offset:1500\r\nsecond_repl_offset:-1\r\n" +
		"repl_backlog_active:1\r\nrepl_backlog_size:10485760\r\nrepl_backlog_first_byte_offset:1\r\nrepl_backlog_histlen:1500\r\n"
	replicas = "# Replication\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:40000\r\nmaster_link_status:up\r\n" +
		"slave_read_repl_offset:1410\r\nslave_repl_offset:1400\r\nmaster_replid:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" +
		"master_repl_offset:1400\r\nrepl_backlog_active:1\r\n"
)

func TestParseReplication(t *testing.T) {
	r, ok := ParseReplication(leaders)
	member := election.Member{Name: "db-1", Incarnation: "a2b3c4d5e6"}
	if !ok || !r.Leads || r.ID != id("a") || r.Offset != 1500 || !r.Backlog || r.Connected ||
		!slices.Equal(r.Replicas, []Replica{{Member: member, Offset: 1400, Online: true}}) {
		t.Errorf("got %+v, %t", r, ok)
	}
	if r, ok = ParseReplication(replicas); !ok || r.Leads || !r.Connected || r.Offset != 1400 {
		t.Errorf("got %+v, %t", r, ok)
	}
	if r, ok = ParseReplication(strings.Replace(replicas, "link_status:up", "link_status:down", 1)); !ok || r.Connected {
		t.Errorf("got %+v, %t", r, ok)
	}
	for _, other := range []string{"", "role:master", "-ERR", strings.Replace(leaders, "role:master", "role:sentinel", 1)} {
		if _, ok := ParseReplication(other); ok {
			t.Errorf("%q is an answer", other)
		}
	}
}

func TestParseStatistics(t *testing.T) {
	s := ParseStatistics(leaders + "connected_clients:7\r\nmaxclients:10000\r\nused_memory:1000\r\nmaxmemory:2000\r\nexpired_keys:3\r\n" +
		"rdb_last_bgsave_status:ok\r\naof_last_bgrewrite_status:err\r\nlatest_fork_usec:1500\r\n" +
		"db0:keys=12,expires=1,avg_ttl=0\r\ndb3:keys=30,expires=0\r\n")
	if s.Connections != 7 || s.MaxConnections != 9968 || s.MemoryMax != 2000 || s.Keys != 42 ||
		s.SaveFailed != 0 || s.RewriteFailed != 1 || s.LastFork != 0.0015 ||
		!slices.Equal(s.Receivers, []ReceiverStatistics{{Pod: "db-1", LagBytes: 100}}) {
		t.Errorf("got %+v", s)
	}
}

// TestStatisticsOfOnePod: of two connections of one pod, of which one is not gone yet, only one is
// reported: with two, no metric of the instance could be read.
func TestStatisticsOfOnePod(t *testing.T) {
	again := strings.Replace(leaders, "slave1:ip=127.0.0.1,port=5432,state=wait_bgsave,offset=0",
		"slave1:ip=db-1/b2b3c4d5e6,port=5432,state=online,offset=1450", 1)
	if s := ParseStatistics(again); !slices.Equal(s.Receivers, []ReceiverStatistics{{Pod: "db-1", LagBytes: 50}}) {
		t.Errorf("got %+v", s.Receivers)
	}
}

// TestRefuses: it is reported why a leader accepts no writes, and what could not be stored.
func TestRefuses(t *testing.T) {
	const asked = "role:master\r\nmaster_replid:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nmin_slaves_good_slaves:1\r\n"
	for _, test := range []struct{ said, least, refuses, problem string }{
		{asked, "0", "", ""}, {asked, "", "", ""}, {asked, "1", "", ""},
		{asked, "2", "1 replicas receive, and min-replicas-to-write needs 2", ""},
		{asked + "aof_last_write_status:err\r\n", "0", "can't write its append-only file", "the last write to the append-only file failed"},
		{asked + "aof_last_write_status:ok\r\naof_last_bgrewrite_status:err\r\n", "0", "", "the last rewrite of the append-only file failed"},
		{asked + "rdb_last_bgsave_status:err\r\n", "0", "", "the last snapshot failed"},
	} {
		replication, _ := ParseReplication(test.said)
		stored := ParsePersistence(test.said + "aof_buffer_length:7\r\n")
		if stored.Unwritten != 7 {
			t.Errorf("%q: %d bytes are unwritten", test.said, stored.Unwritten)
		}
		if got := replication.Refuses(stored, test.least); !strings.Contains(got, test.refuses) || (got == "") != (test.refuses == "") {
			t.Errorf("%q, %q: refuses %q", test.said, test.least, got)
		}
		if got := stored.Problem(); !strings.Contains(got, test.problem) || (got == "") != (test.problem == "") {
			t.Errorf("%q: problem %q", test.said, got)
		}
	}
}

// TestUnreplicated: unreplicated bytes are those that the most advanced replica lacks, rounded to a
// class.
func TestUnreplicated(t *testing.T) {
	r, _ := ParseReplication(leaders)
	if bytes, known := r.Unreplicated(); bytes != 100 || !known {
		t.Errorf("got %d, %t", bytes, known)
	}
	if bytes, known := (Replication{Offset: 7, Replicas: []Replica{{Offset: 5}}}).Unreplicated(); known {
		t.Errorf("got %d of a replica that is not sent the stream", bytes)
	}
	copying := strings.Replace(leaders, "offset=1400", "offset=0", 1)
	if r, _ := ParseReplication(copying); len(r.Replicas) != 1 || r.Replicas[0].Online {
		t.Errorf("a replica that has acknowledged nothing receives: %+v", r.Replicas)
	} else if bytes, known := r.Unreplicated(); known {
		t.Errorf("got %d of a replica that has acknowledged nothing", bytes)
	}
	if s := ParseStatistics(copying); len(s.Receivers) != 0 {
		t.Errorf("got %+v of a replica that has acknowledged nothing", s.Receivers)
	}
	if r, _ := ParseReplication(strings.Replace(copying, "repl_offset:1500", "repl_offset:0", 1)); !r.Replicas[0].Online {
		t.Error("a replica of a leader that has written nothing does not receive")
	}
	for bytes, want := range map[int64]int64{0: 1 << 16, 1 << 16: 1 << 16, 1<<16 + 1: 1 << 17, 1 << 61: 1 << 61, 1<<63 - 1: 1 << 62} {
		if got := LagClass(bytes); got != want {
			t.Errorf("%d: got %d, want %d", bytes, got, want)
		}
	}
}

// TestReserved: maxclients in the settings is the number of clients' connections.
func TestReserved(t *testing.T) {
	for given, want := range map[string]string{"": "10032", "100": "132", "many": "many"} {
		parameters := map[string]string{}
		if given != "" {
			parameters["maxclients"] = given
		}
		if accepted, _ := Accepted(parameters); len(accepted) != 1 || accepted[0].Value != want {
			t.Errorf("%q: got %v", given, accepted)
		}
	}
}

func TestCheckParameter(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"maxmemory", "100mb", ""}, {"notify-keyspace-events", "KEA", ""}, {"save", "", ""}, {"client-output-buffer-limit", `normal 0 0 0`, ""},
		{"port", "1", "port: Forbidden: Mainstay sets the ports"}, {"tls-port", "1", "Forbidden"}, {"dir", "/", "Forbidden"},
		{"enable-debug-command", "yes", "Forbidden"}, {"user", "x on nopass", "Forbidden"}, {"replicaof", "h 1", "Forbidden"},
		{"loadmodule", "/x.so", "Forbidden"}, {"Port", "1", "is not the name of a parameter"}, {"", "1", "is not the name of a parameter"},
		{"a\nuser", "1", "is not the name of a parameter"}, {strings.Repeat("a", 65), "1", "is not the name of a parameter"},
		{"hz", "1\nuser x on", "Invalid value"}, {"hz", strings.Repeat("1", 1025), "Too long: may not be more than 1024 bytes"},
	} {
		err := CheckParameter(test.name, test.value)
		if said := fmt.Sprint(err); err == nil != (test.want == "") || err != nil && (!strings.Contains(said, test.want) || len(said) > 300) {
			t.Errorf("%q=%.20q: got %v, want %q", test.name, test.value, err, test.want)
		}
	}
}

// TestMemoryOfReplication: the limits follow from maxmemory, unless the user has set them.
func TestMemoryOfReplication(t *testing.T) {
	for memory, want := range map[string]string{
		"": "[{maxclients 10032}]", "0": "[{maxclients 10032}]", "100mb": "[{maxclients 10032}]",
		"33554432":   "[{client-output-buffer-limit replica 4194304 4194304 60} {maxclients 10032} {repl-backlog-size 1048576}]",
		"4294967296": "[{client-output-buffer-limit replica 536870912 536870912 60} {maxclients 10032} {repl-backlog-size 134217728}]",
	} {
		accepted, _ := Accepted(map[string]string{"maxmemory": memory})
		got := fmt.Sprint(slices.DeleteFunc(accepted, func(s Setting) bool { return s.Name == "maxmemory" }))
		if got != want {
			t.Errorf("%s: got %s, want %s", memory, got, want)
		}
	}
	accepted, _ := Accepted(map[string]string{"maxmemory": "33554432", "repl-backlog-size": "7"})
	if !slices.Contains(accepted, Setting{"repl-backlog-size", "7"}) || len(accepted) != 4 {
		t.Errorf("got %v", accepted)
	}
}

// TestConfiguration: each parameter is on the returned line, and the file has hashes in place of
// passwords, and only our own users.
func TestConfiguration(t *testing.T) {
	accepted, refused := Accepted(map[string]string{"hz": "20", "appendonly": "yes", "maxmemory": `1"0\`, "port": "1"})
	if len(refused) != 1 || len(accepted) != 4 {
		t.Fatalf("got %v, %v", accepted, refused)
	}
	text, parameters := Configuration{
		Data: "/data", Socket: "/run/s", Port: 6379, Certificates: "/c", Relay: 4000, Token: "token",
		Administrator: Hash("one"), Replication: Hash("two"), Monitor: Hash("three"), Parameters: accepted,
	}.Text()
	lines := strings.Split(text, "\n")
	for number, name := range parameters {
		if !strings.HasPrefix(lines[number-1], name+" ") {
			t.Errorf("line %d is %q, not %s", number, lines[number-1], name)
		}
	}
	if len(parameters) != 3 || strings.Contains(text, "one") && !strings.Contains(text, Hash("one")) || strings.Count(text, "\nuser ") != 4 {
		t.Errorf("got %v of\n%s", parameters, text)
	}
	for _, want := range []string{
		`port "0"`, `tls-port "6379"`, "replicaof 127.0.0.1 4000", "user default off", `maxmemory "1\"0\\"`, `appendonly "no"`, `enable-debug-command "no"`,
		`stop-writes-on-bgsave-error "no"`,
		"user mainstay-monitor on #" + Hash("three") + " resetkeys resetchannels -@all +ping +info\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

func TestApplication(t *testing.T) {
	for _, test := range []struct {
		a    Application
		want string
	}{
		{Application{"app", "8-secret", ""}, ""}, {Application{"app", "8-secret", "secret-before"}, ""},
		{Application{"app", strings.Repeat("-secret-", 32), ""}, ""}, {Application{"app", "8-secret", "secret"}, ""},
		{Application{"", "8-secret", ""}, `username: Invalid value: "": must have 1 to 63 bytes`},
		{Application{"default", "8-secret", ""}, "username: Invalid value"}, {Application{"mainstay", "8-secret", ""}, "Mainstay's own"},
		{Application{"mainstay-monitor", "8-secret", ""}, "Mainstay's own"}, {Application{"a b", "8-secret", ""}, "username: Invalid value"},
		{Application{"app", "", ""}, "password: Required value"}, {Application{"app", "8-secret\n", ""}, "password: must have from 8 to 256"},
		{Application{"app", "-secret", ""}, "password: must have from 8 to 256"}, {Application{"app", "a secret", ""}, "password: must have"},
		{Application{"app", strings.Repeat("-secret-", 32) + "x", ""}, "password: must have from 8 to 256"},
		{Application{"app", "8-secret", "secret\x00"}, "password.previous: must have letters"},
		{Application{"app", "8-secret", strings.Repeat("secret", 50)}, "password.previous: Too long"},
	} {
		err := test.a.Check()
		if said := fmt.Sprint(err); err == nil != (test.want == "") || err != nil && (!strings.Contains(said, test.want) || strings.Contains(said, "secret")) {
			t.Errorf("%+v: got %v, want %q", test.a, err, test.want)
		}
	}
	rules := Application{"app", "new", "old"}.Rules()
	if rules[0] != "reset" || rules[2] != "#"+Hash("new") || rules[3] != "#"+Hash("old") || slices.Contains(rules, "new") {
		t.Errorf("got %v", rules)
	}
	for _, command := range []string{"-config", "-debug", "-module", "-replicaof", "-shutdown", "-@admin"} {
		if slices.Index(rules, command) < slices.Index(rules, "+@all") {
			t.Errorf("%s is allowed by %v", command, rules)
		}
	}
}

func TestProtocol(t *testing.T) {
	reader := func(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }
	command, err := ReadCommand(reader(string(Command("PSYNC", "?", "-1", ""))))
	if err != nil || !slices.Equal(command, []string{"PSYNC", "?", "-1", ""}) {
		t.Errorf("got %q, %v", command, err)
	}
	for _, broken := range []string{"", "PING\r\n", "*33\r\n", "*-1\r\n", "*1\r\n$2000\r\n", "*1\r\n$1\r\nabc", "*1\r\n:1\r\n", strings.Repeat("*", 5000)} {
		if got, err := ReadCommand(reader(broken)); err == nil {
			t.Errorf("%.20q became %q", broken, got)
		}
	}
	if line, err := ReadReply(reader("\n\n+OK\r\n")); line != "+OK" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
	for line, want := range map[string]Sync{
		"+CONTINUE " + id("a"): {ID: id("a")}, "+FULLRESYNC " + id("b") + " 14": {Full: true, ID: id("b"), Offset: 14},
		"+CONTINUE": {}, "+FULLRESYNC x 1": {}, "-LOADING": {}, "+FULLRESYNC " + id("b") + " -1": {}, "": {},
	} {
		if got, err := ParseSync(line); got != want || (err == nil) != (want != Sync{}) {
			t.Errorf("%s: got %+v, %v", line, got, err)
		}
	}
	for line, want := range map[string]string{
		"$EOF:" + id("a"): "0 " + id("a"), "$1400": "1400 ", "$EOF:abc": "", "1400": "", "$-1": "", "-ERR": "",
	} {
		length, mark, err := ParseSnapshot(line)
		if got := fmt.Sprintf("%d %s", length, mark); err == nil != (want != "") || err == nil && got != want {
			t.Errorf("%s: got %q, %v", line, got, err)
		}
	}
}

// FuzzProtocol: any input is read in bounded memory, and an accepted command is the one that was
// sent.
func FuzzProtocol(f *testing.F) {
	fuzz.AddBombs(f, "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n")
	f.Add("+FULLRESYNC aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1\r\n")
	f.Add("$EOF:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzz.Budget(t, text)()
		_, _ = ParseSync(text)
		_, _, _ = ParseSnapshot(text)
		_, _ = ReadReply(bufio.NewReader(strings.NewReader(text)))
		command, err := ReadCommand(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		again, err := ReadCommand(bufio.NewReader(strings.NewReader(string(Command(command...)))))
		if err != nil || !slices.Equal(again, command) {
			t.Errorf("%q became %q, %v", command, again, err)
		}
	})
}

// FuzzInfo: any answer is parsed in bounded time, and all replicas in the result are members.
func FuzzInfo(f *testing.F) {
	fuzz.AddBombs(f, leaders)
	f.Add(replicas)
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzz.Budget(t, text)()
		_ = ParseStatistics(text)
		r, _ := ParseReplication(text)
		for _, replica := range r.Replicas {
			if replica.Member.Name == "" || !replica.Member.HasData() {
				t.Errorf("got %+v", replica)
			}
		}
	})
}

// FuzzParameter: any value of a parameter stays on its line.
func FuzzParameter(f *testing.F) {
	f.Add("hz", `1" "x`)
	f.Add("a\nuser", "1\nuser x on nopass ~* +@all")
	fuzz.AddBombs(f, "hz", "10")
	f.Fuzz(func(t *testing.T, name, value string) {
		defer fuzz.Budget(t, name, value)()
		accepted, _ := Accepted(map[string]string{name: value})
		text, _ := Configuration{Parameters: accepted}.Text()
		empty, _ := Configuration{}.Text()
		if strings.Count(text, "\n")-strings.Count(empty, "\n") > len(accepted) || strings.Count(text, "\nuser ") != 4 {
			t.Errorf("%q=%q became\n%s", name, value, text)
		}
	})
}
