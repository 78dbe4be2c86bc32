package election

import (
	"testing"
	"time"
)

// refused returns a leader that was asked to end, whose server has stopped, and that may no longer
// read or write the Lease.
func refused() *Observed {
	o := leading()
	o.Intent.Stop = true
	o.StoppingFor(b)
	o.Server = Server{State: Stopped, Clean: true, Position: "20", History: "99"}
	release, _ := Decide(o).(WriteRecord)
	o.Writing(release)
	o.HeardWrite(release, o.Now, Unanswered, "")
	return o
}

// TestResigns: a leader that has stopped for good and can't release the record resigns in its
// pings, at once and repeatedly, and sends no other pings in that term.
func TestResigns(t *testing.T) {
	o := refused()
	for _, pause := range []time.Duration{0, pingEvery} {
		o.Now += pause
		told, pings := Decide(o).(SendPings)
		if !pings || !told.Ping.Resigned {
			t.Fatalf("%s later: %+v", pause, Decide(o))
		}
		o.Pinged(told.Ping.Resigned)
	}
	o.HeardRecord(ReadResult{Sent: o.Now, Version: "7", Record: o.Held.Record})
	o.Now += pingEvery
	if told, pings := Decide(o).(SendPings); !pings || !told.Ping.Resigned {
		t.Errorf("once the API server answers: %+v", Decide(o))
	}
}

// TestEndsWithoutRelease: a leader that was asked to end and has resigned ends after several
// attempts to release the record, and not before. A leader that was asked to hand over does not
// end.
func TestEndsWithoutRelease(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observed)
		ends   bool
	}{
		"asked to end":         {func(*Observed) {}, true},
		"alone":                {func(o *Observed) { o.Peers, o.Held.StopFor = nil, Member{} }, true},
		"asked to hand over":   {func(o *Observed) { o.Intent = Intent{SwitchTo: true} }, false},
		"an attempt is missed": {func(o *Observed) { o.Now -= time.Millisecond }, false},
		"the Lease is read":    {func(o *Observed) { o.HeardRecord(ReadResult{Sent: o.Now, Version: "7", Record: o.Held.Record}) }, false},
	} {
		o := refused()
		o.Pinged(true)
		o.Now += pingEvery
		o.Pinged(true)
		o.Now += resignTime - pingEvery
		test.change(o)
		if _, ends := Decide(o).(Exit); ends != test.ends {
			t.Errorf("%s: %+v", name, Decide(o))
		}
	}
}

// TestStandsForWhoIsGone: no member waits for a leader whose port refuses connections, however new
// its record is. With Asynchronous, a refusing port proves nothing.
func TestStandsForWhoIsGone(t *testing.T) {
	for durability, stands := range map[Durability]bool{Required: true, Preferred: true, Asynchronous: false} {
		o := following()
		o.Config.Durability = durability
		o.Refused(a.Name)
		o.Now += time.Second
		o.Record.TriedAt, o.Record.ReadAt, o.Record.Since, o.Record.Stale = o.Now, o.Now, o.Now-time.Second, false
		o.Server.Final, o.Server.Source = true, Source{}
		ask, asks := Decide(o).(SendAsk)
		if asks != stands || asks && ask.Ask.Vacant {
			t.Errorf("%d: %+v", durability, Decide(o))
		}
	}
}

// TestStandsAfterAResignation: no member waits for a leader that has resigned, whatever the record
// says. The resignation counts only for that member in that term.
func TestStandsAfterAResignation(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Ping)
		stands bool
	}{
		"resigned":       {func(*Ping) {}, true},
		"leads":          {func(p *Ping) { p.Resigned = false }, false},
		"another data":   {func(p *Ping) { p.Leader.Incarnation = "other" }, false},
		"a term before":  {func(p *Ping) { p.Term-- }, false},
		"another member": {func(p *Ping) { p.Leader = c }, false},
	} {
		o := following()
		ping := o.Peers[0].Ping
		ping.Resigned, ping.Version = true, o.Record.Version
		test.change(&ping)
		o.HeardPing(ping)
		o.Now += time.Second
		o.Record.TriedAt, o.Record.ReadAt, o.Record.Stale = o.Now, o.Now, false
		o.Server.Final, o.Server.Source = true, Source{}
		ask, asks := Decide(o).(SendAsk)
		if asks != test.stands || asks && !ask.Ask.Vacant {
			t.Errorf("%s: %+v", name, Decide(o))
		}
	}
}
