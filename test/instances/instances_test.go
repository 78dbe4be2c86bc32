package instances

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/program"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) {
	code := 1
	var err error
	if server, err = testenv.Start(testenv.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
		_ = server.Stop()
	}
	os.Exit(code)
}

func TestADatabaseIsMade(t *testing.T) {
	d := New(t, server, program.Settings{FailoverAfter: "5s"}, 3)
	took := d.Await("address that is published", time.Minute, func() bool { return d.Published(t.Context()) != "" })
	t.Logf("published after %s", took)
}
