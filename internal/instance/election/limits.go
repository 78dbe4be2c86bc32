package election

import (
	"fmt"
	"net/netip"
)

// Limits of the fields of a message, in bytes, so that a message from a broken or hostile peer
// costs little. Normal messages are far below: a name is that of a pod, and an incarnation has 10
// characters.
const (
	maxName        = 253
	maxIncarnation = 64
	maxSystem      = 64
	maxVersion     = 256
	maxAddress     = 64
	maxPosition    = 64 << 10
	maxHistory     = 256 << 10
)

// checkLength returns an error if a text of a message is too long.
func checkLength(field, text string, most int) error {
	if len(text) > most {
		return fmt.Errorf("%s: Too long: %d bytes: may have at most %d", field, len(text), most)
	}
	return nil
}

func (m Member) check(field string) error {
	if m.Name == "" {
		return fmt.Errorf("%s.name: Required value", field)
	}
	if err := checkLength(field+".name", m.Name, maxName); err != nil {
		return err
	}
	return checkLength(field+".incarnation", m.Incarnation, maxIncarnation)
}

func (p Promised) check(field string) error {
	if p == (Promised{}) {
		return nil
	}
	return p.Candidate.check(field + ".candidate")
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error that names the field if no instance sends such a message. It does not
// check who has sent it.
func (p Ping) Check() error {
	if len(p.Free) > maxSet {
		return fmt.Errorf("free: Too many: %d: must have at most %d items", len(p.Free), maxSet)
	}
	for i, member := range p.Free {
		if err := member.check(fmt.Sprintf("free[%d]", i)); err != nil {
			return err
		}
	}
	if len(p.Addresses) > maxSet {
		return fmt.Errorf("addresses: Too many: %d: must have at most %d items", len(p.Addresses), maxSet)
	}
	for name, address := range p.Addresses {
		if err := firstOf(checkLength("addresses", name, maxName), checkAddress("addresses", address)); err != nil {
			return err
		}
	}
	return firstOf(p.Leader.check("leader"), checkLength("system", p.System, maxSystem),
		checkLength("history", string(p.History), maxHistory), checkLength("version", p.Version, maxVersion))
}

// Check does what [Ping.Check] does, for this answer.
func (p Pong) Check() error {
	return firstOf(p.Member.check("member"), p.Promised.check("promised"), checkLength("position", string(p.Position), maxPosition),
		checkAddress("address", p.Address))
}

// checkAddress returns an error if a text is neither empty nor an IP address.
func checkAddress(field, text string) error {
	if text == "" {
		return nil
	}
	if err := checkLength(field, text, maxAddress); err != nil {
		return err
	}
	if _, err := netip.ParseAddr(text); err != nil {
		return fmt.Errorf("%s: Invalid value: %q: must be an IP address", field, text)
	}
	return nil
}

// Check does what [Ping.Check] does, for this question.
func (a Ask) Check() error {
	return firstOf(a.Member.check("member"), checkLength("system", a.System, maxSystem))
}

// Check does what [Ping.Check] does, for this answer.
func (a AskReply) Check() error {
	return firstOf(a.Member.check("member"), a.Promised.check("promised"), checkLength("position", string(a.Position), maxPosition))
}

// Check does what [Ping.Check] does, for this request.
func (p PromiseRequest) Check() error {
	return firstOf(p.Candidate.check("candidate"), checkLength("system", p.System, maxSystem))
}

// Check does what [Ping.Check] does, for this answer.
func (p PromiseReply) Check() error {
	return firstOf(p.Member.check("member"), p.Promised.check("promised"), checkLength("position", string(p.Position), maxPosition))
}
