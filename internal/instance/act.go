package instance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// requestTime is how long an instance waits for an answer from the API server.
const requestTime = 3 * time.Second

// act carries out an action, or starts it.
func (i *Instance) act(ctx context.Context, action election.Action) {
	i.noteLoss(action)
	switch action := action.(type) {
	case election.Save:
		i.save(ctx, action.Local)
	case election.ReadRecord:
		i.readRecord(ctx)
	case election.WriteRecord:
		i.writeRecord(ctx, action)
	case election.Publish:
		i.publish(ctx, action.Term)
	case election.SendPings:
		i.sendPings(ctx, action.Ping)
	case election.SendAsk:
		i.sendAsk(ctx, action.Ask)
	case election.RequestPromises:
		i.requestPromises(ctx, action.Request)
	case election.Reply:
		i.reply(action)
	default:
		i.actOnServer(ctx, action)
	}
}

// name is the name of an action, for the log.
func name(action election.Action) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", action), "election.")
}

// save writes promises and seen values in another goroutine, because a disk may block forever.
func (i *Instance) save(ctx context.Context, local election.Local) {
	i.core.SavingLocal()
	go func() {
		err := i.Volume.Save(local)
		i.post(ctx, func() {
			if i.unsaved = ""; err != nil {
				i.core.SaveFailed()
				i.unsaved = bound("could not store a promise on the volume: " + err.Error())
				i.Log.Error(err, "could not store a promise on the volume; this member promises nothing until it can")
				return
			}
			i.core.SavedLocal(local)
		})
	}()
}

func (i *Instance) readRecord(ctx context.Context) {
	i.core.Reading()
	sent := i.now()
	i.inBackground(ctx, requestTime, func(ctx context.Context) func() {
		result := i.Cluster.Read(ctx)
		result.Sent = sent
		return func() { i.core.HeardRecord(result) }
	})
}

// writeRecord writes the record in another goroutine. It logs repeated renewals only at a higher
// verbosity.
func (i *Instance) writeRecord(ctx context.Context, write election.WriteRecord) {
	i.core.Writing(write)
	sent := i.now()
	level := 0
	if write.Why == i.wroteFor && write.Record.Seq == i.core.Held.Record.Seq {
		level = 1 // A renewal, which may happen every second as long as a member does not answer.
	}
	i.wroteFor = write.Why
	i.Log.V(level).Info("writing the record", "why", write.Why, "term", write.Record.Term, "seq", write.Record.Seq,
		"released", write.Record.Released(), "open", write.Record.Open)
	i.inBackground(ctx, requestTime, func(ctx context.Context) func() {
		outcome, version := i.Cluster.Write(ctx, write)
		return func() { i.core.HeardWrite(write, sent, outcome, version) }
	})
}

func (i *Instance) publish(ctx context.Context, term uint64) {
	i.core.Publishing()
	i.inBackground(ctx, requestTime, func(ctx context.Context) func() {
		err := i.Cluster.Publish(ctx, term)
		return func() {
			if i.unpublished = ""; err != nil {
				i.unpublished = bound("the write Service does not route to this instance: " + err.Error())
				i.core.PublishFailed()
				return
			}
			i.core.PublishedAddress(term)
		}
	})
}
