//go:build instances

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// identity is set for a copy of the test program that is one instance: in a container's root, with
// a user of its own, and with the server's processes as its descendants.
const identity = "MAINSTAY_TEST_INSTANCE"

// settings are what an instance is started with.
type settings struct {
	Pod, Volume, Run, Certificates, Listen string
	Path, Libraries                        string
	Port                                   int
}

func TestMain(m *testing.M) {
	if content := os.Getenv(identity); content != "" {
		if err := serveInstance(content); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Instance is what the test calls in an instance.
type Instance struct {
	settings
	engine *Engine
	// apart is true if the log of new data is elsewhere.
	apart bool

	mu sync.Mutex
	me election.Member
	// known are the members by the names of their pods, as they would be known from answers to pings.
	known map[string]election.Member
}

// Call is one operation of an engine.
type Call struct {
	Do       string
	From     engine.Upstream
	Rule     election.Rule
	Timeline uint32
	Within   time.Duration
	// Parameters are the user's parameters.
	Parameters map[string]string
	// Application is the application to provide.
	Application postgres.Application
	// Provisions are the databases and users to provide.
	Provisions contract.Provisions
	// InitTotal is how long the first statements may take in all; 0 is the default.
	InitTotal time.Duration
}

// Answer is the result of a call.
type Answer struct {
	Observed engine.Observation
	Data     engine.Data
	Me       election.Member
	Pid      int
	// Statistics are those of the server, and Missing says why some are missing.
	Statistics postgres.Statistics
	Missing    string
}

func serveInstance(content string) error {
	var s settings
	if err := json.Unmarshal([]byte(content), &s); err != nil {
		return err
	}
	lock, err := supervise.Lock(filepath.Join(s.Volume, "lock"))
	if err != nil {
		return err
	}
	supervisor, err := supervise.New(lock, clock.RealClock{})
	if err != nil {
		return err
	}
	i := &Instance{settings: s, me: election.Member{Name: s.Pod}, known: map[string]election.Member{}}
	i.readMember()
	i.engine = New(Options{
		Data: filepath.Join(s.Volume, "data"), Run: s.Run, Listen: s.Listen, Port: s.Port, Certificates: s.Certificates,
		Me: i.member, Members: i.members, NewLog: i.newLog,
		Environment: []string{"PATH=" + s.Path, "LD_LIBRARY_PATH=" + s.Libraries, "LC_ALL=C"}, Log: os.Stderr,
		Supervisor: supervisor, Clock: clock.RealClock{},
	})
	server := rpc.NewServer()
	if err := server.Register(i); err != nil {
		return err
	}
	server.ServeConn(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
	i.engine.Kill()
	return nil
}

// newLog returns the directory for the log of new data; "" if it is part of the data.
func (i *Instance) newLog() string {
	if !i.apart {
		return ""
	}
	logs := filepath.Join(i.Volume, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return logs // It can't be used, which the test finds.
	}
	return filepath.Join(logs, fmt.Sprintf("log-%d", time.Now().UnixNano()))
}

func (i *Instance) member() election.Member {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.me
}

func (i *Instance) members() []election.Member {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Values(i.known))
}

func (i *Instance) readMember() {
	content, err := os.ReadFile(filepath.Join(i.Volume, "incarnation"))
	if err == nil {
		i.me.Incarnation = string(content)
	}
}

// Do carries out a call.
func (i *Instance) Do(call Call, answer *Answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(call.Within, waitLimit))
	defer cancel()
	err := i.do(ctx, call, answer)
	answer.Observed, answer.Me = i.engine.Observe(), i.member()
	if l, err := i.engine.current(); err == nil {
		answer.Pid = l.pid
	}
	return err
}

func (i *Instance) do(ctx context.Context, call Call, answer *Answer) (err error) {
	switch call.Do {
	case "initialise", "clone":
		return i.obtain(ctx, call)
	case "inspect":
		answer.Data, err = i.engine.Inspect()
	case "start":
		err = i.engine.Start(ctx)
	case "resume":
		err = i.engine.Resume(ctx, call.Rule)
	case "follow":
		err = i.engine.Follow(ctx, call.From)
	case "unfollow":
		err = i.engine.Unfollow(ctx)
	case "rule":
		err = i.engine.SetRule(ctx, call.Rule)
	case "promote":
		err = i.engine.Promote(ctx, call.Timeline)
	case "stop":
		err = i.engine.StopCleanly(ctx)
	case "parameters":
		i.engine.SetParameters(call.Parameters)
		if _, running := i.engine.current(); running == nil {
			err = i.engine.Reload(ctx)
		}
	case "provide":
		err = i.engine.Provide(ctx, call.Application)
	case "declared":
		i.engine.initTotal = cmp.Or(call.InitTotal, initTotal)
		err = i.engine.ProvideDeclared(ctx, call.Application, call.Provisions)
	case "statistics":
		var answers bool
		if answer.Statistics, answers, err = i.engine.Statistics(ctx); answers && err != nil {
			answer.Missing, err = err.Error(), nil // An error would be all that arrives.
		}
	case "kill":
		i.engine.Kill()
	case "apart":
		i.apart = true
	case "keep least":
		i.engine.KeepWAL = leastWAL
	case "know":
		i.mu.Lock()
		defer i.mu.Unlock()
		i.known[call.From.Leader.Name] = call.From.Leader
	case "drop used":
		err = i.dropUsed(ctx, call.From.Leader)
	case "observe":
	default:
		err = fmt.Errorf("there is no operation %q", call.Do)
	}
	return err
}

// dropUsed drops the slot that a member uses.
func (i *Instance) dropUsed(ctx context.Context, member election.Member) error {
	name, err := postgres.SlotName(member)
	if err != nil {
		return err
	}
	session, err := i.engine.connect(ctx)
	if err != nil {
		return err
	}
	defer disconnect(session)
	found, err := slots(ctx, session)
	if err != nil {
		return err
	}
	if found[name].user == 0 {
		return fmt.Errorf("no receiver uses the slot of %s", member.Name)
	}
	return i.engine.dropUsed(ctx, session, name, found[name].user)
}

// obtain makes data beside the current ones, and then replaces those.
func (i *Instance) obtain(ctx context.Context, call Call) error {
	made := filepath.Join(i.Volume, "made")
	if err := os.RemoveAll(made); err != nil {
		return err
	}
	i.engine.Kill()
	err := error(nil)
	if call.Do == "clone" {
		err = i.engine.Clone(ctx, made, call.From, nil)
	} else {
		err = i.engine.Initialise(ctx, made)
	}
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(i.Volume, "data")); err != nil {
		return err
	}
	if err := os.Rename(made, filepath.Join(i.Volume, "data")); err != nil {
		return err
	}
	incarnation := fmt.Sprintf("%016x", time.Now().UnixNano())
	if err := os.WriteFile(filepath.Join(i.Volume, "incarnation"), []byte(incarnation), 0o600); err != nil {
		return err
	}
	i.mu.Lock()
	i.me.Incarnation = incarnation
	i.mu.Unlock()
	_, err = i.engine.Inspect()
	return err
}
