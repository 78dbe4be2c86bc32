package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Clone implements [engine.Engine]. It stores a snapshot that the leader's server makes and sends
// as to a new replica. The stream stays open until the new server receives from the leader: until
// then the leader's server keeps what it writes, unless that becomes more than it may keep.
func (e *Engine) Clone(ctx context.Context, directory string, from engine.Upstream, progress engine.Progress) error {
	ctx, cancel := context.WithCancel(ctx)
	held, release := context.WithCancel(context.WithoutCancel(ctx))
	e.mu.Lock()
	e.release()
	e.abort, e.held = cancel, release
	e.mu.Unlock()
	stop := context.AfterFunc(ctx, release)
	err := e.clone(held, directory, from, progress)
	if !stop() && err == nil { // It was aborted meanwhile.
		err = ctx.Err()
	}
	cancel()
	if err != nil {
		release()
		return fmt.Errorf("cloning the data of %s: %w", from.Leader.Name, err)
	}
	return nil
}

// clone does so. When ctx ends, which is after its return if it succeeds, the stream is closed.
func (e *Engine) clone(ctx context.Context, directory string, from engine.Upstream, progress engine.Progress) error {
	leader, err := e.open(ctx, from)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, leader.close)
	if err := e.canLoad(leader.Version); err != nil {
		return err
	}
	answer, err := leader.sync("?", -1)
	switch {
	case err != nil:
		return err
	case !answer.Full:
		return errors.New("the leader's server did not send all data")
	case answer.ID != leader.Lines.Last().ID:
		return errOtherID
	}
	line, err := model.ReadReply(leader.from)
	if err != nil {
		return fmt.Errorf("receiving the snapshot: %w", err)
	}
	length, mark, err := model.ParseSnapshot(line)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("making a directory for the data: %w", err)
	}
	into, err := os.OpenFile(filepath.Join(directory, model.Dump), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("storing the snapshot: %w", err)
	}
	err = copySnapshot(into, leader.from, length, mark, progress)
	if err == nil {
		go e.hold(ctx, leader) // From now on: to flush a large snapshot takes long, too.
	}
	if err = errors.Join(err, into.Sync(), into.Close()); err != nil {
		return fmt.Errorf("receiving the snapshot: %w", err)
	}
	return writeState(directory, model.State{
		System: leader.System, Version: e.programs, Lines: leader.Lines, Reached: leader.Lines.Last().ID,
	})
}

// holdInterval is how often the stream of a clone gets a sign of life: as often as from a replica
// that loads, so that this one counts as such a one does (min-replicas-max-lag).
const holdInterval = time.Second

// hold sends signs of life on the stream of a clone until ctx ends or the stream does. The leader's
// server gives up a replica that says nothing for a minute (repl-timeout), and with it what it
// keeps for the replica; but flushing and loading a large snapshot takes longer. An empty line is
// what a replica says while it loads: unlike an acknowledgement, it does not begin the stream.
func (e *Engine) hold(ctx context.Context, leader *leaderStream) {
	for e.pause(ctx, holdInterval) == nil {
		inTime := within(keepaliveInterval, leader.close) // The write of a closed stream fails.
		_, err := io.WriteString(leader.stream, "\n")
		inTime()
		if err != nil {
			leader.close()
			return
		}
	}
}

// canLoad returns an error for a snapshot of a newer major version than this instance's server.
func (e *Engine) canLoad(version string) error {
	theirs, err := strconv.Atoi(version)
	if err != nil {
		return fmt.Errorf("the leader has the version %.10q, which is unknown", version)
	}
	if ours, err := strconv.Atoi(e.programs); err == nil && ours < theirs {
		return fmt.Errorf("the leader has Valkey %d, whose data this instance's Valkey %d can't load", theirs, ours)
	}
	return nil
}

// copySnapshot copies a snapshot of the given length, or, if mark is not "", one that ends with the
// mark. The mark is not copied. After it the leader sends nothing more until it gets an answer, so
// nothing of the stream is read.
func copySnapshot(into io.Writer, from *bufio.Reader, length int64, mark string, progress engine.Progress) error {
	var tail []byte
	buffer := make([]byte, 64<<10)
	for done := int64(0); mark != "" || done < length; {
		part := buffer
		if mark == "" {
			part = buffer[:min(int64(len(buffer)), length-done)]
		}
		count, err := from.Read(part)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		done += int64(count)
		if progress != nil {
			progress(done, length)
		}
		if mark == "" {
			if _, err := into.Write(part[:count]); err != nil {
				return err
			}
			continue
		}
		// The last bytes are kept back, because they may be the mark.
		tail = append(tail, part[:count]...)
		if string(tail[max(0, len(tail)-len(mark)):]) == mark {
			_, err := into.Write(tail[:len(tail)-len(mark)])
			return err
		}
		if keep := len(mark); len(tail) > keep {
			if _, err := into.Write(tail[:len(tail)-keep]); err != nil {
				return err
			}
			tail = append(tail[:0], tail[len(tail)-keep:]...)
		}
	}
	return nil
}
