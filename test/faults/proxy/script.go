package proxy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// Firing is a hit of a rule.
type Firing struct {
	// Rule is the index of the rule in the plan, from 0, and Name its name.
	Rule  int
	Name  string
	Fault Fault
	// Nth is the number of the request among those that the rule matches, from 1.
	Nth     int
	Request Request
}

// String returns one line.
func (f Firing) String() string {
	return fmt.Sprintf("rule %d %q: %s at request %d that it matches: %s", f.Rule, f.Name, f.Fault, f.Nth, f.Request)
}

// Exchange is a request and what became of it.
type Exchange struct {
	Request
	// Client is the number of the client, from 1, in the order in which clients connected.
	Client int
	// Fault is what a rule did to the request, empty for nothing.
	Fault Fault
	// Arrived means that the API server has answered the request, whether or not the client got the
	// answer.
	Arrived bool
	// Code is the status of the API server's answer, 0 for none.
	Code int
}

// script counts requests, decides by the plan, and keeps the record.
type script struct {
	plan Plan

	mutex     sync.Mutex
	counts    []int
	fired     []Firing
	exchanges []Exchange
}

func newScript(plan Plan) *script { return &script{plan: plan, counts: make([]int, len(plan.Rules))} }

// begin counts a request. It returns the index of its record, and the rule that hits it, or nil.
func (s *script) begin(client int, request Request) (int, *Rule) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var due *Rule
	for i := range s.plan.Rules {
		rule := &s.plan.Rules[i]
		if !rule.Match.matches(request) {
			continue
		}
		s.counts[i]++
		if due == nil && s.isDue(i, s.counts[i]) {
			due = rule
			s.fired = append(s.fired, Firing{Rule: i, Name: rule.Name, Fault: rule.Fault, Nth: s.counts[i], Request: request})
		}
	}
	exchange := Exchange{Request: request, Client: client}
	if due != nil {
		exchange.Fault = due.Fault
	}
	s.exchanges = append(s.exchanges, exchange)
	return len(s.exchanges) - 1, due
}

// isDue reports whether a rule hits the nth request that it matches.
func (s *script) isDue(index, nth int) bool {
	rule := s.plan.Rules[index]
	first, times := max(1, rule.Nth), cmp.Or(rule.Times, 1)
	if nth < first || times > 0 && nth >= first+times {
		return false
	}
	if rule.Chance == 0 {
		return true
	}
	// Each decision has its own random source: the result does not depend on the order of decisions.
	source := rand.New(rand.NewPCG(s.plan.Seed, uint64(index)<<32|uint64(nth))) //nolint:gosec // must be repeatable
	return source.Float64() < rule.Chance
}

// arrived records the API server's answer.
func (s *script) arrived(at, code int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.exchanges[at].Arrived, s.exchanges[at].Code = true, code
}

// record returns what has happened so far.
func (s *script) record() ([]Firing, []Exchange) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.fired), slices.Clone(s.exchanges)
}
