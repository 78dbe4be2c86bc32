package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// call is one request in the API server's audit log.
//
// Source: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
type call struct {
	Stage      string
	RequestURI string
	Verb       string
	User       struct{ Username string }
	ObjectRef  struct{ Resource, Namespace, Name, Subresource, APIGroup string }
	// Received and Done are by the API server's clock.
	Received time.Time `json:"requestReceivedTimestamp"`
	Done     time.Time `json:"stageTimestamp"`
}

// kind returns a short form of the call: "patch webapps/status", "patch deployments (dry run)".
func (c call) kind() string {
	text := c.Verb + " " + c.ObjectRef.Resource
	if c.ObjectRef.Resource == "" {
		text = c.Verb + " " + c.RequestURI
	}
	if c.ObjectRef.Subresource != "" {
		text += "/" + c.ObjectRef.Subresource
	}
	if c.isDryRun() {
		text += " (dry run)"
	}
	return text
}

func (c call) isDryRun() bool { return strings.Contains(c.RequestURI, "dryRun=") }

// isRead reports whether the call changes nothing.
func (c call) isRead() bool {
	return c.isDryRun() || slices.Contains([]string{"get", "list", "watch"}, c.Verb)
}

// isLease reports whether the call is one of leader election.
func (c call) isLease() bool { return c.ObjectRef.Resource == "leases" }

// isReview reports whether the call is an authorization query.
func (c call) isReview() bool { return c.ObjectRef.Resource == "subjectaccessreviews" }

// isEvent reports whether the call writes an event.
func (c call) isEvent() bool { return c.ObjectRef.Resource == "events" }

// position returns the current end of the audit log. Calls after it are counted.
func (p *plane) position() (int64, error) {
	info, err := os.Stat(p.auditLog())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// callsAtRest returns the calls of the manager within a duration in which nothing changes.
func (p *plane) callsAtRest(ctx context.Context, quiet time.Duration) (calls, error) {
	if err := pause(ctx, gathering); err != nil {
		return nil, err
	}
	since, err := p.position()
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, quiet); err != nil {
		return nil, err
	}
	return p.calls(managerUser, since)
}

// calls returns the calls of a user since a position. A watch counts when it begins.
func (p *plane) calls(user string, since int64) (calls, error) {
	file, err := os.Open(p.auditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if end, err := p.position(); err != nil || end < since {
		return nil, errors.Join(err, fmt.Errorf("the audit log has %d bytes and had %d: rotated logs are not counted", end, since))
	}
	if _, err := file.Seek(since, io.SeekStart); err != nil {
		return nil, err
	}
	var found calls
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return found, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, err
		}
		var made call
		if err := json.Unmarshal(line, &made); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		counted := "ResponseComplete"
		if made.Verb == "watch" {
			counted = "ResponseStarted"
		}
		if made.User.Username == user && made.Stage == counted {
			found = append(found, made)
		}
	}
}

type calls []call

// that returns the calls that meet all of the conditions.
func (c calls) that(conditions ...func(call) bool) calls {
	return slices.DeleteFunc(slices.Clone(c), func(made call) bool {
		return slices.ContainsFunc(conditions, func(holds func(call) bool) bool { return !holds(made) })
	})
}

func not(condition func(call) bool) func(call) bool {
	return func(made call) bool { return !condition(made) }
}

// took returns the time from the arrival of the first call to the answer of the last.
func (c calls) took() time.Duration {
	if len(c) == 0 {
		return 0
	}
	first := slices.MinFunc(c, func(a, b call) int { return a.Received.Compare(b.Received) })
	last := slices.MaxFunc(c, func(a, b call) int { return a.Done.Compare(b.Done) })
	return last.Done.Sub(first.Received)
}

// String returns the number of calls by kind: "1000 create webapps, 2 get leases".
func (c calls) String() string {
	count := map[string]int{}
	for _, made := range c {
		count[made.kind()]++
	}
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		words = append(words, fmt.Sprintf("%d %s", count[kind], kind))
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, ", ")
}
