package instance

import (
	"fmt"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// noteLoss notes, before an action that ends the leadership of this instance, why it does.
func (i *Instance) noteLoss(action election.Action) {
	held := &i.core.Held
	switch action := action.(type) {
	case election.Promote, election.Resume:
		i.lost, i.lostTerm = "", 0
	case election.Kill:
		if held.Promoted {
			i.lost, i.lostTerm = action.Why, held.Term
		}
	case election.StopCleanly:
		i.lost, i.lostTerm = "it was asked to hand over", held.Term
		if i.core.Intent.Stop {
			i.lost = "it was asked to shut down"
		}
	case election.WriteRecord:
		if term := action.Record.Term; action.Record.Released() && i.lostTerm != term && (held.Term == 0 || held.Promoted) {
			i.lost, i.lostTerm = action.Why, term
		}
	}
}

// describeTerm adds to a report why the previous term ended or, if this instance no longer leads,
// why its own did.
func (i *Instance) describeTerm(report *contract.Report) {
	held := &i.core.Held
	if report.Role == contract.Primary {
		acks, of := held.Record.Quorum()
		report.Quorum = fmt.Sprintf("%d/%d", acks, of)
		report.Cause, report.Gap = string(held.Cause), int((held.Gap+time.Second-1)/time.Second)
	}
	if !i.core.Leads() {
		report.Lost, report.LostTerm = bound(i.lost), i.lostTerm
	}
}
